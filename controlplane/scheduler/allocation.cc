// The search for devices: request after request, device after device, back when a constraint does not hold.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "controlplane/scheduler/devices.h"

namespace ghostfleet::controlplane::scheduling {

using kube::get_array;
using kube::get_bool;
using kube::get_int;
using kube::get_string;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;
using kube::cel::Value;

namespace {

bool is_tainted(const DeviceOffer& device, const Json& request) {
  if (device.taints.empty()) return false;
  const std::vector<Toleration> tolerations = read_tolerations(request);
  return std::any_of(device.taints.begin(), device.taints.end(), [&](const Taint& taint) {
    return (taint.effect == "NoSchedule" || taint.effect == "NoExecute") && !tolerated(tolerations, taint);
  });
}

const Value* attribute_of(const DeviceOffer& device, std::string_view name) {
  const size_t slash = name.find('/');
  const Value* domains = device.object.find("attributes");
  if (slash == std::string_view::npos || domains == nullptr) return nullptr;
  const Value* values = domains->find(name.substr(0, slash));
  return values == nullptr ? nullptr : values->find(name.substr(slash + 1));
}

}  // namespace

// One way to satisfy a request.
struct DeviceSearch::Way {
  std::string name;
  const Json* request = nullptr;
  const DeviceBook::DeviceClass* device_class = nullptr;
  std::string class_name;
  std::vector<Selector> selectors;
  bool all = false, admin = false;
  size_t count = 1;
};

struct DeviceSearch::Request {
  size_t claim = 0;
  std::string name;
  std::vector<Way> ways;  // the first that works is taken
};

struct DeviceSearch::Pick {
  size_t request = 0;
  const Way* way = nullptr;
  const DeviceOffer* device = nullptr;
};

DeviceSearch::DeviceSearch(const DeviceBook& book, const std::vector<const Json*>& claims)
    : book_(book), claims_(claims) {
  for (size_t i = 0; i < claims_.size() && broken_.empty(); ++i) broken_ = read_claim(i);
}

DeviceSearch::~DeviceSearch() = default;

DeviceBook::Outcome DeviceSearch::on(std::string_view node) {
  DeviceBook::Outcome out;
  out.error = broken_;
  if (!broken_.empty() || book_.free_on(node) < least_wanted()) return out;
  const auto pools = book_.devices_on(node);
  devices_.clear();
  for (const auto& pool : pools) {
    for (const DeviceOffer& device : *pool) devices_.push_back(&device);
  }
  picks_.clear();
  error_.clear();
  steps_ = 0;
  out.fits = next_request(0) && error_.empty();
  out.error = error_;
  for (size_t i = 0; out.fits && i < claims_.size(); ++i) out.allocations.push_back(allocation_of(i, node));
  return out;
}

int64_t DeviceSearch::least_wanted() const {
  int64_t sum = 0;
  for (const Request& request : requests_) {
    int64_t least = request.ways.empty() ? 0 : INT64_MAX;
    for (const Way& way : request.ways)
      least = std::min<int64_t>(least, way.admin ? 0 : way.all ? 1 : static_cast<int64_t>(way.count));
    sum += least;
  }
  return sum;
}

// ---- what is asked for

std::string DeviceSearch::read_claim(size_t claim) {
  const JsonArray* requests = get_array(*claims_[claim], "spec.devices.requests");
  for (size_t i = 0; requests != nullptr && i < requests->size(); ++i) {
    const Json& json = (*requests)[i];
    Request request{claim, std::string(get_string(json, "name")), {}};
    if (const Json* exactly = kube::find_key(json, "exactly")) {
      if (std::string bad = add_way(*exactly, request.name, &request); !bad.empty()) return bad;
    }
    const JsonArray* first = get_array(json, "firstAvailable");
    for (size_t k = 0; first != nullptr && k < first->size(); ++k) {
      const std::string name = fmt::format("{}/{}", request.name, get_string((*first)[k], "name"));
      if (std::string bad = add_way((*first)[k], name, &request); !bad.empty()) return bad;
    }
    requests_.push_back(std::move(request));
  }
  return {};
}

std::string DeviceSearch::add_way(const Json& json, const std::string& name, Request* request) {
  Way way;
  way.name = name;
  way.request = &json;
  way.class_name = get_string(json, "deviceClassName");
  const auto found = book_.classes_.find(way.class_name);
  if (found == book_.classes_.end())
    return fmt::format("request {}: device class {} does not exist", name, way.class_name);
  if (!found->second.broken.empty()) return found->second.broken;
  way.device_class = &found->second;
  way.all = get_string(json, "allocationMode") == "All";
  way.admin = get_bool(json, "adminAccess");
  way.count = static_cast<size_t>(std::clamp<int64_t>(get_int(json, "count", 1), 1, 1000));
  const JsonArray* selectors = get_array(json, "selectors");
  for (size_t i = 0; selectors != nullptr && i < selectors->size(); ++i) {
    auto selector = book_.selector(std::string(get_string((*selectors)[i], "cel.expression")));
    if (!selector.ok()) {
      return fmt::format("claim {}: request {}: selector #{}: CEL compile error: {}", name_of(request->claim), name, i,
                         selector.error().message());
    }
    way.selectors.push_back(std::move(*selector));
  }
  request->ways.push_back(std::move(way));
  return {};
}

std::string DeviceSearch::name_of(size_t claim) const {
  return fmt::format("{}/{}", get_string(*claims_[claim], "metadata.namespace"),
                     get_string(*claims_[claim], "metadata.name"));
}

// ---- which devices would do

bool DeviceSearch::holds(const Selector& selector, const DeviceOffer& device, const std::string& request) {
  const auto known = device.verdicts.find(selector.id);
  if (known != device.verdicts.end()) return known->second;
  const auto result = selector.program->test({{"device", device.object}});
  if (!result.ok()) {
    if (error_.empty())
      error_ =
          fmt::format("request {}: device {}: CEL runtime error: {}", request, device.id(), result.error().message());
    return false;
  }
  device.verdicts.emplace(selector.id, *result);
  return *result;
}

bool DeviceSearch::is_wanted(const Way& way, const DeviceOffer& device) {
  const auto test = [&](const Selector& selector) { return holds(selector, device, way.name); };
  return std::all_of(way.device_class->selectors.begin(), way.device_class->selectors.end(), test) &&
         std::all_of(way.selectors.begin(), way.selectors.end(), test);
}

bool DeviceSearch::is_free(const Way& way, const DeviceOffer& device) const {
  if (way.admin) return true;
  if (book_.in_use_.count(device.id()) != 0) return false;
  return std::none_of(picks_.begin(), picks_.end(),
                      [&](const Pick& p) { return p.device == &device && !p.way->admin; });
}

// Each constraint of the claim must hold among the devices of the requests it names.
bool DeviceSearch::constraints_hold(size_t claim) const {
  const JsonArray* constraints = get_array(*claims_[claim], "spec.devices.constraints");
  return constraints == nullptr || std::all_of(constraints->begin(), constraints->end(),
                                               [&](const Json& c) { return constraint_holds(claim, c); });
}

bool DeviceSearch::concerns(const Json& constraint, const Pick& pick, const Request& request) {
  const JsonArray* names = get_array(constraint, "requests");
  if (names == nullptr || names->empty()) return true;
  return std::any_of(names->begin(), names->end(), [&](const Json& n) {
    const std::string_view name = n.is_string() ? std::string_view(n.get_string()) : std::string_view();
    return name == request.name || name == pick.way->name;
  });
}

bool DeviceSearch::constraint_holds(size_t claim, const Json& constraint) const {
  const std::string_view match = get_string(constraint, "matchAttribute");
  const std::string_view distinct = get_string(constraint, "distinctAttribute");
  std::vector<const Value*> seen;
  for (const Pick& pick : picks_) {
    const Request& request = requests_[pick.request];
    if (request.claim != claim || !concerns(constraint, pick, request)) continue;
    const Value* value = attribute_of(*pick.device, match.empty() ? distinct : match);
    if (value == nullptr) return false;
    const auto same = [value](const Value* other) { return kube::cel::equals(*value, *other); };
    if (!match.empty() && !seen.empty() && !same(seen.front())) return false;
    if (!distinct.empty() && std::any_of(seen.begin(), seen.end(), same)) return false;
    seen.push_back(value);
  }
  return true;
}

// ---- the search

bool DeviceSearch::next_request(size_t request) {
  if (request == requests_.size()) return true;
  for (const Way& way : requests_[request].ways) {
    if (way.all ? take_all(request, way) : take_some(request, way, 0, 0)) return true;
    if (!error_.empty()) return false;
  }
  return false;
}

bool DeviceSearch::too_long() {
  if (++steps_ <= DeviceBook::kMostSteps) return false;
  if (error_.empty()) error_ = "the search for devices was given up: too many combinations";
  return true;
}

bool DeviceSearch::take_all(size_t request, const Way& way) {
  const size_t before = picks_.size();
  bool ok = true;
  for (const DeviceOffer* device : devices_) {
    if (!is_wanted(way, *device)) continue;
    ok &= is_free(way, *device) && !is_tainted(*device, *way.request);
    if (!ok) break;
    picks_.push_back({request, &way, device});
  }
  ok &= picks_.size() > before && picks_.size() - before <= DeviceBook::kMostDevices;
  if (ok && constraints_hold(requests_[request].claim) && next_request(request + 1)) return true;
  picks_.resize(before);
  return false;
}

// `taken` of the way's count are there; those before `from` have been tried.
bool DeviceSearch::take_some(size_t request, const Way& way, size_t taken, size_t from) {
  if (taken == way.count) return next_request(request + 1);
  for (size_t i = from; i < devices_.size(); ++i) {
    if (too_long()) return false;
    const DeviceOffer& device = *devices_[i];
    if (!is_free(way, device) || is_tainted(device, *way.request) || !is_wanted(way, device)) continue;
    picks_.push_back({request, &way, &device});
    if (constraints_hold(requests_[request].claim) && take_some(request, way, taken + 1, i + 1)) return true;
    picks_.pop_back();
    if (!error_.empty()) return false;
  }
  return false;
}

// ---- what comes of it

Json DeviceSearch::allocation_of(size_t claim, std::string_view node) const {
  JsonArray results;
  JsonArray config;
  for (const Pick& pick : picks_) {
    if (requests_[pick.request].claim == claim) results.push_back(result_of(pick));
  }
  add_configs(claim, &config);
  JsonObject devices{{"results", std::move(results)}};
  if (!config.empty()) devices["config"] = std::move(config);
  Json out = JsonObject{{"devices", std::move(devices)}};
  const auto local = [&](const Pick& pick) { return requests_[pick.request].claim == claim && pick.device->local; };
  if (std::any_of(picks_.begin(), picks_.end(), local)) {
    JsonObject field{{"key", "metadata.name"}, {"operator", "In"}, {"values", JsonArray{Json(node)}}};
    JsonObject term{{"matchFields", JsonArray{Json(std::move(field))}}};
    out.get_object()["nodeSelector"] = JsonObject{{"nodeSelectorTerms", JsonArray{Json(std::move(term))}}};
  }
  return out;
}

Json DeviceSearch::result_of(const Pick& pick) {
  JsonObject r{{"request", pick.way->name},
               {"driver", pick.device->driver},
               {"pool", pick.device->pool},
               {"device", pick.device->name}};
  if (pick.way->admin) r["adminAccess"] = true;
  if (const Json* tolerations = kube::find_key(*pick.way->request, "tolerations")) r["tolerations"] = *tolerations;
  return r;
}

// Of the classes first, then of the claim, so that the latter wins.
void DeviceSearch::add_configs(size_t claim, JsonArray* out) const {
  const Way* last = nullptr;
  for (const Pick& pick : picks_) {
    if (requests_[pick.request].claim != claim || pick.way == last) continue;
    last = pick.way;
    if (!last->device_class->config.is_array()) continue;
    for (const Json& entry : last->device_class->config.get_array()) {
      JsonObject made{{"source", "FromClass"}, {"requests", JsonArray{Json(last->name)}}};
      for (const auto& [key, value] : entry.get_object()) made[key] = value;
      out->push_back(std::move(made));
    }
  }
  const JsonArray* own = get_array(*claims_[claim], "spec.devices.config");
  for (size_t i = 0; own != nullptr && i < own->size(); ++i) {
    JsonObject made{{"source", "FromClaim"}};
    for (const auto& [key, value] : (*own)[i].get_object()) made[key] = value;
    out->push_back(std::move(made));
  }
}

}  // namespace ghostfleet::controlplane::scheduling
