// YAML text: reading never crashes, and what is written reads back as the same value.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kube/api/codec.h"

using namespace ghostfleet::kube;

std::vector<std::string> fuzz_seeds() {
  return {"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\ndata:\n  a: b\n  a: c\n",
          "a: &x {p: 1, q: [yes, 012, 0x1f, .5, ~]}\nb: *x\nc:\n  <<: *x\n",
          "- |\n  text\n- >-\n  folded\n- 'it''s'\n- \"\\x41\\n\"\n- !!binary aGk=\n",
          "---\na: 1\n---\nb: 2\n...\n",
          "{a: [1, {b: null}], ? x : y}",
          "? [1]\n: 2\n"};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> duplicates;
  YamlLines lines;
  (void)parse_yaml_with_lines(text, &lines);
  (void)parse_yaml_documents(text);
  auto value = parse_yaml(text, &duplicates);
  if (!value.ok()) return 0;
  auto again = parse_yaml(to_yaml(*value));
  if (!again.ok() || !json_equal(*value, *again)) {
    std::fprintf(stderr, "%s\n--\n%s\n", to_json(*value).c_str(), to_yaml(*value).c_str());
    std::abort();
  }
  return 0;
}
