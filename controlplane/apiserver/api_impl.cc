#include "controlplane/apiserver/api_impl.h"

#include <algorithm>

#include "controlplane/apiserver/admission/lookup.h"
#include "controlplane/apiserver/lease_renewal.h"
#include "controlplane/apiserver/object_bytes.h"
#include "controlplane/apiserver/stored_version.h"
#include "controlplane/apiserver/subresources/subresources.h"

namespace ghostfleet::controlplane {

using kube::ApiResult;
using kube::Json;

ApiImpl::ApiImpl(ApiOptions options, const Clock& clock)
    : options_(options), clock_(clock), store_(Store::create(options.store, clock)) {
  add_builtin();
}

void ApiImpl::add_builtin() {
  for (const kube::KindInfo& info : kube::builtin_kinds()) {
    Resource& r = all_.emplace_back();
    r.info = info;
    KindConfig config = kind_config(info.storage_resource, selectable_fields(info.storage_resource));
    r.store_kind = store_->add_kind(config);
    r.stored = &stored_kind(r.info);
    configs_.emplace(r.store_kind, std::move(config));
    table_[{info.group, info.version, info.resource}] = &r;
    order_.push_back(&r);
  }
}

const Resource* ApiImpl::find(std::string_view group, std::string_view version, std::string_view resource) const {
  std::shared_lock lock(mutex_);
  const auto it = table_.find(std::make_tuple(group, version, resource));
  return it == table_.end() ? nullptr : it->second;
}

std::vector<const Resource*> ApiImpl::resources() const {
  std::shared_lock lock(mutex_);
  return order_;
}

const KindConfig& ApiImpl::config_of(const Resource& r) const {
  std::shared_lock lock(mutex_);
  return configs_.at(r.store_kind);
}

KindId ApiImpl::kind_of(std::string_view storage_resource) const {
  std::shared_lock lock(mutex_);
  for (const auto& [id, config] : configs_) {
    if (config.name == storage_resource) return id;
  }
  return ~KindId(0);
}

void ApiImpl::on_commit(KindId kind, std::function<void(const ObjectRef& object, bool gone)> listener) {
  listeners_.emplace_back(kind, std::move(listener));
}

void ApiImpl::committed(KindId kind, const ObjectRef& object, bool gone) const {
  for (const auto& [wanted, listener] : listeners_) {
    if (wanted == kind) listener(object, gone);
  }
}

uint64_t ApiImpl::table_version() const {
  std::shared_lock lock(mutex_);
  return table_version_;
}

const Resource* ApiImpl::add_custom(CustomVersion custom) {
  std::unique_lock lock(mutex_);
  Resource& r = all_.emplace_back();
  r.info = std::move(custom.info);
  r.schema = std::move(custom.schema);
  r.scale = std::move(custom.scale);
  r.printer = std::move(custom.printer);
  r.terminating = custom.terminating;
  r.stored = &r.info;
  KindConfig config = kind_config(r.info.storage_resource, custom.fields);
  r.store_kind = store_->add_kind(config);
  configs_.try_emplace(r.store_kind, std::move(config));
  const Resource*& slot = table_[{r.info.group, r.info.version, r.info.resource}];
  if (slot) order_.erase(std::remove(order_.begin(), order_.end(), slot), order_.end());
  slot = &r;
  order_.push_back(&r);
  table_version_++;
  return &r;
}

void ApiImpl::remove_custom(std::string_view group, std::string_view resource) {
  std::unique_lock lock(mutex_);
  for (auto it = table_.begin(); it != table_.end();) {
    const Resource* r = it->second;
    if (r->info.group != group || r->info.resource != resource || !r->info.custom()) {
      ++it;
      continue;
    }
    order_.erase(std::remove(order_.begin(), order_.end(), r), order_.end());
    it = table_.erase(it);
  }
  table_version_++;
}

void ApiImpl::remove_custom_version(std::string_view group, std::string_view version, std::string_view resource) {
  std::unique_lock lock(mutex_);
  const auto it = table_.find(std::make_tuple(group, version, resource));
  if (it == table_.end() || !it->second->info.custom()) return;
  order_.erase(std::remove(order_.begin(), order_.end(), it->second), order_.end());
  table_.erase(it);
  table_version_++;
}

ApiResult<ObjectRef> ApiImpl::get(const Resource& r, std::string_view ns, std::string_view name) {
  ObjectRef object = store_->get(r.store_kind, object_key(r.info.namespaced ? ns : "", name));
  if (!object) return kube::not_found_error(r.info, name);
  return object;
}

Json ApiImpl::decode(const Resource& r, const Object& object) const {
  Json json = decode_stored(object);
  return r.stored == &r.info || r.info.custom() ? json : from_stored_version(r.info, std::move(json));
}

EncodedObject ApiImpl::encode(const Resource& r, Json& object) const {
  if (r.stored == &r.info || r.stored->api_version() == r.info.api_version()) return encode_object(object, *r.stored);
  Json converted = to_stored_version(r.info, object);
  return encode_object(converted, *r.stored);
}

ApiResult<WriteOutcome> ApiImpl::update(const Resource& r, std::string_view ns, std::string_view name, Json object,
                                        std::string_view subresource, RequestContext& ctx) {
  const bool versioned = !kube::get_string(object, "metadata.resourceVersion").empty();
  Change change{.resource = r, .ns = ns, .name = name, .subresource = subresource};
  // What is based on a version is tried once.
  change.make = [&object, versioned](const Json&) -> ApiResult<Json> {
    return versioned ? ApiResult<Json>(std::move(object)) : ApiResult<Json>(object);
  };
  change.may_create = subresource.empty() && strategy_for(r).allow_create_on_update();
  change.retry_on_conflict = !versioned;
  change.is_put = true;
  return write(change, ctx);
}

ObjectRef ApiImpl::renew_lease(const Resource& r, std::string_view ns, std::string_view name, std::string_view body,
                               const RequestContext& ctx) {
  if (ctx.dry_run || !none_stored(*this, KnownKind::kMutatingWebhooks, "") ||
      !none_stored(*this, KnownKind::kValidatingWebhooks, "")) {
    return nullptr;
  }
  const ObjectRef live = store_->get(r.store_kind, object_key(ns, name));
  if (!live) return nullptr;
  const std::string now = format_time(clock_.wall_now());
  std::optional<EncodedObject> renewed = renewed_lease(*live, body, {ctx.field_manager, now, options_.managed_fields});
  if (!renewed) return nullptr;
  Result<ObjectRef> stored = store_->put(r.store_kind, live->key, live, std::move(*renewed));
  if (!stored.ok()) return nullptr;
  committed(r.store_kind, *stored, false);
  return std::move(*stored);
}

ApiResult<WriteOutcome> ApiImpl::modify(const Resource& r, std::string_view ns, std::string_view name,
                                        std::string_view subresource, const std::function<ApiResult<bool>(Json&)>& edit,
                                        RequestContext& ctx) {
  Change change{.resource = r, .ns = ns, .name = name, .subresource = subresource};
  change.make = [&edit](const Json& live) -> ApiResult<Json> {
    Json copy = live;
    ApiResult<bool> changed = edit(copy);
    if (!changed.ok()) return changed.error();
    return *changed ? ApiResult<Json>(std::move(copy)) : ApiResult<Json>(Json());
  };
  return write(change, ctx);
}

ApiResult<ObjectRef> ApiImpl::bind(std::string_view ns, std::string_view pod, std::string_view uid,
                                   std::string_view node, RequestContext& ctx) {
  Json binding = kube::JsonObject{
      {"apiVersion", "v1"},
      {"kind", "Binding"},
      {"metadata", kube::JsonObject{{"name", pod}, {"namespace", ns}}},
      {"target", kube::JsonObject{{"kind", "Node"}, {"name", node}}},
  };
  if (!uid.empty()) kube::set_path(binding, "metadata.uid", json_string(uid));
  return bind_pod(*this, ns, pod, binding, ctx);
}

RequestContext internal_context(std::string_view component) {
  RequestContext ctx;
  ctx.user.name = "system:" + std::string(component);
  ctx.user.groups = {kMastersGroup, "system:authenticated"};
  ctx.user_agent = component;
  ctx.field_manager = component;
  ctx.validation = kube::FieldValidation::kIgnore;
  ctx.internal = true;
  return ctx;
}

void RequestContext::warn(std::string text) {
  if (std::find(warnings.begin(), warnings.end(), text) == warnings.end()) warnings.push_back(std::move(text));
}

}  // namespace ghostfleet::controlplane
