// NodeServer: the HTTPS servers of all nodes of a fleet on one listening socket: which node a request is for is told by
// the address the client came to (or by the port, when all nodes share an address). Binds agent/kubelet_api to sockets,
// to the shards that have the pods, and to the API server.
//
// Nothing is kept for a node: neither socket nor memory, until somebody asks for it.
// Thread rule: bind, start and stop on the owner's thread; it serves on a thread of its own and asks the shards by
// messages. Ownership: owns its loop and thread; names, classes and shards outlive stop().
// Errors: a port that is taken names address and port. Docs: docs/node-server.md.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/pod/pressure.h"
#include "base/metrics.h"
#include "base/status.h"
#include "emulator/fleet/identity.h"
#include "kube/client/client_config.h"
#include "kube/http/tls.h"

namespace ghostfleet::agent {
class NodeClass;
}
namespace ghostfleet::kubelet_api {
class UsageModel;
}

namespace ghostfleet::emulator {

class Shard;

// kAuto: as kLoopback when the API server is on this machine's loopback, else kOff.
enum class NodeServerMode : unsigned char { kAuto, kLoopback, kPorts, kOff };

struct NodeServerOptions {
  NodeServerMode mode = NodeServerMode::kOff;
  int port = 10250;            // kPorts: of the first node; 0: any free one
  bool port_given = false;     // a port that was not asked for gives way when it is taken
  std::string address;         // kPorts: where to listen, and the InternalIP of all nodes
  std::string node_cidr;       // kLoopback: the network of the nodes' addresses; empty: 127.64.0.0/10
  std::string client_ca_file;  // empty: what the API server publishes (kube-system/extension-apiserver-authentication)
  std::string tls_cert_file, tls_key_file;               // empty: self-signed
  std::shared_ptr<const kubelet_api::UsageModel> usage;  // null: the default
  // The serving certificate of a node; null, or null from it: the server's own. Called on the server's thread.
  std::function<std::shared_ptr<const kube::http::TlsIdentity>(uint32_t node)> certificate_of;
};

inline constexpr uint32_t kMaxNodesByPort = 20000;

// What kAuto means for this server.
NodeServerMode resolve_mode(NodeServerMode mode, const std::string& server_url);
// Checks that need no network: addresses, files that must be there, counts.
Status check_node_server(const NodeServerOptions& options, uint32_t nodes);

class NodeServer {
 public:
  // Who answers for the nodes.
  struct Parts {
    const FleetNames* names = nullptr;
    std::vector<std::shared_ptr<const agent::NodeClass>> classes;
    std::vector<Shard*> shards;
    kube::ClientConfig client;      // for reviews and for pods
    bool node_credentials = false;  // each node asks with its own client instead (its shard's)
    // Whether the client CA is read from the API server; else it is the CA of `client`, as a kubelet is given the
    // cluster's.
    bool ask_for_client_ca = true;
    uint64_t seed = 1;
    agent::EvictionRules eviction;  // that the nodes follow
    std::function<void(const std::string&)> notice;
  };

  // Begins to listen. `names` gets the network of the nodes' addresses; the port is known afterwards.
  static Result<std::unique_ptr<NodeServer>> bind(const NodeServerOptions& options, FleetNames* names);
  virtual ~NodeServer() = default;  // stops

  // Of every node; 0 when it is in the node's identity.
  virtual uint16_t port() const = 0;
  // One line for people when the port is not the one wanted; else empty.
  virtual const std::string& remark() const = 0;
  virtual Status start(Parts parts) = 0;
  virtual void stop() = 0;
  virtual const MetricsRegistry& metrics() const = 0;
};

}  // namespace ghostfleet::emulator
