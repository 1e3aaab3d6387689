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
  // After defaults: clears what only the server sets (status of most kinds), sets generation and generated values.
  virtual void prepare_for_create(kube::Json& object, StrategyContext& ctx) const;
  // Keeps status (main endpoint) or spec (status endpoint) of the old object, raises generation.
  virtual void prepare_for_update(kube::Json& object, const kube::Json& old, StrategyContext& ctx) const;
  virtual std::vector<kube::FieldError> validate(const kube::Json& object, StrategyContext& ctx) const;
  virtual std::vector<kube::FieldError> validate_update(const kube::Json& object, const kube::Json& old,
                                                        StrategyContext& ctx) const;
  // Grace period of a delete in seconds; only pods have one.
  virtual int64_t grace_period(const kube::Json& object, int64_t asked) const;
  // PUT without resourceVersion: allowed for most built-in kinds.
  virtual bool allow_unconditional_update() const;
  virtual bool allow_create_on_update() const;
  // DELETE of most kinds answers a Status, of some the object.
  virtual bool delete_returns_object() const;
  virtual std::vector<std::string> check_name(std::string_view name) const;
};

const Strategy& strategy_for(const Resource& resource);

// Admission: changes or refuses a write after defaults and before validation (namespace life cycle, service account,
// priority, tolerations, limit ranges, pod security, quotas, ...). `old` is null for a create. The first refusal wins.
enum class Operation : unsigned char { kCreate, kUpdate, kDelete, kConnect };
kube::ApiResult<bool> admit(Operation operation, kube::Json& object, const kube::Json* old, StrategyContext& ctx);

}  // namespace ghostfleet::controlplane
