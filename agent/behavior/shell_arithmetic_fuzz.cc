// Any text as an arithmetic expression: it has a value or an error, and nothing overflows.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "agent/behavior/shell_arithmetic.h"

using namespace ghostfleet::agent::shell;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string error;
  const auto variable = [](std::string_view name) { return name == "x" ? std::string("-7") : std::string(name); };
  const auto value = evaluate({reinterpret_cast<const char*>(data), size}, variable, &error);
  if (value.has_value() != error.empty()) std::abort();
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {"1 + 2 * (3 - x) % 4", "x<<3|0x1f&~017^!0", "1 ? x : 2 && 3/0 || -9223372036854775808 / -1",
          "((((1))))>=2==0", "9223372036854775807*x>>1"};
}
