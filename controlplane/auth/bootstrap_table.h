// The table behind bootstrap_rbac_objects(). Internal to controlplane/auth.
//
// One role or binding begins a line; "-" stands for no namespace:
//   clusterrole - NAME [label:admin|edit|view] [from:admin|edit|view]   (aggregates to; aggregated from)
//    VERBS GROUPS RESOURCES [NAMES]                                     (a rule; lists by commas; group core is "")
//    VERBS url PATHS
//   clusterrolebinding - NAME clusterrole=ROLE user=U group=G serviceaccount=NS/NAME
//   role, rolebinding: with a namespace.
#pragma once

namespace ghostfleet::controlplane {

extern const char* const kBootstrapTable;

}  // namespace ghostfleet::controlplane
