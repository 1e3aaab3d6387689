// ResourceClaimController: makes the ResourceClaims that pods ask for by a template and tells their names in the pods'
// statuses, reserves claims for pods that were given a node without a scheduler, takes back what pods that are done had
// reserved, frees claims that nobody uses, and removes those of pods that are done.
//
// Thread rule: the controllers' loop. Source: kube-controller-manager 1.36 (resourceclaim-controller); claims of
// PodGroups are left alone.
#pragma once

#include <string>

#include "controlplane/controllers/context.h"

namespace ghostfleet::controlplane::controllers {

class ResourceClaimController final : public Controller {
 public:
  explicit ResourceClaimController(Context& context);
  void start() override;

 private:
  void pod_changed(const PodInfo* old, const PodInfo* now);
  void claim_changed(const ObjectRef& old, const ObjectRef& now);
  SyncResult sync_pod(const std::string& key);
  SyncResult sync_claim(const std::string& key);
  // The name of the claim of one of a pod's entries; empty: nothing is to be made.
  kube::ApiResult<std::string> ensure_claim(const kube::Json& pod, const kube::Json& entry);
  kube::ApiResult<std::string> create_claim(const kube::Json& pod, const kube::Json& entry);
  bool tell_names(const kube::Json& pod, const kube::JsonArray& names);
  bool reserve(const kube::Json& pod, const std::string& claim);
  bool is_done(std::string_view ns, std::string_view name, std::string_view uid) const;
  bool release(const kube::Json& claim);
  bool drop_finalizer(const kube::Json& claim);

  Context& context_;
  const Resource& claims_resource_;
  const Resource& templates_resource_;
  KindWatch& claims_;
  KindWatch& templates_;
  WorkQueue pod_queue_, claim_queue_;
  StringMap<std::string> made_;  // uid of a pod and name of its entry: the claim that was made
};

}  // namespace ghostfleet::controlplane::controllers
