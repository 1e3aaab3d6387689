#include "controlplane/apiserver/custom_kinds.h"

#include <algorithm>

#include "base/log.h"
#include "controlplane/apiserver/object_bytes.h"
#include "controlplane/apiserver/strategies/custom_schema.h"

namespace ghostfleet::controlplane {
namespace {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;
using kube::KindInfo;
using kube::SubresourceInfo;

std::vector<std::string> strings_at(const Json& value, std::string_view path) {
  std::vector<std::string> out;
  if (const JsonArray* list = kube::get_array(value, path)) {
    for (const Json& element : *list) {
      if (element.is_string()) out.emplace_back(element.as_string());
    }
  }
  return out;
}

KindInfo kind_of_version(const Json& definition, const Json& version) {
  KindInfo kind;
  kind.group = kube::get_string(definition, "spec.group");
  kind.version = kube::get_string(version, "name");
  kind.kind = kube::get_string(definition, "spec.names.kind");
  kind.resource = kube::get_string(definition, "spec.names.plural");
  kind.singular = kube::get_string(definition, "spec.names.singular");
  kind.namespaced = kube::get_string(definition, "spec.scope") == "Namespaced";
  kind.short_names = strings_at(definition, "spec.names.shortNames");
  kind.categories = strings_at(definition, "spec.names.categories");
  kind.verbs = {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"};
  kind.storage_resource = kind.group_resource();
  const std::vector<std::string> gpu = {"get", "patch", "update"};
  if (kube::find_path(version, "subresources.scale")) {
    kind.subresources.push_back({"scale", "autoscaling", "v1", "Scale", gpu});
  }
  if (kube::find_path(version, "subresources.status")) kind.subresources.push_back({"status", "", "", kind.kind, gpu});
  return kind;
}

std::string without_dot(std::string_view path) { return std::string(path.starts_with('.') ? path.substr(1) : path); }

std::vector<SelectableField> fields_of(const Json& version) {
  std::vector<SelectableField> fields;
  if (const JsonArray* list = kube::get_array(version, "selectableFields")) {
    for (const Json& field : *list) {
      const std::string path = without_dot(kube::get_string(field, "jsonPath"));
      fields.push_back({path, path, ""});
    }
  }
  return fields;
}

std::shared_ptr<const kube::TablePrinter> printer_of(const Json& version) {
  std::vector<kube::CustomColumn> columns;
  if (const JsonArray* list = kube::get_array(version, "additionalPrinterColumns")) {
    for (const Json& c : *list) {
      kube::CustomColumn column;
      column.column.name = kube::get_string(c, "name");
      column.column.type = kube::get_string(c, "type");
      column.column.format = kube::get_string(c, "format");
      column.column.description = kube::get_string(c, "description");
      column.column.priority = static_cast<int>(kube::get_int(c, "priority"));
      column.json_path = kube::get_string(c, "jsonPath");
      columns.push_back(std::move(column));
    }
  }
  return kube::TablePrinter::for_custom(std::move(columns));
}

Json condition(std::string_view type, std::string_view reason, std::string_view message, WallTime now) {
  return JsonObject{{"type", type},
                    {"status", "True"},
                    {"lastTransitionTime", format_time(now)},
                    {"reason", reason},
                    {"message", message}};
}

constexpr std::string_view kGroup = "apiextensions.k8s.io", kDefinitions = "customresourcedefinitions";

RequestContext own_context() {
  RequestContext ctx = internal_context("apiserver");
  ctx.field_manager = "kube-apiserver";
  return ctx;
}

bool is_deleting(const Json& definition) { return !kube::get_string(definition, "metadata.deletionTimestamp").empty(); }

bool holds_cleanup(const Json& definition) {
  const JsonArray* list = kube::get_array(definition, "metadata.finalizers");
  return list && std::any_of(list->begin(), list->end(),
                             [](const Json& f) { return f.is_string() && f.as_string() == kCustomCleanupFinalizer; });
}

bool is_established(const Json& definition) {
  const JsonArray* conditions = kube::get_array(definition, "status.conditions");
  return conditions && std::any_of(conditions->begin(), conditions->end(), [](const Json& c) {
           return kube::get_string(c, "type") == "Established" && kube::get_string(c, "status") == "True";
         });
}

}  // namespace

std::unique_ptr<CustomKinds> CustomKinds::create(ApiImpl& api, std::function<void()> wake) {
  auto kinds = std::unique_ptr<CustomKinds>(new CustomKinds(api, std::move(wake)));
  const Resource* definitions = api.find(kGroup, "v1", kDefinitions);
  api.on_commit(definitions->store_kind,
                [raw = kinds.get()](const ObjectRef& object, bool gone) { raw->follow(object, gone); });
  return kinds;
}

void CustomKinds::follow(const ObjectRef& object, bool gone) {
  const Json definition = decode_stored(*object);
  if (gone) {
    api_.remove_custom(kube::get_string(definition, "spec.group"), kube::get_string(definition, "spec.names.plural"));
    return;
  }
  serve(definition);
  if (!is_deleting(definition)) {
    if (!is_established(definition)) establish(definition);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    ending_names_.emplace_back(object->name());
  }
  wake_();
}

void CustomKinds::serve(const Json& definition) {
  const JsonArray* versions = kube::get_array(definition, "spec.versions");
  if (!versions) return;
  for (const Json& version : *versions) {
    CustomVersion custom;
    custom.info = kind_of_version(definition, version);
    if (!kube::get_bool(version, "served")) {
      api_.remove_custom_version(custom.info.group, custom.info.version, custom.info.resource);
      continue;
    }
    if (const Json* schema = kube::find_path(version, "schema.openAPIV3Schema")) {
      custom.schema = std::make_shared<const Json>(*schema);
    }
    custom.fields = fields_of(version);
    custom.printer = printer_of(version);
    if (const Json* scale = kube::find_path(version, "subresources.scale")) {
      custom.scale = std::make_shared<const Json>(*scale);
    }
    custom.terminating = is_deleting(definition);
    api_.add_custom(std::move(custom));
  }
}

// Names are accepted at once: the first definition of a group's resource wins by its object name.
void CustomKinds::establish(const Json& definition) {
  const Resource* r = api_.find(kGroup, "v1", kDefinitions);
  RequestContext ctx = own_context();
  const WallTime now = api_.clock().wall_now();
  const auto change = [&](Json& live) -> kube::ApiResult<bool> {
    if (is_established(live)) return false;
    JsonObject& status = kube::ensure_object(live, "status");
    status["conditions"] =
        JsonArray{condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
                  condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now)};
    if (const Json* names = kube::find_path(live, "spec.names")) status["acceptedNames"] = *names;
    JsonArray stored;
    if (const JsonArray* versions = kube::get_array(live, "spec.versions")) {
      for (const Json& version : *versions) {
        if (kube::get_bool(version, "storage"))
          stored.push_back(Json(kube::JsonString(kube::get_string(version, "name"))));
      }
    }
    status["storedVersions"] = std::move(stored);
    return true;
  };
  const kube::ApiResult<WriteOutcome> outcome =
      api_.modify(*r, "", kube::get_string(definition, "metadata.name"), "status", change, ctx);
  if (!outcome.ok()) log_warn("apiserver", "definition not established: " + outcome.error().message);
}

CustomKinds::Left CustomKinds::clean_up(size_t max) {
  {
    std::lock_guard lock(mutex_);
    for (std::string& name : ending_names_) ending_.try_emplace(std::move(name));
    ending_names_.clear();
  }
  Left left = Left::kNothing;
  for (auto it = ending_.begin(); it != ending_.end();) {
    const Left one = clean_up_one(it->first, &it->second, max);
    if (one == Left::kWork || (one == Left::kWaiting && left == Left::kNothing)) left = one;
    it = one == Left::kNothing ? ending_.erase(it) : std::next(it);
  }
  return left;
}

CustomKinds::Left CustomKinds::clean_up_one(const std::string& name, Ending* ending, size_t max) {
  const Resource* definitions = api_.find(kGroup, "v1", kDefinitions);
  const kube::ApiResult<ObjectRef> found = api_.get(*definitions, "", name);
  if (!found.ok()) return Left::kNothing;
  const Json definition = decode_stored(**found);
  if (!is_deleting(definition) || !holds_cleanup(definition)) return Left::kNothing;
  const Resource* resource = nullptr;
  for (const Resource* r : api_.resources()) {
    if (r->info.custom() && r->info.group == kube::get_string(definition, "spec.group") &&
        r->info.resource == kube::get_string(definition, "spec.names.plural")) {
      resource = r;
    }
  }
  if (!resource) {
    finish(name, "NeverEstablished", "resource was never established");
    return Left::kNothing;
  }
  if (!ending->begun && !begin(name, resource, ending)) return Left::kWaiting;
  RequestContext ctx = own_context();
  for (size_t i = 0; i < max && !ending->objects.empty(); i++) {
    const ObjectRef object = std::move(ending->objects.back());
    ending->objects.pop_back();
    (void)api_.remove(*resource, object->ns(), object->name(), DeleteOptions(), ctx);  // or it is gone, or asked again
  }
  if (!ending->objects.empty()) return Left::kWork;
  if (api_.store().count(resource->store_kind, "") > 0) return Left::kWaiting;
  finish(name, "InstanceDeletionCompleted", "removed all instances");
  return Left::kNothing;
}

// From here on nothing is created any more: what is listed now is all there is.
bool CustomKinds::begin(const std::string& name, const Resource* resource, Ending* ending) {
  const Resource* definitions = api_.find(kGroup, "v1", kDefinitions);
  RequestContext ctx = own_context();
  const auto change = [this](Json& live) -> kube::ApiResult<bool> {
    set_definition_condition(live, "Terminating", true, "InstanceDeletionInProgress",
                             "CustomResource deletion is in progress", api_.clock().wall_now());
    return true;
  };
  if (!api_.modify(*definitions, "", name, "status", change, ctx).ok()) return false;
  Result<ListResult> all = api_.store().list(resource->store_kind, ListOptions());
  if (!all.ok()) return false;
  ending->objects = std::move(all->items);
  ending->begun = true;
  return true;
}

void CustomKinds::finish(const std::string& name, std::string_view reason, std::string_view message) {
  const Resource* definitions = api_.find(kGroup, "v1", kDefinitions);
  RequestContext ctx = own_context();
  const auto change = [&](Json& live) -> kube::ApiResult<bool> {
    set_definition_condition(live, "Terminating", false, reason, message, api_.clock().wall_now());
    JsonArray kept;
    if (const JsonArray* list = kube::get_array(live, "metadata.finalizers")) {
      for (const Json& f : *list) {
        if (!f.is_string() || f.as_string() != kCustomCleanupFinalizer) kept.push_back(f);
      }
    }
    if (kept.empty()) {
      kube::erase_path(live, "metadata.finalizers");
    } else {
      kube::set_path(live, "metadata.finalizers", std::move(kept));
    }
    return true;
  };
  const kube::ApiResult<WriteOutcome> outcome = api_.modify(*definitions, "", name, "status", change, ctx);
  if (!outcome.ok()) log_warn("apiserver", "definition not removed: " + outcome.error().message);
}

}  // namespace ghostfleet::controlplane
