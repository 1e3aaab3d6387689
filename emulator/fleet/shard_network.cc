#include "emulator/fleet/shard_network.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/network/cni_text.h"
#include "agent/network/ipam_show.h"
#include "agent/node/json_scan.h"
#include "agent/pod/images.h"
#include "base/hash.h"

namespace ghostfleet::emulator {
namespace {

using agent::AddOutcome;
using agent::Ip;
using agent::IpamHolder;
using agent::scan_path;
using agent::scan_string;

constexpr Duration kLaunchRetry = std::chrono::seconds(30);
// A network that takes longer to set up is asked for less often, however many pods wait for it.
constexpr Duration kSetUp = std::chrono::seconds(30);

}  // namespace

// One node: its daemon, the host that the daemon speaks to, and the addresses of its pods by number.
class ShardNetwork::Node final : public agent::PodNetwork, public agent::IpamHost {
 public:
  Node(ShardNetwork& network, uint32_t row) : daemon(network.config_of(row)), network_(network), row_(row) {}

  // PodNetwork
  std::optional<Refusal> add(uint32_t number, const Sandbox& sandbox) override;
  bool adopt(uint32_t number, const Sandbox& sandbox, std::string_view ip) override;
  void remove(uint32_t number) override;
  void forget(uint32_t number) override;

  // IpamHost
  TimePoint now() const override { return network_.parts_.loop->now(); }
  WallTime wall_now() const override { return SystemClock::instance().wall_now(); }
  Rng& rng() override { return *network_.parts_.rng; }
  // The status of its pods in the API is the checkpoint.
  bool save() override { return true; }
  void call(const agent::Ec2Call& call) override {
    call_ = call;
    ticket_ = network_.parts_.vpc->begin(call.action, now());
    network_.arm(row_ * 2 + 1, ticket_.due);
  }
  void arm(TimePoint at) override { network_.arm(row_ * 2, at); }
  void disarm() override { network_.wheel_.cancel(row_ * 2); }

  void begin();
  void answered() { daemon.on_answer(*this, network_.parts_.vpc->finish(instance, call_, ticket_)); }
  std::string address(uint32_t number) const {
    return number < slots_.size() && slots_[number].ip != Ip() ? format_ip(slots_[number].ip) : std::string();
  }
  uint32_t row() const { return row_; }
  // What its earlier pods have, beside what is in the list.
  void add_adopted(std::vector<Ip>* in_use) const {
    for (const Adopted& a : adopted_) {
      if (std::find(in_use->begin(), in_use->end(), a.allocation.ip) == in_use->end())
        in_use->push_back(a.allocation.ip);
    }
  }

  agent::IpamNode daemon;
  InstanceId instance = 0;
  bool launched = false, begun = false, schedulable = true;
  bool had_network = false;  // its plugin has been set up, now or in an earlier run
  TimePoint registered;

 private:
  struct Slot {
    Ip ip;
    uint64_t sandbox = 0;
    bool held = false;
  };
  // Of a pod from an earlier run; only until the daemon has begun.
  struct Adopted {
    uint32_t number = 0;
    agent::IpamAllocation allocation;
  };
  static IpamHolder holder_of(const Sandbox& sandbox);
  Slot& slot(uint32_t number) {
    if (number >= slots_.size()) slots_.resize(number + 1);
    return slots_[number];
  }
  void count(bool more) {
    network_.in_use_count_ += more ? 1 : UINT64_MAX;  // minus one
    network_.in_use_.set(static_cast<double>(network_.in_use_count_));
  }

  ShardNetwork& network_;
  uint32_t row_;
  agent::Ec2Call call_;
  Ec2Ticket ticket_;
  std::vector<Slot> slots_;  // by number
  std::vector<Adopted> adopted_;
};

IpamHolder ShardNetwork::Node::holder_of(const Sandbox& sandbox) {
  IpamHolder h;
  h.key.container_id = agent::made_up_digest(hash_text(sandbox.uid));
  h.pod_namespace = sandbox.ns;
  h.pod_name = sandbox.name;
  return h;
}

std::optional<agent::PodNetwork::Refusal> ShardNetwork::Node::add(uint32_t number, const Sandbox& sandbox) {
  network_.asked_.add();
  const agent::AddResult result = daemon.add(*this, holder_of(sandbox));
  Slot& s = slot(number);
  s.sandbox = hash_text(sandbox.uid);
  had_network |= result.outcome != AddOutcome::kNotReady;
  if (result.outcome == AddOutcome::kOk) {
    if (!s.held) count(true);
    s.held = true;
    s.ip = result.addresses.front().ip;
    return std::nullopt;
  }
  (result.outcome == AddOutcome::kNotReady ? network_.not_ready_ : network_.none_free_).add();
  if (!had_network) {
    const bool soon = now() - registered < kSetUp;
    return Refusal{agent::kNetworkNotReadyReason, std::string(agent::kNetworkNotReady), soon};
  }
  // Each try makes a sandbox of its own, and takes it away again.
  const uint64_t tried = hash_mix(s.sandbox, static_cast<uint64_t>(now().ns));
  return Refusal{agent::kNoAddressReason, agent::sandbox_failure(agent::made_up_digest(tried), result.outcome)};
}

bool ShardNetwork::Node::adopt(uint32_t number, const Sandbox& sandbox, std::string_view ip) {
  Ip address;
  if (!agent::parse_ip(ip, &address)) return false;
  Slot& s = slot(number);
  s = {address, hash_text(sandbox.uid), true};
  count(true);
  if (!begun) adopted_.push_back({number, {holder_of(sandbox), address}});
  return true;
}

void ShardNetwork::Node::remove(uint32_t number) {
  if (number >= slots_.size() || !slots_[number].held) return;
  slots_[number].held = false;
  count(false);
  std::erase_if(adopted_, [number](const Adopted& a) { return a.number == number; });
  agent::IpamKey key;
  key.container_id = agent::made_up_digest(slots_[number].sandbox);
  daemon.remove(*this, key);
}

void ShardNetwork::Node::forget(uint32_t number) {
  remove(number);
  if (number < slots_.size()) slots_[number].ip = Ip();
}

void ShardNetwork::Node::begin() {
  begun = true;
  agent::IpamCheckpoint checkpoint;
  for (Adopted& a : adopted_) checkpoint.allocations.push_back(std::move(a.allocation));
  std::vector<Adopted>().swap(adopted_);
  daemon.set_schedulable(*this, schedulable);
  daemon.start(*this, std::move(checkpoint));
}

ShardNetwork::ShardNetwork(ShardNetworkParts parts)
    : parts_(std::move(parts)),
      asked_(registry_.counter("ghostfleet_ipam_add_requests_total", "Sandboxes that asked for an address.")),
      none_free_(registry_.counter("ghostfleet_ipam_no_available_total", "Sandboxes that found no free address.")),
      not_ready_(
          registry_.counter("ghostfleet_ipam_not_ready_total", "Sandboxes whose node's daemon had not started.")),
      conflicts_(registry_.counter("ghostfleet_ipam_conflicts_total",
                                   "Addresses of pods of an earlier run that the network does not have for them.")),
      launch_failures_(registry_.counter("ghostfleet_ipam_launch_failures_total",
                                         "Nodes whose first interface got no address; tried again each 30 s.")),
      in_use_(registry_.gauge("ghostfleet_ipam_addresses_in_use", "Addresses that pods have.")),
      daemons_(registry_.gauge("ghostfleet_ipam_daemons", "Nodes whose address daemon was started.")),
      wheel_(parts_.loop->now()),
      nodes_(parts_.rows) {
  wheel_.resize(parts_.rows * 2);
}

ShardNetwork::~ShardNetwork() = default;

const std::shared_ptr<const agent::IpamConfig>& ShardNetwork::config_of(uint32_t row) const {
  return parts_.groups[parts_.names->group_of(node_of(row))];
}

bool ShardNetwork::serves(uint32_t row) const { return config_of(row) != nullptr; }

ShardNetwork::Node& ShardNetwork::node(uint32_t row) {
  if (!nodes_[row]) nodes_[row] = std::make_unique<Node>(*this, row);
  return *nodes_[row];
}

agent::PodNetwork* ShardNetwork::of(uint32_t row) { return &node(row); }

std::string ShardNetwork::address(uint32_t row, uint32_t number) const {
  return nodes_[row] ? nodes_[row]->address(number) : std::string();
}

void ShardNetwork::arm(uint32_t index, TimePoint at) {
  wheel_.arm(index, at);
  parts_.wake(at);
}

// What has ended, or is on the host's network, has no address of its own.
void ShardNetwork::pod_found(uint32_t row, std::string_view json) {
  if (open_ || !serves(row)) return;
  const std::string_view phase = scan_string(scan_path(json, {"status", "phase"}));
  Ip ip;
  if (phase == "Succeeded" || phase == "Failed" || scan_path(json, {"spec", "hostNetwork"}) == "true" ||
      !agent::parse_ip(scan_string(scan_path(json, {"status", "podIP"})), &ip)) {
    return;
  }
  std::vector<Ip>& found = found_[row];
  if (std::find(found.begin(), found.end(), ip) == found.end()) found.push_back(ip);
}

void ShardNetwork::keep_found() {
  for (const auto& [row, found] : found_) parts_.vpc->promise(found, gives_prefixes(*config_of(row)));
}

bool ShardNetwork::launch(Node& n) {
  if (n.launched) return true;
  const uint32_t row = n.row();
  const agent::IpamConfig& config = n.daemon.config();
  LaunchRequest request;
  request.zone = parts_.names->identity(node_of(row)).zone;
  request.limits = config.limits;
  request.prefixes = gives_prefixes(config);
  request.at_launch = request.prefixes ? parts_.vpc->spec().prefixes_at_launch : 0;
  request.custom_networking = config.custom_networking;
  if (const auto found = found_.find(row); found != found_.end()) request.in_use = found->second;
  n.add_adopted(&request.in_use);
  const Launch launch = parts_.vpc->launch(request);
  if (launch.error != agent::Ec2Error::kNone) {
    launch_failures_.add();
    parts_.tell_user(row, fmt::format("its instance gets no network interface in VPC {}: {}: none of its pods gets an "
                                      "address; tried again each 30 s",
                                      parts_.vpc->spec().name, ec2_error_code(launch.error)));
    return false;
  }
  found_.erase(row);
  n.instance = launch.id;
  n.launched = true;
  if (launch.conflicts.empty()) return true;
  conflicts_.add(launch.conflicts.size());
  parts_.tell_user(row,
                   fmt::format("{} of its pods have addresses that VPC {} does not have for them ({}): they keep "
                               "them until they end",
                               launch.conflicts.size(), parts_.vpc->spec().name, format_ip(launch.conflicts.front())));
  return true;
}

void ShardNetwork::start(uint32_t row) {
  if (!open_ || !serves(row)) return;
  Node& n = node(row);
  if (n.begun) return;
  if (!launch(n)) return arm(row * 2, parts_.loop->now() + kLaunchRetry);
  n.begin();
  daemons_.set(static_cast<double>(++daemon_count_));
}

void ShardNetwork::registered(uint32_t row, bool earlier) {
  if (!serves(row)) return;
  Node& n = node(row);
  n.had_network |= earlier;
  n.registered = parts_.loop->now();
}

void ShardNetwork::set_schedulable(uint32_t row, bool schedulable) {
  if (!serves(row) || (schedulable && !nodes_[row])) return;
  Node& n = node(row);
  n.schedulable = schedulable;
  if (n.begun) n.daemon.set_schedulable(n, schedulable);
}

void ShardNetwork::advance(TimePoint now) {
  wheel_.advance(now, [this](uint32_t index) {
    Node& n = *nodes_[index / 2];
    if (index % 2 == 1) return n.answered();
    if (!n.begun) return start(index / 2);
    n.daemon.on_timer(n);
  });
}

std::optional<std::string> ShardNetwork::show(uint32_t row, std::string_view path) const {
  if (!nodes_[row] || !nodes_[row]->begun) return std::nullopt;
  const Node& n = *nodes_[row];
  if (path == "/metrics") return render_ipam_metrics(n.daemon, n.now());
  return render_introspection(n.daemon, path, n.wall_now(), n.now());
}

}  // namespace ghostfleet::emulator
