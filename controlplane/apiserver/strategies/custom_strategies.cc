// Definitions of custom resources, and the custom resources themselves.
#include <fmt/format.h>

#include <algorithm>

#include "controlplane/apiserver/strategies/custom_schema.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/pod_validation.h"
#include "controlplane/apiserver/strategies/workload_common.h"
#include "kube/api/names.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

class DefinitionStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    JsonObject& spec = make_spec(object);
    JsonObject& names = object_in(spec, "names");
    std::string kind(names.if_contains("kind") == nullptr ? "" : as_text(names["kind"]));
    default_text(names, "singular", lower_case(kind));
    default_text(names, "listKind", kind + "List");
    default_text(object_in(spec, "conversion"), "strategy", "None");
  }

  std::string_view delete_finalizer() const override { return kCustomCleanupFinalizer; }
  bool delete_raises_generation() const override { return false; }

  void prepare_for_delete(Json& object, StrategyContext& ctx) const override {
    kube::erase_path(object, "metadata.deletionGracePeriodSeconds");
    set_definition_condition(object, "Terminating", true, "InstanceDeletionPending",
                             "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
                             ctx.api.clock().wall_now());
  }

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    const Json& spec = spec_of(object);
    static const Json kEmpty = JsonObject();
    const Json* found = member(spec, "names");
    const Json& names = found == nullptr ? kEmpty : *found;
    std::string_view group = text_of(spec, "group");
    if (name_of(object) != fmt::format("{}.{}", text_of(names, "plural"), group)) {
      out.invalid_text(Path("metadata.name"), name_of(object), "must be spec.names.plural+\".\"+spec.group");
    }
    Path path("spec");
    if (group.empty()) {
      out.required(path.child("group"));
    } else {
      out.messages(path.child("group"), group, kube::check_dns1123_subdomain(group));
    }
    if (std::string_view scope = text_of(spec, "scope"); !one_of(scope, {"Cluster", "Namespaced"})) {
      out.not_supported(path.child("scope"), scope, {"Cluster", "Namespaced"});
    }
    check_names(names, path.child("names"), out);
    check_versions(spec, path, out);
    check_approval(object, group, out);
  }

  void check_update(const Json& object, const Json& old, StrategyContext& ctx, Findings& out) const override {
    check(object, ctx, out);
    check_immutable(spec_of(object), spec_of(old), "group", Path("spec"), out);
    check_immutable(spec_of(object), spec_of(old), "scope", Path("spec"), out);
  }

 private:
  static void check_names(const Json& names, const Path& path, Findings& out) {
    for (std::string_view key : {"plural", "singular"}) {
      std::string_view name = text_of(names, key);
      if (name.empty()) {
        out.required(path.child(key));
      } else {
        out.messages(path.child(key), name, kube::check_dns1035_label(name));
      }
    }
    for (std::string_view key : {"kind", "listKind"}) {
      std::string_view name = text_of(names, key);
      if (name.empty()) {
        out.required(path.child(key));
      } else if (!kube::check_dns1035_label(lower_case(name)).empty()) {
        out.invalid_text(path.child(key), name,
                         fmt::format("may have mixed case, but should otherwise match: {}",
                                     kube::check_dns1035_label(lower_case(name))[0]));
      }
    }
  }

  static std::string version_text(const Json& version) {
    const Json* warning = member(version, "deprecationWarning");
    return fmt::format(
        "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},"
        "\"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,"
        "\"SelectableFields\":null}}",
        quoted(text_of(version, "name")), bool_of(version, "served"), bool_of(version, "storage"),
        bool_of(version, "deprecated"), warning == nullptr ? "null" : json_text(*warning));
  }

  static void check_versions(const Json& spec, const Path& path, Findings& out) {
    const JsonArray* versions = array_of(spec, "versions");
    if (versions == nullptr || versions->empty()) {
      out.required(path.child("versions"), "must have exactly one version marked as storage version");
      return;
    }
    size_t storage = 0;
    NameSet names;
    std::string all;
    for (size_t i = 0; i < versions->size(); ++i) {
      const Json& version = (*versions)[i];
      Path at = path.child("versions", i);
      std::string_view name = text_of(version, "name");
      std::vector<std::string> messages = kube::check_dns1035_label(name);
      out.messages(at.child("name"), name, messages);
      if (!names.insert(name).second) out.duplicate(at.child("name"), name);
      storage += bool_of(version, "storage") ? 1 : 0;
      all += (all.empty() ? "" : ",") + version_text(version);
      const Json* holder = member(version, "schema");
      const Json* schema = holder == nullptr ? nullptr : member(*holder, "openAPIV3Schema");
      if (schema == nullptr) {
        out.required(at.child("schema.openAPIV3Schema"));
      } else if (versions->size() == 1) {
        // The internal form keeps the schema all versions share at the top.
        check_schema(*schema, Path("spec.validation.openAPIV3Schema"), out);
      } else {
        check_schema(*schema, at.child("schema.openAPIV3Schema"), out);
      }
    }
    if (storage == 1) return;
    out.invalid(path.child("versions"), fmt::format("[{}]", all),
                "must have exactly one version marked as storage version");
    if (storage == 0) {
      out.invalid(Path("status.storedVersions"), "null", "must have at least one stored version");
    }
  }

  static void check_approval(const Json& object, std::string_view group, Findings& out) {
    constexpr std::string_view kApproved = "api-approved.kubernetes.io";
    bool is_protected = group == "k8s.io" || group == "kubernetes.io" || group.ends_with(".k8s.io") ||
                        group.ends_with(".kubernetes.io");
    if (!is_protected) return;
    const Json* annotations = member(metadata_of(object), "annotations");
    std::string_view approval = annotations == nullptr ? "" : text_of(*annotations, kApproved);
    Path path("metadata.annotations");
    if (approval.empty()) {
      out.required(path.key(kApproved),
                   "protected groups must have approval annotation \"api-approved.kubernetes.io\", "
                   "see https://github.com/kubernetes/enhancements/pull/1111");
    } else if (!approval.starts_with("http") && !approval.starts_with("unapproved")) {
      out.invalid_text(path.key(kApproved), approval,
                       "protected groups must have approval annotation \"api-approved.kubernetes.io\" with either a "
                       "URL or a reason starting with \"unapproved\", see "
                       "https://github.com/kubernetes/enhancements/pull/1111");
    }
  }
};

class CustomStrategy final : public Strategy {
 public:
  void apply_defaults(Json& object, StrategyContext& ctx) const override {
    if (ctx.resource.schema == nullptr) return;
    prune_by_schema(object, *ctx.resource.schema);
    default_by_schema(object, *ctx.resource.schema);
  }

  std::vector<kube::FieldError> validate(const Json& object, StrategyContext& ctx) const override {
    Findings out;
    check_metadata(object, ctx.resource.info.namespaced, check_name(name_of(object)), out);
    if (ctx.resource.schema != nullptr) check_by_schema(object, *ctx.resource.schema, out);
    return out.take();
  }

  std::vector<kube::FieldError> validate_update(const Json& object, const Json& old,
                                                StrategyContext& ctx) const override {
    Findings out;
    check_metadata_update(object, old, OwnMetadata::kUpdate, out);
    if (ctx.resource.schema != nullptr) check_by_schema(object, *ctx.resource.schema, out);
    return out.take();
  }
};

}  // namespace

void set_definition_condition(Json& definition, std::string_view type, bool status, std::string_view reason,
                              std::string_view message, WallTime now) {
  JsonObject& holder = kube::ensure_object(definition, "status");
  if (holder["conditions"].is_null()) holder["conditions"] = JsonArray();
  JsonArray& conditions = holder["conditions"].as_array();
  const std::string_view value = status ? "True" : "False";
  const auto old =
      std::find_if(conditions.begin(), conditions.end(), [&](const Json& c) { return text_of(c, "type") == type; });
  const bool same = old != conditions.end() && text_of(*old, "status") == value;
  const std::string since = same ? std::string(text_of(*old, "lastTransitionTime")) : format_time(now);
  Json condition = JsonObject{
      {"type", type}, {"status", value}, {"lastTransitionTime", since}, {"reason", reason}, {"message", message}};
  if (old != conditions.end()) {
    *old = std::move(condition);
  } else {
    conditions.push_back(std::move(condition));
  }
}

StrategyPointer make_definition_strategy(const KindTraits& traits) {
  return std::make_unique<DefinitionStrategy>(traits);
}
StrategyPointer make_custom_strategy() { return std::make_unique<CustomStrategy>(); }

}  // namespace ghostfleet::controlplane
