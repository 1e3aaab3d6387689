// JSON text: parsing never crashes, and what was written parses to the same value again. Skipping agrees with parsing.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "kube/api/json.h"
#include "kube/api/json_scanner.h"

using namespace ghostfleet::kube;

std::vector<std::string> fuzz_seeds() {
  return {R"({"a":[1,-2.5e3,true,false,null,"x\u00e9\ud83d\ude00\n"],"b":{"c":{}},"a":5})",
          R"([[[[[[]]]]],{},{"":""}])",
          "\"\xF0\x9F\x98\x80\xFF\"",
          "18446744073709551615",
          "-0",
          " {\"k\" : \"<&>\" } ",
          std::string(3000, '[') + std::string(3000, ']')};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> duplicates;
  JsonParseOptions options;
  options.duplicates = &duplicates;
  auto value = parse_json(text, options);
  JsonScanner scan(text);
  const bool skipped = scan.skip_value(0) && scan.finish();
  if (value.ok() && !skipped) std::abort();
  if (!value.ok()) return 0;
  auto again = parse_json(to_json(*value));
  if (!again.ok() || !json_equal(*value, *again)) std::abort();
  return 0;
}
