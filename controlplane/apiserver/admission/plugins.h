// The admission plugins. Each answers true to let the write go on, or the refusal.
//
// Thread rule: stateless; any thread.
#pragma once

#include "controlplane/apiserver/strategy.h"

namespace ghostfleet::controlplane {

using Admitted = kube::ApiResult<bool>;

// ---- mutating -----------------------------------------------------------------------------------------------------
// Namespaces that are missing or Terminating take nothing new; the system's own are not deleted.
Admitted admit_namespace(Operation operation, const kube::Json& object, StrategyContext& ctx);
// Pods: service account and its token volume.
Admitted admit_service_account(kube::Json& pod, StrategyContext& ctx);
// Pods: priority number and preemption policy of the class.
Admitted admit_priority(kube::Json& pod, StrategyContext& ctx);
// Pods: tolerations for not-ready and unreachable nodes, 300 s.
void add_default_tolerations(kube::Json& pod);
// Pods: overhead and scheduling of the runtime class.
Admitted admit_runtime_class(kube::Json& pod, StrategyContext& ctx);
// Pods: default requests and limits of the namespace's limit ranges.
void apply_limit_ranges(kube::Json& pod, StrategyContext& ctx);
// What a node (user system:node:NAME) may write.
Admitted admit_node_user(Operation operation, const kube::Json& object, const kube::Json* old, StrategyContext& ctx);

// Webhooks, in the order of their configurations' names. Only what a configuration's rules and selectors match is sent.
Admitted call_mutating_webhooks(Operation operation, kube::Json& object, const kube::Json* old, StrategyContext& ctx);

// ---- validating ---------------------------------------------------------------------------------------------------
Admitted check_limit_ranges(const kube::Json& object, StrategyContext& ctx);
// Pod security levels of the namespace; for workloads warnings only.
Admitted check_pod_security(Operation operation, const kube::Json& object, const kube::Json* old, StrategyContext& ctx);
// Labels of a namespace that name pod security levels.
Admitted check_namespace_labels(const kube::Json& object, const kube::Json* old, StrategyContext& ctx);
Admitted call_validating_webhooks(Operation operation, const kube::Json& object, const kube::Json* old,
                                  StrategyContext& ctx);
// Resource quotas: refuses what exceeds, counts what fits.
Admitted charge_quotas(const kube::Json& object, StrategyContext& ctx);

}  // namespace ghostfleet::controlplane
