#include "agent/pod/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "agent/pod/pod_resources.h"

namespace ghostfleet::agent {

using kube::get_array;
using kube::get_object;
using kube::get_string;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

const Json* label_of(const Json& node, std::string_view key) {
  const Json* labels = kube::find_path(node, "metadata.labels");
  return labels == nullptr ? nullptr : kube::find_key(*labels, key);
}

bool string_is(const Json* value, std::string_view text) {
  return value != nullptr && value->is_string() && std::string_view(value->get_string()) == text;
}

bool to_number(std::string_view text, int64_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

bool compare_number(const Json* value, const JsonArray& values, bool greater) {
  int64_t a = 0, b = 0;
  if (value == nullptr || !value->is_string() || values.size() != 1 || !values[0].is_string()) return false;
  if (!to_number(value->get_string(), &a) || !to_number(values[0].get_string(), &b)) return false;
  return greater ? a > b : a < b;
}

bool matches_expression(const Json& expression, const Json* value) {
  static const JsonArray kNone;
  const JsonArray* given = get_array(expression, "values");
  const JsonArray& values = given != nullptr ? *given : kNone;
  const auto in = [&] {
    return value != nullptr && value->is_string() &&
           std::any_of(values.begin(), values.end(), [&](const Json& v) { return string_is(&v, value->get_string()); });
  };
  const std::string_view op = get_string(expression, "operator");
  if (op == "In") return in();
  if (op == "NotIn") return !in();
  if (op == "Exists") return value != nullptr;
  if (op == "DoesNotExist") return value == nullptr;
  if (op == "Gt" || op == "Lt") return compare_number(value, values, op == "Gt");
  return false;
}

bool matches_term(const Json& term, const Json& node, const Json& name) {
  const JsonArray* expressions = get_array(term, "matchExpressions");
  const JsonArray* fields = get_array(term, "matchFields");
  // An empty term matches nothing.
  if ((expressions == nullptr || expressions->empty()) && (fields == nullptr || fields->empty())) return false;
  if (expressions != nullptr) {
    for (const Json& e : *expressions) {
      if (!matches_expression(e, label_of(node, get_string(e, "key")))) return false;
    }
  }
  if (fields != nullptr) {
    for (const Json& e : *fields) {
      if (get_string(e, "key") != "metadata.name" || !matches_expression(e, &name)) return false;
    }
  }
  return true;
}

bool tolerates(const Json& toleration, const Json& taint) {
  const std::string_view effect = get_string(toleration, "effect");
  if (!effect.empty() && effect != get_string(taint, "effect")) return false;
  const std::string_view key = get_string(toleration, "key");
  if (!key.empty() && key != get_string(taint, "key")) return false;
  const std::string_view op = get_string(toleration, "operator");
  if (op == "Exists") return true;
  return (op.empty() || op == "Equal") && !key.empty() && get_string(toleration, "value") == get_string(taint, "value");
}

bool tolerated(const Json& pod, const Json& taint) {
  const JsonArray* tolerations = get_array(pod, "spec.tolerations");
  return tolerations != nullptr &&
         std::any_of(tolerations->begin(), tolerations->end(), [&](const Json& t) { return tolerates(t, taint); });
}

bool critical(const Json& pod) { return kube::get_int(pod, "spec.priority") >= kCriticalPriority; }

// The eviction manager's door: nothing new while the node is short of something.
std::optional<Rejection> check_pressure(const Json& pod, unsigned pressure) {
  if (pressure == 0 || critical(pod)) return std::nullopt;
  if (pressure == kMemoryPressure) {
    static const Json kTaint = {{"key", "node.kubernetes.io/memory-pressure"}, {"effect", "NoSchedule"}};
    if (get_string(pod, "status.qosClass") != "BestEffort" || tolerated(pod, kTaint)) return std::nullopt;
  }
  return Rejection{"Evicted", "The node had condition: [" + pressure_names(pressure) + "]. "};
}

bool is_native(std::string_view resource) {
  return resource == "cpu" || resource == "memory" || resource == "ephemeral-storage" ||
         resource.starts_with("hugepages-");
}

int64_t used_of(std::string_view resource, const std::vector<const PodTemplate*>& running) {
  int64_t sum = 0;
  for (const PodTemplate* t : running) {
    for (const auto& [key, amount] : t->requests) {
      if (key == resource) sum += amount;
    }
  }
  return sum;
}

// ---- before the node's predicates

bool sysctl_is_safe(std::string_view name) {
  static constexpr std::string_view kSafe[] = {"kernel.shm_rmid_forced",
                                               "net.ipv4.ip_local_port_range",
                                               "net.ipv4.tcp_syncookies",
                                               "net.ipv4.ping_group_range",
                                               "net.ipv4.ip_unprivileged_port_start",
                                               "net.ipv4.ip_local_reserved_ports",
                                               "net.ipv4.tcp_keepalive_time",
                                               "net.ipv4.tcp_fin_timeout",
                                               "net.ipv4.tcp_keepalive_intvl",
                                               "net.ipv4.tcp_keepalive_probes",
                                               "net.ipv4.tcp_rmem",
                                               "net.ipv4.tcp_wmem"};
  return std::find(std::begin(kSafe), std::end(kSafe), name) != std::end(kSafe);
}

std::optional<Rejection> check_sysctls(const Json& pod) {
  const JsonArray* list = get_array(pod, "spec.securityContext.sysctls");
  if (list == nullptr) return std::nullopt;
  for (const Json& sysctl : *list) {
    std::string name(get_string(sysctl, "name"));
    std::replace(name.begin(), name.end(), '/', '.');
    const bool net = name.starts_with("net.");
    if (!sysctl_is_safe(name))
      return Rejection{"SysctlForbidden", fmt::format("forbidden sysctl: \"{}\" not allowlisted", name)};
    if (kube::get_bool(pod, net ? "spec.hostNetwork" : "spec.hostIPC")) {
      return Rejection{"SysctlForbidden", fmt::format("forbidden sysctl: \"{}\" not allowed with host {} enabled", name,
                                                      net ? "Net" : "IPC")};
    }
  }
  return std::nullopt;
}

std::optional<Rejection> check_system(const Json& pod, const Json& node) {
  const Json* labels = kube::find_path(pod, "metadata.labels");
  const Json* wanted = labels != nullptr ? kube::find_key(*labels, "kubernetes.io/os") : nullptr;
  if (wanted != nullptr && !string_is(wanted, "linux")) {
    return Rejection{"PodOSSelectorNodeLabelDoesNotMatch",
                     "Failed to admit pod as the `kubernetes.io/os` label "
                     "doesn't match node label"};
  }
  const std::string_view os = get_string(pod, "spec.os.name");
  if (!os.empty() && os != "linux") {
    return Rejection{"PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"};
  }
  if (get_string(pod, "spec.securityContext.supplementalGroupsPolicy") == "Strict" &&
      !kube::get_bool(node, "status.features.supplementalGroupsPolicy")) {
    return Rejection{"SupplementalGroupsPolicyNotSupported",
                     "SupplementalGroupsPolicy=Strict is not supported in this node"};
  }
  return std::nullopt;
}

bool wants_app_armor(const Json& holder) {
  const std::string_view type = get_string(holder, "securityContext.appArmorProfile.type");
  return !type.empty() && type != "Unconfined";
}

// The nodes' kernel is one of Amazon Linux: it has SELinux, not AppArmor.
std::optional<Rejection> check_app_armor(const Json& pod) {
  const Json* spec = kube::find_key(pod, "spec");
  if (spec == nullptr) return std::nullopt;
  bool wanted = wants_app_armor(*spec);
  for (const std::string_view path : {"initContainers", "containers"}) {
    const JsonArray* list = get_array(*spec, path);
    if (list != nullptr) wanted |= std::any_of(list->begin(), list->end(), wants_app_armor);
  }
  if (!wanted) return std::nullopt;
  return Rejection{"AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"};
}

// ---- resources

void check_amount(std::string_view resource, int64_t requested, int64_t used, int64_t capacity,
                  std::optional<Rejection>* out) {
  if (requested <= capacity - used) return;
  if (!*out) {
    *out = Rejection{fmt::format("OutOf{}", resource), fmt::format("Node didn't have enough resource: {}, "
                                                                   "requested: {}, used: {}, capacity: {}",
                                                                   resource, requested, used, capacity)};
  }
  (*out)->shortages.push_back({std::string(resource), requested - (capacity - used)});
}

}  // namespace

// Pods first, then cpu, memory, ephemeral-storage, then the others by name: the order in which a kubelet complains.
std::optional<Rejection> check_resources(const PodTemplate& wanted, const Json& node,
                                         const std::vector<const PodTemplate*>& running) {
  std::optional<Rejection> out;
  const JsonObject* allocatable = get_object(node, "status.allocatable");
  if (allocatable == nullptr) return out;
  const auto capacity = [&](std::string_view resource) -> std::optional<int64_t> {
    const auto at = allocatable->find(resource);
    if (at == allocatable->end()) return std::nullopt;
    if (at->value().is_int64()) return at->value().get_int64() * (resource == "cpu" ? 1000 : 1);
    return at->value().is_string() ? amount_of(resource, at->value().get_string()) : 0;
  };
  if (const auto pods = capacity("pods")) check_amount("pods", 1, static_cast<int64_t>(running.size()), *pods, &out);
  Amounts ordered = wanted.requests;
  const auto rank = [](std::string_view r) {
    return r == "cpu" ? 0 : r == "memory" ? 1 : r == "ephemeral-storage" ? 2 : 3;
  };
  std::stable_sort(ordered.begin(), ordered.end(),
                   [&](const auto& a, const auto& b) { return rank(a.first) < rank(b.first); });
  for (const auto& [resource, amount] : ordered) {
    if (amount == 0) continue;
    const std::optional<int64_t> have = capacity(resource);
    // What the node does not know at all is not the node's to refuse.
    if (!have && !is_native(resource)) continue;
    check_amount(resource, amount, used_of(resource, running), have.value_or(0), &out);
  }
  return out;
}

namespace {

bool ports_clash(const HostPort& a, const HostPort& b) {
  const auto any = [](const std::string& ip) { return ip.empty() || ip == "0.0.0.0" || ip == "::"; };
  return a.port == b.port && a.protocol == b.protocol && (any(a.ip) || any(b.ip) || a.ip == b.ip);
}

bool ports_free(const PodTemplate& wanted, const std::vector<const PodTemplate*>& running) {
  for (const HostPort& p : wanted.host_ports) {
    for (const PodTemplate* t : running) {
      for (const HostPort& q : t->host_ports) {
        if (ports_clash(p, q)) return false;
      }
    }
  }
  return true;
}

bool taints_tolerated(const Json& pod, const Json& node) {
  const JsonArray* taints = get_array(node, "spec.taints");
  return taints == nullptr || std::all_of(taints->begin(), taints->end(), [&](const Json& taint) {
           return get_string(taint, "effect") != "NoExecute" || tolerated(pod, taint);
         });
}

}  // namespace

bool matches_node(const Json& pod, const Json& node, std::string_view node_name) {
  if (const JsonObject* selector = get_object(pod, "spec.nodeSelector")) {
    for (const auto& [key, value] : *selector) {
      if (!value.is_string() || !string_is(label_of(node, key), value.get_string())) return false;
    }
  }
  const JsonArray* terms = get_array(pod,
                                     "spec.affinity.nodeAffinity."
                                     "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
  if (terms == nullptr) return true;
  const Json name(node_name);
  return std::any_of(terms->begin(), terms->end(), [&](const Json& term) { return matches_term(term, node, name); });
}

namespace {

// What is in the way besides resources; the first is told.
std::optional<Rejection> check_predicates(const Json& pod, const PodTemplate& wanted, const Json& node,
                                          std::string_view node_name, const std::vector<const PodTemplate*>& running) {
  if (!matches_node(pod, node, node_name)) {
    return Rejection{"NodeAffinity",
                     "Predicate NodeAffinity failed: node(s) didn't match "
                     "Pod's node affinity/selector"};
  }
  const std::string_view named = get_string(pod, "spec.nodeName");
  if (!named.empty() && named != node_name) {
    return Rejection{"NodeName",
                     "Predicate NodeName failed: node(s) didn't "
                     "match the requested node name"};
  }
  if (!ports_free(wanted, running)) {
    return Rejection{"NodePorts",
                     "Predicate NodePorts failed: node(s) didn't have free "
                     "ports for the requested pod ports"};
  }
  if (!taints_tolerated(pod, node)) {
    return Rejection{"TaintToleration",
                     "Predicate TaintToleration failed: node(s) had taints "
                     "that the pod didn't tolerate"};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Rejection> admit(const Json& pod, const PodTemplate& wanted, const Json* node, std::string_view node_name,
                               const std::vector<const PodTemplate*>& running, unsigned pressure) {
  if (auto bad = check_pressure(pod, pressure)) return bad;
  if (node == nullptr || !node->is_object()) return std::nullopt;
  if (auto bad = check_sysctls(pod)) return bad;
  if (auto bad = check_system(pod, *node)) return bad;
  auto shortage = check_resources(wanted, *node, running);
  auto other = check_predicates(pod, wanted, *node, node_name, running);
  if (shortage) {
    if (!other) return shortage;
    // A critical pod is told what keeps it away though resources do not.
    if (critical(pod)) return other;
    shortage->shortages.clear();
    return shortage;
  }
  if (other) return other;
  return check_app_armor(pod);
}

}  // namespace ghostfleet::agent
