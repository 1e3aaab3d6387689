// Aggregator: API services (apiregistration.k8s.io/v1 APIService) that another server answers. Requests below
// /apis/GROUP/VERSION are passed on to it with the user in X-Remote-* headers; its resources join discovery once it has
// answered; its condition Available follows what it answers.
//
// A group version this server has itself stays its own, whatever an APIService says.
// Thread rule: find(), kinds() and version() from any thread; the rest on the loop given to start(), where the servers
// are checked: every 30 s while they are well, more often while they are not, and at once when their objects change.
// Limits: a discovery answer of 4 MiB; 5 s to answer.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

#include "controlplane/apiserver/api_impl.h"
#include "controlplane/apiserver/call.h"
#include "kube/api/discovery.h"

namespace ghostfleet::controlplane {

// One APIService with a service, as it is now. Immutable.
struct RemoteApi {
  std::string name, group, version;
  std::string service_ns, service_name;
  uint16_t service_port = 443;
  std::shared_ptr<const kube::http::TlsContext> tls;
  std::string tls_problem;  // why there is none
  std::string spec;         // as JSON
  bool available = false;
};

// Where a service's server is, or why that cannot be said (reason and message of the condition Available).
struct ServiceEndpoint {
  std::string host;
  uint16_t port = 0;
  std::string reason, message;
  bool found() const { return reason.empty(); }
};
// The name of an ExternalName service; else a ready address of its EndpointSlices (or Endpoints) that is no pod's: pods
// of this control plane have no network.
ServiceEndpoint resolve_service(Api& api, const std::string& ns, const std::string& name, uint16_t port);

// Resources of a discovery document (APIResourceList) as kinds; nothing when it is none.
std::vector<kube::KindInfo> kinds_of_resource_list(const kube::Json& list);

class Aggregator {
 public:
  // `pki` null: no client certificate is shown.
  Aggregator(ApiImpl& api, const Pki* pki);
  ~Aggregator();

  void start(EventLoop* loop);
  // Cuts what is being asked; on the loop, or when it no longer runs.
  void stop();

  // Null when this server answers itself.
  std::shared_ptr<const RemoteApi> find(std::string_view group, std::string_view version) const;
  // Those that have told their resources.
  kube::KindList kinds() const;
  // Raised when kinds() changes.
  uint64_t version() const { return version_.load(); }

 private:
  struct Entry;
  class Check;

  void follow(const ObjectRef& object, bool gone);
  void wake(std::string name);
  void check(const std::string& name);
  void checked(const std::string& name, bool available, std::string_view reason, std::string_view message,
               const kube::Json* resources);
  void keep_kinds(Entry& entry, const kube::Json& resources);
  void write_condition(const std::string& name, bool available, std::string_view reason, std::string_view message);

  ApiImpl& api_;
  const KeyAndCertificate client_;
  EventLoop* loop_ = nullptr;
  mutable std::shared_mutex mutex_;
  std::map<std::string, std::unique_ptr<Entry>> entries_;  // by the APIService's name
  std::deque<kube::KindInfo> all_kinds_;                   // those of the past too: somebody may be reading them
  std::atomic<bool> stopped_{false};
  std::atomic<size_t> count_{0};
  std::atomic<uint64_t> version_{0};
};

// Passes the call on when its path belongs to a remote API; false when it does not.
bool serve_aggregated_api(const CallRef& call);

}  // namespace ghostfleet::controlplane
