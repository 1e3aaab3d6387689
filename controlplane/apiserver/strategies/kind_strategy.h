// KindStrategy: the strategy of a kind whose rules are mostly a row of a table (traits); kinds with more to say derive
// from it.
//
// Thread rule: immutable after start.
#pragma once

#include <memory>
#include <string_view>

#include "controlplane/apiserver/strategies/validation.h"
#include "controlplane/apiserver/strategy.h"

namespace ghostfleet::controlplane {

// What a write to /status may change of metadata.
enum class StatusMetadata : unsigned char {
  kFree,       // everything a client may change
  kNoLabels,   // labels stay
  kProtected,  // labels, annotations, owners and finalizers stay
  kFrozen,     // all of metadata stays
};

enum class NameRule : unsigned char { kSubdomain, kLabel, kPathSegment, kLabel1035 };

struct KindTraits {
  std::string_view storage_resource;  // "deployments.apps"
  bool generation = false;            // metadata.generation counts changes of the spec
  bool annotations_count = false;     // ... and of annotations
  bool unconditional_update = true;
  bool create_on_update = false;
  bool delete_returns_object = false;
  bool status_dropped = true;  // on create, for kinds with a status subresource
  StatusMetadata status_metadata = StatusMetadata::kFree;
  OwnMetadata own_metadata = OwnMetadata::kUpdate;
  NameRule name_rule = NameRule::kSubdomain;
};

class KindStrategy : public Strategy {
 public:
  explicit KindStrategy(const KindTraits& traits) : traits_(traits) {}

  void prepare_for_create(kube::Json& object, StrategyContext& ctx) const override;
  void prepare_for_update(kube::Json& object, const kube::Json& old, StrategyContext& ctx) const override;
  std::vector<kube::FieldError> validate(const kube::Json& object, StrategyContext& ctx) const final;
  std::vector<kube::FieldError> validate_update(const kube::Json& object, const kube::Json& old,
                                                StrategyContext& ctx) const final;
  bool status_keeps_labels() const override { return traits_.status_metadata != StatusMetadata::kFree; }
  bool allow_unconditional_update() const override { return traits_.unconditional_update; }
  bool allow_create_on_update() const override { return traits_.create_on_update; }
  bool delete_returns_object() const override { return traits_.delete_returns_object; }
  std::vector<std::string> check_name(std::string_view name) const override;

 protected:
  // The kind's own findings, beside metadata.
  virtual void check(const kube::Json& object, StrategyContext& ctx, Findings& out) const;
  // Findings of an update of the main endpoint; as a rule `check` of the new object and then what must not change.
  virtual void check_update(const kube::Json& object, const kube::Json& old, StrategyContext& ctx, Findings& out) const;
  // Findings of an update of status or another subresource of the same kind.
  virtual void check_status(const kube::Json& object, const kube::Json& old, StrategyContext& ctx, Findings& out) const;

  const KindTraits& traits() const { return traits_; }

 private:
  KindTraits traits_;
};

// ---- tools of strategies ------------------------------------------------------------------------------------------

kube::Json& metadata_of(kube::Json& object);
const kube::Json& metadata_of(const kube::Json& object);
std::string_view name_of(const kube::Json& object);
std::string_view uid_of(const kube::Json& object);
// Sets the member unless it is there (null counts as missing).
void default_to(kube::JsonObject& object, std::string_view key, kube::Json value);
// Sets a text unless it is there and not empty.
void default_text(kube::JsonObject& object, std::string_view key, std::string_view value);
// As default_text for numbers: 0 counts as missing.
void default_number(kube::JsonObject& object, std::string_view key, int64_t value);
// The member as an object, made when missing.
kube::JsonObject& object_in(kube::JsonObject& object, std::string_view key);
// Copies (or erases, when missing there) one member.
void copy_member(kube::JsonObject& to, const kube::Json& from, std::string_view key);
void set_generation(kube::Json& object, int64_t generation);
int64_t generation_of(const kube::Json& object);
// Everything but metadata, status, apiVersion and kind is equal.
bool same_spec(const kube::Json& a, const kube::Json& b);
// RFC 3339 with seconds.
std::string now_text(StrategyContext& ctx);

// ---- strategies by group, for the registry ------------------------------------------------------------------------

using StrategyPointer = std::unique_ptr<Strategy>;
StrategyPointer make_pod_strategy(const KindTraits& traits);
StrategyPointer make_pod_template_strategy(const KindTraits& traits);
StrategyPointer make_deployment_strategy(const KindTraits& traits);
StrategyPointer make_replica_set_strategy(const KindTraits& traits);
StrategyPointer make_stateful_set_strategy(const KindTraits& traits);
StrategyPointer make_daemon_set_strategy(const KindTraits& traits);
StrategyPointer make_replication_controller_strategy(const KindTraits& traits);
StrategyPointer make_job_strategy(const KindTraits& traits);
StrategyPointer make_cron_job_strategy(const KindTraits& traits);
StrategyPointer make_service_strategy(const KindTraits& traits);
StrategyPointer make_node_strategy(const KindTraits& traits);
StrategyPointer make_namespace_strategy(const KindTraits& traits);
StrategyPointer make_secret_strategy(const KindTraits& traits);
StrategyPointer make_config_map_strategy(const KindTraits& traits);
StrategyPointer make_limit_range_strategy(const KindTraits& traits);
StrategyPointer make_resource_quota_strategy(const KindTraits& traits);
StrategyPointer make_endpoints_strategy(const KindTraits& traits);
StrategyPointer make_event_strategy(const KindTraits& traits);
StrategyPointer make_persistent_volume_strategy(const KindTraits& traits);
StrategyPointer make_persistent_volume_claim_strategy(const KindTraits& traits);
StrategyPointer make_lease_strategy(const KindTraits& traits);
StrategyPointer make_endpoint_slice_strategy(const KindTraits& traits);
StrategyPointer make_disruption_budget_strategy(const KindTraits& traits);
StrategyPointer make_autoscaler_strategy(const KindTraits& traits);
StrategyPointer make_priority_class_strategy(const KindTraits& traits);
StrategyPointer make_storage_class_strategy(const KindTraits& traits);
StrategyPointer make_csi_driver_strategy(const KindTraits& traits);
StrategyPointer make_role_strategy(const KindTraits& traits);
StrategyPointer make_role_binding_strategy(const KindTraits& traits);
StrategyPointer make_signing_request_strategy(const KindTraits& traits);
StrategyPointer make_runtime_class_strategy(const KindTraits& traits);
StrategyPointer make_webhook_strategy(const KindTraits& traits);
StrategyPointer make_admission_policy_strategy(const KindTraits& traits);
StrategyPointer make_policy_binding_strategy(const KindTraits& traits);
StrategyPointer make_ingress_strategy(const KindTraits& traits);
StrategyPointer make_network_policy_strategy(const KindTraits& traits);
StrategyPointer make_device_claim_strategy(const KindTraits& traits);
StrategyPointer make_resource_slice_strategy(const KindTraits& traits);
StrategyPointer make_device_class_strategy(const KindTraits& traits);
StrategyPointer make_flow_schema_strategy(const KindTraits& traits);
StrategyPointer make_priority_level_strategy(const KindTraits& traits);
StrategyPointer make_definition_strategy(const KindTraits& traits);
StrategyPointer make_api_service_strategy(const KindTraits& traits);
StrategyPointer make_custom_strategy();

}  // namespace ghostfleet::controlplane
