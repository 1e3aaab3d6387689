// Reads any bytes as an expression, and evaluates what is one.
#include <cstdint>
#include <string>
#include <vector>

#include "kube/cel/program.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ghostfleet::kube;
  const auto program = cel::Program::compile({reinterpret_cast<const char*>(data), size}, {"device"});
  if (!program.ok()) return 0;
  const auto json = parse_json(R"({"driver":"d","attributes":{"d":{"a":1,"b":"x","c":[1,2],"e":true}}})");
  (void)(*program)->evaluate({{"device", cel::Value::from_json(*json)}}, 10000);
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {"device.driver == 'gpu.nvidia.com' && device.attributes['d'].b.startsWith(\"x\")",
          "[1, 2u, 3.5].exists(i, i in {'a': 1} || has(device.attributes.d)) ? -1 < 2 : !false",
          "cel.bind(a, device.?attributes.orValue({}), a['d'].c.map(i, i * 2).size() == 2)",
          "semver('1.2.3-rc.1').compareTo(semver('1.2.3')) < 0 && quantity('1Gi').isGreaterThan(quantity('1M'))",
          "r'\\d' + '''a\nb''' + '\\u00e9' == \"\" // end"};
}
