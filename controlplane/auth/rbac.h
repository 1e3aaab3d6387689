// RBAC over the cluster's own objects. Internal to controlplane/auth.
//
// Thread rule: any thread. Parsed roles and bindings are guarded by a shared mutex; store watches only raise a flag,
// and the next call that needs the index takes their events in.
#pragma once

#include <memory>

#include "controlplane/auth/authorizer.h"

namespace ghostfleet::controlplane {

std::unique_ptr<Authorizer> make_rbac_authorizer(ClusterObjects objects);
// Does this rule allow that request?
bool rule_allows(const PolicyRule& rule, const Attributes& attributes);

}  // namespace ghostfleet::controlplane
