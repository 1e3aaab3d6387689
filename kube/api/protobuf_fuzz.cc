// Protobuf bodies of several types: decoding never crashes, and what was decoded survives another round.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "kube/api/codec.h"

using namespace ghostfleet::kube;

namespace {

constexpr const char* kTypes[] = {"core/v1.Pod",
                                  "core/v1.Node",
                                  "core/v1.PodList",
                                  "apps/v1.ControllerRevision",
                                  "coordination.k8s.io/v1.Lease",
                                  "apiextensions.k8s.io/v1.CustomResourceDefinition",
                                  "authorization.k8s.io/v1.SubjectAccessReview",
                                  "resource.k8s.io/v1.ResourceSlice",
                                  "meta/v1.DeleteOptions"};

std::string seed(const char* type_name, std::string_view json) {
  const TypeInfo& type = *find_type(type_name);
  auto object = decode_type(json, MediaType::kJson, type, {});
  std::string message;
  if (object.ok()) append_protobuf_message(*object, type, &message);
  return protobuf_envelope("v1", type.short_name, message);
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {
      seed(kTypes[0],
           R"({"metadata":{"name":"p","labels":{"a":"b"}},"spec":{"containers":[{"name":"c","ports":[{"hostPort":5}],)"
           R"("resources":{"limits":{"cpu":"1"}},"livenessProbe":{"tcpSocket":{"port":"x"}}}]}})"),
      seed(kTypes[1], R"({"status":{"capacity":{"cpu":"4"},"images":[{"names":["a"],"sizeBytes":5}]}})"),
      seed(kTypes[2], R"({"items":[{"metadata":{"name":"p"}}]})"),
      seed(kTypes[3], R"({"data":{"a":[1,2]},"revision":3})"),
      seed(kTypes[4], R"({"spec":{"renewTime":"2026-01-02T03:04:05.123456Z"}})"),
      seed(kTypes[5], R"({"spec":{"versions":[{"schema":{"openAPIV3Schema":{"additionalProperties":true,"items":{},)"
                      R"("not":{"not":{}},"default":5,"maximum":1.5}}}]}})"),
      seed(kTypes[6], R"({"spec":{"extra":{"a":["b"]}}})"),
      seed(kTypes[7], R"({"spec":{"devices":[{"attributes":{"a":{"int":5}},"capacity":{"m":{"value":"1Gi"}}}]}})"),
      seed(kTypes[8], R"({"gracePeriodSeconds":0,"preconditions":{"uid":"u"}})"),
  };
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const char* name : kTypes) {
    const TypeInfo& type = *find_type(name);
    auto object = decode_type(body, MediaType::kProtobuf, type, {});
    if (!object.ok()) continue;
    std::string message;
    append_protobuf_message(*object, type, &message);
    auto again = decode_type(protobuf_envelope("v1", "X", message), MediaType::kProtobuf, type, {});
    if (!again.ok()) std::abort();
  }
  return 0;
}
