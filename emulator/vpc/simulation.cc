#include "emulator/vpc/simulation.h"

namespace ghostfleet::emulator {

// One for all nodes: it knows which one speaks.
class Simulation::Host final : public agent::IpamHost {
 public:
  explicit Host(Simulation& s) : s_(s) {}
  Host& of(NodeIndex node) {
    node_ = node;
    return *this;
  }

  TimePoint now() const override { return s_.now_; }
  WallTime wall_now() const override { return s_.wall_now(); }
  Rng& rng() override { return s_.rng_; }
  bool save() override { return s_.saves_; }

  void call(const agent::Ec2Call& call) override {
    Node& n = s_.nodes_[node_];
    n.call = call;
    n.ticket = s_.vpc_.begin(call.action, s_.now_);
    s_.push(node_, n.ticket.due, ++n.calling, true);
  }
  void arm(TimePoint at) override {
    Node& n = s_.nodes_[node_];
    if (n.armed != 0 && n.timer == at) return;
    n.timer = at;
    n.armed = ++numbers_ == 0 ? ++numbers_ : numbers_;
    s_.push(node_, std::max(at, s_.now_), n.armed, false);
  }
  void disarm() override { s_.nodes_[node_].armed = 0; }

 private:
  Simulation& s_;
  NodeIndex node_ = 0;
  uint32_t numbers_ = 0;
};

Simulation::Simulation(Vpc& vpc, uint64_t seed) : vpc_(vpc), rng_(seed), host_(std::make_unique<Host>(*this)) {}
Simulation::~Simulation() = default;

Simulation::NodeIndex Simulation::add(std::shared_ptr<const agent::IpamConfig> config, InstanceId instance) {
  nodes_.push_back({agent::IpamNode(std::move(config)), instance, 0, 0, {}, {}, {}});
  return static_cast<NodeIndex>(nodes_.size() - 1);
}

void Simulation::start(NodeIndex node, agent::IpamCheckpoint checkpoint) {
  ++nodes_[node].calling;  // what an earlier start asked is not answered any more
  nodes_[node].machine.start(host_->of(node), std::move(checkpoint));
}

agent::AddResult Simulation::add_pod(NodeIndex node, const agent::IpamHolder& holder, bool all_cards) {
  return nodes_[node].machine.add(host_->of(node), holder, all_cards);
}

bool Simulation::remove_pod(NodeIndex node, const agent::IpamKey& key) {
  return nodes_[node].machine.remove(host_->of(node), key);
}

void Simulation::set_schedulable(NodeIndex node, bool schedulable) {
  nodes_[node].machine.set_schedulable(host_->of(node), schedulable);
}

void Simulation::request_reconcile(NodeIndex node) { nodes_[node].machine.request_reconcile(host_->of(node)); }

void Simulation::push(NodeIndex node, TimePoint at, uint32_t number, bool answer) {
  queue_.push({at, order_++, node, number, answer});
}

void Simulation::play(const Moment& moment) {
  Node& n = nodes_[moment.node];
  if (moment.number != (moment.answer ? n.calling : n.armed)) return;
  ++events_;
  if (!moment.answer) {
    n.armed = 0;
    return n.machine.on_timer(host_->of(moment.node));
  }
  const agent::Ec2Answer answer = vpc_.finish(n.instance, n.call, n.ticket);
  n.machine.on_answer(host_->of(moment.node), answer);
}

void Simulation::run_for(Duration d) {
  const TimePoint until = now_ + d;
  while (!queue_.empty() && queue_.top().at <= until) {
    const Moment moment = queue_.top();
    queue_.pop();
    now_ = std::max(now_, moment.at);
    play(moment);
  }
  now_ = until;
}

bool Simulation::run_until(const std::function<bool()>& done, Duration most) {
  const TimePoint until = now_ + most;
  while (!done()) {
    if (queue_.empty() || queue_.top().at > until) {
      now_ = until;
      return done();
    }
    const Moment moment = queue_.top();
    queue_.pop();
    now_ = std::max(now_, moment.at);
    play(moment);
  }
  return true;
}

}  // namespace ghostfleet::emulator
