#include "controlplane/apiserver/custom_kinds.h"

#include <algorithm>

#include "base/log.h"
#include "controlplane/apiserver/object_bytes.h"

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

bool is_established(const Json& definition) {
  const JsonArray* conditions = kube::get_array(definition, "status.conditions");
  return conditions && std::any_of(conditions->begin(), conditions->end(), [](const Json& c) {
           return kube::get_string(c, "type") == "Established" && kube::get_string(c, "status") == "True";
         });
}

}  // namespace

std::unique_ptr<CustomKinds> CustomKinds::create(ApiImpl& api) {
  auto kinds = std::unique_ptr<CustomKinds>(new CustomKinds(api));
  const Resource* definitions = api.find("apiextensions.k8s.io", "v1", "customresourcedefinitions");
  api.on_commit(definitions->store_kind,
                [raw = kinds.get()](const ObjectRef& object, bool gone) { raw->follow(object, gone); });
  return kinds;
}

void CustomKinds::follow(const ObjectRef& object, bool gone) {
  const Json definition = decode_stored(*object);
  const std::string_view group = kube::get_string(definition, "spec.group");
  const std::string_view plural = kube::get_string(definition, "spec.names.plural");
  if (gone) {
    api_.remove_custom(group, plural);
    return;
  }
  const JsonArray* versions = kube::get_array(definition, "spec.versions");
  if (!versions) return;
  for (const Json& version : *versions) {
    if (!kube::get_bool(version, "served")) continue;
    CustomVersion custom;
    custom.info = kind_of_version(definition, version);
    if (const Json* schema = kube::find_path(version, "schema.openAPIV3Schema")) {
      custom.schema = std::make_shared<const Json>(*schema);
    }
    custom.fields = fields_of(version);
    custom.printer = printer_of(version);
    if (const Json* scale = kube::find_path(version, "subresources.scale")) {
      custom.scale = std::make_shared<const Json>(*scale);
    }
    api_.add_custom(std::move(custom));
  }
  if (!is_established(definition)) establish(definition);
}

// Names are accepted at once: the first definition of a group's resource wins by its object name.
void CustomKinds::establish(const Json& definition) {
  const Resource* r = api_.find("apiextensions.k8s.io", "v1", "customresourcedefinitions");
  RequestContext ctx = internal_context("apiserver");
  ctx.field_manager = "kube-apiserver";
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

}  // namespace ghostfleet::controlplane
