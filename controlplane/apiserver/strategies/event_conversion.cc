#include "controlplane/apiserver/strategies/event_conversion.h"

#include <array>
#include <string_view>
#include <utility>

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonObject;

namespace {

// v1 name, events.k8s.io/v1 name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kNames = {{
    {"involvedObject", "regarding"},
    {"message", "note"},
    {"firstTimestamp", "deprecatedFirstTimestamp"},
    {"lastTimestamp", "deprecatedLastTimestamp"},
    {"count", "deprecatedCount"},
    {"source", "deprecatedSource"},
    {"reportingComponent", "reportingController"},
}};

void rename(JsonObject& object, std::string_view from, std::string_view to) {
  auto it = object.find(from);
  if (it == object.end()) return;
  Json value = std::move(it->value());
  object.erase(it);
  object[to] = std::move(value);
}

}  // namespace

Json to_events_v1(Json event) {
  if (!event.is_object()) return event;
  JsonObject& object = event.get_object();
  for (const auto& [core, fresh] : kNames) rename(object, core, fresh);
  object["apiVersion"] = "events.k8s.io/v1";
  return event;
}

Json to_core_v1(Json event) {
  if (!event.is_object()) return event;
  JsonObject& object = event.get_object();
  for (const auto& [core, fresh] : kNames) rename(object, fresh, core);
  object["apiVersion"] = "v1";
  return event;
}

}  // namespace ghostfleet::controlplane
