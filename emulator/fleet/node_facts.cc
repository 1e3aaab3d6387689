#include "emulator/fleet/node_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "agent/device/device_control.h"
#include "agent/node/json_scan.h"
#include "kube/api/quantity.h"

namespace ghostfleet::emulator {
namespace {

using agent::ArrayScan;
using agent::ObjectScan;
using agent::scan_member;
using agent::scan_path;
using agent::scan_string;

void append_member(std::string_view key, std::string_view value, std::string* out) {
  if (value.empty()) return;
  if (out->back() != '{') out->push_back(',');
  out->append("\"").append(key).append("\":").append(value);
}

size_t count_members(std::string_view object) {
  ObjectScan scan(object);
  std::string_view key;
  std::string_view value;
  size_t n = 0;
  while (scan.next(&key, &value)) ++n;
  return n;
}

constexpr std::string_view kOurAnnotations[] = {agent::kUnhealthyDevices, agent::kDevicePlugins, kDriverFaults};

// Those that say something of a node's devices, rightly or not.
template <class Visit>
void each_device_annotation(std::string_view json, Visit&& visit) {
  ObjectScan scan(scan_path(json, {"metadata", "annotations"}));
  std::string_view key, value;
  while (scan.next(&key, &value)) {
    if (key.starts_with("devices.ghostfleet.dev/") || key.starts_with("dra.ghostfleet.dev/")) visit(key, value);
  }
}

// Those that are not mirrors of conditions.
size_t count_taints(std::string_view taints) {
  ArrayScan scan(taints);
  std::string_view taint;
  size_t n = 0;
  while (scan.next(&taint)) {
    if (!scan_string(scan_member(taint, "key")).starts_with("node.kubernetes.io/")) ++n;
  }
  return n;
}

}  // namespace

std::shared_ptr<const kube::Json> node_facts_object(std::string_view json) {
  const std::string_view metadata = scan_member(json, "metadata");
  const std::string_view spec = scan_member(json, "spec");
  std::string text = R"({"metadata":{)";
  append_member("name", scan_member(metadata, "name"), &text);
  append_member("uid", scan_member(metadata, "uid"), &text);
  append_member("labels", scan_member(metadata, "labels"), &text);
  text += R"(},"spec":{)";
  append_member("taints", scan_member(spec, "taints"), &text);
  append_member("unschedulable", scan_member(spec, "unschedulable"), &text);
  text += R"(},"status":{)";
  append_member("allocatable", scan_path(json, {"status", "allocatable"}), &text);
  append_member("capacity", scan_path(json, {"status", "capacity"}), &text);
  text += "}}";
  auto parsed = kube::parse_json(text);
  if (!parsed.ok()) return nullptr;
  return std::make_shared<const kube::Json>(std::move(parsed).value());
}

std::string_view node_annotation(std::string_view node_json, std::string_view key) {
  return agent::scan_string(scan_path(node_json, {"metadata", "annotations", key}));
}

std::string_view unknown_annotation(std::string_view node_json) {
  std::string_view unknown;
  each_device_annotation(node_json, [&](std::string_view key, std::string_view) {
    const bool known =
        std::find(std::begin(kOurAnnotations), std::end(kOurAnnotations), key) != std::end(kOurAnnotations);
    if (!known && unknown.empty()) unknown = key;
  });
  return unknown;
}

bool node_deviates(std::string_view json, const agent::NodeClass& node_class) {
  if (count_members(scan_path(json, {"metadata", "labels"})) != node_class.label_count()) return true;
  bool annotated = false;
  each_device_annotation(json, [&](std::string_view, std::string_view) { annotated = true; });
  if (annotated) return true;
  const std::string_view spec = scan_member(json, "spec");
  if (count_taints(scan_member(spec, "taints")) != node_class.node_template().taints.size()) return true;
  const size_t capacity = count_members(scan_path(json, {"status", "capacity"}));
  if (capacity != node_class.node_template().capacity.size()) return true;
  const std::string_view allocatable = scan_path(json, {"status", "allocatable"});
  const agent::StringPairs& wanted = node_class.allocatable();
  if (count_members(allocatable) != wanted.size()) return true;
  return std::any_of(wanted.begin(), wanted.end(), [allocatable](const auto& resource) {
    return scan_string(scan_member(allocatable, resource.first)) != resource.second;
  });
}

std::string setting_difference(std::string_view json, const agent::NodeTemplate& wanted) {
  constexpr std::string_view kInstanceType = "node.kubernetes.io/instance-type";
  for (const auto& [key, value] : wanted.labels) {
    const std::string_view have = scan_string(scan_member(scan_path(json, {"metadata", "labels"}), key));
    if (key == kInstanceType && !have.empty() && have != value) {
      return fmt::format("instance type {} there, {} asked for", have, value);
    }
  }
  const std::string_view capacity = scan_path(json, {"status", "capacity"});
  for (const auto& [resource, quantity] : wanted.capacity) {
    const std::string_view have = scan_string(scan_member(capacity, resource));
    if (have == quantity || have.empty()) continue;
    const auto a = kube::Quantity::parse(have), b = kube::Quantity::parse(quantity);
    if (a.ok() && b.ok() && *a == *b) continue;
    return fmt::format("{} {} there, {} asked for", resource, have, quantity);
  }
  return {};
}

}  // namespace ghostfleet::emulator
