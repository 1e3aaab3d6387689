#include "emulator/fleet/node_server_backend.h"

#include "emulator/fleet/shard.h"

namespace ghostfleet::emulator {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(10);
constexpr int kTries = 2;

kube::ApiCall api_call(std::string target, std::string body) {
  kube::ApiCall call;
  call.method = body.empty() ? "GET" : "POST";
  call.target = std::move(target);
  call.body = std::move(body);
  call.timeout = kTimeout;
  call.max_tries = kTries;
  return call;
}

kubelet_api::ApiAnswer answer_of(kube::ApiCallResult result) {
  return {result.transport_error.ok() ? result.status : 0, std::move(result.body)};
}

}  // namespace

// Answers of several shards, in the order of the questions. Written on the server's loop only.
struct NodeServerBackend::Gathering {
  std::vector<std::vector<agent::PodView>> answers;
  size_t left = 0;
  std::function<void(std::vector<std::vector<agent::PodView>>)> done;
};

NodeServerBackend::NodeServerBackend(EventLoop& loop, NodeServer::Parts parts)
    : loop_(loop), parts_(std::move(parts)), started_(SystemClock::instance().wall_now()) {}

NodeServerBackend::~NodeServerBackend() = default;

Status NodeServerBackend::connect(const kube::ClientConfig& config) {
  if (parts_.node_credentials) return Status();
  kube::KubeClientOptions options;
  options.max_connections = 2;
  options.seed = parts_.seed;
  auto client = kube::KubeClient::create(loop_, config, options);
  if (!client.ok()) return client.error();
  client_ = std::move(client).value();
  return Status();
}

kubelet_api::NodeInfo NodeServerBackend::node(kubelet_api::NodeId node) const {
  const agent::NodeClass& node_class = *parts_.classes[parts_.names->group_of(node)];
  kubelet_api::NodeInfo info;
  info.identity = parts_.names->identity(node);
  info.node = &node_class.node_template();
  info.allocatable = &node_class.allocatable();
  info.eviction = &parts_.eviction;
  info.started = started_;
  info.seed = parts_.seed;
  return info;
}

void NodeServerBackend::describe(kubelet_api::NodeId node, agent::PodPick pick, PodsCallback done) {
  std::vector<Question> questions;
  questions.emplace_back(node, std::move(pick));
  describe_many(std::move(questions), [done = std::move(done)](std::vector<std::vector<agent::PodView>> answers) {
    done(std::move(answers[0]));
  });
}

void NodeServerBackend::describe_many(std::vector<Question> questions,
                                      std::function<void(std::vector<std::vector<agent::PodView>>)> done) {
  struct Asked {
    size_t place = 0;  // among the answers
    uint32_t row = 0;
    agent::PodPick pick;
  };
  std::vector<std::vector<Asked>> by_shard(parts_.shards.size());
  auto gathering = std::make_shared<Gathering>();
  gathering->answers.resize(questions.size());
  gathering->done = std::move(done);
  for (size_t i = 0; i < questions.size(); ++i) {
    const kubelet_api::NodeId node = questions[i].first;
    by_shard[node % by_shard.size()].push_back({i, row_of(node), std::move(questions[i].second)});
  }
  for (const auto& asked : by_shard) gathering->left += asked.empty() ? 0 : 1;
  for (size_t s = 0; s < by_shard.size(); ++s) {
    if (by_shard[s].empty()) continue;
    Shard& shard = *parts_.shards[s];
    shard.loop().post([&shard, gathering, asked = std::move(by_shard[s]), &loop = loop_] {
      std::vector<std::pair<size_t, std::vector<agent::PodView>>> found;
      for (const Asked& a : asked) found.emplace_back(a.place, shard.describe_pods(a.row, a.pick));
      loop.post([gathering, found = std::move(found)]() mutable {
        for (auto& [place, pods] : found) gathering->answers[place] = std::move(pods);
        if (--gathering->left == 0) gathering->done(std::move(gathering->answers));
      });
    });
  }
}

void NodeServerBackend::disk(kubelet_api::NodeId node, std::function<void(std::optional<agent::DiskRoom>)> done) {
  Shard& shard = shard_of(node);
  shard.loop().post([&shard, row = row_of(node), done = std::move(done), &loop = loop_] {
    loop.post([done, room = shard.disk_room(row)] { done(room); });
  });
}

void NodeServerBackend::call_api(kubelet_api::NodeId node, std::string target, std::string body, ApiCallback done) {
  if (client_) {
    client_->call(api_call(std::move(target), std::move(body)),
                  [done = std::move(done)](kube::ApiCallResult result) { done(answer_of(std::move(result))); });
    return;
  }
  Shard& shard = shard_of(node);
  shard.loop().post([&shard, row = row_of(node), call = api_call(std::move(target), std::move(body)),
                     done = std::move(done), &loop = loop_]() mutable {
    shard.call_api(row, std::move(call), [&loop, done = std::move(done)](kube::ApiCallResult result) {
      loop.post([done, answer = answer_of(std::move(result))]() { done(answer); });
    });
  });
}

}  // namespace ghostfleet::emulator
