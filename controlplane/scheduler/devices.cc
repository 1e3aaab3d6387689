#include "controlplane/scheduler/devices.h"

#include <fmt/format.h>

#include <algorithm>

#include "kube/api/quantity.h"

namespace ghostfleet::controlplane::scheduling {

using kube::get_array;
using kube::get_bool;
using kube::get_int;
using kube::get_string;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;
using kube::cel::Map;
using kube::cel::Value;

namespace {

constexpr size_t kMostSelectors = 4096;  // remembered; then all are read anew

// "domain/name", or a name of the driver's own.
std::pair<std::string, std::string> split_name(std::string_view name, const std::string& driver) {
  const size_t slash = name.find('/');
  if (slash == std::string_view::npos) return {driver, std::string(name)};
  return {std::string(name.substr(0, slash)), std::string(name.substr(slash + 1))};
}

Value attribute_value(const Json& attribute) {
  if (!attribute.is_object() || attribute.get_object().empty()) return {};
  const auto& [type, value] = *attribute.get_object().begin();
  if (std::string_view(type) != "version") return Value::from_json(value);
  auto version = kube::cel::Semver::parse(value.is_string() ? std::string_view(value.get_string()) : "");
  return version.ok() ? Value(std::move(*version)) : Value();
}

Value capacity_value(const Json& capacity) {
  const auto quantity = kube::Quantity::parse(get_string(capacity, "value"));
  return quantity.ok() ? Value(*quantity) : Value();
}

// By domain, then by name.
template <typename Read>
Value by_domain(const Json* members, const std::string& driver, Read read) {
  std::map<std::string, Map> domains;
  if (members != nullptr && members->is_object()) {
    for (const auto& [name, value] : members->get_object()) {
      const auto [domain, id] = split_name(name, driver);
      domains[domain].insert_or_assign(id, read(value));
    }
  }
  Map out;
  for (auto& [domain, values] : domains) out.emplace(domain, Value::map(std::move(values)));
  return Value::map_of_maps(std::move(out));
}

Value device_object(const Json& device, const std::string& driver) {
  Map out;
  out.emplace("driver", Value(driver));
  out.emplace("attributes", by_domain(kube::find_key(device, "attributes"), driver, attribute_value));
  out.emplace("capacity", by_domain(kube::find_key(device, "capacity"), driver, capacity_value));
  out.emplace("allowMultipleAllocations", Value(get_bool(device, "allowMultipleAllocations")));
  return Value::map(std::move(out));
}

std::vector<DeviceTaint> taints_of(const Json& device) {
  std::vector<DeviceTaint> out;
  const JsonArray* list = get_array(device, "taints");
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const Json& taint = (*list)[i];
    out.push_back({std::string(get_string(taint, "key")), std::string(get_string(taint, "value")),
                   std::string(get_string(taint, "effect"))});
  }
  return out;
}

}  // namespace

void DeviceBook::set_slice(const std::string& name, const Json& json) {
  remove_slice(name);
  const bool everywhere = get_bool(json, "spec.allNodes");
  auto slice = std::make_shared<Slice>();
  slice->node = get_string(json, "spec.nodeName");
  if (slice->node.empty() && !everywhere) return;
  const std::string driver(get_string(json, "spec.driver")), pool(get_string(json, "spec.pool.name"));
  slice->pool = driver + "/" + pool;
  slice->generation = get_int(json, "spec.pool.generation");
  slice->count = get_int(json, "spec.pool.resourceSliceCount");
  const JsonArray* devices = get_array(json, "spec.devices");
  for (size_t i = 0; devices != nullptr && i < devices->size(); ++i) {
    auto device = std::make_unique<DeviceOffer>();
    device->driver = driver;
    device->pool = pool;
    device->name = get_string((*devices)[i], "name");
    device->object = device_object((*devices)[i], driver);
    device->taints = taints_of((*devices)[i]);
    slice->devices.push_back(std::move(device));
  }
  by_node_[slice->node].insert(name);
  by_pool_[slice->pool].insert(name);
  slices_.emplace(name, std::move(slice));
}

void DeviceBook::remove_slice(std::string_view name) {
  const auto it = slices_.find(name);
  if (it == slices_.end()) return;
  const auto drop = [&name](auto* index, const std::string& key) {
    const auto at = index->find(key);
    if (at == index->end()) return;
    at->second.erase(std::string(name));
    if (at->second.empty()) index->erase(at);
  };
  drop(&by_node_, it->second->node);
  drop(&by_pool_, it->second->pool);
  slices_.erase(it);
}

Result<Selector> DeviceBook::selector(const std::string& expression) const {
  const auto known = selectors_.find(expression);
  if (known != selectors_.end()) return known->second;
  auto made = kube::cel::Program::compile(expression, {"device"});
  if (!made.ok()) return made.error();
  if (selectors_.size() >= kMostSelectors) forget_selectors();
  return selectors_.emplace(expression, Selector{next_selector_++, *made}).first->second;
}

void DeviceBook::forget_selectors() const {
  selectors_.clear();
  for (const auto& [name, slice] : slices_) {
    for (const auto& device : slice->devices) device->verdicts.clear();
  }
}

void DeviceBook::set_class(const std::string& name, const Json& json) {
  DeviceClass out;
  const JsonArray* selectors = get_array(json, "spec.selectors");
  for (size_t i = 0; selectors != nullptr && i < selectors->size(); ++i) {
    auto made = selector(std::string(get_string((*selectors)[i], "cel.expression")));
    if (made.ok()) {
      out.selectors.push_back(std::move(*made));
    } else if (out.broken.empty()) {
      out.broken = fmt::format("class {}: selector #{}: CEL compile error: {}", name, i, made.error().message());
    }
  }
  const Json* config = kube::find_path(json, "spec.config");
  out.config = config != nullptr ? *config : Json(JsonArray());
  classes_.insert_or_assign(name, std::move(out));
}

void DeviceBook::remove_class(std::string_view name) {
  const auto it = classes_.find(name);
  if (it != classes_.end()) classes_.erase(it);
}

void DeviceBook::set_claim(const std::string& key, const Json& claim) {
  remove_claim(key);
  const JsonArray* results = get_array(claim, "status.allocation.devices.results");
  if (results == nullptr) return;
  std::vector<std::string>& devices = allocated_[key];
  for (const Json& r : *results) {
    if (get_bool(r, "adminAccess")) continue;
    devices.push_back(fmt::format("{}/{}/{}", get_string(r, "driver"), get_string(r, "pool"), get_string(r, "device")));
    ++in_use_[devices.back()];
  }
}

void DeviceBook::remove_claim(std::string_view key) {
  const auto it = allocated_.find(key);
  if (it == allocated_.end()) return;
  for (const std::string& device : it->second) {
    const auto used = in_use_.find(device);
    if (used != in_use_.end() && --used->second <= 0) in_use_.erase(used);
  }
  allocated_.erase(it);
}

void DeviceBook::add_pools(std::string_view node, std::vector<const DeviceOffer*>* out) const {
  const auto names = by_node_.find(node);
  if (names == by_node_.end()) return;
  for (const std::string& name : names->second) {
    const Slice& slice = *slices_.find(name)->second;
    int64_t newest = 0, there = 0;
    for (const std::string& other : by_pool_.find(slice.pool)->second) {
      const Slice& of_pool = *slices_.find(other)->second;
      if (of_pool.generation > newest) there = 0;
      newest = std::max(newest, of_pool.generation);
      there += of_pool.generation == newest ? 1 : 0;
    }
    if (slice.generation != newest || there != slice.count) continue;
    for (const auto& device : slice.devices) out->push_back(device.get());
  }
}

std::vector<const DeviceOffer*> DeviceBook::devices_on(std::string_view node) const {
  std::vector<const DeviceOffer*> out;
  add_pools(node, &out);
  if (!node.empty()) add_pools("", &out);
  return out;
}

bool DeviceBook::usable_on(const Json& claim, std::string_view node) {
  const JsonArray* terms = get_array(claim, "status.allocation.nodeSelector.nodeSelectorTerms");
  if (terms == nullptr) return true;
  for (const Json& term : *terms) {
    const JsonArray* fields = get_array(term, "matchFields");
    for (size_t i = 0; fields != nullptr && i < fields->size(); ++i) {
      const JsonArray* values = get_array((*fields)[i], "values");
      if (get_string((*fields)[i], "key") != "metadata.name" || values == nullptr) continue;
      if (std::any_of(values->begin(), values->end(),
                      [node](const Json& v) { return v.is_string() && std::string_view(v.get_string()) == node; }))
        return true;
    }
  }
  return false;
}

}  // namespace ghostfleet::controlplane::scheduling
