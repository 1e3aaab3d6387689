// Which strategy a kind has: one row per kind with its traits and what makes its strategy.
#include <string>
#include <unordered_map>

#include "controlplane/apiserver/strategies/kind_strategy.h"

namespace ghostfleet::controlplane {

namespace {

StrategyPointer make_plain(const KindTraits& traits) { return std::make_unique<KindStrategy>(traits); }

struct Row {
  KindTraits traits;
  StrategyPointer (*make)(const KindTraits&);
};

using Status = StatusMetadata;
using Own = OwnMetadata;

// Source: behaviour of kube-apiserver 1.36. Kinds not listed have no special rules.
const Row kRows[] = {
    // core
    {{.storage_resource = "pods", .generation = true, .delete_returns_object = true, .status_dropped = false},
     make_pod_strategy},
    {{.storage_resource = "podtemplates", .generation = true, .delete_returns_object = true},
     make_pod_template_strategy},
    {{.storage_resource = "nodes", .status_dropped = false, .own_metadata = Own::kBoth}, make_node_strategy},
    {{.storage_resource = "namespaces", .delete_returns_object = true, .name_rule = NameRule::kLabel},
     make_namespace_strategy},
    {{.storage_resource = "services",
      .create_on_update = true,
      .delete_returns_object = true,
      .name_rule = NameRule::kLabel},
     make_service_strategy},
    {{.storage_resource = "endpoints", .create_on_update = true, .own_metadata = Own::kBoth}, make_endpoints_strategy},
    {{.storage_resource = "configmaps", .own_metadata = Own::kBoth}, make_config_map_strategy},
    {{.storage_resource = "secrets", .own_metadata = Own::kBoth}, make_secret_strategy},
    {{.storage_resource = "serviceaccounts", .delete_returns_object = true, .own_metadata = Own::kBoth}, make_plain},
    {{.storage_resource = "events", .create_on_update = true}, make_event_strategy},
    {{.storage_resource = "limitranges", .create_on_update = true}, make_limit_range_strategy},
    {{.storage_resource = "resourcequotas", .delete_returns_object = true}, make_resource_quota_strategy},
    {{.storage_resource = "persistentvolumes", .delete_returns_object = true, .own_metadata = Own::kFull},
     make_persistent_volume_strategy},
    {{.storage_resource = "persistentvolumeclaims", .delete_returns_object = true, .own_metadata = Own::kBoth},
     make_persistent_volume_claim_strategy},
    {{.storage_resource = "replicationcontrollers", .generation = true}, make_replication_controller_strategy},
    // apps, batch
    {{.storage_resource = "deployments.apps",
      .generation = true,
      .annotations_count = true,
      .status_metadata = Status::kNoLabels},
     make_deployment_strategy},
    {{.storage_resource = "replicasets.apps", .generation = true}, make_replica_set_strategy},
    {{.storage_resource = "statefulsets.apps",
      .generation = true,
      .own_metadata = Own::kBoth,
      .name_rule = NameRule::kLabel},
     make_stateful_set_strategy},
    {{.storage_resource = "daemonsets.apps", .generation = true}, make_daemon_set_strategy},
    {{.storage_resource = "jobs.batch", .generation = true}, make_job_strategy},
    {{.storage_resource = "cronjobs.batch", .generation = true}, make_cron_job_strategy},
    // coordination, discovery, policy, autoscaling, scheduling, node
    {{.storage_resource = "leases.coordination.k8s.io", .unconditional_update = false, .create_on_update = true},
     make_lease_strategy},
    {{.storage_resource = "endpointslices.discovery.k8s.io", .generation = true, .own_metadata = Own::kFull},
     make_endpoint_slice_strategy},
    {{.storage_resource = "poddisruptionbudgets.policy", .generation = true, .unconditional_update = false},
     make_disruption_budget_strategy},
    {{.storage_resource = "horizontalpodautoscalers.autoscaling"}, make_autoscaler_strategy},
    {{.storage_resource = "priorityclasses.scheduling.k8s.io", .generation = true}, make_priority_class_strategy},
    {{.storage_resource = "runtimeclasses.node.k8s.io", .unconditional_update = false, .create_on_update = true},
     make_runtime_class_strategy},
    // rbac
    {{.storage_resource = "roles.rbac.authorization.k8s.io",
      .create_on_update = true,
      .own_metadata = Own::kBoth,
      .name_rule = NameRule::kPathSegment},
     make_role_strategy},
    {{.storage_resource = "clusterroles.rbac.authorization.k8s.io",
      .create_on_update = true,
      .own_metadata = Own::kBoth,
      .name_rule = NameRule::kPathSegment},
     make_role_strategy},
    {{.storage_resource = "rolebindings.rbac.authorization.k8s.io",
      .create_on_update = true,
      .own_metadata = Own::kBoth,
      .name_rule = NameRule::kPathSegment},
     make_role_binding_strategy},
    {{.storage_resource = "clusterrolebindings.rbac.authorization.k8s.io",
      .create_on_update = true,
      .own_metadata = Own::kBoth,
      .name_rule = NameRule::kPathSegment},
     make_role_binding_strategy},
    // storage
    {{.storage_resource = "storageclasses.storage.k8s.io", .delete_returns_object = true}, make_storage_class_strategy},
    {{.storage_resource = "csidrivers.storage.k8s.io", .unconditional_update = false, .delete_returns_object = true},
     make_csi_driver_strategy},
    {{.storage_resource = "csinodes.storage.k8s.io",
      .unconditional_update = false,
      .delete_returns_object = true,
      .own_metadata = Own::kFull},
     make_plain},
    {{.storage_resource = "csistoragecapacities.storage.k8s.io", .unconditional_update = false}, make_plain},
    {{.storage_resource = "volumeattachments.storage.k8s.io",
      .unconditional_update = false,
      .delete_returns_object = true,
      .status_metadata = Status::kProtected,
      .own_metadata = Own::kFull},
     make_plain},
    {{.storage_resource = "volumeattributesclasses.storage.k8s.io",
      .delete_returns_object = true,
      .own_metadata = Own::kBoth},
     make_plain},
    // networking
    {{.storage_resource = "ingresses.networking.k8s.io", .generation = true, .own_metadata = Own::kBoth},
     make_ingress_strategy},
    {{.storage_resource = "ingressclasses.networking.k8s.io", .generation = true, .own_metadata = Own::kBoth},
     make_plain},
    {{.storage_resource = "networkpolicies.networking.k8s.io", .generation = true}, make_network_policy_strategy},
    {{.storage_resource = "servicecidrs.networking.k8s.io", .status_metadata = Status::kProtected}, make_plain},
    // resource.k8s.io
    {{.storage_resource = "resourceclaims.resource.k8s.io",
      .delete_returns_object = true,
      .status_metadata = Status::kProtected,
      .own_metadata = Own::kBoth},
     make_device_claim_strategy},
    {{.storage_resource = "resourceclaimtemplates.resource.k8s.io", .delete_returns_object = true},
     make_device_claim_strategy},
    {{.storage_resource = "resourceslices.resource.k8s.io", .generation = true, .delete_returns_object = true},
     make_resource_slice_strategy},
    {{.storage_resource = "deviceclasses.resource.k8s.io", .generation = true, .delete_returns_object = true},
     make_device_class_strategy},
    // certificates
    {{.storage_resource = "certificatesigningrequests.certificates.k8s.io", .own_metadata = Own::kBoth},
     make_signing_request_strategy},
    // flow control
    {{.storage_resource = "flowschemas.flowcontrol.apiserver.k8s.io",
      .generation = true,
      .status_metadata = Status::kFrozen,
      .own_metadata = Own::kFull},
     make_flow_schema_strategy},
    {{.storage_resource = "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
      .generation = true,
      .status_metadata = Status::kFrozen},
     make_priority_level_strategy},
    // admission registration
    {{.storage_resource = "validatingwebhookconfigurations.admissionregistration.k8s.io",
      .generation = true,
      .unconditional_update = false,
      .own_metadata = Own::kFull},
     make_webhook_strategy},
    {{.storage_resource = "mutatingwebhookconfigurations.admissionregistration.k8s.io",
      .generation = true,
      .unconditional_update = false,
      .own_metadata = Own::kFull},
     make_webhook_strategy},
    {{.storage_resource = "validatingadmissionpolicies.admissionregistration.k8s.io",
      .generation = true,
      .unconditional_update = false,
      .status_metadata = Status::kProtected,
      .own_metadata = Own::kFull},
     make_admission_policy_strategy},
    {{.storage_resource = "mutatingadmissionpolicies.admissionregistration.k8s.io",
      .generation = true,
      .unconditional_update = false,
      .own_metadata = Own::kFull},
     make_admission_policy_strategy},
    {{.storage_resource = "validatingadmissionpolicybindings.admissionregistration.k8s.io",
      .generation = true,
      .unconditional_update = false,
      .own_metadata = Own::kFull},
     make_policy_binding_strategy},
    {{.storage_resource = "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
      .generation = true,
      .unconditional_update = false,
      .own_metadata = Own::kFull},
     make_policy_binding_strategy},
    // api extensions
    {{.storage_resource = "customresourcedefinitions.apiextensions.k8s.io",
      .generation = true,
      .unconditional_update = false},
     make_definition_strategy},
    {{.storage_resource = "apiservices.apiregistration.k8s.io",
      .unconditional_update = false,
      .own_metadata = Own::kBoth,
      .name_rule = NameRule::kPathSegment},
     make_api_service_strategy},
    {{.storage_resource = "controllerrevisions.apps", .own_metadata = Own::kBoth}, make_plain},
};

struct Registry {
  std::unordered_map<std::string_view, StrategyPointer> by_resource;
  std::unique_ptr<Strategy> plain = std::make_unique<KindStrategy>(KindTraits{});
  std::unique_ptr<Strategy> custom = make_custom_strategy();

  Registry() {
    for (const Row& row : kRows) by_resource.emplace(row.traits.storage_resource, row.make(row.traits));
  }
};

const Registry& registry() {
  static const Registry instance;
  return instance;
}

}  // namespace

const Strategy& strategy_for(const Resource& resource) {
  const Registry& all = registry();
  if (resource.info.custom()) return *all.custom;
  auto it = all.by_resource.find(resource.info.storage_resource);
  return it == all.by_resource.end() ? *all.plain : *it->second;
}

}  // namespace ghostfleet::controlplane
