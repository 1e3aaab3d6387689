#include "controlplane/controllers/controllers.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <thread>

#include "base/log.h"
#include "controlplane/controllers/context.h"
#include "controlplane/controllers/cronjob.h"
#include "controlplane/controllers/daemonset.h"
#include "controlplane/controllers/deployment.h"
#include "controlplane/controllers/endpoints.h"
#include "controlplane/controllers/garbage_collector.h"
#include "controlplane/controllers/job.h"
#include "controlplane/controllers/namespaces.h"
#include "controlplane/controllers/node_lifecycle.h"
#include "controlplane/controllers/replicaset.h"
#include "controlplane/controllers/resource_claims.h"
#include "controlplane/controllers/resource_quota.h"
#include "controlplane/controllers/signing.h"
#include "controlplane/controllers/statefulset.h"
#include "controlplane/controllers/taint_eviction.h"

namespace ghostfleet::controlplane {

using controllers::Context;
using controllers::Controller;

namespace {

struct Entry {
  const char* name;
  std::vector<std::string> resources;  // "group/version/plural" that must be served
  std::unique_ptr<Controller> (*make)(Context&);
};

template <class T>
std::unique_ptr<Controller> make(Context& context) {
  return std::make_unique<T>(context);
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry> kEntries = {
      {"namespace-controller", {"/v1/namespaces"}, make<controllers::NamespaceController>},
      {"serviceaccount-controller",
       {"/v1/namespaces", "/v1/serviceaccounts"},
       make<controllers::ServiceAccountController>},
      {"root-ca-certificate-publisher-controller",
       {"/v1/namespaces", "/v1/configmaps"},
       make<controllers::RootCaController>},
      {"serviceaccount-token-controller",
       {"/v1/secrets", "/v1/serviceaccounts"},
       make<controllers::TokenSecretController>},
      {"replicaset-controller", {"/v1/pods", "apps/v1/replicasets"}, make<controllers::ReplicaSetController>},
      {"replicationcontroller-controller",
       {"/v1/pods", "/v1/replicationcontrollers"},
       make<controllers::ReplicationController>},
      {"deployment-controller",
       {"/v1/pods", "apps/v1/deployments", "apps/v1/replicasets"},
       make<controllers::DeploymentController>},
      {"daemonset-controller",
       {"/v1/pods", "/v1/nodes", "apps/v1/daemonsets", "apps/v1/controllerrevisions"},
       make<controllers::DaemonSetController>},
      {"statefulset-controller",
       {"/v1/pods", "apps/v1/statefulsets", "apps/v1/controllerrevisions"},
       make<controllers::StatefulSetController>},
      {"garbage-collector-controller", {}, make<controllers::GarbageCollector>},
      {"node-lifecycle-controller", {"/v1/nodes", "/v1/pods"}, make<controllers::NodeLifecycleController>},
      {"taint-eviction-controller", {"/v1/nodes", "/v1/pods"}, make<controllers::TaintEvictionController>},
      {"job-controller", {"/v1/pods", "batch/v1/jobs"}, make<controllers::JobController>},
      {"cronjob-controller", {"batch/v1/cronjobs", "batch/v1/jobs"}, make<controllers::CronJobController>},
      {"ttl-after-finished-controller", {"batch/v1/jobs"}, make<controllers::TtlController>},
      {"endpoints-controller", {"/v1/pods", "/v1/services", "/v1/endpoints"}, make<controllers::EndpointsController>},
      {"endpointslice-controller",
       {"/v1/pods", "/v1/nodes", "/v1/services", "discovery.k8s.io/v1/endpointslices"},
       make<controllers::EndpointSliceController>},
      {"disruption-controller",
       {"/v1/pods", "policy/v1/poddisruptionbudgets"},
       make<controllers::DisruptionController>},
      {"resourceclaim-controller",
       {"/v1/pods", "resource.k8s.io/v1/resourceclaims", "resource.k8s.io/v1/resourceclaimtemplates"},
       make<controllers::ResourceClaimController>},
      {"resourcequota-controller", {"/v1/pods", "/v1/resourcequotas"}, make<controllers::ResourceQuotaController>},
      {"certificatesigningrequest-approving-controller",
       {"certificates.k8s.io/v1/certificatesigningrequests"},
       make<controllers::CertificateApprover>},
      {"certificatesigningrequest-signing-controller",
       {"certificates.k8s.io/v1/certificatesigningrequests"},
       make<controllers::CertificateSigner>},
      {"pod-garbage-collector-controller", {"/v1/nodes", "/v1/pods"}, make<controllers::PodGcController>},
  };
  return kEntries;
}

// Names of kube-controller-manager that have nothing to do here but are no mistake.
const std::set<std::string, std::less<>>& idle_names() {
  static const std::set<std::string, std::less<>> kNames = {"endpointslice-mirroring-controller",
                                                            "horizontal-pod-autoscaler-controller",
                                                            "certificatesigningrequest-cleaner-controller",
                                                            "ttl-controller",
                                                            "node-ipam-controller",
                                                            "persistentvolume-binder-controller",
                                                            "persistentvolume-attach-detach-controller",
                                                            "persistentvolume-expander-controller",
                                                            "persistentvolume-protection-controller",
                                                            "persistentvolumeclaim-protection-controller",
                                                            "clusterrole-aggregation-controller",
                                                            "ephemeral-volume-controller",
                                                            "legacy-serviceaccount-token-cleaner-controller",
                                                            "validatingadmissionpolicy-status-controller",
                                                            "service-cidr-controller",
                                                            "storage-version-migrator-controller",
                                                            "bootstrap-signer-controller",
                                                            "token-cleaner-controller"};
  return kNames;
}

std::string full_name(std::string_view given) {
  std::string name(given);
  if (!name.ends_with("-controller")) name += "-controller";
  return name;
}

// The chosen names; later words win over earlier ones.
Result<std::set<std::string, std::less<>>> choose(const std::vector<std::string>& words) {
  std::set<std::string, std::less<>> chosen;
  for (const std::string& word : words) {
    if (word.empty() || word == "none") continue;
    if (word == "all" || word == "*") {
      for (const Entry& e : entries()) chosen.insert(e.name);
      continue;
    }
    const bool out = word.front() == '-';
    const std::string name = full_name(out ? word.substr(1) : word);
    const bool known = std::any_of(entries().begin(), entries().end(), [&](const Entry& e) { return name == e.name; });
    if (!known && !idle_names().contains(name)) {
      return invalid_argument(fmt::format("no controller is called \"{}\"; known are: all, none, {}", word,
                                          fmt::join(ControllerManager::known_controllers(), ", ")));
    }
    if (out) {
      chosen.erase(name);
    } else if (known) {
      chosen.insert(name);
    }
  }
  return chosen;
}

bool served(Api& api, const std::vector<std::string>& resources) {
  return std::all_of(resources.begin(), resources.end(), [&](const std::string& text) {
    const size_t a = text.find('/'), b = text.rfind('/');
    const std::string_view t(text);
    return api.find(t.substr(0, a), t.substr(a + 1, b - a - 1), t.substr(b + 1)) != nullptr;
  });
}

}  // namespace

struct ControllerManager::Impl {
  explicit Impl(Options o) : options(std::move(o)) {}
  Options options;
  MetricsRegistry metrics;
  EventLoop loop;
  std::unique_ptr<Context> context;
  std::vector<std::unique_ptr<Controller>> controllers;
  std::thread thread;
};

ControllerManager::ControllerManager(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ControllerManager::~ControllerManager() { stop(); }
const MetricsRegistry& ControllerManager::metrics() const { return impl_->metrics; }

const std::vector<std::string>& ControllerManager::known_controllers() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const Entry& e : entries()) names.push_back(e.name);
    return names;
  }();
  return kNames;
}

Result<std::unique_ptr<ControllerManager>> ControllerManager::start(Api& api, Options options) {
  auto chosen = choose(options.enabled);
  if (!chosen.ok()) return chosen.error();
  auto impl = std::make_unique<Impl>(std::move(options));
  Impl* raw = impl.get();
  raw->context = std::make_unique<Context>(api, raw->loop, raw->options, raw->metrics);
  raw->loop.post([raw, names = std::move(*chosen), &api] {
    for (const Entry& entry : entries()) {
      if (!names.contains(entry.name)) continue;
      if (!served(api, entry.resources)) {
        log_warn("controllers", fmt::format("{} does not run: a kind it needs is not served", entry.name));
        continue;
      }
      raw->controllers.push_back(entry.make(*raw->context));
    }
    for (const auto& controller : raw->controllers) controller->start();
  });
  raw->thread = std::thread([raw] { raw->loop.run(); });
  return std::unique_ptr<ControllerManager>(new ControllerManager(std::move(impl)));
}

void ControllerManager::stop() {
  if (!impl_ || !impl_->thread.joinable()) return;
  impl_->loop.stop();
  impl_->thread.join();
  impl_->controllers.clear();
  impl_->context.reset();
}

}  // namespace ghostfleet::controlplane
