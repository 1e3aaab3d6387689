// NodeServerBackend: what the node servers ask of their fleet: the pods of a node (of its shard, by message) and the
// API server. Not for others.
//
// Thread rule: the loop of the server. Ownership: names, classes and shards outlive it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/kubelet_api/backend.h"
#include "base/event_loop.h"
#include "emulator/fleet/node_server.h"
#include "kube/client/client.h"

namespace ghostfleet::emulator {

class NodeServerBackend final : public kubelet_api::Backend {
 public:
  NodeServerBackend(EventLoop& loop, NodeServer::Parts parts);
  ~NodeServerBackend() override;
  Status connect(const kube::ClientConfig& config);

  kubelet_api::NodeInfo node(kubelet_api::NodeId node) const override;
  void describe(kubelet_api::NodeId node, agent::PodPick pick, PodsCallback done) override;
  void disk(kubelet_api::NodeId node, std::function<void(std::optional<agent::DiskRoom>)> done) override;
  void describe_many(std::vector<Question> questions,
                     std::function<void(std::vector<std::vector<agent::PodView>>)> done) override;
  void call_api(kubelet_api::NodeId node, std::string target, std::string body, ApiCallback done) override;

 private:
  struct Gathering;
  uint32_t row_of(uint32_t node) const { return node / static_cast<uint32_t>(parts_.shards.size()); }
  Shard& shard_of(uint32_t node) const { return *parts_.shards[node % parts_.shards.size()]; }

  EventLoop& loop_;
  NodeServer::Parts parts_;
  WallTime started_;
  std::unique_ptr<kube::KubeClient> client_;
};

}  // namespace ghostfleet::emulator
