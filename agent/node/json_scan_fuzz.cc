#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "agent/node/json_scan.h"
#include "agent/node/node_machine.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ghostfleet::agent;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ObjectScan object(text);
  std::string_view key;
  std::string_view value;
  while (object.next(&key, &value)) scan_string(value);
  ArrayScan array(text);
  while (array.next(&value)) value_length(value);
  NodeView view;
  scan_node(text, {}, &view);
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {R"({"metadata":{"uid":"5b0c1c7e-0000-4000-8000-000000000001","resourceVersion":"7","labels":{"a":"b"}},)"
          R"("status":{"conditions":[{"type":"Ready","status":"True"}]}})",
          R"([1,"x\"y",{"a":[]},null])"};
}
