// scale: the replicas of a workload as autoscaling/v1 Scale.
#include <fmt/format.h>

#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/workload_common.h"
#include "controlplane/apiserver/subresources/handlers.h"
#include "kube/api/selector.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonObject;

namespace {

constexpr std::string_view kModified =
    "the object has been modified; please apply your changes to the latest version and try again";

std::string selector_text(const Json& parent) {
  const Json* selector = member(spec_of(parent), "selector");
  if (selector == nullptr) return {};
  Json as_selector = *selector;
  // A replication controller's selector is a plain map.
  bool plain = selector->is_object() && member(*selector, "matchLabels") == nullptr &&
               member(*selector, "matchExpressions") == nullptr;
  if (plain) as_selector = JsonObject{{"matchLabels", *selector}};
  auto parsed = kube::LabelSelector::from_json(&as_selector);
  return parsed.ok() ? parsed->to_string() : std::string();
}

Json scale_of(const Json& parent) {
  JsonObject metadata;
  for (std::string_view key : {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}) {
    copy_member(metadata, metadata_of(parent), key);
  }
  JsonObject spec;
  if (int64_t replicas = int_of(spec_of(parent), "replicas"); replicas != 0) spec["replicas"] = replicas;
  JsonObject status{{"replicas", int_of(status_of(parent), "replicas")}};
  // A custom resource's status says its selector itself.
  std::string selector(text_of(status_of(parent), "selector"));
  if (selector.empty()) selector = selector_text(parent);
  if (!selector.empty()) status["selector"] = selector;
  return JsonObject{{"kind", "Scale"},
                    {"apiVersion", "autoscaling/v1"},
                    {"metadata", std::move(metadata)},
                    {"spec", std::move(spec)},
                    {"status", std::move(status)}};
}

kube::ApiResult<bool> check_scale(const Json& scale, const SubresourceCall& call) {
  std::string_view name = name_of(scale);
  if (!name.empty() && name != call.name) {
    return kube::bad_request(
        fmt::format("the name of the object ({}) does not match the name on the URL ({})", name, call.name));
  }
  Findings out;
  check_not_negative(spec_of(scale), "replicas", Path("spec"), out);
  if (out.empty()) return true;
  return kube::invalid("autoscaling", "Scale", call.name, out.take());
}

// Sets the replicas in one attempt; `wanted` makes the new scale from the current one.
kube::ApiResult<bool> apply_scale(Json& parent, const SubresourceCall& call,
                                  const std::function<kube::ApiResult<Json>(Json)>& wanted) {
  kube::ApiResult<Json> scale = wanted(scale_of(parent));
  if (!scale.ok()) return scale.error();
  if (auto fine = check_scale(*scale, call); !fine.ok()) return fine.error();
  std::string_view version = text_of(metadata_of(*scale), "resourceVersion");
  if (!version.empty() && version != "0" && version != text_of(metadata_of(parent), "resourceVersion")) {
    return kube::conflict(call.resource.info, call.name, kModified);
  }
  make_spec(parent)["replicas"] = int_of(spec_of(*scale), "replicas");
  return true;
}

}  // namespace

Answered serve_scale(SubresourceCall& call, Api& api, RequestContext& ctx) {
  SubresourceAnswer answer;
  if (call.verb == "get") {
    auto parent = parent_of(call, api);
    if (!parent.ok()) return parent.error();
    answer.object = scale_of(*parent);
    return answer;
  }
  std::function<kube::ApiResult<Json>(Json)> wanted;
  if (call.verb == "update") {
    wanted = [&call](const Json&) -> kube::ApiResult<Json> { return call.body; };
  } else if (call.verb == "patch" && call.patch) {
    wanted = [&call](Json current) { return call.patch(std::move(current)); };
  } else {
    return kube::method_not_allowed(call.resource.info, call.verb);
  }
  auto change = [&](Json& parent) { return apply_scale(parent, call, wanted); };
  auto written = api.modify(call.resource, call.ns, call.name, "", change, ctx);
  if (!written.ok()) return written.error();
  answer.object = scale_of(api.decode(call.resource, *written->object));
  return answer;
}

}  // namespace ghostfleet::controlplane
