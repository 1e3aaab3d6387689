// Strategy: what is special about a kind between decoding and storing: defaults, fields a client may not set,
// validation, generation, what deletion does. Kinds without an entry use the generic one.
//
// Thread rule: stateless; called from any thread. What needs other objects (a namespace, a limit range) asks
// StrategyContext.
#pragma once

#include <string_view>
#include <vector>

#include "controlplane/apiserver/api.h"
#include "controlplane/apiserver/request.h"
#include "kube/api/api_error.h"

namespace ghostfleet::controlplane {

struct StrategyContext {
  Api& api;
  const Resource& resource;
  RequestContext& request;
  std::string_view ns;
  std::string_view subresource;  // "", "status", "scale", "binding", ...
};

class Strategy {
 public:
  virtual ~Strategy() = default;

  // Defaults clients and controllers read; applied on create, update and patch, after decoding.
  virtual void apply_defaults(kube::Json& object, StrategyContext& ctx) const;
  // After defaults and admission: clears what only the server sets (status of most kinds), sets generation and
  // generated values. The name (generateName) and metadata.uid are already there.
  virtual void prepare_for_create(kube::Json& object, StrategyContext& ctx) const;
  // Keeps status (main endpoint) or everything else (status endpoint and its like) of the old object, raises
  // generation. metadata.uid, creationTimestamp, deletionTimestamp and deletionGracePeriodSeconds are the caller's.
  virtual void prepare_for_update(kube::Json& object, const kube::Json& old, StrategyContext& ctx) const;
  // Findings about metadata (name, labels, annotations, owners, finalizers) are included.
  virtual std::vector<kube::FieldError> validate(const kube::Json& object, StrategyContext& ctx) const;
  virtual std::vector<kube::FieldError> validate_update(const kube::Json& object, const kube::Json& old,
                                                        StrategyContext& ctx) const;
  // Right before the commit of a create or update that passed everything: allocates what others must not get (cluster
  // IPs, node ports). Never called in a dry run's place twice; `old` is null for a create.
  virtual kube::ApiResult<bool> allocate(kube::Json& object, const kube::Json* old, StrategyContext& ctx) const;
  // After a delete, or after a commit failed: gives allocations back.
  virtual void release(const kube::Json& object, StrategyContext& ctx) const;

  // Grace period of a delete in seconds; only pods have one. `asked` is -1 when not given.
  virtual int64_t grace_period(const kube::Json& object, int64_t asked) const;
  // A finalizer the first delete adds, so that something else goes before the object does; empty: none.
  virtual std::string_view delete_finalizer() const;
  // Being marked as deleted counts as a change of the spec (metadata.generation).
  virtual bool delete_raises_generation() const;
  // A delete that does not remove at once: the kind's own marks (namespaces become Terminating).
  virtual void prepare_for_delete(kube::Json& object, StrategyContext& ctx) const;
  // Something beside metadata.finalizers holds a deleted object (spec.finalizers of a namespace).
  virtual bool held_by_spec(const kube::Json& object) const;
  // Dependents when the client says nothing: "Background", or "Orphan" (jobs, replication controllers).
  virtual std::string_view default_propagation() const;
  // Warning for a delete without propagation policy (jobs); empty: none.
  virtual std::string_view delete_warning() const;
  // A write to /status leaves metadata.labels as they were, so nobody comes to own them there.
  virtual bool status_keeps_labels() const;
  // PUT without resourceVersion: allowed for most built-in kinds.
  virtual bool allow_unconditional_update() const;
  virtual bool allow_create_on_update() const;
  // DELETE of most kinds answers a Status, of some the object.
  virtual bool delete_returns_object() const;
  virtual std::vector<std::string> check_name(std::string_view name) const;
};

const Strategy& strategy_for(const Resource& resource);

enum class Operation : unsigned char { kCreate, kUpdate, kDelete, kConnect };

// Mutating admission: changes or refuses a write after defaults and before prepare_for_* and validation (namespace life
// cycle, service account, priority, tolerations, limit range defaults, node restriction, ...). `old` is null for a
// create; for a delete `object` is the stored one. The first refusal wins.
kube::ApiResult<bool> admit(Operation operation, kube::Json& object, const kube::Json* old, StrategyContext& ctx);
// Validating admission: after validation, right before the commit (limit ranges, pod security, quotas, policies).
kube::ApiResult<bool> admit_validated(Operation operation, const kube::Json& object, const kube::Json* old,
                                      StrategyContext& ctx);

}  // namespace ghostfleet::controlplane
