// The lease: made once, then renewed by one PUT built from the version the last answer gave.
#include "agent/node/lease_message.h"
#include "agent/node/node_requests.h"

namespace ghostfleet::agent {
namespace {

constexpr unsigned kTriesInARow = 5;
constexpr Duration kLeaseBase = std::chrono::milliseconds(200);
constexpr Duration kEnsureCap = std::chrono::seconds(7);

constexpr std::string_view kLeases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases?timeout=10s";

Duration period_of(const NodeOptions& options) { return options.lease_duration / 4; }

// A server may answer in JSON what was asked for in protobuf.
uint64_t version_of(std::string_view answer) {
  const uint64_t version = version_of_message(answer);
  return version != 0 ? version : scan_version(answer);
}

Duration timeout_of(const NodeOptions& options) { return std::min(kHeartbeatTimeout, options.lease_duration); }

}  // namespace

void NodeMachine::begin_lease(NodeHost& host) {
  lease_tries_ = 0;
  lease_due_ = host.now();
  if (host.node_class().options().full_fidelity) return send_lease(host, LeaseStep::kGet);
  if (lease_version_ == 0) return send_lease(host, LeaseStep::kCreate);
  // Taken over: the old renewals are spread over a period, these are too.
  lease_step_ = LeaseStep::kWaiting;
  lease_due_ = host.now() + host.rng().between(Duration(0), period_of(host.node_class().options()));
  host.arm(kLeaseTimer, lease_due_);
}

void NodeMachine::lease_due(NodeHost& host) {
  if (lease_step_ != LeaseStep::kWaiting) return;
  const bool full = host.node_class().options().full_fidelity;
  if (lease_version_ != 0 && (!full || lease_tries_ < kTriesInARow)) return send_lease(host, LeaseStep::kUpdate);
  send_lease(host, full ? LeaseStep::kGet : LeaseStep::kCreate);
}

void NodeMachine::send_lease(NodeHost& host, LeaseStep step) {
  const NodeClass& node_class = host.node_class();
  const std::string& name = host.name();
  ApiRequest request;
  request.priority = Priority::kHeartbeat;
  request.tag = kTagLease;
  request.timeout = timeout_of(node_class.options());
  const auto write = [&](uint64_t version) {
    const bool protobuf = host.protobuf_leases();
    request.body_type = protobuf ? BodyType::kProtobuf : BodyType::kJson;
    request.body = node_class.lease_body(name, uid_, version, host.wall_now(), protobuf);
  };
  lease_step_ = step;
  switch (step) {
    case LeaseStep::kGetNode: request.target = NodeClass::node_path(name) + "?timeout=10s"; break;
    case LeaseStep::kCreate:
      request.verb = Verb::kPost;
      request.target = kLeases;
      write(0);
      break;
    case LeaseStep::kUpdate:
      request.verb = Verb::kPut;
      request.target = NodeClass::lease_path(name);
      write(lease_version_);
      break;
    default: request.target = NodeClass::lease_path(name);
  }
  host.send(std::move(request));
}

void NodeMachine::lease_answered(NodeHost& host, const ApiResponse& r) {
  const bool full = host.node_class().options().full_fidelity;
  switch (lease_step_) {
    case LeaseStep::kGet:
      if (r.ok()) return lease_read(host, r);
      if (r.status == 404) return send_lease(host, full ? LeaseStep::kGetNode : LeaseStep::kCreate);
      return lease_failed(host, r);
    case LeaseStep::kGetNode:
      if (r.ok() && scan_uid(r.body, &uid_)) return send_lease(host, LeaseStep::kCreate);
      return next_lease(host);  // no Node, no Lease: again in the next period
    case LeaseStep::kCreate:
      if (r.ok()) return lease_written(host, r);
      if (r.status == 409) return send_lease(host, LeaseStep::kGet);
      return lease_failed(host, r);
    case LeaseStep::kUpdate:
      if (r.ok()) return lease_written(host, r);
      if (r.status == 409 || r.status == 404) {
        lease_version_ = 0;
        if (++lease_tries_ > kTriesInARow) return lease_failed(host, r);  // somebody else writes it all the time
        return send_lease(host, LeaseStep::kGet);
      }
      return lease_failed(host, r);
    default: return;  // off: the node is gone
  }
}

void NodeMachine::lease_read(NodeHost& host, const ApiResponse& r) {
  lease_version_ = scan_version(r.body);
  // A kubelet that finds its Lease before its Node is registered has no uid yet: the ownerReference tells it nothing
  // new, so it asks for the Node first.
  if (uid_.empty()) return send_lease(host, LeaseStep::kGetNode);
  if (lease_version_ == 0) return lease_failed(host, r);
  send_lease(host, LeaseStep::kUpdate);
}

void NodeMachine::lease_written(NodeHost& host, const ApiResponse& r) {
  const bool created = lease_step_ == LeaseStep::kCreate;
  const bool late = lease_tries_ > 0;
  lease_version_ = version_of(r.body);
  host.renewed(host.now() - lease_due_);
  next_lease(host);
  if ((!created && !late) || host.node_class().options().full_fidelity) return;
  // Nodes registered in one burst would renew in one burst for ever, and so would those that met a server again after
  // it was away: the first period is cut at a random place.
  const Duration period = period_of(host.node_class().options());
  lease_due_ = host.now() + host.rng().between(period / 10, period);
  host.arm(kLeaseTimer, lease_due_);
}

void NodeMachine::next_lease(NodeHost& host) {
  const Duration period = period_of(host.node_class().options());
  lease_tries_ = 0;
  lease_step_ = LeaseStep::kWaiting;
  lease_due_ = host.now() + host.rng().between(period, period + period / 25);
  host.arm(kLeaseTimer, lease_due_);
}

void NodeMachine::lease_failed(NodeHost& host, const ApiResponse& r) {
  const NodeOptions& options = host.node_class().options();
  if (r.status == 400 || r.status == 422) lease_version_ = 0;  // what we hold is no version the server takes
  const bool told_to_wait = r.retry_after > Duration(0);
  if (lease_tries_ < 60) ++lease_tries_;
  if (options.full_fidelity && lease_tries_ > 1) host.heartbeat_failed();
  if (options.full_fidelity && lease_step_ == LeaseStep::kUpdate && lease_tries_ < kTriesInARow && !told_to_wait) {
    return send_lease(host, LeaseStep::kUpdate);
  }
  unsigned tries = lease_tries_ - 1u;
  if (options.full_fidelity) tries = tries < kTriesInARow ? 0 : tries - kTriesInARow;
  const Duration cap = options.full_fidelity ? kEnsureCap : std::max(period_of(options), kLeaseBase);
  lease_step_ = LeaseStep::kWaiting;
  host.arm(kLeaseTimer, host.now() + backoff(host, tries, r, kLeaseBase, cap, !options.full_fidelity));
}

}  // namespace ghostfleet::agent
