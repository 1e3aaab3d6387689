// ControllerManager: the controllers of the embedded control plane (what kube-controller-manager does), all on one
// thread and event loop. They act through the Api only and watch through the Store; everything about one object of one
// kind is decided by one controller.
//
// Thread rule: start() and stop() from any one thread; metrics() from any. Ownership: the Api and
// the authorizer must outlive it.
// Errors: kInvalidArgument names a controller that does not exist.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/status.h"
#include "controlplane/apiserver/api.h"

namespace ghostfleet::controlplane {

class Authorizer;

class ControllerManager {
 public:
  struct Options {
    // Names as kube-controller-manager knows them, with or without "-controller"; "all" or "*", "none", "-name" to
    // leave one out.
    std::vector<std::string> enabled = {"all"};
    Duration node_monitor_period = std::chrono::seconds(5);
    Duration node_monitor_grace_period = std::chrono::seconds(50);
    Duration node_startup_grace_period = std::chrono::seconds(60);
    double node_eviction_rate = 0.1;             // nodes per second and zone that get a NoExecute taint
    double secondary_node_eviction_rate = 0.01;  // the same in a zone that is partly down
    int large_cluster_size_threshold = 50;       // zones up to this size stop instead when partly down
    double unhealthy_zone_threshold = 0.55;
    Duration pod_gc_period = std::chrono::seconds(20);
    Duration pod_gc_quarantine = std::chrono::seconds(40);
    int terminated_pod_gc_threshold = 12500;
    std::string root_ca_pem;  // for ConfigMap kube-root-ca.crt and token secrets; empty: none are made
    // Makes a token for a service account; empty function: token secrets stay empty. Called on our thread.
    std::function<std::string(const std::string& ns, const std::string& name, const std::string& uid,
                              const std::string& secret_name, const std::string& secret_uid)>
        service_account_token;
    // Signs a PEM request for a signer; answers the PEM certificate. Empty function: requests are not signed.
    std::function<Result<std::string>(const kube::Json& signing_request)> sign_certificate;
    // Asked whether a requester may have a node's client certificate approved; null: none is approved by itself.
    const Authorizer* authorizer = nullptr;
  };

  static Result<std::unique_ptr<ControllerManager>> start(Api& api, Options options);
  ~ControllerManager();
  ControllerManager(const ControllerManager&) = delete;
  ControllerManager& operator=(const ControllerManager&) = delete;

  // Idempotent; returns when the thread has ended.
  void stop();
  const MetricsRegistry& metrics() const;

  // All names this build knows, with "-controller".
  static const std::vector<std::string>& known_controllers();

 private:
  struct Impl;
  explicit ControllerManager(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ghostfleet::controlplane
