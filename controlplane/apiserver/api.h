// Api: the API server's REST layer as a library. HTTP requests and the controllers and scheduler in this process go
// through the same calls: decode -> default -> admit -> validate -> commit to the Store.
//
// Thread rule: any thread. Calls run to the end on the caller's thread; optimistic conflicts are retried inside where
// the caller gave no resourceVersion.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "controlplane/apiserver/request.h"
#include "controlplane/store/store.h"
#include "kube/api/api_error.h"
#include "kube/api/kinds.h"
#include "kube/api/table.h"

namespace ghostfleet::controlplane {

// A served resource: a built-in kind or a custom one. Lives as long as the Api (removed custom kinds are kept,
// unlisted).
struct Resource {
  kube::KindInfo info;
  KindId store_kind = 0;
  std::shared_ptr<const kube::Json> schema;  // custom resources: the version's openAPIV3Schema
  std::shared_ptr<const kube::Json>
      scale;  // custom resources: {specReplicasPath, statusReplicasPath, labelSelectorPath}
  std::shared_ptr<const kube::TablePrinter> printer;  // custom resources: their additionalPrinterColumns
  bool terminating = false;  // custom resources: their definition is being deleted; nothing new is created
  // The kind whose form the stored bytes have: itself, or the kind it shares its storage with (events.k8s.io/v1 events
  // are stored as v1 events, autoscaling/v1 scalers as autoscaling/v2).
  const kube::KindInfo* stored = nullptr;
};

struct DeleteOptions {
  int64_t grace_period_seconds = -1;  // -1: not given
  std::string propagation_policy;     // "", Orphan, Background, Foreground
  std::string uid_precondition;
  std::string version_precondition;
  // An empty precondition that was given matches nothing.
  bool uid_given = false, version_given = false;
  bool orphan_dependents = false, orphan_dependents_given = false;
};

struct DeleteOutcome {
  bool gone = false;  // removed now; else marked (finalizers, grace period)
  ObjectRef object;   // as stored, or as it last was
};

struct WriteOutcome {
  ObjectRef object;  // as stored (dry run: an Object that was never stored)
  bool created = false;
};

class ClusterState;  // strategies/cluster_state.h

class Api {
 public:
  Api();
  virtual ~Api();

  // What strategies and subresources remember between requests: allocated addresses and ports, token issuer, limits.
  ClusterState& cluster_state() { return *cluster_state_; }

  virtual Store& store() = 0;
  virtual const Clock& clock() const = 0;
  // Null pointer when not served.
  virtual const Resource* find(std::string_view group, std::string_view version, std::string_view resource) const = 0;
  virtual std::vector<const Resource*> resources() const = 0;

  virtual kube::ApiResult<ObjectRef> get(const Resource& r, std::string_view ns, std::string_view name) = 0;
  virtual kube::ApiResult<WriteOutcome> create(const Resource& r, std::string_view ns, kube::Json object,
                                               RequestContext& ctx) = 0;
  // PUT. `subresource` is "" or "status".
  virtual kube::ApiResult<WriteOutcome> update(const Resource& r, std::string_view ns, std::string_view name,
                                               kube::Json object, std::string_view subresource,
                                               RequestContext& ctx) = 0;
  // Read-modify-write: `change` edits the decoded live object and answers false to leave it as it is. Retried on
  // conflict.
  virtual kube::ApiResult<WriteOutcome> modify(const Resource& r, std::string_view ns, std::string_view name,
                                               std::string_view subresource,
                                               const std::function<kube::ApiResult<bool>(kube::Json&)>& change,
                                               RequestContext& ctx) = 0;
  virtual kube::ApiResult<DeleteOutcome> remove(const Resource& r, std::string_view ns, std::string_view name,
                                                const DeleteOptions& options, RequestContext& ctx) = 0;
  // The object in the form of this resource's version, decoded. (Its stored bytes may be of another version.)
  virtual kube::Json decode(const Resource& r, const Object& object) const = 0;

  // pods/binding; what the scheduler calls.
  virtual kube::ApiResult<ObjectRef> bind(std::string_view ns, std::string_view pod, std::string_view uid,
                                          std::string_view node, RequestContext& ctx) = 0;

 private:
  std::shared_ptr<ClusterState> cluster_state_;
};

// The context controllers act with: user "system:NAME" in system:masters, internal.
RequestContext internal_context(std::string_view component);

}  // namespace ghostfleet::controlplane
