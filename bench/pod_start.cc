// What a pod costs a light node: CPU from its first sight to the acknowledged Running status (two PATCHes, three
// events, the watch's echoes), and memory while it runs.
//
// With SECONDS: what pods cost that wait for an address instead, each tried again every 10 to 15 s on a node whose 49
// addresses are in use, over so many seconds of virtual time.
//
// usage: pod_start [NODES] [PODS_PER_NODE] [SECONDS]   Prints one line of figures. No network: the answers are
// immediate.
#include <fmt/format.h>
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "agent/network/cni_text.h"
#include "agent/pod/images.h"
#include "agent/pod/pod_manager.h"
#include "base/hash.h"

namespace {

using namespace ghostfleet;

// Keeps the tags of requests and answers them later; one timer, as a fleet's wheel would hold it.
class BenchHost final : public agent::Host {
 public:
  BenchHost(ManualClock& clock, uint64_t seed) : clock_(clock), rng_(seed) {}
  TimePoint now() const override { return clock_.now(); }
  WallTime wall_now() const override { return clock_.wall_now(); }
  Rng& rng() override { return rng_; }
  void send(agent::ApiRequest request) override {
    ++requests;
    bytes += request.body.size();
    waiting.push_back(request.tag);
  }
  void arm(agent::Tag, TimePoint at) override { due = at; }
  void disarm(agent::Tag) override { due = TimePoint{INT64_MAX}; }

  size_t requests = 0, bytes = 0;
  std::vector<agent::Tag> waiting;
  TimePoint due{INT64_MAX};

 private:
  ManualClock& clock_;
  Rng rng_;
};

std::string pod_text(size_t n) {
  return fmt::format(
      R"({{"metadata":{{"name":"lat-5d8f7c9b4-{:05x}","namespace":"default","uid":"{:08x}-1111-4222-8333-444455556666",
"resourceVersion":"{}","generation":1,"labels":{{"app":"lat","pod-template-hash":"5d8f7c9b4"}},
"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"lat-5d8f7c9b4","controller":true}}]}},
"spec":{{"volumes":[{{"name":"kube-api-access-{:05x}","projected":{{"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,
"path":"token"}}}},{{"configMap":{{"name":"kube-root-ca.crt"}}}}]}}}}],"containers":[{{"name":"c","image":"registry.example/web:1",
"resources":{{"requests":{{"cpu":"100m","memory":"64Mi"}}}},"volumeMounts":[{{"name":"kube-api-access-{:05x}","readOnly":true,
"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}],"imagePullPolicy":"IfNotPresent"}}],"restartPolicy":"Always",
"terminationGracePeriodSeconds":30,"serviceAccountName":"default","nodeName":"n","tolerations":[{{"key":
"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}]}},"status":{{"phase":"Pending",
"qosClass":"Burstable","conditions":[{{"type":"PodScheduled","status":"True","lastTransitionTime":"2026-01-05T10:00:00Z"}}]}}}})",
      n & 0xfffff, n, n + 1000, n & 0xfffff, n & 0xfffff);
}

// A node's daemon without a free address.
class FullNetwork final : public agent::PodNetwork {
 public:
  explicit FullNetwork(ManualClock& clock) : clock_(clock) {
    agent::PoolEni eni;
    eni.id = 1;
    for (uint32_t i = 0; i < 49; ++i) eni.ranges.push_back({{agent::Ip::v4((10u << 24) + i), 32}, {}});
    pool_.add_eni(std::move(eni));
    for (uint32_t i = 0; i < 49; ++i) pool_.assign(holder(i), clock_.now());
  }
  std::optional<Refusal> add(uint32_t, const Sandbox& sandbox) override {
    ++tries;
    const uint64_t hash = hash_text(sandbox.uid);
    const agent::IpamHolder own = holder(hash);
    if (pool_.find(own.key) || pool_.assign(own, clock_.now())) return std::nullopt;
    const std::string id = agent::made_up_digest(hash_mix(hash, static_cast<uint64_t>(clock_.now().ns)));
    return Refusal{agent::kNoAddressReason, agent::sandbox_failure(id, agent::AddOutcome::kNoAddress)};
  }
  bool adopt(uint32_t, const Sandbox&, std::string_view) override { return false; }
  void remove(uint32_t) override {}
  void forget(uint32_t) override {}

  size_t tries = 0;

 private:
  static agent::IpamHolder holder(uint64_t hash) {
    agent::IpamHolder h;
    h.key.container_id = agent::made_up_digest(hash);
    return h;
  }
  ManualClock& clock_;
  agent::AddressPool pool_{0, false, std::chrono::seconds(30)};
};

struct Node {
  agent::NodeFacts facts;
  std::unique_ptr<FullNetwork> network;
  std::unique_ptr<BenchHost> host;
  std::unique_ptr<agent::PodManager> manager;

  void answer_all() {
    while (!host->waiting.empty()) {
      std::vector<agent::Tag> tags = std::move(host->waiting);
      host->waiting.clear();
      for (const agent::Tag tag : tags) manager->on_response(tag, {200, "", Duration(0)});
    }
  }
};

// CPU of this thread: other programs on the machine do not count.
double cpu_us() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

size_t heap() { return mallinfo2().uordblks; }

// The pods are there and wait; what their tries cost.
int measure_waiting(std::vector<Node>& nodes, ManualClock& clock, size_t pods, int seconds) {
  const auto tries = [&nodes] {
    size_t n = 0;
    for (const Node& node : nodes) n += node.network->tries;
    return n;
  };
  size_t requests = 0;
  for (const Node& node : nodes) requests += node.host->requests;
  const size_t first_tries = tries();
  const double begin = cpu_us();
  for (int i = 0; i < seconds * 10; ++i) {
    clock.advance(std::chrono::milliseconds(100));
    for (Node& node : nodes) {
      if (node.host->due <= clock.now()) node.manager->on_timer(agent::kPodTimerTag);
      node.answer_all();
    }
  }
  const double us = cpu_us() - begin;
  const auto more = static_cast<double>(tries() - first_tries);
  size_t sent = 0;
  for (const Node& node : nodes) sent += node.host->requests;
  fmt::print("pods waiting {} tries/s {:.0f} us/try {:.1f} cores {:.3f} events/s {:.0f}\n", pods, more / seconds,
             us / more, us / 1e6 / seconds, static_cast<double>(sent - requests) / seconds);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const size_t node_count = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1000;
  const size_t per_node = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 10;
  const int waiting = argc > 3 ? std::atoi(argv[3]) : 0;
  ManualClock clock;
  auto options = std::make_shared<agent::PodOptions>();
  const auto object = std::make_shared<const kube::Json>(
      kube::parse_json(R"({"status":{"allocatable":{"cpu":"192","memory":"2Ti","pods":"1000"}}})").value());
  std::vector<std::string> pods;
  for (size_t i = 0; i < node_count * per_node; ++i) pods.push_back(pod_text(i));
  std::vector<Node> nodes(node_count);
  const size_t before_nodes = heap();
  for (size_t i = 0; i < node_count; ++i) {
    nodes[i].facts.name = "n";
    nodes[i].facts.host_ip = "10.0.0.1";
    nodes[i].facts.object = object;
    nodes[i].facts.pod_ip = [](uint32_t n) { return fmt::format("10.64.0.{}", n + 2); };
    nodes[i].host = std::make_unique<BenchHost>(clock, i);
    if (waiting > 0) {
      nodes[i].network = std::make_unique<FullNetwork>(clock);
      nodes[i].facts.network = nodes[i].network.get();
    }
    nodes[i].manager = agent::PodManager::create(nodes[i].facts, options, *nodes[i].host);
  }
  const size_t before = heap();
  const double begin = cpu_us();
  for (size_t i = 0; i < pods.size(); ++i) nodes[i % node_count].manager->on_pod_text(pods[i]);
  for (Node& node : nodes) node.answer_all();
  if (waiting > 0) return measure_waiting(nodes, clock, pods.size(), waiting);
  clock.advance(std::chrono::milliseconds(300));
  size_t running = 0, requests = 0, bytes = 0;
  for (Node& node : nodes) {
    if (node.host->due <= clock.now()) node.manager->on_timer(agent::kPodTimerTag);
    node.answer_all();
    node.host->waiting.shrink_to_fit();
    running += node.manager->running_count();
    requests += node.host->requests;
    bytes += node.host->bytes;
  }
  const double us = cpu_us() - begin;
  const auto n = static_cast<double>(pods.size());
  fmt::print(
      "pods {} running {} us/pod {:.2f} requests/pod {:.1f} body-bytes/pod {:.0f} heap-bytes/pod {:.0f} "
      "heap-bytes/manager {:.0f}\n",
      pods.size(), running, us / n, static_cast<double>(requests) / n, static_cast<double>(bytes) / n,
      static_cast<double>(heap() - before) / n,
      static_cast<double>(before - before_nodes) / static_cast<double>(node_count));
  return running == pods.size() ? 0 : 1;
}
