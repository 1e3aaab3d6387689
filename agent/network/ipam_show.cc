#include "agent/network/ipam_show.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/digest.h"
#include "kube/api/json.h"

namespace ghostfleet::agent {
namespace {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

constexpr std::string_view kZeroTime = "0001-01-01T00:00:00Z";
constexpr std::string_view kPaths[] = {"/v1/eni-configs", "/v1/enis", "/v1/ipamd-env-settings",
                                       "/v1/networkutils-env-settings"};

// Go writes a mask as base64 of its bytes.
std::string mask_text(const Cidr& cidr) {
  std::string bytes(cidr.base.is_v4() ? 4 : 16, '\0');
  for (int bit = 0; bit < cidr.bits; ++bit)
    bytes[static_cast<size_t>(bit / 8)] = static_cast<char>(bytes[static_cast<size_t>(bit / 8)] | (0x80 >> bit % 8));
  return base64_encode(bytes);
}

class View {
 public:
  View(WallTime wall, TimePoint now) : wall_(wall), now_(now) {}

  JsonObject pool(const AddressPool& pool) const {
    JsonObject enis;
    int total = 0, assigned = 0;
    for (const PoolEni& eni : pool.enis()) {
      for (const PoolRange& range : eni.ranges) total += range.size();
      assigned += eni.assigned();
      enis[format_eni(eni.id)] = this->eni(eni);
    }
    return {{"TotalIPs", total}, {"AssignedIPs", assigned}, {"ENIs", std::move(enis)}};
  }

 private:
  JsonObject eni(const PoolEni& eni) const {
    JsonObject v4, v6;
    for (const PoolRange& range : eni.ranges)
      (range.cidr.base.is_v4() ? v4 : v6)[format_cidr(range.cidr)] = this->range(range);
    return {{"ID", format_eni(eni.id)},
            {"IsPrimary", eni.primary},
            {"IsTrunk", eni.trunk},
            {"IsEFA", eni.efa},
            {"IsExcludedForPodIPs", eni.excluded},
            {"DeviceNumber", eni.device},
            {"AvailableIPv4Cidrs", std::move(v4)},
            {"IPv6Cidrs", std::move(v6)}};
  }

  JsonObject range(const PoolRange& range) const {
    JsonObject addresses;
    for (const PoolAddress& a : range.seen) {
      const std::string ip = format_ip(range.cidr.base.plus(a.offset));
      addresses[ip] = address(a, ip);
    }
    return {{"Cidr", JsonObject{{"IP", format_ip(range.cidr.base)}, {"Mask", mask_text(range.cidr)}}},
            {"IPAddresses", std::move(addresses)},
            {"IsPrefix", range.is_prefix()},
            {"AddressFamily", range.cidr.base.is_v4() ? "4" : "6"}};
  }

  JsonObject address(const PoolAddress& a, const std::string& ip) const {
    JsonObject key{{"networkName", ""}, {"containerID", ""}, {"ifName", ""}};
    JsonObject metadata{{"k8sPodNamespace", ""}, {"k8sPodName", ""}};
    std::string assigned(kZeroTime), released(kZeroTime);
    if (const IpamHolder* h = a.holder.get()) {
      key = {{"networkName", h->key.network_name}, {"containerID", h->key.container_id}, {"ifName", h->key.if_name}};
      metadata = {{"k8sPodNamespace", h->pod_namespace}, {"k8sPodName", h->pod_name}};
      if (h->interfaces > 1) metadata["interfacesCount"] = h->interfaces;
      assigned = format_micro_time(h->assigned);
    } else {
      released = format_micro_time(wall_ - (now_ - a.released));
    }
    return {{"Address", ip},
            {"IPAMKey", std::move(key)},
            {"IPAMMetadata", std::move(metadata)},
            {"AssignedTime", assigned},
            {"UnassignedTime", released}};
  }

  WallTime wall_;
  TimePoint now_;
};

JsonObject settings(const std::vector<std::pair<std::string, std::string>>& pairs) {
  JsonObject o;
  for (const auto& [name, value] : pairs) o[name] = value;
  return o;
}

class Text {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = fmt::format("awscni_{}", name);
    out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name_, help, name_, type);
  }
  void value(std::string_view labels, double v) { out += fmt::format("{}{} {}\n", name_, labels, v); }
  void part(std::string_view suffix, std::string_view labels, double v) {
    out += fmt::format("{}{}{} {}\n", name_, suffix, labels, v);
  }
  void single(std::string_view name, std::string_view type, std::string_view help, double v) {
    family(name, type, help);
    value("", v);
  }
  std::string out;

 private:
  std::string name_;
};

void add_pool(const IpamNode& node, TimePoint now, Text* t) {
  const IpamConfig& c = node.config();
  int enis = 0, total = 0, assigned = 0, prefixes = 0;
  for (const AddressPool& pool : node.pools()) {
    const PoolStats s = pool.stats(now);
    enis += static_cast<int>(pool.enis().size());
    total += s.total;
    assigned += s.assigned;
    prefixes += s.prefixes;
  }
  const int most = c.enis() - node.unmanaged(0);
  t->single("eni_max", "gauge", "The most interfaces that can be attached, less those of others", most);
  t->single("ip_max", "gauge", "The most addresses the instance can have", most * c.addresses_per_eni(0));
  t->single("eni_allocated", "gauge", "Interfaces attached", enis);
  t->single("total_ip_addresses", "gauge", "Addresses in the pool", total);
  t->single("assigned_ip_addresses", "gauge", "Addresses given to pods", assigned);
  t->single("total_ipv4_prefixes", "gauge", "IPv4 prefixes in the pool", prefixes);
  t->family("assigned_ip_per_cidr", "gauge", "Addresses given to pods, by range");
  for (const AddressPool& pool : node.pools()) {
    for (const PoolEni& eni : pool.enis()) {
      for (const PoolRange& range : eni.ranges) {
        if (!range.seen.empty()) t->value(fmt::format("{{cidr=\"{}\"}}", format_cidr(range.cidr)), range.assigned());
      }
    }
  }
  t->family("assigned_ip_per_eni", "gauge", "Addresses given to pods, by interface");
  for (const AddressPool& pool : node.pools()) {
    for (const PoolEni& eni : pool.enis()) t->value(fmt::format("{{eni=\"{}\"}}", format_eni(eni.id)), eni.assigned());
  }
}

// Of an action with two names here the figures are added up.
struct CallFigures {
  std::string_view name;
  uint64_t calls = 0, errors = 0, throttled = 0;
  double milliseconds = 0;
};

std::vector<CallFigures> call_figures(const IpamCounters& counters) {
  std::vector<CallFigures> out;
  for (size_t i = 0; i < static_cast<size_t>(kEc2Actions); ++i) {
    const auto action = static_cast<Ec2Action>(i);
    if (counters.calls[i] == 0 || action == Ec2Action::kReadMetadata) continue;
    const std::string_view name = ec2_action_name(action);
    auto it = std::find_if(out.begin(), out.end(), [name](const CallFigures& f) { return f.name == name; });
    if (it == out.end()) it = out.insert(out.end(), CallFigures{name});
    it->calls += counters.calls[i];
    it->errors += counters.errors[i];
    it->throttled += counters.throttled[i];
    it->milliseconds += static_cast<double>(counters.milliseconds[i]);
  }
  return out;
}

void add_calls(const IpamCounters& counters, Text* t) {
  const std::vector<CallFigures> figures = call_figures(counters);
  t->family("ec2api_req_count", "counter", "Calls of EC2");
  for (const CallFigures& f : figures) t->value(fmt::format("{{fn=\"{}\"}}", f.name), static_cast<double>(f.calls));
  t->family("ec2api_error_count", "counter", "Calls of EC2 that failed");
  for (const CallFigures& f : figures) {
    if (f.errors > 0) t->value(fmt::format("{{fn=\"{}\"}}", f.name), static_cast<double>(f.errors));
  }
  t->family("aws_api_error_count", "counter", "Calls of EC2 that failed, by error");
  for (const CallFigures& f : figures) {
    if (f.throttled > 0)
      t->value(fmt::format("{{api=\"{}\",error=\"RequestLimitExceeded\"}}", f.name), static_cast<double>(f.throttled));
    if (f.errors > f.throttled)
      t->value(fmt::format("{{api=\"{}\",error=\"other\"}}", f.name), static_cast<double>(f.errors - f.throttled));
  }
  t->family("aws_api_latency_ms", "summary", "How long calls of EC2 took");
  for (const CallFigures& f : figures) {
    const std::string labels =
        fmt::format("{{api=\"{}\",error=\"{}\",status=\"200\"}}", f.name, f.errors > 0 ? "true" : "false");
    t->part("_sum", labels, f.milliseconds);
    t->part("_count", labels, static_cast<double>(f.calls));
  }
}

void add_failures(const IpamCounters& c, Text* t) {
  t->family("ipamd_error_count", "counter", "Errors of the daemon");
  t->value("{fn=\"increaseIPPoolAllocIPAddressesFailed\"}", c.grow_failures);
  t->value("{fn=\"increaseIPPoolAllocENI\"}", c.eni_failures);
  t->family("reconcile_count", "counter", "What reconciling changed");
  t->value("{fn=\"eniReconcileAdd\"}", c.reconcile_added);
  t->value("{fn=\"eniReconcileDel\"}", c.reconcile_deleted);
  t->single("force_removed_enis", "counter", "Interfaces that vanished while pods used them", c.forced_enis);
  t->single("force_removed_ips", "counter", "Addresses that vanished while pods used them", c.forced_ips);
  t->single("unrecovered_checkpoint_entries", "counter", "Addresses of the checkpoint that are on no interface",
            c.lost_entries);
}

}  // namespace

std::string render_introspection(const IpamNode& node, std::string_view path, WallTime wall_now, TimePoint now) {
  if (path == "/v1/enis") {
    const View view(wall_now, now);
    JsonObject cards;
    for (const AddressPool& pool : node.pools()) cards[std::to_string(pool.card())] = view.pool(pool);
    return kube::to_json(cards);
  }
  if (path == "/v1/eni-configs") {
    const std::string_view name = node.config().custom_networking ? std::string_view(node.config().eni_config) : "";
    return kube::to_json(Json(name));
  }
  if (path == "/v1/ipamd-env-settings") return kube::to_json(settings(ipamd_settings(node.config())));
  if (path == "/v1/networkutils-env-settings") return kube::to_json(settings(network_settings(node.config())));
  JsonArray paths;
  for (const std::string_view p : kPaths) paths.emplace_back(p);
  JsonObject all;
  all["AvailableCommands"] = std::move(paths);
  return kube::to_json(all);
}

std::string render_ipam_metrics(const IpamNode& node, TimePoint now) {
  const IpamCounters& c = node.counters();
  Text t;
  t.single("add_ip_req_count", "counter", "Pods that asked for an address", c.add_requests);
  t.family("del_ip_req_count", "counter", "Pods that gave their address back");
  t.value("{reason=\"PodDeleted\"}", c.del_requests);
  t.single("no_available_ip_addresses", "counter", "Pods that found no free address", c.no_available);
  add_pool(node, now, &t);
  add_calls(c, &t);
  add_failures(c, &t);
  t.family("ipamd_action_inprogress", "gauge", "Actions of the daemon that are under way");
  t.value("{fn=\"nodeIPPool\"}", node.busy() ? 1 : 0);
  t.family("ipamd_startup_duration_seconds", "histogram", "Starts of the daemon");
  t.part("_count", "{success=\"true\",with_api_server=\"true\",failure_reason=\"\"}",
         node.ready() ? c.starts - c.failed_starts : 0);
  t.part("_count", "{success=\"false\",with_api_server=\"true\",failure_reason=\"nodeInit\"}", c.failed_starts);
  return t.out;
}

}  // namespace ghostfleet::agent
