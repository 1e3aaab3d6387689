// PATCH: JSON patch, merge patch, strategic merge patch, server-side apply.
#include <algorithm>
#include <cstdlib>

#include "controlplane/apiserver/call.h"
#include "controlplane/apiserver/strategies/custom_schema.h"
#include "controlplane/apiserver/strategy.h"
#include "kube/api/codec.h"
#include "kube/api/managed_fields.h"
#include "kube/api/patch.h"

namespace ghostfleet::controlplane {
namespace {

using kube::ApiError;
using kube::ApiResult;
using kube::FieldError;
using kube::FieldErrorType;
using kube::Json;

struct ParsedPatch {
  Json json;
  std::vector<std::string> duplicates;
};

ApiResult<ParsedPatch> parse_patch(Call& call, PatchType type) {
  ParsedPatch parsed;
  kube::JsonParseOptions options;
  options.duplicates = &parsed.duplicates;
  const bool strategic = type == PatchType::kStrategic;
  Result<Json> json = kube::parse_json(call.request().body, options);
  if (!json.ok()) return kube::bad_request((strategic ? "" : "error decoding patch: ") + json.error().message());
  parsed.json = std::move(*json);
  if (type == PatchType::kJson) return parsed;
  if (ApiResult<bool> ok = kube::check_patch_body(parsed.json, strategic); !ok.ok()) return ok.error();
  return parsed;
}

ApiResult<Json> patched(const ParsedPatch& patch, PatchType type, const Json& live, const kube::KindInfo& kind) {
  if (type == PatchType::kJson) return kube::apply_json_patch(live, patch.json);
  if (type == PatchType::kMerge) return kube::apply_merge_patch(live, patch.json);
  return kube::apply_strategic_merge_patch(live, patch.json, *kind.type);
}

// The patched object as its error shows it: the outer keys sorted.
std::string shown_result(const Json& result) {
  if (!result.is_object()) return kube::to_json(result);
  std::vector<std::string_view> keys;
  for (const auto& member : result.as_object()) keys.emplace_back(member.key());
  std::sort(keys.begin(), keys.end());
  kube::JsonObject sorted;
  for (const std::string_view key : keys) sorted[key] = result.as_object().at(key);
  return kube::to_json(sorted);
}

// Why the result is no object of this kind and version; empty when it is.
std::string wrong_kind(const Json& result, const kube::KindInfo& kind) {
  const std::string version(kube::get_string(result, "apiVersion")), name(kube::get_string(result, "kind"));
  if (version == kind.api_version() && name == kind.kind) return "";
  const size_t slash = version.find('/');
  const std::string group = slash == std::string::npos ? "" : version.substr(0, slash);
  const std::string short_version = slash == std::string::npos ? version : version.substr(slash + 1);
  if (!kube::find_kind(group, short_version, name)) {
    return "no kind \"" + name + "\" is registered for version \"" + version +
           "\" in scheme \"pkg/runtime/scheme.go:111\"";
  }
  const std::string internal = kind.group.empty() ? "core" : kind.group.substr(0, kind.group.find('.'));
  return "converting (" + short_version + "." + name + ") to (" + internal + "." + kind.kind + "): unknown conversion";
}

// Findings about unknown and duplicate fields: an error when strict, warnings by default.
struct Findings {
  std::vector<std::string> texts;
  void add(std::string_view what, const std::vector<std::string>& paths) {
    for (const std::string& path : paths) texts.push_back(std::string(what) + " field \"" + path + "\"");
  }
  std::string joined() const {
    std::string all;
    for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
    return all;
  }
};

// Keys given twice within the value of an operation, named as they stand in the object: [0].value.a of an operation on
// /data is data.a.
std::vector<std::string> duplicates_in_result(const ParsedPatch& patch) {
  std::vector<std::string> paths;
  for (const std::string& duplicate : patch.duplicates) {
    const size_t value = duplicate.find("].value.");
    if (value == std::string::npos || !patch.json.is_array()) continue;
    const size_t index = static_cast<size_t>(std::atoi(duplicate.c_str() + 1));
    if (index >= patch.json.as_array().size()) continue;
    std::string path(kube::get_string(patch.json.as_array()[index], "path"));
    std::replace(path.begin(), path.end(), '/', '.');
    if (!path.empty()) paths.push_back(path.substr(1) + duplicate.substr(value + 7));
  }
  return paths;
}

Findings patch_findings(PatchType type, const ParsedPatch& patch) {
  Findings findings;
  if (type == PatchType::kJson) {
    findings.add("json patch duplicate", patch.duplicates);
    findings.add("json patch unknown", kube::unknown_json_patch_fields(patch.json));
    findings.add("duplicate", duplicates_in_result(patch));
    return findings;
  }
  findings.add("duplicate", patch.duplicates);
  return findings;
}

// Custom resources: unknown fields of their metadata, then of their schema.
ApiResult<Json> normalize_custom(const Call& call, Json result, std::vector<std::string>* unknown) {
  static const kube::TypeInfo& metadata_type = *kube::find_type("meta/v1.ObjectMeta");
  if (Json* metadata = result.as_object().if_contains("metadata"); metadata && metadata->is_object()) {
    std::vector<std::string> in_metadata;
    ApiResult<Json> read = kube::normalize(std::move(*metadata), metadata_type, &in_metadata);
    if (!read.ok()) return read.error();
    *metadata = std::move(*read);
    for (const std::string& path : in_metadata) unknown->push_back("metadata." + path);
  }
  if (!call.resource->schema) return result;
  for (std::string& path : prune_by_schema(result, *call.resource->schema)) unknown->push_back(std::move(path));
  return result;
}

// Reads the patched JSON as an object of the kind again.
ApiResult<Json> read_result(Call& call, PatchType type, const ParsedPatch& patch, Json result,
                            const kube::KindInfo& kind) {
  const Json original = type == PatchType::kStrategic ? Json() : result;  // that error shows the patch, not the result
  const auto shown = [type, &patch, &original]() {
    return type == PatchType::kStrategic ? kube::go_text(patch.json) : shown_result(original);
  };
  if (const std::string problem = wrong_kind(result, kind); !problem.empty()) {
    return kube::invalid_patch_result(shown(), problem);
  }
  if (type == PatchType::kStrategic) {
    const std::string problem = kube::conversion_problem(result, *kind.type);
    if (!problem.empty()) return kube::invalid_patch_result(shown(), problem);
  }
  Findings findings = patch_findings(type, patch);
  std::vector<std::string> unknown;
  ApiResult<Json> object = kind.type ? kube::normalize(std::move(result), *kind.type, &unknown)
                                     : normalize_custom(call, std::move(result), &unknown);
  if (!object.ok()) return kube::invalid_patch_result(shown(), object.error().message);
  findings.add("unknown", unknown);
  if (findings.texts.empty() || call.ctx.validation == kube::FieldValidation::kIgnore) return object;
  if (call.ctx.validation == kube::FieldValidation::kStrict) {
    return kube::invalid_patch_result(shown(), "strict decoding error: " + findings.joined());
  }
  for (std::string& text : findings.texts) call.ctx.warn(std::move(text));
  return object;
}

ApiResult<Json> read_apply_config(Call& call) {
  std::vector<std::string> duplicates;
  Result<Json> config = kube::parse_yaml(call.request().body, &duplicates);
  if (!config.ok()) return kube::bad_request("error decoding YAML: " + config.error().message());
  Findings findings;
  findings.add("duplicate", duplicates);
  if (!duplicates.empty()) return kube::bad_request("error decoding YAML: " + findings.joined());
  return std::move(*config);
}

ApiResult<bool> check_apply_options(Call& call) {
  std::vector<FieldError> errors;
  if (call.info.query.get("fieldManager").empty()) {
    errors.push_back({FieldErrorType::kRequired, "fieldManager", "", "is required for apply patch"});
  }
  if (errors.empty()) return true;
  return kube::invalid("meta.k8s.io", "PatchOptions", "", errors);
}

Change change_of(Call& call) {
  return Change{
      .resource = *call.resource, .ns = call.ns(), .name = call.info.name, .subresource = call.info.subresource};
}

void answer(Call& call, const ApiResult<WriteOutcome>& written) {
  if (!written.ok()) return send_error(call, written.error());
  send_object(call, written->created ? 201 : 200, *written->object);
}

// A patch may not rename or move.
ApiResult<bool> check_patched_identity(const Call& call, const Json& object) {
  const std::string_view name = kube::get_string(object, "metadata.name");
  if (name != call.info.name) {
    return kube::bad_request("the name of the object (" + std::string(name) + ") does not match the name on the URL (" +
                             call.info.name + ")");
  }
  if (call.resource->info.namespaced && kube::get_string(object, "metadata.namespace") != call.ns()) {
    return kube::bad_request("the namespace of the provided object does not match the namespace sent on the request");
  }
  return true;
}

void serve_apply(const CallRef& call) {
  ApiResult<Json> config = read_apply_config(*call);
  if (!config.ok()) return send_error(*call, config.error());
  const Resource& r = *call->resource;
  kube::ApplyOptions options;
  options.manager = call->ctx.field_manager;
  options.api_version = r.info.api_version();
  options.subresource = call->info.subresource;
  options.force = call->info.query.has("force") && call->info.query.flag("force");
  options.now = call->parts.clock.wall_now();
  Change change = change_of(*call);
  change.may_create = call->info.subresource.empty();
  change.owns_fields = true;
  change.make = [&](const Json& live) -> ApiResult<Json> {
    ApiResult<Json> merged = kube::server_side_apply(live, *config, r.info, {r.info.type, r.schema.get()}, options);
    if (!merged.ok()) return merged;
    // An apply that gives up the last field it owned in metadata must not take the name with it.
    kube::JsonObject& metadata = kube::ensure_object(*merged, "metadata");
    if (kube::get_string(*merged, "metadata.name").empty()) metadata["name"] = call->info.name;
    return merged;
  };
  answer(*call, call->parts.api.write(change, call->ctx));
}

}  // namespace

ApiResult<Json> apply_patch(Call& call, PatchType type, const Json& live, const kube::KindInfo& kind) {
  ApiResult<ParsedPatch> patch = parse_patch(call, type);
  if (!patch.ok()) return patch.error();
  ApiResult<Json> result = patched(*patch, type, live, kind);
  if (!result.ok()) return result.error();
  return read_result(call, type, *patch, std::move(*result), kind);
}

void serve_patch(const CallRef& call) {
  const Resource& r = *call->resource;
  ApiResult<PatchType> type = patch_type(call->request().headers, r.info.custom());
  if (!type.ok()) return send_error(*call, type.error());
  if (!negotiate_or_fail(*call, Endpoint::kObject)) return;
  if (*type == PatchType::kApply) {
    if (ApiResult<bool> ok = check_apply_options(*call); !ok.ok()) return send_error(*call, ok.error());
  }
  if (ApiResult<bool> ok = read_write_options(*call, "PatchOptions"); !ok.ok()) return send_error(*call, ok.error());
  if (*type == PatchType::kApply) return serve_apply(call);
  Change change = change_of(*call);
  change.make = [&](const Json& live) -> ApiResult<Json> {
    ApiResult<Json> result = apply_patch(*call, *type, live, r.info);
    if (!result.ok()) return result;
    if (ApiResult<bool> ok = check_patched_identity(*call, *result); !ok.ok()) return ok.error();
    return result;
  };
  answer(*call, call->parts.api.write(change, call->ctx));
}

}  // namespace ghostfleet::controlplane
