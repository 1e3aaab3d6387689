// Create and update: what happens between a decoded object and its commit.
#include "controlplane/apiserver/api_impl.h"
#include "controlplane/apiserver/list_options.h"
#include "controlplane/apiserver/object_bytes.h"
#include "controlplane/auth/tokens.h"
#include "kube/api/managed_fields.h"

namespace ghostfleet::controlplane {
namespace {

using kube::ApiError;
using kube::ApiResult;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

constexpr int kNameAttempts = 8;
constexpr int kConflictAttempts = 100;
constexpr size_t kGeneratedPrefix = 58;
constexpr std::string_view kModified =
    "the object has been modified; please apply your changes to the latest version and try again";

std::string random_suffix() {
  static constexpr std::string_view kAlphabet = "bcdfghjklmnpqrstvwxz2456789";
  const std::string uuid = random_uuid();
  std::string suffix;
  uint64_t seed = std::hash<std::string>()(uuid);
  for (int i = 0; i < 5; i++, seed /= kAlphabet.size()) suffix += kAlphabet[seed % kAlphabet.size()];
  return suffix;
}

// 500 without a reason: what a real server says of errors it did not expect.
ApiError bare_error(std::string message) {
  ApiError error;
  error.message = std::move(message);
  return error;
}

ApiError store_error(const Resource& r, std::string_view name, const Status& status) {
  switch (status.code()) {
    case Code::kAlreadyExists: return kube::already_exists(r.info, name);
    case Code::kNotFound: return kube::not_found_error(r.info, name);
    case Code::kConflict: return kube::conflict(r.info, name, kModified);
    case Code::kResourceExhausted: {
      return bare_error("etcdserver: request is too large");
    }
    default: return kube::internal_api_error(status.message());
  }
}

// What every new object gets and no client may choose.
void set_system_fields(Json& object, WallTime now) {
  JsonObject& metadata = kube::ensure_object(object, "metadata");
  metadata["uid"] = random_uuid();
  metadata["creationTimestamp"] = format_time(now);
  for (const char* field : {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"}) {
    metadata.erase(field);
  }
}

void copy_member(const JsonObject& from, JsonObject* to, std::string_view key) {
  auto it = from.find(key);
  if (it == from.end()) {
    to->erase(key);
  } else {
    (*to)[key] = it->value();
  }
}

// What an update never changes.
void keep_system_fields(const Json& old, Json* updated) {
  const JsonObject& before = *kube::get_object(old, "metadata");
  JsonObject& after = kube::ensure_object(*updated, "metadata");
  for (const char* field : {"creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"}) {
    copy_member(before, &after, field);
  }
  after.erase("selfLink");
}

bool empty_list(const Json& object, std::string_view path) {
  const JsonArray* list = kube::get_array(object, path);
  return !list || list->empty();
}

bool has_apply_entry(const Json& object) {
  const JsonArray* entries = kube::get_array(object, "metadata.managedFields");
  if (!entries) return false;
  for (const Json& entry : *entries) {
    if (kube::get_string(entry, "operation") == "Apply") return true;
  }
  return false;
}

// The client may reset ownership by sending one empty entry.
bool resets_ownership(const Json& object) {
  const JsonArray* entries = kube::get_array(object, "metadata.managedFields");
  return entries && entries->size() == 1 && kube::get_string((*entries)[0], "manager").empty() &&
         kube::get_string((*entries)[0], "operation").empty();
}

// PUT of an object that is not there, with a uid: there is nothing of that uid.
ApiError missing_with_uid(const Resource& r, const Change& change, std::string_view uid) {
  std::string why = "StorageError: invalid object, Code: 4, Key: /registry/" + r.info.resource + "/";
  if (r.info.namespaced) why.append(change.ns).append("/");
  why.append(change.name)
      .append(", ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: ");
  return kube::conflict(r.info, change.name, why.append(uid).append(", UID in object meta: "));
}

bool ends_deletion(const Json& object, const Strategy& strategy) {
  if (kube::get_string(object, "metadata.deletionTimestamp").empty()) return false;
  if (!empty_list(object, "metadata.finalizers")) return false;
  return kube::get_int(object, "metadata.deletionGracePeriodSeconds") == 0 && !strategy.held_by_spec(object);
}

}  // namespace

ApiResult<WriteOutcome> ApiImpl::create(const Resource& r, std::string_view ns, Json object, RequestContext& ctx) {
  const std::string name(kube::get_string(object, "metadata.name"));
  const Change change{.resource = r, .ns = ns, .name = name};
  return create_as(change, std::move(object), ctx);
}

ApiResult<WriteOutcome> ApiImpl::create_as(const Change& change, Json object, RequestContext& ctx) {
  const Resource& r = change.resource;
  const Strategy& strategy = strategy_for(r);
  StrategyContext sctx{*this, r, ctx, r.info.namespaced ? change.ns : std::string_view(), ""};
  JsonObject& metadata = kube::ensure_object(object, "metadata");
  if (!kube::get_string(object, "metadata.resourceVersion").empty() && !change.may_create) {
    return bare_error("resourceVersion should not be set on objects to be created");
  }
  if (change.may_create && change.is_put && !kube::get_string(object, "metadata.uid").empty()) {
    return missing_with_uid(r, change, kube::get_string(object, "metadata.uid"));
  }
  if (r.info.namespaced) {
    metadata["namespace"] = change.ns;
  } else {
    metadata.erase("namespace");
  }
  for (const char* field : {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"}) metadata.erase(field);
  strategy.apply_defaults(object, sctx);
  if (!change.owns_fields) track_fields(r, Json(), &object, "", ctx);
  ApiResult<bool> admitted = admit(Operation::kCreate, object, nullptr, sctx);
  if (!admitted.ok()) return admitted.error();
  set_system_fields(object, clock_.wall_now());
  const std::string given(kube::get_string(object, "metadata.name"));
  std::string prefix(kube::get_string(object, "metadata.generateName"));
  const bool generates = given.empty() && !prefix.empty();
  if (prefix.size() > kGeneratedPrefix) prefix.resize(kGeneratedPrefix);
  for (int attempt = 1;; attempt++) {
    Json candidate = generates ? object : std::move(object);
    std::string name = generates ? prefix + random_suffix() : given;
    if (generates) kube::set_path(candidate, "metadata.name", json_string(name));
    strategy.prepare_for_create(candidate, sctx);
    std::vector<kube::FieldError> findings = strategy.validate(candidate, sctx);
    if (!findings.empty()) return kube::invalid(r.stored->group, r.info.kind, name, findings);
    bool exists = false;
    ApiResult<WriteOutcome> stored = store_new(r, object_key(sctx.ns, name), candidate, sctx, &exists);
    if (!exists || !generates || attempt == kNameAttempts) return stored;
  }
}

ApiResult<WriteOutcome> ApiImpl::store_new(const Resource& r, std::string_view key, Json& object, StrategyContext& sctx,
                                           bool* exists) {
  const Strategy& strategy = strategy_for(r);
  const std::string name(kube::get_string(object, "metadata.name"));
  ApiResult<bool> admitted = admit_validated(Operation::kCreate, object, nullptr, sctx);
  if (!admitted.ok()) return admitted.error();
  if (ObjectRef live = store_->get(r.store_kind, key)) {
    *exists = true;
    ApiError error = kube::already_exists(r.info, name);
    if (!kube::get_string(decode_stored(*live), "metadata.deletionTimestamp").empty()) {
      error.message = "object is being deleted: " + error.message;
    }
    return error;
  }
  ApiResult<bool> allocated = strategy.allocate(object, nullptr, sctx);
  if (!allocated.ok()) return allocated.error();
  EncodedObject encoded = encode(r, object);
  if (sctx.request.dry_run) return WriteOutcome{unstored_object(key, std::move(encoded), 0), true};
  Result<ObjectRef> stored = store_->put(r.store_kind, key, nullptr, std::move(encoded));
  if (stored.ok()) {
    committed(r.store_kind, *stored, false);
    return WriteOutcome{*stored, true};
  }
  *exists = stored.error().code() == Code::kAlreadyExists;
  strategy.release(object, sctx);
  return store_error(r, name, stored.error());
}

ApiResult<WriteOutcome> ApiImpl::write(const Change& change, RequestContext& ctx) {
  const Resource& r = change.resource;
  const std::string key = object_key(r.info.namespaced ? change.ns : std::string_view(), change.name);
  for (int attempt = 1;; attempt++) {
    Live live{store_->get(r.store_kind, key), Json()};
    if (!live.object && !change.may_create) return kube::not_found_error(r.info, change.name);
    if (live.object) live.json = decode(r, *live.object);
    ApiResult<Json> made = change.make(live.json);
    if (!made.ok()) return made.error();
    if (made->is_null() && live.object) return WriteOutcome{live.object, false};
    bool lost_race = false;
    ApiResult<WriteOutcome> outcome = live.object ? commit_update(change, live, std::move(*made), ctx, &lost_race)
                                                  : create_as(change, std::move(*made), ctx);
    if (!live.object && !outcome.ok() && outcome.error().reason == "AlreadyExists") lost_race = true;
    if (outcome.ok() || !lost_race || !change.retry_on_conflict || attempt == kConflictAttempts) return outcome;
  }
}

ApiResult<bool> ApiImpl::check_version(const Change& change, const Live& live, Json& updated) const {
  const Resource& r = change.resource;
  const std::string_view given_uid = kube::get_string(updated, "metadata.uid");
  const std::string_view uid = kube::get_string(live.json, "metadata.uid");
  if (change.is_put && !given_uid.empty() && given_uid != uid) {
    return kube::conflict(r.info, change.name,
                          "Precondition failed: UID in precondition: " + std::string(given_uid) +
                              ", UID in object meta: " + std::string(uid));
  }
  const std::string version(kube::get_string(updated, "metadata.resourceVersion"));
  if (version.empty() || version == "0") {
    if (strategy_for(r).allow_unconditional_update() || !change.is_put) return true;
    kube::FieldError finding{kube::FieldErrorType::kInvalid, "metadata.resourceVersion", "0",
                             "must be specified for an update"};
    return kube::invalid(r.stored->group, r.info.resource, change.name, {finding});
  }
  Revision asked = 0;
  std::string problem;
  if (!parse_version(version, &asked, &problem)) return bare_error(problem);
  if (asked != live.object->revision) return kube::conflict(r.info, change.name, kModified);
  return true;
}

ApiResult<WriteOutcome> ApiImpl::commit_update(const Change& change, const Live& live, Json updated,
                                               RequestContext& ctx, bool* lost_race) {
  const Resource& r = change.resource;
  const Strategy& strategy = strategy_for(r);
  StrategyContext sctx{*this, r, ctx, r.info.namespaced ? change.ns : std::string_view(), change.subresource};
  JsonObject& metadata = kube::ensure_object(updated, "metadata");
  if (r.info.namespaced) metadata["namespace"] = change.ns;
  if (ApiResult<bool> ok = check_version(change, live, updated); !ok.ok()) return ok.error();
  if (kube::get_string(updated, "metadata.uid").empty()) metadata["uid"] = kube::get_string(live.json, "metadata.uid");
  strategy.apply_defaults(updated, sctx);
  if (!change.owns_fields) track_fields(r, live.json, &updated, change.subresource, ctx);
  if (ApiResult<bool> ok = admit(Operation::kUpdate, updated, &live.json, sctx); !ok.ok()) return ok.error();
  keep_system_fields(live.json, &updated);
  strategy.prepare_for_update(updated, live.json, sctx);
  std::vector<kube::FieldError> findings = strategy.validate_update(updated, live.json, sctx);
  if (!findings.empty()) return kube::invalid(r.stored->group, r.info.kind, change.name, findings);
  if (ApiResult<bool> ok = admit_validated(Operation::kUpdate, updated, &live.json, sctx); !ok.ok()) return ok.error();
  if (ApiResult<bool> ok = strategy.allocate(updated, &live.json, sctx); !ok.ok()) return ok.error();
  EncodedObject encoded = encode(r, updated);
  if (same_content(encoded, *live.object)) return WriteOutcome{live.object, false};
  if (ends_deletion(updated, strategy)) {
    if (ctx.dry_run) return WriteOutcome{unstored_object(live.object->key, std::move(encoded), live.object->revision)};
    ApiResult<DeleteOutcome> removed = remove_now(r, live, sctx, lost_race);
    if (!removed.ok()) return removed.error();
    return WriteOutcome{unstored_object(live.object->key, std::move(encoded), removed->object->revision)};
  }
  if (ctx.dry_run) return WriteOutcome{unstored_object(live.object->key, std::move(encoded), live.object->revision)};
  Result<ObjectRef> stored = store_->put(r.store_kind, live.object->key, live.object, std::move(encoded));
  if (stored.ok()) {
    committed(r.store_kind, *stored, false);
    return WriteOutcome{*stored, false};
  }
  *lost_race = stored.error().code() == Code::kConflict;
  return store_error(r, change.name, stored.error());
}

// What the endpoint does not let a client change is left out of what he owns: status on the main endpoint, everything
// else on /status.
void ApiImpl::track_fields(const Resource& r, const Json& before, Json* after, std::string_view subresource,
                           const RequestContext& ctx) const {
  JsonObject& metadata = kube::ensure_object(*after, "metadata");
  if (resets_ownership(*after)) {
    metadata.erase("managedFields");
    return;
  }
  if (empty_list(*after, "metadata.managedFields") && before.is_object()) {
    copy_member(*kube::get_object(before, "metadata"), &metadata, "managedFields");
  }
  if (!options_.managed_fields && !has_apply_entry(*after)) {
    metadata.erase("managedFields");
    return;
  }
  if (subresource == "binding") return;
  Json scope = *after;
  const bool isolates_status = r.info.has_subresource("status");
  const auto reset_to_before = [&](std::string_view key) {
    const Json* old = before.is_object() ? kube::find_key(before, key) : nullptr;
    if (old) {
      scope.as_object()[key] = *old;
    } else {
      scope.as_object().erase(key);
    }
  };
  if (subresource.empty() && isolates_status) reset_to_before("status");
  if (subresource == "status") reset_to_before("spec");
  if (subresource == "status" && before.is_object() && strategy_for(r).status_keeps_labels()) {
    copy_member(*kube::get_object(before, "metadata"), &kube::ensure_object(scope, "metadata"), "labels");
  }
  kube::ApplyOptions options;
  options.manager = ctx.field_manager;
  options.api_version = r.info.api_version();
  options.subresource = subresource;
  options.now = clock_.wall_now();
  kube::record_update(before, &scope, {r.info.type, r.schema.get()}, options);
  copy_member(*kube::get_object(scope, "metadata"), &metadata, "managedFields");
}

}  // namespace ghostfleet::controlplane
