// Writing the status to the API server, and the deletion that follows the last one.
//
// Full fidelity: GET, then a PATCH of the two-way difference, as a kubelet. Light: a PATCH of the pieces that changed.
#include <fmt/format.h>

#include <algorithm>

#include "agent/pod/manager.h"
#include "kube/api/field_table.h"
#include "kube/api/patch.h"

namespace ghostfleet::agent {

using kube::get_string;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr Duration kReconcile = std::chrono::seconds(10);
// The node authorizer learns from a watch of its own which pods are a node's: for some milliseconds after a pod was
// bound or deleted it may say 403 to its node.
constexpr Duration kRefusedBase = std::chrono::milliseconds(100);

// What of a status is the kubelet's; all else is kept as it is.
constexpr std::string_view kOwned[] = {"phase",
                                       "message",
                                       "reason",
                                       "hostIP",
                                       "hostIPs",
                                       "podIP",
                                       "podIPs",
                                       "startTime",
                                       "resources",
                                       "containerStatuses",
                                       "initContainerStatuses",
                                       "ephemeralContainerStatuses",
                                       "allocatedResources",
                                       "observedGeneration"};

bool owned_condition(std::string_view type) {
  for (int i = 0; i < kConditions; ++i) {
    if (type == condition_name(i)) return true;
  }
  return type == "PodResizePending" || type == "PodResizeInProgress";
}

const Json* find_type(const JsonArray& list, std::string_view type) {
  for (const Json& c : list) {
    if (get_string(c, "type") == type) return &c;
  }
  return nullptr;
}

// Conditions of others first, as they are; then ours. Who bound the pod set the time of PodScheduled.
JsonArray merge_conditions(const Json& before, const Json& ours) {
  static const JsonArray kNone;
  const JsonArray* old = kube::get_array(before, "conditions");
  if (old == nullptr) old = &kNone;
  JsonArray out;
  const JsonArray* list = kube::get_array(ours, "conditions");
  for (const Json& c : *old) {
    // DisruptionTarget is the node's only when the node has set it.
    const bool replaced =
        list != nullptr && get_string(c, "type") == "DisruptionTarget" && find_type(*list, "DisruptionTarget");
    if (!owned_condition(get_string(c, "type")) && !replaced) out.push_back(c);
  }
  if (list == nullptr) return out;
  for (const Json& c : *list) {
    Json merged = c;
    const Json* same = find_type(*old, get_string(c, "type"));
    if (same != nullptr && merged.is_object() && get_string(c, "type") == "PodScheduled" &&
        get_string(*same, "status") == get_string(c, "status")) {
      for (const std::string_view key : {"lastProbeTime", "lastTransitionTime"}) {
        if (const Json* value = kube::find_key(*same, key)) merged.as_object()[key] = *value;
      }
    }
    out.push_back(std::move(merged));
  }
  return out;
}

Json merge_status(const Json& before, const Json& ours) {
  Json out = before.is_object() ? before : Json(JsonObject());
  JsonObject& object = out.as_object();
  for (const std::string_view key : kOwned) object.erase(key);
  if (ours.is_object()) {
    for (const auto& [key, value] : ours.get_object()) object[key] = value;
  }
  JsonArray conditions = merge_conditions(before, ours);
  if (conditions.empty()) {
    object.erase("conditions");
  } else {
    object["conditions"] = std::move(conditions);
  }
  return out;
}

}  // namespace

std::string Manager::pod_path(const Pod& pod) const {
  return fmt::format("/api/v1/namespaces/{}/pods/{}", pod.ns(), pod.name());
}

Duration Manager::retry_delay(const ApiResponse& response) {
  if (response.retry_after > Duration(0)) {
    return response.retry_after + host_.rng().between(Duration(0), std::chrono::seconds(1));
  }
  return host_.rng().between(kReconcile / 2, kReconcile);
}

void Manager::flush(Pod& pod) {
  if (!pod.dirty || pod.sending || pod.send_due != kNever) return;
  if (pod.api_uid().empty()) return;  // a static pod without mirror
  if (full()) {
    pod.sending = true;
    ApiRequest request;
    request.tag = tag_of(pod, Call::kStatusGet);
    request.target = pod_path(pod);
    host_.send(std::move(request));
    return;
  }
  pod.dirty = false;
  if (pod.gone) return;
  pod.in_flight = pod.shown;
  std::string body = render_patch(pod, context());
  if (body.empty()) {
    consider_delete(pod);
  } else {
    send_patch(pod, std::move(body));
  }
}

void Manager::send_patch(Pod& pod, std::string body) {
  pod.sending = true;
  pod.api_conditions = true;  // perhaps: an answer can be lost
  ApiRequest request;
  request.verb = Verb::kPatch;
  request.body_type = BodyType::kStrategicMergePatch;
  request.tag = tag_of(pod, Call::kStatusPatch);
  request.target = pod_path(pod) + "/status";
  request.body = std::move(body);
  host_.send(std::move(request));
}

void Manager::on_status_get(Pod& pod, const ApiResponse& response) {
  if (!pod.sending) return;
  pod.sending = false;
  if (response.status == 404) {
    pod.dirty = false;  // gone: the watch will say so
    return;
  }
  Result<Json> got = response.ok() ? kube::parse_json(response.body) : Result<Json>(unavailable("no answer"));
  if (!got.ok()) {
    status_failed(pod, response);
    return;
  }
  pod.dirty = false;
  if (get_string(*got, "metadata.uid") != pod.api_uid()) return;
  const Json* status = kube::find_key(*got, "status");
  const Json before = status != nullptr ? *status : Json(JsonObject());
  Result<Json> ours = kube::parse_json(render_status(pod, context()));
  const kube::TypeInfo* type = kube::find_type("core/v1.Pod");
  if (!ours.ok() || type == nullptr) return;
  pod.in_flight = pod.shown;
  Json patch =
      kube::make_strategic_merge_patch(Json{{"status", before}}, Json{{"status", merge_status(before, *ours)}}, *type);
  if (!patch.is_object() || patch.get_object().empty()) {
    status_acknowledged(pod);
    return;
  }
  JsonObject body;
  body["metadata"] = JsonObject{{"uid", pod.api_uid()}};
  body["status"] = std::move(patch.as_object()["status"]);
  send_patch(pod, kube::to_json(body));
}

void Manager::on_status_patch(Pod& pod, const ApiResponse& response) {
  if (!pod.sending) return;
  pod.sending = false;
  if (response.ok()) {
    status_acknowledged(pod);
  } else if (response.status != 404) {
    pod.sent = {};
    status_failed(pod, response);
  }
}

void Manager::status_failed(Pod& pod, const ApiResponse& response) {
  pod.dirty = !pod.gone;
  if (!pod.dirty) return;
  if (response.status != 403) {
    pod.send_due = host_.now() + retry_delay(response);
    return;
  }
  const Duration wait = std::min(kRefusedBase * (1 << std::min<int>(pod.refused, 7)), kReconcile / 2);
  if (pod.refused < 255) ++pod.refused;
  pod.send_due = host_.now() + host_.rng().between(wait, 2 * wait);
}

void Manager::status_acknowledged(Pod& pod) {
  pod.refused = 0;
  if (pod.acked == Phase::kRunning) --running_;
  if (is_terminal(pod.acked)) --finished_;
  pod.acked = pod.in_flight;
  if (pod.acked == Phase::kRunning) ++running_;
  if (is_terminal(pod.acked)) ++finished_;
  pod.terminal_acked = is_terminal(pod.acked);
  if (pod.delete_next && !pod.dirty) send_delete(pod);
  consider_delete(pod);
}

// The node takes its pod away once the API server knows how it ended.
void Manager::consider_delete(Pod& pod) {
  if (!pod.deleting || pod.gone || pod.deleted_sent || !pod.terminal_acked || pod.stage != Stage::kFinished) return;
  if (pod.delete_due != kNever || pod.delete_next || pod.dirty || pod.sending) return;
  // What is to be told of it is told while it is there, unless that takes its time.
  if (!full() && pod.events.queue != nullptr && pod.events.due == kNever) return;
  // Volumes are unmounted first.
  pod.delete_due =
      host_.now() +
      (full() ? host_.rng().between(std::chrono::milliseconds(300), std::chrono::milliseconds(700)) : Duration(0));
}

void Manager::send_delete(Pod& pod) {
  if (pod.gone || pod.deleted_sent) return;
  if (full() && !pod.delete_next) {
    // A last look before.
    pod.delete_next = true;
    pod.dirty = true;
    return;
  }
  pod.delete_next = false;
  pod.deleted_sent = true;
  ApiRequest request;
  request.verb = Verb::kDelete;
  request.body_type = BodyType::kJson;
  request.tag = tag_of(pod, Call::kDelete);
  request.target = pod_path(pod);
  request.body = fmt::format(
      "{{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\","
      "\"gracePeriodSeconds\":0,\"preconditions\":{{\"uid\":\"{}\"}}"
      "}}",
      pod.uid());
  host_.send(std::move(request));
}

void Manager::on_delete(Pod& pod, const ApiResponse& response) {
  // 404: it is gone. 409: another pod has its name. Neither is to be tried again.
  if (response.ok() || response.status == 404 || response.status == 409) return;
  pod.deleted_sent = false;
  pod.delete_due = host_.now() + retry_delay(response);
}

}  // namespace ghostfleet::agent
