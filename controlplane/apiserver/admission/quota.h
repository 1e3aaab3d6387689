// What an object counts for in a ResourceQuota: "pods", "requests.cpu", "count/deployments.apps" and so on.
//
// Thread rule: pure functions; any thread.
#pragma once

#include <map>
#include <string>

#include "controlplane/apiserver/api.h"
#include "kube/api/json.h"
#include "kube/api/quantity.h"

namespace ghostfleet::controlplane {

using QuotaUsage = std::map<std::string, kube::Quantity>;

QuotaUsage quota_usage(const Resource& resource, const kube::Json& object);
void add_usage(QuotaUsage* sum, const QuotaUsage& more);
// Whether the quota counts the object: one with scopes counts only pods that are in all of them.
bool quota_covers(const kube::Json& quota, const Resource& resource, const kube::Json& object);

}  // namespace ghostfleet::controlplane
