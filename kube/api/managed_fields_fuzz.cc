#include <cstdint>
#include <string>
#include <vector>

#include "kube/api/managed_fields.h"

using namespace ghostfleet::kube;

// The input is a live object and a configuration, parted by a line end.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TypeInfo* const pod = find_type("core/v1.Pod");
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t cut = text.find('\n');
  if (cut == std::string_view::npos) return 0;
  JsonParseOptions parse;
  parse.max_depth = 100;
  auto live = parse_json(text.substr(0, cut), parse);
  auto config = parse_json(text.substr(cut + 1), parse);
  if (!live.ok() || !config.ok() || !live->is_object() || !config->is_object()) return 0;
  KindInfo kind;
  kind.version = "v1";
  kind.kind = "Pod";
  ApplyOptions options;
  options.manager = "m";
  options.api_version = "v1";
  options.force = (size & 1) != 0;
  for (const ApplySchema& schema : {ApplySchema{pod, nullptr}, ApplySchema{nullptr, nullptr}}) {
    (void)server_side_apply(*live, *config, kind, schema, options);
    Json after = *config;
    record_update(*live, &after, schema, options);
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      R"({"metadata":{"managedFields":[{"manager":"a","operation":"Apply","fieldsV1":{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{}}}}}}]},"spec":{"containers":[{"name":"c","image":"i"}]}})"
      "\n"
      R"({"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"j"},{"name":"d"}]}})",
      R"({"metadata":{"finalizers":["a"],"labels":{"x":"y"}}})"
      "\n"
      R"({"metadata":{"finalizers":["b"],"ownerReferences":[{"uid":"u"}]}})",
  };
}
