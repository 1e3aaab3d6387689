#include "controlplane/apiserver/strategy.h"

#include <fmt/format.h>

#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "kube/api/names.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonObject;

// ---- Strategy: what holds for every kind, and for custom resources ----------------------------------------------

void Strategy::apply_defaults(Json&, StrategyContext&) const {}

void Strategy::prepare_for_create(Json& object, StrategyContext& ctx) const {
  if (ctx.resource.info.has_subresource("status")) object.get_object().erase("status");
  set_generation(object, 1);
}

void Strategy::prepare_for_update(Json& object, const Json& old, StrategyContext& ctx) const {
  JsonObject& root = object.get_object();
  bool has_status = ctx.resource.info.has_subresource("status");
  if (ctx.subresource == "status") {
    // Custom resources: status only, metadata stays but for managedFields and the version.
    std::vector<std::string> others;
    for (const auto& entry : root) {
      if (entry.key() != "status" && entry.key() != "metadata") others.emplace_back(entry.key());
    }
    for (const std::string& key : others) root.erase(key);
    for (const auto& entry : old.get_object()) {
      if (entry.key() != "status" && entry.key() != "metadata") copy_member(root, old, entry.key());
    }
    for (std::string_view key : {"labels", "annotations", "finalizers", "ownerReferences"}) {
      copy_member(metadata_of(object).get_object(), metadata_of(old), key);
    }
    set_generation(object, generation_of(old));
    return;
  }
  if (has_status) copy_member(root, old, "status");
  bool changed =
      has_status ? !same_spec(object, old) : !same_spec(object, old) || !equal_members(object, old, "status");
  set_generation(object, generation_of(old) + (changed ? 1 : 0));
}

std::vector<kube::FieldError> Strategy::validate(const Json& object, StrategyContext& ctx) const {
  Findings out;
  check_metadata(object, ctx.resource.info.namespaced, check_name(name_of(object)), out);
  return out.take();
}

std::vector<kube::FieldError> Strategy::validate_update(const Json& object, const Json& old, StrategyContext&) const {
  Findings out;
  check_metadata_update(object, old, OwnMetadata::kUpdate, out);
  return out.take();
}

kube::ApiResult<bool> Strategy::allocate(Json&, const Json*, StrategyContext&) const { return true; }
void Strategy::release(const Json&, StrategyContext&) const {}
int64_t Strategy::grace_period(const Json&, int64_t) const { return 0; }
void Strategy::prepare_for_delete(Json&, StrategyContext&) const {}
bool Strategy::held_by_spec(const Json&) const { return false; }
std::string_view Strategy::default_propagation() const { return "Background"; }
std::string_view Strategy::delete_warning() const { return {}; }
std::string_view Strategy::delete_finalizer() const { return {}; }
bool Strategy::delete_raises_generation() const { return true; }
bool Strategy::status_keeps_labels() const { return true; }
bool Strategy::allow_unconditional_update() const { return false; }
bool Strategy::allow_create_on_update() const { return false; }
bool Strategy::delete_returns_object() const { return false; }
std::vector<std::string> Strategy::check_name(std::string_view name) const {
  return kube::check_dns1123_subdomain(name);
}

// ---- KindStrategy -------------------------------------------------------------------------------------------------

void KindStrategy::prepare_for_create(Json& object, StrategyContext& ctx) const {
  if (traits_.status_dropped && ctx.resource.info.has_subresource("status")) object.get_object().erase("status");
  if (traits_.generation) set_generation(object, 1);
}

namespace {

void keep_metadata(Json& object, const Json& old, StatusMetadata rule) {
  JsonObject& meta = metadata_of(object).get_object();
  const Json& before = metadata_of(old);
  if (rule == StatusMetadata::kNoLabels) {
    copy_member(meta, before, "labels");
  } else if (rule == StatusMetadata::kProtected) {
    for (std::string_view key : {"labels", "annotations", "finalizers", "ownerReferences"}) {
      copy_member(meta, before, key);
    }
  } else if (rule == StatusMetadata::kFrozen) {
    Json managed = member(metadata_of(object), "managedFields") == nullptr ? Json() : meta["managedFields"];
    Json version = member(metadata_of(object), "resourceVersion") == nullptr ? Json() : meta["resourceVersion"];
    metadata_of(object) = before;
    JsonObject& kept = metadata_of(object).get_object();
    if (!managed.is_null()) kept["managedFields"] = std::move(managed);
    if (!version.is_null()) kept["resourceVersion"] = std::move(version);
  }
}

}  // namespace

void KindStrategy::prepare_for_update(Json& object, const Json& old, StrategyContext& ctx) const {
  JsonObject& root = object.get_object();
  int64_t generation = generation_of(old);
  if (ctx.subresource == "status") {
    copy_member(root, old, "spec");
    keep_metadata(object, old, traits_.status_metadata);
    set_generation(object, generation);
    return;
  }
  if (ctx.resource.info.has_subresource("status")) copy_member(root, old, "status");
  if (traits_.generation) {
    bool changed = !same_spec(object, old);
    if (traits_.annotations_count) {
      changed = changed || !equal_members(metadata_of(object), metadata_of(old), "annotations");
    }
    if (changed) ++generation;
  }
  set_generation(object, generation);
}

std::vector<kube::FieldError> KindStrategy::validate(const Json& object, StrategyContext& ctx) const {
  Findings out;
  check_metadata(object, ctx.resource.info.namespaced, check_name(name_of(object)), out);
  check(object, ctx, out);
  return out.take();
}

std::vector<kube::FieldError> KindStrategy::validate_update(const Json& object, const Json& old,
                                                            StrategyContext& ctx) const {
  Findings out;
  check_metadata_update(object, old, ctx.subresource.empty() ? traits_.own_metadata : OwnMetadata::kUpdate, out);
  if (ctx.subresource.empty()) {
    check_update(object, old, ctx, out);
  } else {
    check_status(object, old, ctx, out);
  }
  return out.take();
}

void KindStrategy::check(const Json&, StrategyContext&, Findings&) const {}

void KindStrategy::check_update(const Json& object, const Json&, StrategyContext& ctx, Findings& out) const {
  check(object, ctx, out);
}

void KindStrategy::check_status(const Json&, const Json&, StrategyContext&, Findings&) const {}

std::vector<std::string> KindStrategy::check_name(std::string_view name) const {
  switch (traits_.name_rule) {
    case NameRule::kSubdomain: return kube::check_dns1123_subdomain(name);
    case NameRule::kLabel: return kube::check_dns1123_label(name);
    case NameRule::kPathSegment: return kube::check_path_segment_name(name);
    case NameRule::kLabel1035: return kube::check_dns1035_label(name);
  }
  return {};
}

// ---- tools --------------------------------------------------------------------------------------------------------

Json& metadata_of(Json& object) {
  Json& metadata = object.get_object()["metadata"];
  if (!metadata.is_object()) metadata = JsonObject();
  return metadata;
}

const Json& metadata_of(const Json& object) {
  static const Json kEmpty = JsonObject();
  const Json* metadata = member(object, "metadata");
  return metadata == nullptr ? kEmpty : *metadata;
}

std::string_view name_of(const Json& object) { return text_of(metadata_of(object), "name"); }
std::string_view uid_of(const Json& object) { return text_of(metadata_of(object), "uid"); }

void default_to(JsonObject& object, std::string_view key, Json value) {
  Json* found = object.if_contains(key);
  if (found == nullptr) {
    object.emplace(key, std::move(value));
  } else if (found->is_null()) {
    *found = std::move(value);
  }
}

void default_text(JsonObject& object, std::string_view key, std::string_view value) {
  Json* found = object.if_contains(key);
  if (found == nullptr) {
    object.emplace(key, value);
  } else if (found->is_null() || (found->is_string() && found->get_string().empty())) {
    *found = value;
  }
}

void default_number(JsonObject& object, std::string_view key, int64_t value) {
  Json* found = object.if_contains(key);
  if (found == nullptr) {
    object.emplace(key, value);
  } else if (found->is_null() || as_int(*found) == 0) {
    *found = value;
  }
}

JsonObject& object_in(JsonObject& object, std::string_view key) {
  Json& value = object[key];
  if (!value.is_object()) value = JsonObject();
  return value.get_object();
}

void copy_member(JsonObject& to, const Json& from, std::string_view key) {
  const Json* value = member(from, key);
  if (value == nullptr) {
    to.erase(key);
  } else {
    to[key] = *value;
  }
}

void set_generation(Json& object, int64_t generation) {
  JsonObject& metadata = metadata_of(object).get_object();
  if (generation == 0) {
    metadata.erase("generation");
  } else {
    metadata["generation"] = generation;
  }
}

int64_t generation_of(const Json& object) { return int_of(metadata_of(object), "generation"); }

namespace {

bool counts_as_spec(std::string_view key) {
  return key != "metadata" && key != "status" && key != "apiVersion" && key != "kind";
}

bool contains_spec_of(const Json& a, const Json& b) {
  for (const auto& entry : a.get_object()) {
    if (!counts_as_spec(entry.key()) || entry.value().is_null()) continue;
    const Json* other = member(b, entry.key());
    if (other == nullptr || !kube::json_equal(entry.value(), *other)) return false;
  }
  return true;
}

}  // namespace

bool same_spec(const Json& a, const Json& b) {
  if (!contains_spec_of(a, b)) return false;
  for (const auto& entry : b.get_object()) {
    if (counts_as_spec(entry.key()) && !entry.value().is_null() && member(a, entry.key()) == nullptr) return false;
  }
  return true;
}

std::string now_text(StrategyContext& ctx) { return format_time(ctx.api.clock().wall_now()); }

}  // namespace ghostfleet::controlplane
