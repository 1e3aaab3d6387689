#include "agent/pod/pod_resources.h"

#include <algorithm>
#include <map>

#include "kube/api/quantity.h"

namespace ghostfleet::agent {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;
using kube::Quantity;

namespace {

using List = std::map<std::string, Quantity, std::less<>>;

bool read_quantity(const Json& value, Quantity* out) {
  if (value.is_int64()) {
    *out = Quantity::from_value(value.get_int64());
    return true;
  }
  if (!value.is_string()) return false;
  Result<Quantity> parsed = Quantity::parse(value.get_string());
  if (!parsed.ok()) return false;
  *out = parsed.value();
  return true;
}

List read_list(const Json& holder, std::string_view path) {
  List out;
  const JsonObject* object = kube::get_object(holder, path);
  if (object == nullptr) return out;
  for (const auto& [key, value] : *object) {
    Quantity q;
    if (read_quantity(value, &q)) out.emplace(key, q);
  }
  return out;
}

List requests_of(const Json& holder, std::string_view prefix) {
  List out = read_list(holder, std::string(prefix) + "requests");
  for (const auto& [key, q] : read_list(holder, std::string(prefix) + "limits")) out.emplace(key, q);
  return out;
}

void add(const List& from, List* to) {
  for (const auto& [key, q] : from) {
    const auto [at, fresh] = to->emplace(key, q);
    if (!fresh) at->second += q;
  }
}

void raise(const List& from, List* to) {
  for (const auto& [key, q] : from) {
    const auto [at, fresh] = to->emplace(key, q);
    if (!fresh && at->second < q) at->second = q;
  }
}

template <class Read>
List aggregate(const Json& pod, Read read) {
  List sum, sidecars, peak;
  if (const JsonArray* inits = kube::get_array(pod, "spec.initContainers")) {
    for (const Json& c : *inits) {
      if (kube::get_string(c, "restartPolicy") == "Always") {
        add(read(c), &sidecars);
        raise(sidecars, &peak);
      } else {
        List together = sidecars;
        add(read(c), &together);
        raise(together, &peak);
      }
    }
  }
  if (const JsonArray* regulars = kube::get_array(pod, "spec.containers")) {
    for (const Json& c : *regulars) add(read(c), &sum);
  }
  add(sidecars, &sum);
  raise(peak, &sum);
  return sum;
}

// Pod-level resources replace what the containers add up to.
void override_with(const List& own, List* list) {
  for (const auto& [key, q] : own) (*list)[key] = q;
}

List whole_requests(const Json& pod) {
  List list = aggregate(pod, [](const Json& c) { return requests_of(c, "resources."); });
  override_with(read_list(pod, "spec.resources.requests"), &list);
  // A limit stands in for a request that nobody makes.
  for (const auto& [key, q] : read_list(pod, "spec.resources.limits")) list.emplace(key, q);
  return list;
}

List whole_limits(const Json& pod) {
  List list = aggregate(pod, [](const Json& c) { return read_list(c, "resources.limits"); });
  override_with(read_list(pod, "spec.resources.limits"), &list);
  return list;
}

void append_list(const List& list, std::string* out) {
  *out += "{";
  bool first = true;
  for (const auto& [key, q] : list) {
    if (!first) *out += ",";
    first = false;
    kube::append_json_string(key, out);
    *out += ":";
    kube::append_json_string(q.to_string(), out);
  }
  *out += "}";
}

std::string render(const List& limits, const List& requests) {
  std::string out = "{";
  if (!limits.empty()) {
    out += "\"limits\":";
    append_list(limits, &out);
  }
  if (!requests.empty()) {
    out += out.size() > 1 ? ",\"requests\":" : "\"requests\":";
    append_list(requests, &out);
  }
  return out + "}";
}

int64_t to_amount(std::string_view resource, const Quantity& q) {
  return resource == "cpu" ? q.milli_value() : q.value();
}

}  // namespace

std::string render_running_resources(const Json& pod, const Json& container) {
  List limits = read_list(container, "resources.limits");
  List requests = requests_of(container, "resources.");
  const List whole = read_list(pod, "spec.resources.limits");
  if (!limits.empty()) {
    for (const auto& [key, q] : whole) {
      if (key == "cpu" || key == "memory") limits.emplace(key, q);
    }
    limits.emplace("memory", Quantity::from_value(0));
  }
  if (!requests.empty()) requests.emplace("memory", Quantity::from_value(0));
  return render(limits, requests);
}

std::string render_resources(const Json& container) {
  return render(read_list(container, "resources.limits"), requests_of(container, "resources."));
}

std::string render_requests(const Json& container) {
  const List list = requests_of(container, "resources.");
  std::string out;
  if (!list.empty()) append_list(list, &out);
  return out;
}

namespace {

List requests_with_overhead(const Json& pod) {
  List list = whole_requests(pod);
  add(read_list(pod, "spec.overhead"), &list);
  return list;
}

}  // namespace

Amounts pod_requests(const Json& pod) {
  const List list = requests_with_overhead(pod);
  Amounts out;
  for (const auto& [key, q] : list) out.emplace_back(key, std::max<int64_t>(to_amount(key, q), 0));
  return out;
}

std::string render_pod_allocated(const Json& pod) {
  const List list = requests_with_overhead(pod);
  std::string out;
  if (!list.empty()) append_list(list, &out);
  return out;
}

std::string render_pod_resources(const Json& pod) { return render(whole_limits(pod), whole_requests(pod)); }

Amount read_amount(const Json& holder, std::string_view path, std::string_view resource) {
  const Json* at = kube::find_path(holder, path);
  if (at != nullptr && !resource.empty()) at = kube::find_key(*at, resource);
  Quantity q;
  if (at == nullptr || !read_quantity(*at, &q) || q.sign() <= 0) return {};
  return {q.value(), q.to_string()};
}

Amount pod_limit(const Json& pod, std::string_view resource) {
  const List list = whole_limits(pod);
  const auto at = list.find(resource);
  if (at == list.end() || at->second.sign() <= 0) return {};
  return {at->second.value(), at->second.to_string()};
}

std::string_view qos_class(const Json& pod) {
  bool any = false, guaranteed = true;
  for (const std::string_view list : {"spec.initContainers", "spec.containers"}) {
    const JsonArray* containers = kube::get_array(pod, list);
    if (containers == nullptr) continue;
    for (const Json& c : *containers) {
      const List limits = read_list(c, "resources.limits"), requests = requests_of(c, "resources.");
      for (const std::string_view resource : {"cpu", "memory"}) {
        const auto limit = limits.find(resource), request = requests.find(resource);
        any |= request != requests.end() && !request->second.is_zero();
        guaranteed &= limit != limits.end() && !limit->second.is_zero() && request->second == limit->second;
      }
    }
  }
  return !any ? "BestEffort" : guaranteed ? "Guaranteed" : "Burstable";
}

int64_t amount_of(std::string_view resource, std::string_view quantity) {
  Result<Quantity> q = Quantity::parse(quantity);
  return q.ok() ? to_amount(resource, q.value()) : 0;
}

}  // namespace ghostfleet::agent
