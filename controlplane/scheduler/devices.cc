#include "controlplane/scheduler/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "controlplane/apiserver/json_scan.h"
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

std::vector<Taint> taints_of(const Json& device) {
  std::vector<Taint> out;
  const JsonArray* list = get_array(device, "taints");
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const Json& taint = (*list)[i];
    out.push_back({std::string(get_string(taint, "key")), std::string(get_string(taint, "value")),
                   std::string(get_string(taint, "effect"))});
  }
  return out;
}

// Of a raw JSON array.
size_t count_items(std::string_view array) {
  if (array.size() < 2 || array[1] == ']') return 0;
  size_t items = 0;
  for (size_t at = 1; at < array.size(); ++items) {
    at = skip_json_value(array, at);
    if (at == std::string_view::npos) return items;
    ++at;  // the comma, or the end
  }
  return items;
}

// DRIVER/POOL of DRIVER/POOL/DEVICE.
std::string pool_of(const std::string& device) { return device.substr(0, device.rfind('/')); }

void drop_one(const std::string& key, std::unordered_map<std::string, int>* counts) {
  const auto at = counts->find(key);
  if (at != counts->end() && --at->second <= 0) counts->erase(at);
}

}  // namespace

void DeviceBook::set_slice(const std::string& name, std::shared_ptr<const std::string> json) {
  remove_slice(name);
  const std::string_view spec = json_member(*json, "spec");
  const auto number = [&spec](std::string_view path) -> int64_t {
    const std::string text = json_text(json_at_path(spec, path));
    return text.empty() ? 0 : std::strtoll(text.c_str(), nullptr, 10);
  };
  Slice slice;
  slice.node = json_text(json_member(spec, "nodeName"));
  if (slice.node.empty() && json_member(spec, "allNodes") != "true") return;
  slice.pool = json_text(json_member(spec, "driver")) + "/" + json_text(json_at_path(spec, "pool.name"));
  slice.generation = number("pool.generation");
  slice.count = number("pool.resourceSliceCount");
  slice.size = count_items(json_member(spec, "devices"));
  slice.json = std::move(json);
  by_node_[slice.node].insert(name);
  by_pool_[slice.pool].insert(name);
  slices_.emplace(name, std::move(slice));
}

std::shared_ptr<const DeviceBook::Devices> DeviceBook::read(Slice& slice) const {
  if (slice.devices != nullptr) return slice.devices;
  if (read_ >= kMostRead) forget_devices();
  auto devices = std::make_shared<Devices>();
  const auto json = kube::parse_json(*slice.json);
  const JsonArray* list = json.ok() ? get_array(*json, "spec.devices") : nullptr;
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    DeviceOffer device;
    device.local = !slice.node.empty();
    device.driver = get_string(*json, "spec.driver");
    device.pool = get_string(*json, "spec.pool.name");
    device.name = get_string((*list)[i], "name");
    device.object = device_object((*list)[i], device.driver);
    device.taints = taints_of((*list)[i]);
    devices->push_back(std::move(device));
  }
  ++read_;
  slice.devices = std::move(devices);
  return slice.devices;
}

void DeviceBook::forget_devices() const {
  for (auto& [name, slice] : slices_) slice.devices.reset();
  read_ = 0;
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
  drop(&by_node_, it->second.node);
  drop(&by_pool_, it->second.pool);
  if (it->second.devices != nullptr) --read_;
  slices_.erase(it);
}

Result<Selector> DeviceBook::selector(const std::string& expression) const {
  const auto known = selectors_.find(expression);
  if (known != selectors_.end()) return known->second;
  auto made = kube::cel::Program::compile(expression, {"device"});
  if (!made.ok()) return made.error();
  if (selectors_.size() >= kMostSelectors) {
    selectors_.clear();
    forget_devices();
  }
  return selectors_.emplace(expression, Selector{next_selector_++, *made}).first->second;
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
  out.resource = get_string(json, "spec.extendedResourceName");
  classes_.insert_or_assign(name, std::move(out));
}

std::string DeviceBook::class_for(std::string_view resource) const {
  constexpr std::string_view kByClass = "deviceclass.resource.kubernetes.io/";
  if (resource.starts_with(kByClass)) {
    const auto named = classes_.find(resource.substr(kByClass.size()));
    return named == classes_.end() ? std::string() : named->first;
  }
  const auto at = std::find_if(classes_.begin(), classes_.end(),
                               [resource](const auto& c) { return c.second.resource == resource; });
  return at == classes_.end() ? std::string() : at->first;
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
    ++in_use_of_pool_[pool_of(devices.back())];
  }
}

void DeviceBook::remove_claim(std::string_view key) {
  const auto it = allocated_.find(key);
  if (it == allocated_.end()) return;
  for (const std::string& device : it->second) {
    drop_one(device, &in_use_);
    drop_one(pool_of(device), &in_use_of_pool_);
  }
  allocated_.erase(it);
}

void DeviceBook::add_pools(std::string_view node, std::vector<std::shared_ptr<const Devices>>* out) const {
  const auto names = by_node_.find(node);
  if (names == by_node_.end()) return;
  for (const std::string& name : names->second) {
    Slice& slice = slices_.find(name)->second;
    int64_t newest = 0, there = 0;
    for (const std::string& other : by_pool_.find(slice.pool)->second) {
      const Slice& of_pool = slices_.find(other)->second;
      if (of_pool.generation > newest) there = 0;
      newest = std::max(newest, of_pool.generation);
      there += of_pool.generation == newest ? 1 : 0;
    }
    if (slice.generation == newest && there == slice.count) out->push_back(read(slice));
  }
}

std::vector<std::shared_ptr<const DeviceBook::Devices>> DeviceBook::devices_on(std::string_view node) const {
  std::vector<std::shared_ptr<const Devices>> out;
  add_pools(node, &out);
  if (!node.empty()) add_pools("", &out);
  return out;
}

int64_t DeviceBook::free_in(std::string_view node) const {
  const auto names = by_node_.find(node);
  if (names == by_node_.end()) return 0;
  int64_t free = 0;
  std::set<std::string_view> pools;
  for (const std::string& name : names->second) {
    const Slice& slice = slices_.find(name)->second;
    free += static_cast<int64_t>(slice.size);
    const auto used = in_use_of_pool_.find(slice.pool);
    if (pools.insert(slice.pool).second && used != in_use_of_pool_.end()) free -= used->second;
  }
  return std::max<int64_t>(free, 0);
}

int64_t DeviceBook::free_on(std::string_view node) const { return free_in(node) + free_in(""); }

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
