#include "controlplane/apiserver/stored_version.h"

#include "controlplane/apiserver/strategies/event_conversion.h"

namespace ghostfleet::controlplane {
namespace {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

constexpr const char* kCpuSpec = "targetCPUUtilizationPercentage";
constexpr const char* kCpuStatus = "currentCPUUtilizationPercentage";

Json cpu_metric(std::string_view part, std::string_view field, Json percent) {
  JsonObject value{{field, std::move(percent)}};
  if (part == "target") value["type"] = "Utilization";
  return JsonObject{{"type", "Resource"}, {"resource", JsonObject{{"name", "cpu"}, {part, std::move(value)}}}};
}

// Takes `field` out of an object; null when absent.
Json take(Json* object, std::string_view field) {
  if (!object || !object->is_object()) return nullptr;
  JsonObject& o = object->as_object();
  auto it = o.find(field);
  if (it == o.end()) return nullptr;
  Json value = std::move(it->value());
  o.erase(it);
  return value;
}

// autoscaling/v1 has one percentage where v2 has a list of metrics.
Json scaler_to_v2(Json object) {
  Json spec_cpu = take(kube::find_key(object, "spec"), kCpuSpec);
  Json status_cpu = take(kube::find_key(object, "status"), kCpuStatus);
  if (!spec_cpu.is_null()) {
    kube::ensure_array(object, "spec.metrics").push_back(cpu_metric("target", "averageUtilization", spec_cpu));
  }
  if (!status_cpu.is_null()) {
    kube::ensure_array(object, "status.currentMetrics")
        .push_back(cpu_metric("current", "averageUtilization", status_cpu));
  }
  return object;
}

void metrics_to_percent(Json& object, std::string_view list, std::string_view percent_path, std::string_view part) {
  const JsonArray* metrics = kube::get_array(object, list);
  if (!metrics) return;
  for (const Json& metric : *metrics) {
    if (kube::get_string(metric, "resource.name") != "cpu") continue;
    const Json* value = kube::find_path(metric, "resource." + std::string(part) + ".averageUtilization");
    if (!value) continue;
    Json copy = *value;
    kube::set_path(object, percent_path, std::move(copy));
    break;
  }
  kube::erase_path(object, list);
}

Json scaler_to_v1(Json object) {
  metrics_to_percent(object, "spec.metrics", std::string("spec.") + kCpuSpec, "target");
  metrics_to_percent(object, "status.currentMetrics", std::string("status.") + kCpuStatus, "current");
  kube::erase_path(object, "spec.behavior");
  kube::erase_path(object, "status.conditions");
  return object;
}

bool is_new_event(const kube::KindInfo& info) { return info.group == "events.k8s.io"; }
bool is_old_scaler(const kube::KindInfo& info) { return info.group == "autoscaling" && info.version == "v1"; }

}  // namespace

const kube::KindInfo& stored_kind(const kube::KindInfo& info) {
  const kube::KindInfo* stored = nullptr;
  if (is_new_event(info)) stored = kube::find_kind("", "v1", "Event");
  if (is_old_scaler(info)) stored = kube::find_kind("autoscaling", "v2", info.kind);
  if (!stored) stored = kube::find_kind(info.group, info.version, info.kind);
  return stored ? *stored : info;
}

Json to_stored_version(const kube::KindInfo& info, Json object) {
  if (is_new_event(info)) return to_core_v1(std::move(object));
  return is_old_scaler(info) ? scaler_to_v2(std::move(object)) : object;
}

Json from_stored_version(const kube::KindInfo& info, Json object) {
  if (is_new_event(info)) {
    object = to_events_v1(std::move(object));
  } else if (is_old_scaler(info)) {
    object = scaler_to_v1(std::move(object));
  }
  object.as_object()["apiVersion"] = info.api_version();
  object.as_object()["kind"] = info.kind;
  return object;
}

}  // namespace ghostfleet::controlplane
