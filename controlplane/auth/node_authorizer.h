// The Node authorizer: what a node (user system:node:NAME in group system:nodes) may do: itself, its lease, its pods,
// and what those pods refer to. Internal to controlplane/auth.
//
// Thread rule: stateless over the store; any thread. A question about a secret or the like reads the pods of one
// namespace that run on that node.
#pragma once

#include <memory>
#include <string>

#include "controlplane/auth/authorizer.h"

namespace ghostfleet::controlplane {

std::unique_ptr<Authorizer> make_node_authorizer(ClusterObjects objects);
// The node behind a user; false when it is none. The name may be empty.
bool node_identity(const UserInfo& user, std::string* node);

}  // namespace ghostfleet::controlplane
