// ResourceQuotaController: the status of ResourceQuotas: what is allowed, and what is used of it. Admission adds to it
// when objects are made; here it is counted anew when they go, and when a quota is new or changed.
//
// A quota with scopes counts only pods that are in them.
// Thread rule: the controllers' loop. Objects of other groups ("count/deployments.apps") are counted anew every five
// minutes.
#pragma once

#include <map>
#include <set>
#include <string>

#include "controlplane/controllers/context.h"

namespace ghostfleet::controlplane::controllers {

class ResourceQuotaController final : public Controller {
 public:
  explicit ResourceQuotaController(Context& context);
  void start() override;

 private:
  SyncResult sync(const std::string& key);
  void on_quota(const ObjectRef& old, const ObjectRef& now);
  void on_object(const ObjectRef& old, const ObjectRef& now);
  // The kind that a name of a quota counts; null: none that is served.
  const Resource* counted_kind(std::string_view name) const;

  Context& context_;
  const Resource& quotas_;
  std::map<std::string, std::set<std::string>, std::less<>> by_namespace_;  // keys of quotas
  WorkQueue queue_;
};

}  // namespace ghostfleet::controlplane::controllers
