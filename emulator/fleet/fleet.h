// Fleet: very many nodes in one process. Each shard is one thread with its own event loop, node table, timer wheel and
// connections; shards share nothing. One more thread, the hub, watches the fleet's nodes and pods and hands what it
// sees to the shards.
//
// Thread rule: start, stop, snapshot, metrics and node_name may be called from any one thread that is not the fleet's;
// callbacks run on the fleet's threads and must return quickly.
// Ownership: the Fleet owns its threads; everything in FleetOptions is copied.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/device/socket/node_sockets.h"
#include "agent/node/node_class.h"
#include "agent/node/node_template.h"
#include "agent/pod/pod_manager.h"
#include "base/metrics.h"
#include "base/status.h"
#include "emulator/fleet/certificate_folder.h"
#include "emulator/fleet/identity.h"
#include "emulator/fleet/network_options.h"
#include "emulator/fleet/node_server.h"
#include "kube/client/client_config.h"

namespace ghostfleet::emulator {

struct ImageStoreOptions;  // store_puller.h

enum class ConnectionMode : unsigned char {
  kShared,   // heartbeats multiplexed over a few HTTP/2 connections of each shard
  kPerNode,  // every node its own TLS connection and the watches a kubelet opens
};

// Who the nodes are towards the API server.
struct IdentityOptions {
  // False: all act with the credentials of `FleetOptions::client`. True: each is system:node:NAME by a certificate of
  // its own, which it requests with those credentials (needs ConnectionMode::kPerNode).
  bool per_node = false;
  bool rotate = true;            // renew certificates before they expire
  bool serving = false;          // also request a certificate of signer kubernetes.io/kubelet-serving
  bool approve_serving = false;  // and approve it with the fleet's credentials: nobody else does
  CertificateFolder folder;      // where certificates are kept between runs
  // Credentials for the first request, when `client` has none of its own (a bootstrap kubeconfig).
  kube::ClientConfig bootstrap;
};

struct FleetOptions {
  kube::ClientConfig client;
  std::string name;  // of the fleet: a DNS label; nodes carry it in the label ghostfleet.dev/fleet
  std::vector<FleetGroup> groups;
  ConnectionMode connections = ConnectionMode::kShared;
  IdentityOptions identity;
  double register_rate = 0;  // nodes a second; 0: adaptive
  double event_rate = 0;     // events a second of the whole fleet; beyond it they are dropped; 0: no such limit
  Duration lease_duration = std::chrono::seconds(40);         // renewed every quarter of it
  Duration status_report_period = std::chrono::seconds(300);  // an unchanged status is written that often
  int shards = 0;                                             // 0: min(cores - 1, 8), at least 1
  uint64_t seed = 1;
  bool full_fidelity = false;  // the requests of a kubelet one by one; else those that change something
  agent::NodeEvents events = agent::NodeEvents::kFew;
  bool adopt = false;  // takes over a node of the right name that carries no or another fleet's label
  // Not negative: as a kubelet that lost its device manager's checkpoint (agent::NodeOptions).
  Duration device_plugin_delay = Duration(-1);
  bool recreate_deleted = false;  // registers a node again that somebody deleted (a kubelet does not)
  bool run_pods = true;
  agent::PodOptions pods;
  // Not empty: nodes and pods have a second address, IPv6, from this network (SecondNetwork).
  std::string second_pod_cidr;
  bool second_is_primary = false;  // the IPv6 address comes first
  // The cloud network that pods have their addresses from; null: a range of the fleet's own, without end.
  std::shared_ptr<const NetworkOptions> network;
  std::string network_claims;     // file of claims (docs/network.md); empty: nobody shares the network
  int connections_per_shard = 2;  // shared mode
  NodeServerOptions node_server;
  // The first node's device plugins are processes that register on a socket (docs/device-plugins.md), not models.
  std::optional<agent::NodeSocketOptions> device_sockets;
  // How images are pulled (docs/images.md); null: by pods.image_rules alone.
  std::shared_ptr<const ImageModel> images;
  // The images of the one node are really pulled into a folder (docs/image-pull.md); without `images`, and in full
  // fidelity.
  std::shared_ptr<const ImageStoreOptions> image_store;
};

// What everybody wants to know, of all shards together.
struct FleetStats {
  uint64_t nodes = 0;       // configured
  uint64_t registered = 0;  // the Node object exists and is ours
  uint64_t ready = 0;       // Ready=True acknowledged by the server
  uint64_t not_ours = 0;    // left alone: somebody else's node of that name
  uint64_t deleted = 0;     // deleted under us and not re-created
  uint64_t taken_over = 0;  // existed from an earlier run
  uint64_t pods = 0, pods_running = 0, pods_finished = 0;
  uint64_t certificates = 0;          // client certificates of nodes that are valid
  uint64_t certificates_rotated = 0;  // renewed so far
  double ready_seconds = -1;          // first request to the last acknowledged Ready; -1: not all are Ready yet
  uint64_t renewals = 0;
  uint64_t not_ready_transitions = 0;  // Ready going from True to something else, seen in the API
  double lateness_p50 = 0, lateness_p99 = 0, lateness_max = 0;  // seconds: renewal due to acknowledged
  double request_p50 = 0, request_p99 = 0;                      // seconds: sent to answered, all requests
  std::map<std::string, uint64_t> errors;                       // by kind: "connect", "timeout", "429", "409", ...
  std::map<std::string, uint64_t> requests;                     // "PUT leases", "PATCH nodes/status", ...
  std::map<std::string, uint64_t> events_dropped;               // by reason: "filter", "fleet_budget", ...
  double registrations_per_second = 0;                          // over the last second or so
  uint64_t in_flight = 0, queued = 0, connections = 0;
  double clock_skew_seconds = 0;               // server's Date header minus ours; warned beyond 5 s
  std::vector<std::string> not_ours_examples;  // at most 10 names
  // Modelled pulls: attempts by result, "in_progress", "bytes" fetched, images "removed"; empty when none are modelled.
  std::map<std::string, uint64_t> image_pulls;
};

struct FleetCallbacks {
  // Something a person should read: "node x exists and is not ours". At most a few a second.
  std::function<void(const std::string&)> notice;
  // All nodes that can be Ready are, for the first time.
  std::function<void()> all_ready;
};

class Fleet {
 public:
  // Checks the options, reads what exists of a fleet of that name (so that a restart takes its nodes over), and begins
  // to register the rest. An error leaves nothing behind: no server, wrong credentials (which verb on which resource),
  // a bad option.
  static Result<std::unique_ptr<Fleet>> start(FleetOptions options, FleetCallbacks callbacks = {});
  virtual ~Fleet() = default;  // stops

  // Ends the threads; the nodes stay in the API.
  virtual void stop() = 0;
  virtual FleetStats snapshot() const = 0;
  virtual std::vector<const MetricsRegistry*> metrics() const = 0;
  // How the nodes' own servers can be reached, in one line for people; empty: there are none.
  virtual std::string node_server() const = 0;
  // The static pods of the first node, all of them; see agent::PodManager.
  virtual void set_static_pods(std::vector<agent::StaticManifest> manifests) = 0;
  // Of the cloud network, as Prometheus text beside metrics(); empty: there is none.
  virtual std::string network_metrics() const = 0;
  // What the address daemon of a node shows (ShardNetwork::show); nothing when there is no such node or daemon. Waits
  // for the node's thread: not from the fleet's own threads, and not after stop().
  virtual std::optional<std::string> show_network(std::string_view node, std::string_view path) const = 0;
};

// Checks without starting: names that collide or are no DNS names, counts, templates, zones.
Status check_fleet(const FleetOptions& options);

}  // namespace ghostfleet::emulator
