#include "agent/node/node_reconcile.h"

#include "agent/device/device_control.h"
#include "kube/api/kinds.h"
#include "kube/api/patch.h"

namespace ghostfleet::agent {
namespace {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

bool is_empty(const Json* value) {
  if (value == nullptr || value->is_null()) return true;
  if (value->is_string()) return value->get_string().empty();
  if (value->is_array()) return value->get_array().empty();
  if (value->is_object()) return value->get_object().empty();
  return value->is_int64() && value->get_int64() == 0;
}

// Copies the members of `from` that `to` lacks or has empty; all of them with `overwrite`.
void fill_members(const Json& wanted, Json& node, std::string_view path, bool overwrite) {
  const JsonObject* from = kube::get_object(wanted, path);
  if (from == nullptr) return;
  JsonObject& to = kube::ensure_object(node, path);
  for (const auto& [key, value] : *from) {
    Json* have = to.if_contains(key);
    if (overwrite || is_empty(have)) to[key] = value;
  }
}

Json* find_condition(JsonArray& conditions, std::string_view type) {
  for (Json& c : conditions) {
    if (kube::get_string(c, "type") == type) return &c;
  }
  return nullptr;
}

// One of our four conditions: said anew when its status differs; otherwise its words are made ours and its missing
// times filled. True when changed.
bool fix_condition(JsonArray& conditions, const ConditionText& text, std::string_view time) {
  Json* have = find_condition(conditions, text.type);
  if (have != nullptr && kube::get_string(*have, "status") == text.status) {
    bool changed = false;
    for (const std::string_view key : {"lastTransitionTime", "lastHeartbeatTime"}) {
      if (!kube::get_string(*have, key).empty()) continue;
      have->get_object()[key] = time;
      changed = true;
    }
    for (const auto& [key, value] : {std::pair("reason", text.reason), std::pair("message", text.message)}) {
      if (kube::get_string(*have, key) == value) continue;
      have->get_object()[key] = value;
      changed = true;
    }
    return changed;
  }
  JsonObject fresh;
  fresh["type"] = text.type;
  fresh["status"] = text.status;
  fresh["lastHeartbeatTime"] = time;
  fresh["lastTransitionTime"] = time;
  fresh["reason"] = text.reason;
  fresh["message"] = text.message;
  if (have != nullptr) {
    *have = std::move(fresh);
  } else {
    conditions.emplace_back(std::move(fresh));
  }
  return true;
}

bool says_ready(JsonArray& conditions) {
  const Json* have = find_condition(conditions, "Ready");
  return have != nullptr && kube::get_string(*have, "status") == "True";
}

bool fix_conditions(Json& node, bool ready, unsigned pressure, WallTime now) {
  JsonArray& conditions = kube::ensure_array(node, "status.conditions");
  const std::string time = format_time(now);
  bool changed = false;
  for (int i = 0; i < kNodeConditions; ++i) {
    const auto condition = static_cast<NodeCondition>(i);
    // Ready is for later, but somebody may have said it already.
    if (condition == NodeCondition::kReady && !ready && !says_ready(conditions)) continue;
    changed = fix_condition(conditions, condition_text(condition, (pressure >> i & 1) == 0), time) || changed;
  }
  return changed;
}

void claim(Json& node, const NodeOptions& options) {
  if (options.fleet.empty()) return;
  kube::ensure_object(node, "metadata.labels")[kFleetLabel] = options.fleet;
  kube::ensure_object(node, "metadata.annotations")[kAdoptedAnnotation] = "true";
}

// The labels a kubelet keeps right; of an adopted node only those that are missing or empty.
void fix_labels(const Json& wanted, Json& node, const NodeClass& node_class, bool overwrite) {
  const JsonObject* labels = kube::get_object(wanted, "metadata.labels");
  if (labels == nullptr) return;
  JsonObject& have = kube::ensure_object(node, "metadata.labels");
  for (const auto& [key, pattern] : default_labels(node_class.node_template())) {
    const Json* value = labels->if_contains(key);
    if (value != nullptr && (overwrite || is_empty(have.if_contains(key)))) have[key] = *value;
  }
}

void fill_status(const Json& wanted, Json& node, bool overwrite) {
  fill_members(wanted, node, "status.capacity", false);
  fill_members(wanted, node, "status.allocatable", false);
  fill_members(wanted, node, "status.nodeInfo", overwrite);
  fill_members(wanted, node, "status.daemonEndpoints.kubeletEndpoint", overwrite);
  const Json* from = kube::find_path(wanted, "status");
  JsonObject& to = kube::ensure_object(node, "status");
  for (const std::string_view key : {"addresses", "images", "runtimeHandlers", "features", "declaredFeatures"}) {
    const Json* value = kube::find_key(*from, key);
    if (value != nullptr && (overwrite || is_empty(to.if_contains(key)))) to[key] = *value;
  }
}

void zero_extended_resources(Json& node) {
  for (const std::string_view list : {"status.capacity", "status.allocatable"}) {
    for (auto& [name, quantity] : kube::ensure_object(node, list)) {
      if (is_extended_resource(name)) quantity = "0";
    }
  }
}

std::string quantity_of(const Json& node, std::string_view list, std::string_view resource) {
  const JsonObject* object = kube::get_object(node, list);
  const Json* at = object == nullptr ? nullptr : object->if_contains(resource);
  return at == nullptr || !at->is_string() ? std::string() : std::string(at->get_string());
}

// A capacity that is neither 0 nor what the plugins list is somebody's wish.
void restore_devices(const Json& wanted, Json& node) {
  const JsonObject* annotations = kube::get_object(node, "metadata.annotations");
  for (const std::string_view key : {kUnhealthyDevices, kDevicePlugins}) {
    if (annotations != nullptr && annotations->contains(key)) return;
  }
  const JsonObject* capacity = kube::get_object(wanted, "status.capacity");
  if (capacity == nullptr) return;
  for (const auto& [name, quantity] : *capacity) {
    const std::string have = quantity_of(node, "status.capacity", name);
    if (!is_device_resource(name) || (have != "0" && have != quantity.get_string())) continue;
    kube::ensure_object(node, "status.capacity")[name] = quantity;
    kube::ensure_object(node, "status.allocatable")[name] = quantity_of(wanted, "status.allocatable", name);
  }
}

// A kubelet replaces the addresses as a whole: the list is tagged to merge by type, which would keep stale ones.
void replace_addresses(Json& patch) {
  Json* addresses = kube::find_path(patch, "status.addresses");
  if (addresses == nullptr || !addresses->is_array()) return;
  addresses->get_array().emplace_back(JsonObject{{"$patch", "replace"}});
}

}  // namespace

Ownership ownership_of(const Json& node, const NodeOptions& options) {
  if (options.fleet.empty()) return Ownership::kOurs;
  const JsonObject* labels = kube::get_object(node, "metadata.labels");
  const Json* label = labels == nullptr ? nullptr : labels->if_contains(kFleetLabel);
  if (label != nullptr && label->is_string() && label->get_string() == options.fleet) return Ownership::kOurs;
  return options.adopt ? Ownership::kAdoptable : Ownership::kForeign;
}

std::string reconcile_patch(const Json& existing, const NodeClass& node_class, const NodeIdentity& identity,
                            WallTime now, const WantedStatus& status) {
  auto wanted = kube::parse_json(node_class.node_body(identity, now, {}));
  const kube::KindInfo* kind = kube::find_kind("", "v1", "Node");
  if (!wanted.ok() || kind == nullptr || kind->type == nullptr) return {};
  if (auto images = kube::parse_json(status.images); images.ok())
    kube::ensure_object(*wanted, "status")["images"] = std::move(*images);
  Json before = existing;
  kube::erase_path(before, "metadata.managedFields");
  Json after = before;
  const bool foreign = ownership_of(existing, node_class.options()) == Ownership::kAdoptable;
  const JsonObject* annotations = kube::get_object(existing, "metadata.annotations");
  const bool adopted = foreign || (annotations != nullptr && annotations->contains(kAdoptedAnnotation));
  if (foreign) claim(after, node_class.options());
  fix_labels(*wanted, after, node_class, !adopted);
  fill_status(*wanted, after, !adopted);
  if (status.zero_devices) zero_extended_resources(after);
  if (status.restore_devices && !adopted) restore_devices(*wanted, after);
  fix_conditions(after, status.ready, status.pressure, now);
  if (kube::json_equal(before, after)) return {};
  Json patch = kube::make_strategic_merge_patch(before, after, *kind->type);
  if (!patch.is_object() || patch.get_object().empty()) return {};
  const Json* addresses = kube::find_path(before, "status.addresses");
  if (!is_empty(addresses)) replace_addresses(patch);
  return kube::to_json(patch);
}

}  // namespace ghostfleet::agent
