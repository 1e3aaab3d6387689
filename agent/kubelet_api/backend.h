// What the server of a node asks of the outside: the nodes it speaks for, their pods, and the API server. Whoever binds
// it to sockets implements these.
//
// Thread rule: all calls and all callbacks on the loop of the server, callbacks never from inside the call. A callback
// comes exactly once. Ownership: the backend outlives the server.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/node/node_template.h"
#include "agent/pod/image_puller.h"
#include "agent/pod/pod_view.h"
#include "agent/pod/pressure.h"
#include "base/clock.h"

namespace ghostfleet::kubelet_api {

using NodeId = uint32_t;

// What is known of a node without asking it.
struct NodeInfo {
  agent::NodeIdentity identity;
  const agent::NodeTemplate* node = nullptr;  // never null in an answer of Backend::node()
  const agent::StringPairs* allocatable = nullptr;
  const agent::EvictionRules* eviction = nullptr;  // null: a kubelet's defaults
  std::optional<agent::DiskRoom> disk;             // as Backend::disk() tells it; else images take no room
  WallTime started;
  uint64_t seed = 0;
};

struct ApiAnswer {
  int status = 0;  // 0: no answer
  std::string body;
  bool ok() const { return status >= 200 && status < 300; }
};

class Backend {
 public:
  using PodsCallback = std::function<void(std::vector<agent::PodView>)>;
  using Question = std::pair<NodeId, agent::PodPick>;
  using ApiCallback = std::function<void(ApiAnswer)>;

  virtual ~Backend() = default;
  virtual NodeInfo node(NodeId node) const = 0;
  // The pods a node runs now.
  virtual void describe(NodeId node, agent::PodPick pick, PodsCallback done) = 0;
  // The same for many nodes at once: answers in the order of the questions.
  virtual void describe_many(std::vector<Question> questions,
                             std::function<void(std::vector<std::vector<agent::PodView>>)> done) = 0;
  // The disk that the node's images and pods share.
  virtual void disk(NodeId node, std::function<void(std::optional<agent::DiskRoom>)> done) = 0;
  // A call of the API server with the credentials of the node (in a fleet, of the fleet). A body makes it a POST.
  virtual void call_api(NodeId node, std::string target, std::string body, ApiCallback done) = 0;
};

}  // namespace ghostfleet::kubelet_api
