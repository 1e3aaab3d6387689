// Any script over any text: nothing crashes, and the output stays within its limit.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "agent/kubelet_api/sandbox/sed_script.h"

using namespace ghostfleet::kubelet_api;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t split = 1 + data[1] % size;
  std::string error;
  const auto syntax = (data[0] & 1) != 0 ? Pattern::Syntax::kExtended : Pattern::Syntax::kBasic;
  const auto script = SedScript::parse(all.substr(1, split), syntax, &error);
  if (!script) {
    if (error.empty()) std::abort();
    return 0;
  }
  const std::string out = script->run(all.substr(std::min(size, split + 1)), (data[0] & 2) != 0);
  // The last line may go beyond it, printed as often as there are commands.
  if (out.size() > (SedScript::kMaxCommands + 2) * (SedScript::kMaxSpace + 1)) std::abort();
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      "a\x10s/a\\(b*\\)c/[\\1&]/g;p one abc\ntwo\n",
      "b\x18/one/,$!d;2q;=;s|[/|]|x|2gI one\ntwo/three/four\nfive",
      "c\x0cs/(a|b)+$/<&>/p;$d aab\nbba\n",
      "a\x08s/x*/-/g  abc\n",
  };
}
