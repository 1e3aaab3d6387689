// binding: a pod gets its node.
#include <fmt/format.h>

#include "controlplane/apiserver/admission/lookup.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/workload_common.h"
#include "controlplane/apiserver/subresources/handlers.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

kube::ApiError plain_error(std::string message) {
  kube::ApiError error;
  error.code = 500;
  error.message = std::move(message);
  return error;
}

kube::ApiResult<bool> check_target(const Json& binding) {
  static const Json kEmpty = JsonObject();
  const Json* found = member(binding, "target");
  const Json& target = found == nullptr ? kEmpty : *found;
  std::string_view kind = text_of(target, "kind");
  if (!kind.empty() && kind != "Node") {
    return plain_error(
        fmt::format("target.kind: Unsupported value: {}: supported values: \"Node\", \"<empty>\"", quoted(kind)));
  }
  if (text_of(target, "name").empty()) return plain_error("target.name: Required value");
  return true;
}

kube::ApiError precondition(const Resource& pods, std::string_view ns, std::string_view name, std::string_view what,
                            std::string_view given, std::string_view actual) {
  return kube::conflict(pods.info, name,
                        fmt::format("StorageError: invalid object, Code: 4, Key: /registry/pods/{}/{}, "
                                    "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {} in precondition: "
                                    "{}, {} in object meta: {}",
                                    ns, name, what, given, what, actual));
}

kube::ApiError refusal(const Resource& pods, std::string_view name, std::string_view why) {
  kube::KindInfo kind;
  kind.group = pods.info.group;
  kind.resource = "pods/binding";
  return kube::conflict(kind, name, why);
}

kube::ApiResult<bool> check_pod(const Resource& pods, const Json& pod, const Json& binding, std::string_view ns) {
  std::string_view name = name_of(pod);
  std::string_view uid = uid_of(binding);
  if (!uid.empty() && uid != uid_of(pod)) return precondition(pods, ns, name, "UID", uid, uid_of(pod));
  std::string_view version = text_of(metadata_of(binding), "resourceVersion");
  std::string_view current = text_of(metadata_of(pod), "resourceVersion");
  if (!version.empty() && version != current) {
    return precondition(pods, ns, name, "ResourceVersion", version, current);
  }
  if (!text_of(metadata_of(pod), "deletionTimestamp").empty()) {
    return refusal(pods, name, fmt::format("pod {} is being deleted, cannot be assigned to a host", name));
  }
  std::string_view node = text_of(spec_of(pod), "nodeName");
  if (!node.empty()) {
    return refusal(pods, name, fmt::format("pod {} is already assigned to node {}", name, quoted(node)));
  }
  const JsonArray* gates = array_of(spec_of(pod), "schedulingGates");
  if (gates != nullptr && !gates->empty()) {
    return refusal(pods, name, fmt::format("pod {} has non-empty .spec.schedulingGates", name));
  }
  return true;
}

void merge_texts(Json& pod, const Json& from, std::string_view key) {
  const JsonObject* texts = object_of(from, key);
  if (texts == nullptr || texts->empty()) return;
  JsonObject& target = object_in(metadata_of(pod).get_object(), key);
  for (const auto& entry : *texts) target[entry.key()] = entry.value();
}

void set_scheduled(Json& pod, const std::string& now) {
  JsonObject& status = object_in(pod.get_object(), "status");
  status.erase("nominatedNodeName");
  Json& conditions = status["conditions"];
  if (!conditions.is_array()) conditions = JsonArray();
  for (Json& condition : conditions.get_array()) {
    if (text_of(condition, "type") != "PodScheduled") continue;
    JsonObject& c = condition.get_object();
    if (text_of(condition, "status") != "True") c["lastTransitionTime"] = now;
    c["status"] = "True";
    c.erase("reason");
    c.erase("message");
    return;
  }
  conditions.get_array().push_back(
      JsonObject{{"type", "PodScheduled"}, {"status", "True"}, {"lastTransitionTime", now}});
}

// Pods carry the zone and region of their node.
JsonObject topology_labels(Api& api, std::string_view node) {
  JsonObject out;
  ObjectRef object = stored(api, KnownKind::kNodes, "", node);
  if (object == nullptr) return out;
  for (std::string_view key : {"topology.kubernetes.io/zone", "topology.kubernetes.io/region"}) {
    for (const auto& [label, value] : object->labels) {
      if (label == key) out[key] = value;
    }
  }
  return out;
}

}  // namespace

kube::ApiResult<ObjectRef> bind_pod(Api& api, std::string_view ns, std::string_view pod_name, const Json& binding,
                                    RequestContext& ctx) {
  if (auto fine = check_target(binding); !fine.ok()) return fine.error();
  const Resource* pods = api.cluster_state().known(api, KnownKind::kPods);
  if (pods == nullptr) return kube::internal_api_error("pods are not served");
  std::string node(text_of(*member(binding, "target"), "name"));
  JsonObject topology = topology_labels(api, node);
  std::string now = format_time(api.clock().wall_now());
  auto change = [&](Json& pod) -> kube::ApiResult<bool> {
    if (auto fine = check_pod(*pods, pod, binding, ns); !fine.ok()) return fine.error();
    make_spec(pod)["nodeName"] = node;
    merge_texts(pod, metadata_of(binding), "annotations");
    if (!topology.empty()) merge_texts(pod, JsonObject{{"labels", topology}}, "labels");
    merge_texts(pod, metadata_of(binding), "labels");
    set_scheduled(pod, now);
    return true;
  };
  auto written = api.modify(*pods, ns, pod_name, "binding", change, ctx);
  if (!written.ok()) return written.error();
  return written->object;
}

Answered serve_binding(SubresourceCall& call, Api& api, RequestContext& ctx) {
  if (call.verb != "create") return kube::method_not_allowed(call.resource.info, call.verb);
  std::string name(name_of(call.body));
  if (!call.subresource.empty()) {
    if (name != call.name) return kube::bad_request("name in URL does not match name in Binding object");
    name = call.name;
  }
  auto bound = bind_pod(api, call.ns, name, call.body, ctx);
  if (!bound.ok()) return bound.error();
  return created_status();
}

}  // namespace ghostfleet::controlplane
