// A backend and timers for tests: pods from a list, API answers from a function, time by hand.
//
// Thread rule: one thread; run() plays what is due.
#pragma once

#include <deque>
#include <map>
#include <memory>

#include "agent/kubelet_api/backend.h"
#include "kube/stream/timers.h"

namespace ghostfleet::kubelet_api {

class ManualTimers final : public kube::stream::Timers {
 public:
  explicit ManualTimers(ManualClock& clock) : clock_(clock) {}
  TimePoint now() const override { return clock_.now(); }
  Id run_after(Duration delay, std::function<void()> task) override {
    const Id id = next_++;
    tasks_.emplace(std::make_pair(clock_.now() + delay, id), std::move(task));
    return id;
  }
  void cancel(Id id) override {
    std::erase_if(tasks_, [id](const auto& t) { return t.first.second == id; });
  }
  // Advances the clock step by step, playing what falls due.
  void run(Duration d) {
    const TimePoint end = clock_.now() + d;
    while (!tasks_.empty() && tasks_.begin()->first.first <= end) {
      auto node = tasks_.extract(tasks_.begin());
      if (node.key().first > clock_.now()) clock_.advance(node.key().first - clock_.now());
      node.mapped()();
    }
    if (end > clock_.now()) clock_.advance(end - clock_.now());
  }

 private:
  ManualClock& clock_;
  std::map<std::pair<TimePoint, Id>, std::function<void()>> tasks_;
  Id next_ = 1;
};

class TestBackend final : public Backend {
 public:
  explicit TestBackend(kube::stream::Timers& timers) : timers_(timers) {
    node_.capacity = {{"cpu", "8"}, {"memory", "32Gi"}, {"pods", "110"}};
    node_.labels = {{"karpenter.k8s.aws/instance-gpu-name", "h100"}, {"karpenter.k8s.aws/instance-family", "trn2"}};
  }
  NodeInfo node(NodeId node) const override {
    NodeInfo info;
    info.identity.name = "n" + std::to_string(node);
    info.identity.internal_ip = "127.64.1.0";
    info.node = &node_;
    info.allocatable = &node_.capacity;
    info.started = {1767607200000000000};
    return info;
  }
  void describe(NodeId node, agent::PodPick pick, PodsCallback done) override {
    describe_many({{node, std::move(pick)}}, [done = std::move(done)](auto answers) { done(std::move(answers[0])); });
  }
  void describe_many(std::vector<Question> questions,
                     std::function<void(std::vector<std::vector<agent::PodView>>)> done) override {
    ++questions_;
    std::vector<std::vector<agent::PodView>> answers;
    for (const Question& q : questions) {
      answers.emplace_back();
      for (const agent::PodView& pod : pods[q.first]) {
        if (q.second.name.empty() || (pod.name == q.second.name && pod.ns == q.second.ns))
          answers.back().push_back(pod);
      }
    }
    timers_.run_after(Duration(0), [done = std::move(done), answers = std::move(answers)] { done(answers); });
  }
  void disk(NodeId, std::function<void(std::optional<agent::DiskRoom>)> done) override {
    timers_.run_after(Duration(0), [done = std::move(done), room = room] { done(room); });
  }
  void call_api(NodeId, std::string target, std::string body, ApiCallback done) override {
    calls.push_back(target + " " + body);
    const ApiAnswer answer = api ? api(target, body) : ApiAnswer{404, "{}"};
    timers_.run_after(Duration(0), [done = std::move(done), answer] { done(answer); });
  }

  std::map<NodeId, std::vector<agent::PodView>> pods;
  std::function<ApiAnswer(const std::string& target, const std::string& body)> api;
  std::vector<std::string> calls;
  std::optional<agent::DiskRoom> room;
  int questions_ = 0;

 private:
  kube::stream::Timers& timers_;
  agent::NodeTemplate node_;
};

// A pod with one running container "c".
inline agent::PodView test_pod(WallTime started, std::string script = {}) {
  agent::PodView pod;
  pod.ns = "default";
  pod.name = "p";
  pod.uid = "uid-1";
  pod.ip = "10.64.0.1";
  pod.start_time = started;
  agent::ContainerView c;
  c.name = "c";
  c.image = "nginx";
  c.state = agent::ContainerState::kRunning;
  c.current = {true, false, 0, started, {}, 0};
  c.resources =
      R"({"limits":{"nvidia.com/gpu":"2","aws.amazon.com/neuron":"2"},"requests":{"cpu":"1","memory":"1Gi"}})";
  c.script = agent::parse_script(script, {}, nullptr);
  c.id = "containerd://abc";
  pod.containers.push_back(std::move(c));
  return pod;
}

}  // namespace ghostfleet::kubelet_api
