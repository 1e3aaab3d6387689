// Services: families, cluster addresses, node ports.
#include <fmt/format.h>

#include <set>

#include "controlplane/apiserver/strategies/cluster_state.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/service_allocator.h"
#include "controlplane/apiserver/strategies/workload_common.h"
#include "kube/api/names.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

using Answer = ServiceAllocator::Answer;

bool is_headless(const Json& spec) {
  const JsonArray* ips = array_of(spec, "clusterIPs");
  return ips != nullptr && ips->size() == 1 && as_text((*ips)[0]) == "None";
}

bool needs_address(const Json& spec) { return text_of(spec, "type") != "ExternalName"; }

bool needs_node_ports(const Json& spec) {
  std::string_view type = text_of(spec, "type");
  if (type == "NodePort") return true;
  const Json* wanted = member(spec, "allocateLoadBalancerNodePorts");
  return type == "LoadBalancer" && (wanted == nullptr || !wanted->is_bool() || wanted->get_bool());
}

bool needs_health_port(const Json& spec) {
  return text_of(spec, "type") == "LoadBalancer" && text_of(spec, "externalTrafficPolicy") == "Local";
}

// Addresses and ports taken during one request, given back unless the request succeeds.
class Claim {
 public:
  explicit Claim(ServiceAllocator& allocator) : allocator_(allocator) {}
  ~Claim() {
    if (kept_) return;
    for (const std::string& address : addresses_) allocator_.give_address_back(address);
    for (int port : ports_) allocator_.give_port_back(port);
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  void add(std::string address) { addresses_.push_back(std::move(address)); }
  void add(int port) { ports_.push_back(port); }
  void keep() { kept_ = true; }

 private:
  ServiceAllocator& allocator_;
  std::vector<std::string> addresses_;
  std::vector<int> ports_;
  bool kept_ = false;
};

ServiceAllocator& allocator_of(StrategyContext& ctx) {
  ClusterState& state = ctx.api.cluster_state();
  state.services().prepare(ctx.api, state.options.service_cidr, state.options.node_port_first,
                           state.options.node_port_last);
  return state.services();
}

void default_ports(JsonObject& spec) {
  Json* ports = spec.if_contains("ports");
  if (ports == nullptr || !ports->is_array()) return;
  for (Json& port : ports->get_array()) {
    if (!port.is_object()) continue;
    JsonObject& p = port.get_object();
    default_text(p, "protocol", "TCP");
    const Json* target = member(port, "targetPort");
    bool empty = target == nullptr || (is_integer(target) && as_int(*target) == 0) ||
                 (target->is_string() && as_text(*target).empty());
    if (empty) p["targetPort"] = int_of(port, "port");
  }
}

std::string port_key_text(std::string_view protocol, int64_t port) {
  return fmt::format(
      "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
      quoted(protocol), port);
}

// ---- checks -------------------------------------------------------------------------------------------------------

void check_service_port(const Json& port, bool name_needed, NameSet& names, const Path& path, Findings& out) {
  static const Json kZero = 0;
  std::string_view name = text_of(port, "name");
  if (name.empty()) {
    if (name_needed) out.required(path.child("name"));
  } else {
    out.messages(path.child("name"), name, kube::check_dns1123_label(name));
    if (!names.insert(name).second) out.duplicate(path.child("name"), name);
  }
  const Json* number = member(port, "port");
  check_port(number == nullptr ? kZero : *number, path.child("port"), out);
  if (std::string_view protocol = text_of(port, "protocol"); !one_of(protocol, {"TCP", "UDP", "SCTP"})) {
    out.not_supported(path.child("protocol"), protocol, {"SCTP", "TCP", "UDP"});
  }
  const Json* target = member(port, "targetPort");
  check_port(target == nullptr ? kZero : *target, path.child("targetPort"), out);
  if (std::string_view app = text_of(port, "appProtocol"); !app.empty()) {
    out.messages(path.child("appProtocol"), app, kube::check_qualified_name(app));
  }
}

void check_by_type(const Json& spec, const Path& path, Findings& out) {
  std::string_view type = text_of(spec, "type");
  const JsonArray* ports = array_of(spec, "ports");
  if ((ports == nullptr || ports->empty()) && !is_headless(spec) && type != "ExternalName") {
    out.required(path.child("ports"));
  }
  if ((type == "LoadBalancer" || type == "NodePort") && is_headless(spec)) {
    out.invalid_text(path.child("clusterIPs", 0), "None",
                     fmt::format("may not be set to 'None' for {} services", type));
  }
  if (type != "ExternalName") return;
  for (std::string_view key : {"clusterIPs", "ipFamilies"}) {
    const JsonArray* list = array_of(spec, key);
    if (list != nullptr && !list->empty()) {
      out.forbidden(path.child(key), "may not be set for ExternalName services");
    }
  }
  if (member(spec, "ipFamilyPolicy") != nullptr) {
    out.forbidden(path.child("ipFamilyPolicy"), "may not be set for ExternalName services");
  }
  std::string_view name = text_of(spec, "externalName");
  if (name.ends_with('.')) name.remove_suffix(1);
  if (name.empty()) {
    out.required(path.child("externalName"));
  } else {
    out.messages(path.child("externalName"), name, kube::check_dns1123_subdomain(name));
  }
}

void check_affinity_config(const Json& spec, const Path& path, Findings& out) {
  std::string_view affinity = text_of(spec, "sessionAffinity");
  if (!one_of(affinity, {"ClientIP", "None"})) {
    out.not_supported(path.child("sessionAffinity"), affinity, {"ClientIP", "None"});
  }
  if (affinity != "ClientIP") return;
  const Json* config = member(spec, "sessionAffinityConfig");
  const Json* client = config == nullptr ? nullptr : member(*config, "clientIP");
  int64_t seconds = client == nullptr ? 0 : int_of(*client, "timeoutSeconds");
  if (seconds <= 0 || seconds > 86400) {
    Path at = path.child("sessionAffinityConfig.clientIP.timeoutSeconds");
    out.invalid_number(at, seconds, "must be greater than 0 and less than 86400");
  }
}

void check_cluster_ips(const Json& spec, const Path& path, Findings& out) {
  if (!needs_address(spec)) return;
  const JsonArray* ips = array_of(spec, "clusterIPs");
  std::string_view first = text_of(spec, "clusterIP");
  Path at = path.child("clusterIPs");
  if (!first.empty() && ips != nullptr && !ips->empty() && as_text((*ips)[0]) != first) {
    out.invalid(at, json_text(*ips), "first value must match `clusterIP`");
  } else if (first.empty() && ips != nullptr && !ips->empty()) {
    out.invalid(at, json_text(*ips), "must be empty when `clusterIP` is not specified");
  }
  if (const JsonArray* families = array_of(spec, "ipFamilies")) {
    NameSet seen;
    for (size_t i = 0; i < families->size(); ++i) {
      std::string_view family = as_text((*families)[i]);
      if (!one_of(family, {"IPv4", "IPv6"})) out.not_supported(path.child("ipFamilies", i), family, {"IPv4", "IPv6"});
      if (!seen.insert(family).second) out.duplicate(path.child("ipFamilies", i), family);
    }
  }
  if (std::string_view policy = text_of(spec, "ipFamilyPolicy");
      !one_of(policy, {"", "SingleStack", "PreferDualStack", "RequireDualStack"})) {
    out.not_supported(path.child("ipFamilyPolicy"), policy, {"PreferDualStack", "RequireDualStack", "SingleStack"});
  }
  for (size_t i = 0; ips != nullptr && i < ips->size(); ++i) {
    std::string_view ip = as_text((*ips)[i]);
    if (i == 0 && ip == "None") {
      if (ips->size() > 1) out.invalid(at, json_text(*ips), "'None' must be the first and only value");
    } else if (!kube::is_valid_ip(ip)) {
      out.invalid_text(path.child("clusterIPs", i), ip,
                       "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }
  }
  if (ips != nullptr && ips->size() > 2) out.invalid(at, json_text(*ips), "may only hold up to 2 values");
}

void check_port_pairs(const Json& spec, const Path& path, Findings& out) {
  const JsonArray* ports = array_of(spec, "ports");
  if (ports == nullptr) return;
  std::set<std::string> node_ports;
  std::set<std::string> pairs;
  bool cluster_only = text_of(spec, "type") == "ClusterIP";
  for (size_t i = 0; i < ports->size(); ++i) {
    int64_t node_port = int_of((*ports)[i], "nodePort");
    if (node_port == 0) continue;
    Path at = path.child("ports", i);
    if (cluster_only) out.forbidden(at.child("nodePort"), "may not be used when `type` is 'ClusterIP'");
    if (!node_ports.insert(fmt::format("{}/{}", text_of((*ports)[i], "protocol"), node_port)).second) {
      out.duplicate_value(at.child("nodePort"), std::to_string(node_port));
    }
  }
  for (size_t i = 0; i < ports->size(); ++i) {
    std::string key = port_key_text(text_of((*ports)[i], "protocol"), int_of((*ports)[i], "port"));
    if (!pairs.insert(key).second) out.duplicate_value(path.child("ports", i), key);
  }
}

void check_external(const Json& spec, const Path& path, Findings& out) {
  std::string_view type = text_of(spec, "type");
  bool external = type == "NodePort" || type == "LoadBalancer";
  const JsonArray* external_ips = array_of(spec, "externalIPs");
  for (size_t i = 0; external_ips != nullptr && i < external_ips->size(); ++i) {
    std::string_view ip = as_text((*external_ips)[i]);
    if (!kube::is_valid_ip(ip)) {
      out.invalid_text(path.child("externalIPs", i), ip,
                       "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }
  }
  if (member(spec, "allocateLoadBalancerNodePorts") != nullptr && type != "LoadBalancer") {
    out.forbidden(path.child("allocateLoadBalancerNodePorts"), "may only be used when `type` is 'LoadBalancer'");
  }
  if (member(spec, "loadBalancerClass") != nullptr && type != "LoadBalancer") {
    out.forbidden(path.child("loadBalancerClass"), "may only be used when `type` is 'LoadBalancer'");
  }
  std::string_view policy = text_of(spec, "externalTrafficPolicy");
  bool reachable = external || (type == "ClusterIP" && external_ips != nullptr && !external_ips->empty());
  if (!policy.empty() && !reachable) {
    out.invalid_text(path.child("externalTrafficPolicy"), policy, "may only be set for externally-accessible services");
  } else if (reachable && !one_of(policy, {"Cluster", "Local"})) {
    out.not_supported(path.child("externalTrafficPolicy"), policy, {"Cluster", "Local"});
  }
  std::string_view internal = text_of(spec, "internalTrafficPolicy");
  if (!internal.empty() && !one_of(internal, {"Cluster", "Local"})) {
    out.not_supported(path.child("internalTrafficPolicy"), internal, {"Cluster", "Local"});
  }
}

void check_service(const Json& spec, Findings& out) {
  Path path("spec");
  check_by_type(spec, path, out);
  if (const JsonArray* ports = array_of(spec, "ports")) {
    NameSet names;
    for (size_t i = 0; i < ports->size(); ++i) {
      check_service_port((*ports)[i], ports->size() > 1, names, path.child("ports", i), out);
    }
  }
  check_labels(member(spec, "selector"), path.child("selector"), out);
  check_affinity_config(spec, path, out);
  check_cluster_ips(spec, path, out);
  std::string_view type = text_of(spec, "type");
  if (!one_of(type, {"ClusterIP", "ExternalName", "LoadBalancer", "NodePort"})) {
    out.not_supported(path.child("type"), type, {"ClusterIP", "ExternalName", "LoadBalancer", "NodePort"});
  }
  check_port_pairs(spec, path, out);
  check_external(spec, path, out);
}

void check_addresses_kept(const Json& spec, const Json& old, Findings& out) {
  if (!needs_address(spec) || !needs_address(old) || (is_headless(spec) && is_headless(old))) return;
  const JsonArray* now = array_of(spec, "clusterIPs");
  const JsonArray* before = array_of(old, "clusterIPs");
  if (before == nullptr || before->empty()) return;
  Path path("spec");
  if (now == nullptr || now->empty()) {
    out.invalid(path.child("clusterIPs", 0), "null", "primary clusterIP can not be unset");
  } else if (as_text((*now)[0]) != as_text((*before)[0])) {
    out.invalid(path.child("clusterIPs", 0), json_text(*now), "may not change once set");
  }
}

class ServiceStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    JsonObject& spec = make_spec(object);
    default_text(spec, "sessionAffinity", "None");
    std::string_view affinity = as_text(spec["sessionAffinity"]);
    if (affinity == "None") spec.erase("sessionAffinityConfig");
    if (affinity == "ClientIP") {
      default_to(object_in(object_in(spec, "sessionAffinityConfig"), "clientIP"), "timeoutSeconds", 10800);
    }
    default_text(spec, "type", "ClusterIP");
    std::string_view type = as_text(spec["type"]);
    default_ports(spec);
    const JsonArray* external_ips = array_of(spec_of(object), "externalIPs");
    bool external = type == "NodePort" || type == "LoadBalancer" ||
                    (type == "ClusterIP" && external_ips != nullptr && !external_ips->empty());
    if (external) default_text(spec, "externalTrafficPolicy", "Cluster");
    if (one_of(type, {"NodePort", "LoadBalancer", "ClusterIP"})) default_to(spec, "internalTrafficPolicy", "Cluster");
    if (type == "LoadBalancer") default_to(spec, "allocateLoadBalancerNodePorts", true);
  }

  void prepare_for_create(Json& object, StrategyContext& ctx) const override {
    KindStrategy::prepare_for_create(object, ctx);
    settle_families(make_spec(object), spec_of(object));
  }

  void prepare_for_update(Json& object, const Json& old, StrategyContext& ctx) const override {
    KindStrategy::prepare_for_update(object, old, ctx);
    if (!ctx.subresource.empty()) return;
    keep_allocated(object, old);
    settle_families(make_spec(object), spec_of(object));
  }

  kube::ApiResult<bool> allocate(Json& object, const Json* old, StrategyContext& ctx) const override {
    if (!ctx.subresource.empty()) return true;
    static const Json kEmpty = JsonObject();
    const Json& before = old == nullptr ? kEmpty : spec_of(*old);
    ServiceAllocator& allocator = allocator_of(ctx);
    Claim claim(allocator);
    Findings out;
    take_addresses(make_spec(object), before, allocator, claim, out);
    if (out.empty()) take_ports(object, before, allocator, claim, out);
    if (!out.empty()) return kube::invalid("", "Service", name_of(object), out.take());
    if (!ctx.request.dry_run) {
      claim.keep();
      if (old != nullptr) give_back_unused(before, spec_of(object), allocator);
    }
    return true;
  }

  void release(const Json& object, StrategyContext& ctx) const override {
    static const Json kEmpty = JsonObject();
    give_back_unused(spec_of(object), kEmpty, allocator_of(ctx));
  }

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    check_service(spec_of(object), out);
  }

  void check_update(const Json& object, const Json& old, StrategyContext&, Findings& out) const override {
    check_addresses_kept(spec_of(object), spec_of(old), out);
    check_service(spec_of(object), out);
  }

 private:
  // clusterIP is the first of clusterIPs; whoever names only one of them gets the other.
  static void settle_families(JsonObject& spec, const Json& view) {
    if (!needs_address(view)) {
      // Fields of another type that a change of type leaves behind.
      if (text_of(view, "clusterIP").empty()) spec.erase("clusterIPs");
      return;
    }
    std::string_view first = text_of(view, "clusterIP");
    const JsonArray* ips = array_of(view, "clusterIPs");
    if (!first.empty() && (ips == nullptr || ips->empty())) {
      std::string copy(first);
      spec["clusterIPs"] = JsonArray{Json(copy)};
    }
    bool free_headless = first == "None" && (object_of(view, "selector") == nullptr);
    default_text(spec, "ipFamilyPolicy", free_headless ? "RequireDualStack" : "SingleStack");
    const JsonArray* families = array_of(view, "ipFamilies");
    if (families == nullptr || families->empty()) {
      spec["ipFamilies"] = JsonArray{"IPv4"};
    }
    Json& list = spec["ipFamilies"];
    bool dual = text_of(view, "ipFamilyPolicy") != "SingleStack";
    if (free_headless && dual && list.is_array() && list.get_array().size() == 1) {
      list.get_array().emplace_back(as_text(list.get_array()[0]) == "IPv4" ? "IPv6" : "IPv4");
    }
  }

  static void keep_allocated(Json& object, const Json& old_object) {
    JsonObject& spec = make_spec(object);
    const Json& old = spec_of(old_object);
    const Json& view = spec_of(object);
    bool both_need = needs_address(view) && needs_address(old);
    if (both_need && text_of(view, "clusterIP").empty()) copy_member(spec, old, "clusterIP");
    const JsonArray* ips = array_of(view, "clusterIPs");
    if (both_need && (ips == nullptr || ips->empty())) copy_member(spec, old, "clusterIPs");
    if (both_need) {
      default_to(spec, "ipFamilies", member(old, "ipFamilies") == nullptr ? Json() : *member(old, "ipFamilies"));
      default_text(spec, "ipFamilyPolicy", text_of(old, "ipFamilyPolicy"));
    }
    if (!needs_address(view) && needs_address(old)) {
      for (std::string_view key : {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"}) {
        if (equal_members(view, old, key)) spec.erase(key);
      }
    }
    if (needs_node_ports(view) && needs_node_ports(old)) keep_node_ports(spec, old);
    if (!needs_node_ports(view) && text_of(view, "type") != text_of(old, "type")) drop_node_ports(spec, old);
    if (needs_health_port(view) && needs_health_port(old)) {
      default_number(spec, "healthCheckNodePort", int_of(old, "healthCheckNodePort"));
    }
  }

  static void keep_node_ports(JsonObject& spec, const Json& old) {
    Json* ports = spec.if_contains("ports");
    const JsonArray* before = array_of(old, "ports");
    if (ports == nullptr || before == nullptr || !ports->is_array()) return;
    std::set<int64_t> used;
    for (const Json& port : ports->get_array()) used.insert(int_of(port, "nodePort"));
    for (Json& port : ports->get_array()) {
      if (int_of(port, "nodePort") != 0) continue;
      for (const Json& was : *before) {
        int64_t number = int_of(was, "nodePort");
        if (text_of(was, "name") == text_of(port, "name") && number != 0 && used.insert(number).second) {
          port.get_object()["nodePort"] = number;
        }
      }
    }
  }

  // Ports a service no longer needs because its type changed go unless the client set them anew.
  static void drop_node_ports(JsonObject& spec, const Json& old) {
    Json* ports = spec.if_contains("ports");
    const JsonArray* before = array_of(old, "ports");
    if (ports == nullptr || before == nullptr || !ports->is_array()) return;
    for (size_t i = 0; i < ports->get_array().size() && i < before->size(); ++i) {
      Json& port = ports->get_array()[i];
      if (int_of(port, "nodePort") == int_of((*before)[i], "nodePort")) port.get_object().erase("nodePort");
    }
  }

  static void take_addresses(JsonObject& spec, const Json& before, ServiceAllocator& allocator, Claim& claim,
                             Findings& out) {
    Json view = spec;
    if (!needs_address(view) || is_headless(view)) return;
    std::string wanted(text_of(view, "clusterIP"));
    Path path("spec.clusterIPs");
    if (wanted.empty()) {
      std::string address = allocator.take_address();
      if (address.empty()) {
        out.invalid(path, "null", "failed to allocate a serviceIP: range is full");
        return;
      }
      claim.add(address);
      spec["clusterIP"] = address;
      spec["clusterIPs"] = JsonArray{Json(address)};
      return;
    }
    if (text_of(before, "clusterIP") == wanted) return;
    Answer answer = allocator.take_address(wanted);
    if (answer == Answer::kGiven) {
      claim.add(wanted);
      return;
    }
    std::string_view why = answer == Answer::kTaken ? "provided IP is already allocated"
                                                    : "the provided network does not match the current range";
    out.invalid(path, json_text(spec["clusterIPs"]), fmt::format("failed to allocate IP {}: {}", wanted, why));
  }

  static std::set<int> ports_of(const Json& spec) {
    std::set<int> ports;
    const JsonArray* list = array_of(spec, "ports");
    for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
      if (int64_t n = int_of((*list)[i], "nodePort"); n != 0) ports.insert(static_cast<int>(n));
    }
    if (int64_t n = int_of(spec, "healthCheckNodePort"); n != 0) ports.insert(static_cast<int>(n));
    return ports;
  }

  static void take_ports(Json& object, const Json& before, ServiceAllocator& allocator, Claim& claim, Findings& out) {
    JsonObject& spec = make_spec(object);
    std::set<int> held = ports_of(before);
    Json* ports = spec.if_contains("ports");
    if (needs_node_ports(spec_of(object)) && ports != nullptr && ports->is_array()) {
      std::set<int> taken_here;
      Path path("spec");
      for (size_t i = 0; i < ports->get_array().size(); ++i) {
        Path at = path.child("ports", i);
        take_port(ports->get_array()[i].get_object(), at.child("nodePort"), held, taken_here, allocator, claim, out);
      }
    }
    if (needs_health_port(spec_of(object)) && int_of(spec_of(object), "healthCheckNodePort") == 0) {
      int port = allocator.take_port();
      claim.add(port);
      spec["healthCheckNodePort"] = port;
    }
  }

  static void take_port(JsonObject& port, const Path& path, const std::set<int>& held, std::set<int>& taken_here,
                        ServiceAllocator& allocator, Claim& claim, Findings& out) {
    const Json* found = port.if_contains("nodePort");
    int wanted = found == nullptr ? 0 : static_cast<int>(as_int(*found));
    if (wanted == 0) {
      int given = allocator.take_port();
      if (given == 0) {
        out.invalid_number(path, 0, "failed to allocate a nodePort: range is full");
        return;
      }
      claim.add(given);
      port["nodePort"] = given;
      return;
    }
    if (held.contains(wanted) || !taken_here.insert(wanted).second) return;
    Answer answer = allocator.take_port(wanted);
    if (answer == Answer::kGiven) {
      claim.add(wanted);
    } else if (answer == Answer::kTaken) {
      out.invalid_number(path, wanted, "provided port is already allocated");
    } else {
      out.invalid_number(path, wanted,
                         fmt::format("provided port is not in the valid range. The range of valid ports is {}-{}",
                                     allocator.first_port(), allocator.last_port()));
    }
  }

  static void give_back_unused(const Json& before, const Json& now, ServiceAllocator& allocator) {
    std::string_view address = text_of(before, "clusterIP");
    if (!address.empty() && address != "None" && address != text_of(now, "clusterIP")) {
      allocator.give_address_back(address);
    }
    std::set<int> still = ports_of(now);
    for (int port : ports_of(before)) {
      if (!still.contains(port)) allocator.give_port_back(port);
    }
  }
};

}  // namespace

StrategyPointer make_service_strategy(const KindTraits& traits) { return std::make_unique<ServiceStrategy>(traits); }

}  // namespace ghostfleet::controlplane
