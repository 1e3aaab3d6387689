#include "controlplane/scheduler/requirements.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "kube/api/quantity.h"

namespace ghostfleet::controlplane::scheduling {

using kube::get_array;
using kube::get_int;
using kube::get_object;
using kube::get_string;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

const std::string* find_label(const Labels& labels, std::string_view key) {
  for (const auto& [k, v] : labels) {
    if (k == key) return &v;
  }
  return nullptr;
}

ResourceNames::ResourceNames() {
  for (const char* name : {"cpu", "memory", "ephemeral-storage", "pods"}) id(name);
}

int ResourceNames::id(std::string_view name) {
  const auto [it, fresh] = ids_.try_emplace(std::string(name), static_cast<int>(names_.size()));
  if (fresh) names_.emplace_back(name);
  return it->second;
}

bool Toleration::tolerates(const Taint& taint) const {
  if (!effect.empty() && effect != taint.effect) return false;
  if (!key.empty() && key != taint.key) return false;
  if (op == "Exists") return true;
  return (op.empty() || op == "Equal") && !key.empty() && value == taint.value;
}

std::vector<Toleration> read_tolerations(const Json& owner) {
  std::vector<Toleration> out;
  const JsonArray* list = get_array(owner, "tolerations");
  if (list == nullptr) return out;
  for (const Json& t : *list) {
    out.push_back({std::string(get_string(t, "key")), std::string(get_string(t, "operator")),
                   std::string(get_string(t, "value")), std::string(get_string(t, "effect"))});
  }
  return out;
}

bool tolerated(const std::vector<Toleration>& tolerations, const Taint& taint) {
  return std::any_of(tolerations.begin(), tolerations.end(),
                     [&](const Toleration& toleration) { return toleration.tolerates(taint); });
}

bool NodeRequirement::meets(const std::string* value) const {
  const auto holds = [&] { return std::find(values.begin(), values.end(), *value) != values.end(); };
  if (op == "In") return value != nullptr && holds();
  if (op == "NotIn") return value == nullptr || !holds();
  if (op == "Exists") return value != nullptr;
  if (op == "DoesNotExist") return value == nullptr;
  if (value == nullptr || values.size() != 1) return false;
  int64_t have = 0, bound = 0;
  if (std::from_chars(value->data(), value->data() + value->size(), have).ec != std::errc()) return false;
  if (std::from_chars(values[0].data(), values[0].data() + values[0].size(), bound).ec != std::errc()) return false;
  return op == "Gt" ? have > bound : op == "Lt" && have < bound;
}

bool NodeTerm::meets(const Labels& node_labels, std::string_view node_name) const {
  if (labels.empty() && fields.empty()) return false;
  for (const NodeRequirement& r : labels) {
    if (!r.meets(find_label(node_labels, r.key))) return false;
  }
  const std::string name(node_name);
  for (const NodeRequirement& r : fields) {
    if (!r.meets(r.key == "metadata.name" ? &name : nullptr)) return false;
  }
  return true;
}

bool HostPort::collides(const HostPort& other) const {
  if (port != other.port || protocol != other.protocol) return false;
  return ip == other.ip || ip == "0.0.0.0" || other.ip == "0.0.0.0";
}

bool PodTerm::matches(std::string_view ns, const Labels& labels) const {
  if (!all_namespaces && std::find(namespaces.begin(), namespaces.end(), ns) == namespaces.end()) return false;
  return selector.matches_lookup([&](std::string_view k) { return find_label(labels, k); });
}

std::string PodTerm::identity() const {
  return fmt::format("{}|{}|{}|{}", key, all_namespaces ? "*" : fmt::format("{}", fmt::join(namespaces, ",")),
                     selector_text, weight);
}

namespace {

using Amounts = std::vector<std::pair<int, int64_t>>;

int64_t& slot(Amounts* amounts, int id) {
  for (auto& [known, value] : *amounts) {
    if (known == id) return value;
  }
  return amounts->emplace_back(id, 0).second;
}

int64_t amount_of(const Json& value, int id) {
  if (value.is_int64()) return id == kCpu ? value.get_int64() * 1000 : value.get_int64();
  if (!value.is_string()) return 0;
  const auto quantity = kube::Quantity::parse(std::string_view(value.get_string()));
  if (!quantity.ok()) return 0;
  return id == kCpu ? quantity->milli_value() : quantity->value();
}

Amounts amounts_of(const JsonObject* list, ResourceNames& names) {
  Amounts amounts;
  if (list == nullptr) return amounts;
  for (const auto& [name, value] : *list) {
    const int id = names.id(name);
    slot(&amounts, id) = amount_of(value, id);
  }
  return amounts;
}

void add(Amounts* to, const Amounts& more) {
  for (const auto& [id, value] : more) slot(to, id) += value;
}
void raise_to(Amounts* to, const Amounts& other) {
  for (const auto& [id, value] : other) slot(to, id) = std::max(slot(to, id), value);
}

// For scoring, a container without a request counts as 100m and 200Mi.
Amounts scored(Amounts amounts) {
  constexpr int64_t kDefaultMilliCpu = 100, kDefaultMemory = 200 * 1024 * 1024;
  bool cpu = false, memory = false;
  for (const auto& [id, value] : amounts) {
    cpu |= id == kCpu;
    memory |= id == kMemory;
  }
  if (!cpu) slot(&amounts, kCpu) = kDefaultMilliCpu;
  if (!memory) slot(&amounts, kMemory) = kDefaultMemory;
  return amounts;
}

// Containers together, or the largest moment of the start (init containers one by one beside the sidecars that were
// started before), whichever is more; plus the pod's overhead.
Amounts pod_amounts(const Json& spec, ResourceNames& names, bool for_score) {
  const auto of = [&](const Json& container) {
    Amounts a = amounts_of(get_object(container, "resources.requests"), names);
    return for_score ? scored(std::move(a)) : a;
  };
  Amounts total, start, sidecars;
  if (const JsonArray* containers = get_array(spec, "containers")) {
    for (const Json& c : *containers) add(&total, of(c));
  }
  if (const JsonArray* containers = get_array(spec, "initContainers")) {
    for (const Json& c : *containers) {
      Amounts moment = of(c);
      if (get_string(c, "restartPolicy") == "Always") {
        add(&total, moment);
        add(&sidecars, moment);
        raise_to(&start, sidecars);
      } else {
        add(&moment, sidecars);
        raise_to(&start, moment);
      }
    }
  }
  raise_to(&total, start);
  // Pod-level requests stand in for the containers' sum where they are given.
  for (const auto& [id, value] : amounts_of(get_object(spec, "resources.requests"), names)) slot(&total, id) = value;
  add(&total, amounts_of(get_object(spec, "overhead"), names));
  return total;
}

std::vector<std::string> texts(const JsonArray* list) {
  std::vector<std::string> out;
  if (list == nullptr) return out;
  for (const Json& v : *list) {
    if (v.is_string()) out.emplace_back(v.get_string());
  }
  return out;
}

std::vector<NodeRequirement> node_requirements(const JsonArray* list) {
  std::vector<NodeRequirement> out;
  if (list == nullptr) return out;
  for (const Json& r : *list) {
    out.push_back(
        {std::string(get_string(r, "key")), std::string(get_string(r, "operator")), texts(get_array(r, "values"))});
  }
  return out;
}

NodeTerm node_term(const Json& term) {
  return {node_requirements(get_array(term, "matchExpressions")), node_requirements(get_array(term, "matchFields"))};
}

kube::LabelSelector selector_from(const Json* json) {
  auto parsed = kube::LabelSelector::from_json(json);
  return parsed.ok() ? std::move(*parsed) : kube::LabelSelector::nothing();
}

// matchLabelKeys: the pod's own value of a label narrows the selector.
Json with_label_keys(const Json& holder, const Labels& labels) {
  const Json* given = kube::find_key(holder, "labelSelector");
  Json selector = given == nullptr ? Json() : *given;
  const JsonArray* keys = get_array(holder, "matchLabelKeys");
  if (keys == nullptr || !selector.is_object()) return selector;
  for (const std::string& key : texts(keys)) {
    const std::string* value = find_label(labels, key);
    if (value == nullptr) continue;
    kube::ensure_array(selector, "matchExpressions")
        .push_back(JsonObject{{"key", key}, {"operator", "In"}, {"values", JsonArray{Json(*value)}}});
  }
  return selector;
}

PodTerm pod_term(const Json& json, std::string_view ns, const Labels& labels, int weight) {
  PodTerm term;
  term.key = get_string(json, "topologyKey");
  term.namespaces = texts(get_array(json, "namespaces"));
  const JsonObject* ns_selector = get_object(json, "namespaceSelector");
  term.all_namespaces = ns_selector != nullptr && ns_selector->empty();
  if (term.namespaces.empty() && ns_selector == nullptr) term.namespaces.emplace_back(ns);
  const Json selector = with_label_keys(json, labels);
  term.selector = selector_from(selector.is_null() ? nullptr : &selector);
  term.selector_text = kube::to_json(selector);
  term.weight = weight;
  return term;
}

void read_pod_terms(const Json& spec, const char* kind, const PodNeeds& pod, std::vector<PodTerm>* required,
                    std::vector<PodTerm>* preferred) {
  const Json* rules = kube::find_path(spec, std::string("affinity.") + kind);
  if (rules == nullptr) return;
  if (const JsonArray* list = get_array(*rules, "requiredDuringSchedulingIgnoredDuringExecution")) {
    for (const Json& t : *list) required->push_back(pod_term(t, pod.ns, pod.labels, 0));
  }
  if (const JsonArray* list = get_array(*rules, "preferredDuringSchedulingIgnoredDuringExecution")) {
    for (const Json& t : *list) {
      const Json* term = kube::find_key(t, "podAffinityTerm");
      if (term == nullptr) continue;
      preferred->push_back(pod_term(*term, pod.ns, pod.labels, static_cast<int>(get_int(t, "weight"))));
    }
  }
}

void read_node_affinity(const Json& spec, PodNeeds* pod) {
  const Json* rules = kube::find_path(spec, "affinity.nodeAffinity");
  if (rules == nullptr) return;
  const Json* required = kube::find_key(*rules, "requiredDuringSchedulingIgnoredDuringExecution");
  if (required != nullptr && required->is_object()) {
    pod->has_required_affinity = true;
    if (const JsonArray* terms = get_array(*required, "nodeSelectorTerms")) {
      for (const Json& t : *terms) pod->required_affinity.push_back(node_term(t));
    }
  }
  if (const JsonArray* list = get_array(*rules, "preferredDuringSchedulingIgnoredDuringExecution")) {
    for (const Json& t : *list) {
      const Json* term = kube::find_key(t, "preference");
      if (term != nullptr)
        pod->preferred_affinity.push_back({static_cast<int>(get_int(t, "weight")), node_term(*term)});
    }
  }
}

// A pod whose every term names the same single node is pinned to it; the name leaves the terms, so that the pods of a
// DaemonSet form one class.
void find_pin(PodNeeds* pod) {
  std::string pin;
  for (const NodeTerm& term : pod->required_affinity) {
    if (term.fields.size() != 1) return;
    const NodeRequirement& r = term.fields[0];
    if (r.key != "metadata.name" || r.op != "In" || r.values.size() != 1) return;
    if (!pin.empty() && pin != r.values[0]) return;
    pin = r.values[0];
  }
  if (pin.empty()) return;
  pod->pin = pin;
  bool any_free = false;
  for (NodeTerm& term : pod->required_affinity) {
    term.fields.clear();
    any_free |= term.labels.empty();
  }
  if (any_free) {  // a term with nothing left accepts its node
    pod->required_affinity.clear();
    pod->has_required_affinity = false;
  }
}

void read_spread(const Json& spec, PodNeeds* pod) {
  const JsonArray* list = get_array(spec, "topologySpreadConstraints");
  if (list == nullptr) return;
  for (const Json& c : *list) {
    SpreadConstraint s;
    s.key = get_string(c, "topologyKey");
    s.max_skew = static_cast<int>(get_int(c, "maxSkew", 1));
    s.min_domains = static_cast<int>(get_int(c, "minDomains", 1));
    s.hard = get_string(c, "whenUnsatisfiable") != "ScheduleAnyway";
    s.honor_affinity = get_string(c, "nodeAffinityPolicy") != "Ignore";
    s.honor_taints = get_string(c, "nodeTaintsPolicy") == "Honor";
    const Json selector = with_label_keys(c, pod->labels);
    s.selector = selector_from(selector.is_null() ? nullptr : &selector);
    s.selector_text = kube::to_json(selector);
    pod->spread.push_back(std::move(s));
  }
}

void read_ports(const Json& spec, const char* containers, PodNeeds* pod) {
  const JsonArray* list = get_array(spec, containers);
  if (list == nullptr) return;
  for (const Json& c : *list) {
    const JsonArray* ports = get_array(c, "ports");
    if (ports == nullptr) continue;
    for (const Json& p : *ports) {
      const int64_t port = get_int(p, "hostPort");
      if (port <= 0) continue;
      const std::string_view ip = get_string(p, "hostIP"), protocol = get_string(p, "protocol");
      pod->ports.push_back({std::string(ip.empty() ? "0.0.0.0" : ip), std::string(protocol.empty() ? "TCP" : protocol),
                            static_cast<int>(port)});
    }
  }
}

bool per_pod_label(std::string_view key) {
  return key == "statefulset.kubernetes.io/pod-name" || key == "apps.kubernetes.io/pod-index" ||
         key == "batch.kubernetes.io/job-completion-index";
}

void append_terms(const std::vector<NodeTerm>& terms, std::string* out) {
  for (const NodeTerm& term : terms) {
    for (const auto* list : {&term.labels, &term.fields}) {
      for (const NodeRequirement& r : *list) *out += fmt::format("{} {} {};", r.key, r.op, fmt::join(r.values, ","));
      out->push_back('/');
    }
  }
}

}  // namespace

PodNeeds needs_of(const Json& spec, std::string_view ns, const Labels& labels, std::string_view owner_uid,
                  ResourceNames& names) {
  PodNeeds pod;
  pod.ns = ns;
  pod.labels = labels;
  pod.owner_uid = owner_uid;
  pod.priority = static_cast<int32_t>(get_int(spec, "priority"));
  pod.requests = pod_amounts(spec, names, false);
  std::erase_if(pod.requests, [](const auto& r) { return r.second == 0; });
  slot(&pod.requests, kPods) = 1;
  std::sort(pod.requests.begin(), pod.requests.end());
  for (const auto& [id, value] : pod_amounts(spec, names, true)) {
    if (id == kCpu) pod.scored_cpu = value;
    if (id == kMemory) pod.scored_memory = value;
  }
  if (const JsonObject* selector = get_object(spec, "nodeSelector")) {
    for (const auto& [key, value] : *selector) {
      pod.node_selector.emplace_back(key, value.is_string() ? std::string(value.get_string()) : std::string());
    }
  }
  read_node_affinity(spec, &pod);
  find_pin(&pod);
  pod.tolerations = read_tolerations(spec);
  read_ports(spec, "containers", &pod);
  read_ports(spec, "initContainers", &pod);
  read_spread(spec, &pod);
  read_pod_terms(spec, "podAffinity", pod, &pod.affinity, &pod.preferred_affinity_terms);
  read_pod_terms(spec, "podAntiAffinity", pod, &pod.anti_affinity, &pod.preferred_anti_terms);
  return pod;
}

std::string PodNeeds::signature() const {
  std::string s = fmt::format("{}|{}|", ns, owner_uid);
  for (const auto& [key, value] : labels) {
    if (!per_pod_label(key)) s += fmt::format("{}={},", key, value);
  }
  for (const auto& [id, value] : requests) s += fmt::format("|{}:{}", id, value);
  s += fmt::format("|{},{}|", scored_cpu, scored_memory);
  for (const auto& [key, value] : node_selector) s += fmt::format("{}={},", key, value);
  s += has_required_affinity ? "|r" : "|";
  append_terms(required_affinity, &s);
  for (const WeightedNodeTerm& t : preferred_affinity) {
    s += fmt::format("|p{}", t.weight);
    append_terms({t.term}, &s);
  }
  for (const Toleration& t : tolerations) s += fmt::format("|t{},{},{},{}", t.key, t.op, t.value, t.effect);
  for (const HostPort& p : ports) s += fmt::format("|h{},{},{}", p.ip, p.protocol, p.port);
  for (const SpreadConstraint& c : spread) {
    s += fmt::format("|s{},{},{},{},{},{},{}", c.key, c.max_skew, c.min_domains, c.hard, c.honor_affinity,
                     c.honor_taints, c.selector_text);
  }
  for (const auto* list : {&affinity, &anti_affinity, &preferred_affinity_terms, &preferred_anti_terms}) {
    s += "|a";
    for (const PodTerm& t : *list) s += t.identity() + ";";
  }
  return s;
}

NodeOffer offer_of(const Json& node, ResourceNames& names) {
  NodeOffer offer;
  offer.name = get_string(node, "metadata.name");
  if (const JsonObject* labels = get_object(node, "metadata.labels")) {
    for (const auto& [key, value] : *labels) {
      offer.labels.emplace_back(key, value.is_string() ? std::string(value.get_string()) : std::string());
    }
  }
  if (const JsonArray* taints = get_array(node, "spec.taints")) {
    for (const Json& t : *taints) {
      offer.taints.push_back({std::string(get_string(t, "key")), std::string(get_string(t, "value")),
                              std::string(get_string(t, "effect"))});
    }
  }
  offer.unschedulable = kube::get_bool(node, "spec.unschedulable");
  const JsonObject* allocatable = get_object(node, "status.allocatable");
  if (allocatable == nullptr) allocatable = get_object(node, "status.capacity");
  offer.allocatable = amounts_of(allocatable, names);
  return offer;
}

}  // namespace ghostfleet::controlplane::scheduling
