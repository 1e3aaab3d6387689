#include "controlplane/controllers/endpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace ghostfleet::controlplane::controllers {

using kube::get_array;
using kube::get_int;
using kube::get_string;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {
constexpr const char* kSliceName = "endpointslice-controller.k8s.io";
constexpr const char* kServiceLabel = "kubernetes.io/service-name";
constexpr const char* kManagedBy = "endpointslice.kubernetes.io/managed-by";
constexpr Duration kGather = std::chrono::milliseconds(200);
constexpr size_t kPerSlice = 100, kPerEndpoints = 1000;

kube::LabelSelector service_selector(const Json& service) {
  if (get_string(service, "spec.type") == "ExternalName") return kube::LabelSelector::nothing();
  return selector_from_map(kube::get_object(service, "spec.selector"));
}

// Wakes a service (or budget) when a pod it selects changes in a way that shows.
void follow_pods(Context& context, const SelectorIndex& index, WorkQueue* queue) {
  context.pods().subscribe([&index, queue](const PodInfo* old, const PodInfo* now) {
    if (old != nullptr && now != nullptr && old->ready == now->ready && old->ip == now->ip && old->node == now->node &&
        old->deleting == now->deleting && old->phase == now->phase && old->object->labels == now->object->labels) {
      return;
    }
    for (const PodInfo* pod : {old, now}) {
      if (pod == nullptr) continue;
      for (const std::string& key : index.matching(*pod->object)) queue->add_after(key, kGather);
      if (old != nullptr && now != nullptr && old->object->labels == now->object->labels) break;
    }
  });
}

std::vector<const PodInfo*> selected(Context& context, std::string_view ns, const kube::LabelSelector& selector) {
  std::vector<const PodInfo*> pods;
  for (const PodInfo* pod : context.pods().in_namespace(ns)) {
    if (matches(selector, *pod->object)) pods.push_back(pod);
  }
  std::sort(pods.begin(), pods.end(),
            [](const PodInfo* a, const PodInfo* b) { return a->object->key < b->object->key; });
  return pods;
}

JsonObject target_ref(const PodInfo& pod) {
  return JsonObject{{"kind", "Pod"}, {"namespace", pod.ns()}, {"name", pod.name()}, {"uid", pod.uid}};
}

int64_t named_port(const Json& pod, std::string_view name, std::string_view protocol) {
  const JsonArray* containers = get_array(pod, "spec.containers");
  if (containers == nullptr) return 0;
  for (const Json& c : *containers) {
    const JsonArray* ports = get_array(c, "ports");
    if (ports == nullptr) continue;
    for (const Json& p : *ports) {
      const std::string_view have = get_string(p, "protocol");
      if (get_string(p, "name") == name && (have.empty() ? "TCP" : have) == protocol)
        return get_int(p, "containerPort");
    }
  }
  return 0;
}

bool has_named_ports(const Json& service) {
  const JsonArray* ports = get_array(service, "spec.ports");
  return ports != nullptr && std::any_of(ports->begin(), ports->end(), [](const Json& p) {
           const Json* target = kube::find_key(p, "targetPort");
           return target != nullptr && target->is_string();
         });
}

SyncResult outcome(bool ok) { return ok ? SyncResult::done() : SyncResult::retry(); }

}  // namespace

JsonArray endpoint_ports(const Json& service, const Json* pod) {
  JsonArray out;
  const JsonArray* ports = get_array(service, "spec.ports");
  if (ports == nullptr) return out;
  for (const Json& p : *ports) {
    const std::string protocol(get_string(p, "protocol").empty() ? "TCP" : get_string(p, "protocol"));
    const Json* target = kube::find_key(p, "targetPort");
    int64_t port = get_int(p, "port");
    if (target != nullptr && target->is_int64() && target->get_int64() != 0) port = target->get_int64();
    if (target != nullptr && target->is_string()) {
      port = pod == nullptr ? 0 : named_port(*pod, std::string_view(target->get_string()), protocol);
      if (port == 0) continue;
    }
    JsonObject o{{"name", get_string(p, "name")}, {"port", port}, {"protocol", protocol}};
    if (const auto app = get_string(p, "appProtocol"); !app.empty()) o["appProtocol"] = app;
    out.push_back(std::move(o));
  }
  return out;
}

EndpointSliceController::EndpointSliceController(Context& context)
    : context_(context),
      services_(*context.find("", "v1", "services")),
      slices_(*context.find("discovery.k8s.io", "v1", "endpointslices")),
      selectors_(context.watch(services_), service_selector),
      queue_(context.loop(), [this](const std::string& key) { return sync(key); }) {
  (void)context.nodes();
  (void)context.watch(slices_);
}

void EndpointSliceController::start() {
  queue_.hold(true);
  context_.watch(services_).subscribe(
      [this](const ObjectRef& old, const ObjectRef& now) { queue_.add((now ? now : old)->key); });
  follow_pods(context_, selectors_, &queue_);
  context_.when_synced([this] { queue_.hold(false); });
}

// Pods grouped by their ports, cut into slices of at most 100 endpoints.
std::vector<Json> EndpointSliceController::wanted_slices(const Json& service) {
  const bool named = has_named_ports(service);
  const bool publish_all = kube::get_bool(service, "spec.publishNotReadyAddresses");
  std::map<std::string, std::pair<JsonArray, std::vector<JsonObject>>> groups;
  for (const PodInfo* pod : selected(context_, get_string(service, "metadata.namespace"), service_selector(service))) {
    if (pod->ip.empty() || pod->finished()) continue;
    JsonArray ports;
    if (named) {
      const Json object = parse_object(pod->object);
      ports = endpoint_ports(service, &object);
    } else {
      ports = endpoint_ports(service, nullptr);
    }
    JsonObject e;
    e["addresses"] = JsonArray{Json(pod->ip)};
    e["conditions"] = JsonObject{{"ready", publish_all || (pod->ready && !pod->deleting)},
                                 {"serving", publish_all || pod->ready},
                                 {"terminating", pod->deleting}};
    e["targetRef"] = target_ref(*pod);
    e["nodeName"] = pod->node;
    if (const NodeInfo* node = context_.nodes().find(pod->node)) {
      if (const std::string* zone = label_of(*node->object, "topology.kubernetes.io/zone")) e["zone"] = *zone;
    }
    auto& group = groups[kube::to_json(ports)];
    group.first = std::move(ports);
    group.second.push_back(std::move(e));
  }
  if (groups.empty()) groups[""] = {named ? JsonArray{} : endpoint_ports(service, nullptr), {}};
  std::vector<Json> slices;
  const std::string name(get_string(service, "metadata.name"));
  for (auto& [text, group] : groups) {
    for (size_t from = 0; from == 0 || from < group.second.size(); from += kPerSlice) {
      Json slice = JsonObject{{"apiVersion", "discovery.k8s.io/v1"}, {"kind", "EndpointSlice"}};
      kube::set_path(slice, "metadata.generateName", Json(name + "-"));
      kube::set_path(slice, "metadata.ownerReferences", JsonArray{controller_ref_to(service)});
      if (const JsonObject* labels = kube::get_object(service, "metadata.labels")) {
        kube::set_path(slice, "metadata.labels", *labels);
      }
      set_label(slice, kServiceLabel, name);
      set_label(slice, kManagedBy, kSliceName);
      if (get_string(service, "spec.clusterIP") == "None") set_label(slice, "service.kubernetes.io/headless", "");
      const std::string_view ip = get_string(service, "spec.clusterIP");
      kube::set_path(slice, "addressType", ip.find(':') == std::string_view::npos ? "IPv4" : "IPv6");
      JsonArray endpoints;
      for (size_t i = from; i < std::min(from + kPerSlice, group.second.size()); ++i) {
        endpoints.push_back(group.second[i]);
      }
      kube::set_path(slice, "endpoints", std::move(endpoints));
      kube::set_path(slice, "ports", group.first);
      slices.push_back(std::move(slice));
    }
  }
  return slices;
}

SyncResult EndpointSliceController::sync(const std::string& key) {
  const ObjectRef object = context_.watch(services_).get(key);
  if (!object) return SyncResult::done();  // the garbage collector takes the slices
  const Json service = parse_object(object);
  const JsonObject* selector = kube::get_object(service, "spec.selector");
  if (is_deleting(service) || selector == nullptr || selector->empty()) return SyncResult::done();
  const std::string ns(object->ns());
  std::vector<ObjectRef> existing;
  for (const auto& [slice_key, slice] : context_.watch(slices_).objects()) {
    const std::string* owner = label_of(*slice, kServiceLabel);
    const std::string* by = label_of(*slice, kManagedBy);
    if (slice->ns() == ns && owner != nullptr && *owner == object->name() && by != nullptr && *by == kSliceName) {
      existing.push_back(slice);
    }
  }
  std::sort(existing.begin(), existing.end(), [](const ObjectRef& a, const ObjectRef& b) { return a->key < b->key; });
  std::vector<Json> wanted = wanted_slices(service);
  bool ok = true;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (i >= existing.size()) {
      const auto made = context_.create(kSliceName, slices_, ns, std::move(wanted[i]));
      ok &= made.ok() || is_moot(made.error());
      continue;
    }
    const auto done =
        context_.modify(kSliceName, slices_, ns, existing[i]->name(), "", [&](Json& live) -> kube::ApiResult<bool> {
          bool changed = false;
          for (const char* field : {"endpoints", "ports"}) {
            const Json* have = kube::find_key(live, field);
            const Json* want = kube::find_key(wanted[i], field);
            const bool none = want->get_array().empty() && (have == nullptr || have->is_null());
            if (none || (have != nullptr && kube::json_equal(*have, *want))) continue;
            live.get_object()[field] = *want;
            changed = true;
          }
          return changed;
        });
    ok &= done.ok() || is_moot(done.error());
  }
  for (size_t i = wanted.size(); i < existing.size(); ++i) {
    const std::string name(existing[i]->name());
    (void)context_.remove(kSliceName, slices_, ns, name, {});
  }
  return outcome(ok);
}

EndpointsController::EndpointsController(Context& context)
    : context_(context),
      services_(*context.find("", "v1", "services")),
      endpoints_(*context.find("", "v1", "endpoints")),
      selectors_(context.watch(services_), service_selector),
      queue_(context.loop(), [this](const std::string& key) { return sync(key); }) {}

void EndpointsController::start() {
  queue_.hold(true);
  context_.watch(services_).subscribe(
      [this](const ObjectRef& old, const ObjectRef& now) { queue_.add((now ? now : old)->key); });
  follow_pods(context_, selectors_, &queue_);
  context_.when_synced([this] { queue_.hold(false); });
}

SyncResult EndpointsController::sync(const std::string& key) {
  constexpr const char* kComponent = "endpoint-controller";
  const auto [ns, name] = split_key(key);
  const ObjectRef object = context_.watch(services_).get(key);
  if (!object) {
    (void)context_.remove(kComponent, endpoints_, ns, name, {});
    return SyncResult::done();
  }
  const Json service = parse_object(object);
  const JsonObject* selector = kube::get_object(service, "spec.selector");
  if (is_deleting(service) || selector == nullptr || selector->empty()) return SyncResult::done();
  JsonArray ready, not_ready;
  const Json* sample = nullptr;
  Json sample_pod;
  for (const PodInfo* pod : selected(context_, ns, service_selector(service))) {
    if (pod->ip.empty() || pod->finished() || pod->deleting || ready.size() + not_ready.size() >= kPerEndpoints)
      continue;
    if (sample == nullptr) {
      sample_pod = parse_object(pod->object);
      sample = &sample_pod;
    }
    JsonObject address{{"ip", pod->ip}, {"nodeName", pod->node}, {"targetRef", target_ref(*pod)}};
    const bool up = pod->ready || kube::get_bool(service, "spec.publishNotReadyAddresses");
    (up ? ready : not_ready).push_back(std::move(address));
  }
  JsonArray subsets;
  if (!ready.empty() || !not_ready.empty()) {
    JsonObject subset;
    if (!ready.empty()) subset["addresses"] = std::move(ready);
    if (!not_ready.empty()) subset["notReadyAddresses"] = std::move(not_ready);
    JsonArray ports = endpoint_ports(service, sample);
    if (!ports.empty()) subset["ports"] = std::move(ports);
    subsets.push_back(std::move(subset));
  }
  if (!context_.store().get(endpoints_.store_kind, key)) {
    Json endpoints = JsonObject{{"apiVersion", "v1"}, {"kind", "Endpoints"}};
    kube::set_path(endpoints, "metadata.name", Json(name));
    if (const JsonObject* labels = kube::get_object(service, "metadata.labels")) {
      kube::set_path(endpoints, "metadata.labels", *labels);
    }
    if (!subsets.empty()) endpoints.get_object()["subsets"] = std::move(subsets);
    const auto made = context_.create(kComponent, endpoints_, ns, std::move(endpoints));
    return outcome(made.ok() || is_moot(made.error()));
  }
  const auto done = context_.modify(kComponent, endpoints_, ns, name, "", [&](Json& live) -> kube::ApiResult<bool> {
    const Json* have = kube::find_key(live, "subsets");
    if (have == nullptr || have->is_null() ? subsets.empty() : kube::json_equal(*have, Json(subsets))) return false;
    live.get_object()["subsets"] = subsets;
    return true;
  });
  return outcome(done.ok() || is_moot(done.error()));
}

BudgetCounts budget_counts(const Json& budget, int64_t expected, int64_t pods, int64_t healthy) {
  BudgetCounts counts;
  const Json* max_unavailable = kube::find_path(budget, "spec.maxUnavailable");
  const Json* min_available = kube::find_path(budget, "spec.minAvailable");
  if (max_unavailable != nullptr && !max_unavailable->is_null()) {
    counts.expected = expected;
    counts.desired = std::max<int64_t>(0, expected - int_or_percent(max_unavailable, expected, true, 0));
  } else if (min_available != nullptr && min_available->is_int64()) {
    counts.expected = pods;
    counts.desired = min_available->get_int64();
  } else {
    counts.expected = expected;
    counts.desired = int_or_percent(min_available, expected, true, 1);
  }
  counts.healthy = healthy;
  counts.allowed = counts.expected <= 0 ? 0 : std::max<int64_t>(0, healthy - counts.desired);
  return counts;
}

DisruptionController::DisruptionController(Context& context)
    : context_(context),
      budgets_(*context.find("policy", "v1", "poddisruptionbudgets")),
      selectors_(context.watch(budgets_),
                 [](const Json& o) { return selector_of(kube::find_path(o, "spec.selector")); }),
      queue_(context.loop(), [this](const std::string& key) { return sync(key); }) {}

void DisruptionController::start() {
  queue_.hold(true);
  context_.watch(budgets_).subscribe(
      [this](const ObjectRef& old, const ObjectRef& now) { queue_.add((now ? now : old)->key); });
  context_.pods().subscribe([this](const PodInfo* old, const PodInfo* now) {
    for (const PodInfo* pod : {old, now}) {
      if (pod == nullptr) continue;
      for (const std::string& key : selectors_.matching(*pod->object))
        queue_.add_after(key, std::chrono::milliseconds(20));
    }
  });
  context_.when_synced([this] { queue_.hold(false); });
}

// The scale of the pods' controllers (a ReplicaSet's Deployment counts for it); pods without one count themselves.
int64_t DisruptionController::expected_pods(const std::vector<const PodInfo*>& pods) {
  std::set<std::string> seen;
  int64_t total = 0;
  for (const PodInfo* pod : pods) {
    if (pod->owner_uid.empty()) {
      ++total;
      continue;
    }
    const char* group = pod->owner_kind == "ReplicationController" ? "" : "apps";
    std::string plural = pod->owner_kind == "ReplicaSet"    ? "replicasets"
                         : pod->owner_kind == "StatefulSet" ? "statefulsets"
                                                            : "replicationcontrollers";
    const Resource* r = context_.find(group, "v1", plural);
    ObjectRef owner = r == nullptr ? nullptr : context_.store().get(r->store_kind, key_of(pod->ns(), pod->owner_name));
    if (!owner) {
      ++total;
      continue;
    }
    Json object = parse_object(owner);
    if (const auto parent = controller_of(object); parent && parent->kind == "Deployment") {
      const Resource* deployments = context_.find("apps", "v1", "deployments");
      const ObjectRef d = context_.store().get(deployments->store_kind, key_of(pod->ns(), parent->name));
      if (d) object = parse_object(d);
    }
    if (seen.insert(std::string(get_string(object, "metadata.uid"))).second)
      total += get_int(object, "spec.replicas", 1);
  }
  return total;
}

SyncResult DisruptionController::sync(const std::string& key) {
  const ObjectRef object = context_.watch(budgets_).get(key);
  if (!object) return SyncResult::done();
  const Json budget = parse_object(object);
  const WallTime now = context_.now();
  const auto [ns, name] = split_key(key);
  const std::vector<const PodInfo*> pods =
      selected(context_, ns, selector_of(kube::find_path(budget, "spec.selector")));
  std::set<std::string> evicted;  // by the API, not yet seen to go
  JsonObject still;
  if (const JsonObject* disrupted = kube::get_object(budget, "status.disruptedPods")) {
    for (const auto& [pod, when] : *disrupted) {
      WallTime t;
      const PodInfo* info = context_.pods().find(key_of(ns, pod));
      if (info == nullptr || info->deleting || !when.is_string()) continue;
      if (!parse_time(std::string_view(when.get_string()), &t) || now - t > std::chrono::minutes(2)) continue;
      evicted.insert(std::string(pod));
      still[pod] = when;
    }
  }
  int64_t healthy = 0, count = 0;
  std::vector<const PodInfo*> counted;
  for (const PodInfo* pod : pods) {
    if (pod->finished()) continue;
    ++count;
    counted.push_back(pod);
    if (!pod->deleting && pod->ready && !evicted.contains(std::string(pod->name()))) ++healthy;
  }
  const BudgetCounts counts = budget_counts(budget, expected_pods(counted), count, healthy);
  const auto done =
      context_.modify("disruption-controller", budgets_, ns, name, "status", [&](Json& live) -> kube::ApiResult<bool> {
        kube::ensure_object(live, "status");
        const std::string before = kube::to_json(*kube::find_key(live, "status"));
        kube::set_path(live, "status.observedGeneration", get_int(budget, "metadata.generation"));
        if (still.empty()) {
          kube::erase_path(live, "status.disruptedPods");
        } else {
          kube::set_path(live, "status.disruptedPods", still);
        }
        kube::set_path(live, "status.disruptionsAllowed", counts.allowed);
        kube::set_path(live, "status.currentHealthy", counts.healthy);
        kube::set_path(live, "status.desiredHealthy", counts.desired);
        kube::set_path(live, "status.expectedPods", counts.expected);
        set_condition(live, "DisruptionAllowed", counts.allowed > 0 ? "True" : "False",
                      counts.allowed > 0 ? "SufficientPods" : "InsufficientPods", "", now);
        return kube::to_json(*kube::find_key(live, "status")) != before;
      });
  if (!done.ok() && !is_moot(done.error())) return SyncResult::retry();
  return still.empty() ? SyncResult::done() : SyncResult::again(std::chrono::minutes(2));
}

}  // namespace ghostfleet::controlplane::controllers
