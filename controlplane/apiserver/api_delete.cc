// Delete: grace periods, finalizers, propagation.
#include <algorithm>

#include "controlplane/apiserver/api_impl.h"
#include "controlplane/apiserver/object_bytes.h"

namespace ghostfleet::controlplane {
namespace {

using kube::ApiError;
using kube::ApiResult;
using kube::Json;
using kube::JsonArray;

constexpr const char* kOrphan = "orphan";
constexpr const char* kForeground = "foregroundDeletion";
constexpr int kConflictAttempts = 100;

bool has_finalizer(const Json& object, std::string_view finalizer) {
  const JsonArray* list = kube::get_array(object, "metadata.finalizers");
  return list && std::any_of(list->begin(), list->end(),
                             [&](const Json& f) { return f.is_string() && f.as_string() == finalizer; });
}

bool wants_orphans(const Json& object, const DeleteOptions& options, const Strategy& strategy) {
  if (options.orphan_dependents_given) return options.orphan_dependents;
  if (!options.propagation_policy.empty()) return options.propagation_policy == "Orphan";
  if (has_finalizer(object, kOrphan)) return true;
  return !has_finalizer(object, kForeground) && strategy.default_propagation() == "Orphan";
}

bool wants_foreground(const Json& object, const DeleteOptions& options) {
  if (options.orphan_dependents_given) return false;
  if (!options.propagation_policy.empty()) return options.propagation_policy == "Foreground";
  return has_finalizer(object, kForeground);
}

// Sets the garbage collector's finalizers; true when that changed the object.
bool set_gc_finalizers(Json& object, const DeleteOptions& options, const Strategy& strategy) {
  const bool orphan = wants_orphans(object, options, strategy);
  const bool foreground = wants_foreground(object, options);
  if (orphan == has_finalizer(object, kOrphan) && foreground == has_finalizer(object, kForeground)) return false;
  JsonArray kept;
  if (const JsonArray* list = kube::get_array(object, "metadata.finalizers")) {
    for (const Json& f : *list) {
      if (!f.is_string() || (f.as_string() != kOrphan && f.as_string() != kForeground)) kept.push_back(f);
    }
  }
  if (orphan) kept.emplace_back(kOrphan);
  if (foreground) kept.emplace_back(kForeground);
  if (kept.empty()) {
    kube::erase_path(object, "metadata.finalizers");
  } else {
    kube::set_path(object, "metadata.finalizers", std::move(kept));
  }
  return true;
}

// The kind's own finalizer; true when it was not there.
bool add_finalizer(Json& object, std::string_view finalizer) {
  if (finalizer.empty() || has_finalizer(object, finalizer)) return false;
  const JsonArray* list = kube::get_array(object, "metadata.finalizers");
  JsonArray all = list ? *list : JsonArray();
  all.push_back(json_string(finalizer));
  kube::set_path(object, "metadata.finalizers", std::move(all));
  return true;
}

bool has_finalizers(const Json& object) {
  const JsonArray* list = kube::get_array(object, "metadata.finalizers");
  return list && !list->empty();
}

ApiError precondition_failed(const Resource& r, std::string_view name, std::string_view what, std::string_view given,
                             std::string_view actual, std::string_view why) {
  ApiError error = kube::conflict(r.info, name, "");
  std::string text = "the ";
  text.append(what).append(" in the precondition (").append(given).append(") does not match the ");
  text.append(what).append(" in record (").append(actual).append("). ").append(why);
  error.message = "Operation cannot be fulfilled on " + r.info.kind +
                  (r.info.group.empty() ? std::string() : "." + r.info.group) + " \"" + std::string(name) +
                  "\": " + text;
  error.kind = r.info.kind;
  return error;
}

ApiResult<bool> check_preconditions(const Resource& r, const Json& object, const DeleteOptions& options) {
  const std::string_view name = kube::get_string(object, "metadata.name");
  const std::string_view uid = kube::get_string(object, "metadata.uid");
  const std::string_view version = kube::get_string(object, "metadata.resourceVersion");
  if ((options.uid_given || !options.uid_precondition.empty()) && options.uid_precondition != uid) {
    return precondition_failed(r, name, "UID", options.uid_precondition, uid,
                               "The object might have been deleted and then recreated");
  }
  if ((options.version_given || !options.version_precondition.empty()) && options.version_precondition != version) {
    return precondition_failed(r, name, "ResourceVersion", options.version_precondition, version,
                               "The object might have been modified");
  }
  return true;
}

}  // namespace

ApiResult<DeleteOutcome> ApiImpl::remove(const Resource& r, std::string_view ns, std::string_view name,
                                         const DeleteOptions& options, RequestContext& ctx) {
  StrategyContext sctx{*this, r, ctx, r.info.namespaced ? ns : std::string_view(), ""};
  const std::string key = object_key(sctx.ns, name);
  for (int attempt = 1;; attempt++) {
    bool lost_race = false;
    ApiResult<DeleteOutcome> outcome = remove_once(r, key, options, sctx, &lost_race);
    if (outcome.ok() || !lost_race || attempt == kConflictAttempts) return outcome;
  }
}

ApiResult<DeleteOutcome> ApiImpl::remove_once(const Resource& r, std::string_view key, const DeleteOptions& options,
                                              StrategyContext& sctx, bool* lost_race) {
  const Strategy& strategy = strategy_for(r);
  Live live{store_->get(r.store_kind, key), Json()};
  if (!live.object) return kube::not_found_error(r.info, key.substr(sctx.ns.empty() ? 0 : sctx.ns.size() + 1));
  live.json = decode(r, *live.object);
  Json admitted = live.json;
  if (ApiResult<bool> ok = admit(Operation::kDelete, admitted, &live.json, sctx); !ok.ok()) return ok.error();
  if (ApiResult<bool> ok = check_preconditions(r, live.json, options); !ok.ok()) return ok.error();
  if (options.propagation_policy.empty() && !options.orphan_dependents_given && !strategy.delete_warning().empty()) {
    sctx.request.warn(std::string(strategy.delete_warning()));
  }
  const bool deleting = !kube::get_string(live.json, "metadata.deletionTimestamp").empty();
  const int64_t old_grace = kube::get_int(live.json, "metadata.deletionGracePeriodSeconds");
  int64_t grace = strategy.grace_period(live.json, options.grace_period_seconds);
  if (deleting && old_grace > 0 && (options.grace_period_seconds < 0 || grace >= old_grace)) {
    return DeleteOutcome{false, live.object};  // already on its way, and no sooner end asked for
  }
  if (deleting && old_grace == 0) grace = 0;
  Json marked = live.json;
  bool changed = set_gc_finalizers(marked, options, strategy);
  if (!deleting) changed = add_finalizer(marked, strategy.delete_finalizer()) || changed;
  if (grace == 0 && !has_finalizers(marked) && !strategy.held_by_spec(marked)) {
    return remove_now(r, live, sctx, lost_race);
  }
  if (deleting && !changed && grace == old_grace) return DeleteOutcome{false, live.object};
  return mark_deleted(r, live, std::move(marked), grace, sctx, lost_race);
}

ApiResult<DeleteOutcome> ApiImpl::mark_deleted(const Resource& r, const Live& live, Json marked, int64_t grace,
                                               StrategyContext& sctx, bool* lost_race) {
  const bool deleting = !kube::get_string(live.json, "metadata.deletionTimestamp").empty();
  const int64_t old_grace = kube::get_int(live.json, "metadata.deletionGracePeriodSeconds");
  if (!deleting) {
    kube::set_path(marked, "metadata.deletionTimestamp",
                   json_string(format_time(clock_.wall_now() + std::chrono::seconds(grace))));
    const int64_t generation = kube::get_int(live.json, "metadata.generation");
    const bool raises = generation > 0 && strategy_for(r).delete_raises_generation();
    if (raises) kube::set_path(marked, "metadata.generation", generation + 1);
  } else if (grace < old_grace) {
    WallTime at;
    parse_time(kube::get_string(live.json, "metadata.deletionTimestamp"), &at);
    // Never into the past: a new period that has run out already counts as one second, unless none was asked for.
    const WallTime sooner = at - std::chrono::seconds(old_grace - grace);
    if (grace > 0 && sooner < clock_.wall_now()) grace = 1;
    kube::set_path(marked, "metadata.deletionTimestamp", json_string(format_time(std::max(sooner, clock_.wall_now()))));
  }
  kube::set_path(marked, "metadata.deletionGracePeriodSeconds", grace);
  strategy_for(r).prepare_for_delete(marked, sctx);
  EncodedObject encoded = encode(r, marked);
  if (sctx.request.dry_run) {
    return DeleteOutcome{false, unstored_object(live.object->key, std::move(encoded), live.object->revision)};
  }
  Result<ObjectRef> stored = store_->put(r.store_kind, live.object->key, live.object, std::move(encoded));
  if (stored.ok()) {
    committed(r.store_kind, *stored, false);
    return DeleteOutcome{false, *stored};
  }
  *lost_race = stored.error().code() == Code::kConflict;
  return kube::not_found_error(r.info, live.object->name());
}

// The answer to a delete that ends a graceful deletion shows it as run out, though nothing of that is stored.
ObjectRef ApiImpl::shown_as_ended(const Resource& r, const Live& live, const Object& removed) const {
  Json shown = live.json;
  if (kube::get_string(shown, "metadata.deletionTimestamp").empty()) {
    kube::set_path(shown, "metadata.deletionTimestamp", json_string(format_time(clock_.wall_now())));
    const int64_t generation = kube::get_int(shown, "metadata.generation");
    if (generation > 0) kube::set_path(shown, "metadata.generation", generation + 1);
  }
  kube::set_path(shown, "metadata.deletionGracePeriodSeconds", 0);
  return unstored_object(removed.key, encode(r, shown), removed.revision);
}

ApiResult<DeleteOutcome> ApiImpl::remove_now(const Resource& r, const Live& live, StrategyContext& sctx,
                                             bool* lost_race) {
  if (sctx.request.dry_run) return DeleteOutcome{true, live.object};
  Result<ObjectRef> removed = store_->remove(r.store_kind, live.object->key, live.object);
  if (!removed.ok()) {
    *lost_race = removed.error().code() == Code::kConflict;
    return kube::not_found_error(r.info, live.object->name());
  }
  strategy_for(r).release(live.json, sctx);
  committed(r.store_kind, *removed, true);
  return DeleteOutcome{true, r.stored->storage_resource == "pods" ? shown_as_ended(r, live, **removed) : *removed};
}

}  // namespace ghostfleet::controlplane
