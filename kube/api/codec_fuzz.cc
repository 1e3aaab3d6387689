// Bodies of requests, as JSON and as YAML: decoding never crashes, and the decoded form is stable: encoded and decoded
// again it is the same, in JSON and through protobuf.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "kube/api/codec.h"

using namespace ghostfleet::kube;

namespace {

KindInfo kind_of(const char* group, const char* version, const char* kind) {
  KindInfo k;
  k.group = group;
  k.version = version;
  k.kind = kind;
  k.type = find_type(group, version, kind);
  return k;
}

void check(std::string_view body, const KindInfo& kind) {
  std::vector<std::string> warnings;
  DecodeOptions options;
  options.warnings = &warnings;
  (void)decode_object(body, MediaType::kYaml, kind, options);
  auto object = decode_object(body, MediaType::kJson, kind, options);
  if (!object.ok()) return;
  const std::string json = encode_json(*object, kind.type);
  auto again = decode_object(json, MediaType::kJson, kind, {FieldValidation::kStrict, nullptr, true});
  if (!again.ok() || encode_json(*again, kind.type) != json) std::abort();
  if (kind.custom()) return;
  auto binary = encode_protobuf(*object, kind);
  if (!binary.ok() || !decode_object(*binary, MediaType::kProtobuf, kind, options).ok()) std::abort();
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {
      R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","creationTimestamp":"2026-01-02T03:04:05Z"},"spec":)"
      R"({"containers":[{"name":"c","resources":{"limits":{"cpu":"1500m","memory":1073741824}},"livenessProbe":)"
      R"({"httpGet":{"port":"http"}}}],"volumes":[{"name":"v","emptyDir":{}}],"nosuch":1}})",
      R"({"spec":{"replicas":null,"template":{"spec":{"containers":[null]}},"strategy":{"rollingUpdate":{"maxSurge":1}}}})",
      R"({"spec":{"versions":[{"schema":{"openAPIV3Schema":{"properties":{"a":{"items":[{"type":"x"}],"not":{},)"
      R"("additionalProperties":false,"default":{"a":[1]},"dependencies":{"q":["r"]},"maximum":1.5}}}}}]}})",
      R"({"data":{"a":"b","a":"c"},"binaryData":{"x":"AAEC"},"immutable":true})",
      R"({"eventTime":"2026-01-02T03:04:05.000001Z","firstTimestamp":null,"count":3})",
      "metadata: {name: p}\nspec:\n  containers:\n  - name: c\n    ports: [{containerPort: 080}]\n"};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const KindInfo kKinds[] = {
      kind_of("", "v1", "Pod"),       kind_of("apps", "v1", "Deployment"),
      kind_of("", "v1", "ConfigMap"), kind_of("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
      kind_of("", "v1", "Event"),     kind_of("example.com", "v1", "Widget"),
  };
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const KindInfo& kind : kKinds) check(body, kind);
  return 0;
}
