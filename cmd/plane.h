// Plane: the embedded control plane of this process: API server, controllers, scheduler, and the kubeconfig that leads
// to it.
//
// Thread rule: main thread; the parts own their threads. Ownership: stop() ends them in the right order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/status.h"
#include "controlplane/apiserver/api_server.h"
#include "controlplane/auth/pki.h"
#include "controlplane/controllers/controllers.h"
#include "controlplane/scheduler/scheduler.h"

namespace ghostfleet::cmd {

struct PlaneOptions {
  std::string name = "ghost";  // of context and cluster in the kubeconfig
  std::string address = "127.0.0.1";
  int port = 6443;
  bool port_given = false;  // a port that was not asked for may be replaced by a free one
  std::string directory;    // holds pki/; made when missing
  std::string kubeconfig;   // where to write it
  std::string controllers = "all";
  Duration node_monitor_grace_period = std::chrono::seconds(50);  // without a heartbeat, until a node is Unknown
  bool scheduler = true;
  bool managed_fields = true;
  bool allow_privileged = true;  // pods may ask for it, as in every distribution
  // File with the authority of the nodes' serving certificates; empty: they are not verified.
  std::string kubelet_certificate_authority;
  int io_threads = 0;  // 0: half of the cores, at least 2
  int max_in_flight = 400, max_mutating_in_flight = 200;
};

class Plane {
 public:
  static Result<std::unique_ptr<Plane>> start(const PlaneOptions& options);
  ~Plane();
  void stop();

  std::string url() const { return server_->url(); }
  const std::string& kubeconfig() const { return kubeconfig_; }
  std::vector<const MetricsRegistry*> metrics() const;

 private:
  Plane() = default;
  Status start_parts(const PlaneOptions& options);
  Status write_kubeconfig(const PlaneOptions& options) const;

  controlplane::Pki pki_;
  std::unique_ptr<controlplane::ApiServer> server_;
  std::unique_ptr<controlplane::ControllerManager> controllers_;
  std::unique_ptr<controlplane::Scheduler> scheduler_;
  std::string kubeconfig_;
};

}  // namespace ghostfleet::cmd
