// DELETE of one object and of a collection.
#include <charconv>

#include "controlplane/apiserver/call.h"
#include "controlplane/apiserver/list_options.h"
#include "controlplane/apiserver/list_stream.h"
#include "controlplane/apiserver/strategy.h"
#include "kube/api/codec.h"

namespace ghostfleet::controlplane {
namespace {

using kube::ApiResult;
using kube::FieldError;
using kube::FieldErrorType;
using kube::Json;

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

ApiResult<Json> options_from_body(Call& call) {
  ApiResult<kube::MediaType> media = body_media_type(call.request().headers, call.resource->info.custom());
  if (!media.ok()) return media.error();
  kube::DecodeOptions options;
  options.validation = kube::FieldValidation::kIgnore;
  if (*media != kube::MediaType::kProtobuf) {
    // The kind is looked at first, where one is given: DeleteOptions of any group and version will do.
    Result<Json> raw = kube::parse_json(call.request().body);
    const std::string_view kind = raw.ok() ? kube::get_string(*raw, "kind") : std::string_view();
    if (!kind.empty() && kind != "DeleteOptions") {
      return kube::bad_request("no kind " + quoted(kind) + " is registered for version " +
                               quoted(kube::get_string(*raw, "apiVersion")) +
                               " in scheme \"pkg/runtime/scheme.go:111\"");
    }
  }
  return kube::decode_type(call.request().body, *media, *kube::find_type("meta/v1.DeleteOptions"), options);
}

// The same names as in the body. Preconditions in the query are not read (as a real server does not).
ApiResult<Json> options_from_query(const Query& query) {
  kube::JsonObject options;
  if (const std::string& text = query.get("gracePeriodSeconds"); !text.empty()) {
    int64_t seconds = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (failure != std::errc() || end != text.data() + text.size()) {
      return kube::bad_request("strconv.ParseInt: parsing " + quoted(text) + ": invalid syntax");
    }
    options["gracePeriodSeconds"] = seconds;
  }
  if (const std::string& policy = query.get("propagationPolicy"); !policy.empty()) {
    options["propagationPolicy"] = policy;
  }
  if (query.has("orphanDependents")) options["orphanDependents"] = query.flag("orphanDependents");
  kube::JsonArray dry_run;
  for (const std::string& value : query.all("dryRun")) dry_run.emplace_back(value);
  if (!dry_run.empty()) options["dryRun"] = std::move(dry_run);
  return Json(std::move(options));
}

std::vector<FieldError> check_options(const Json& options) {
  std::vector<FieldError> errors;
  const std::string_view policy = kube::get_string(options, "propagationPolicy");
  const bool has_policy = kube::find_key(options, "propagationPolicy") != nullptr;
  if (has_policy && kube::find_key(options, "orphanDependents")) {
    errors.push_back({FieldErrorType::kInvalid, "propagationPolicy", quoted(policy),
                      "orphanDependents and deletionPropagation cannot be both set"});
  } else if (has_policy && policy != "Foreground" && policy != "Background" && policy != "Orphan") {
    errors.push_back({FieldErrorType::kNotSupported, "propagationPolicy", quoted(policy),
                      "supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""});
  }
  if (const kube::JsonArray* dry_run = kube::get_array(options, "dryRun")) {
    bool bad = false;
    for (const Json& value : *dry_run) bad = bad || !value.is_string() || value.as_string() != "All";
    if (bad) {
      errors.push_back(
          {FieldErrorType::kNotSupported, "dryRun", kube::to_json(Json(*dry_run)), "supported values: \"All\""});
    }
  }
  return errors;
}

Json success_status(const Resource& r, const Object& object, const Json& decoded) {
  kube::JsonObject details{{"name", object.name()}};
  if (!r.info.group.empty()) details["group"] = r.info.group;
  details["kind"] = r.info.resource;
  details["uid"] = kube::get_string(decoded, "metadata.uid");
  return kube::JsonObject{{"kind", "Status"},
                          {"apiVersion", "v1"},
                          {"metadata", kube::JsonObject()},
                          {"status", "Success"},
                          {"details", std::move(details)}};
}

}  // namespace

ApiResult<DeleteOptions> read_delete_options(Call& call) {
  ApiResult<Json> given = call.request().body.empty() ? options_from_query(call.info.query) : options_from_body(call);
  if (!given.ok()) return given.error();
  if (!call.request().body.empty() && call.info.query.has("dryRun") && !kube::find_key(*given, "dryRun")) {
    ApiResult<Json> query = options_from_query(call.info.query);
    if (query.ok()) kube::set_path(*given, "dryRun", *kube::find_key(*query, "dryRun"));
  }
  const std::vector<FieldError> errors = check_options(*given);
  if (!errors.empty()) return kube::invalid("meta.k8s.io", "DeleteOptions", "", errors);
  DeleteOptions options;
  options.grace_period_seconds = kube::get_int(*given, "gracePeriodSeconds", -1);
  // A negative period that was given counts as one second.
  if (kube::find_key(*given, "gracePeriodSeconds") && options.grace_period_seconds < 0)
    options.grace_period_seconds = 1;
  options.propagation_policy = kube::get_string(*given, "propagationPolicy");
  options.uid_given = kube::find_path(*given, "preconditions.uid") != nullptr;
  options.uid_precondition = kube::get_string(*given, "preconditions.uid");
  options.version_given = kube::find_path(*given, "preconditions.resourceVersion") != nullptr;
  options.version_precondition = kube::get_string(*given, "preconditions.resourceVersion");
  options.orphan_dependents_given = kube::find_key(*given, "orphanDependents") != nullptr;
  options.orphan_dependents = kube::get_bool(*given, "orphanDependents");
  call.ctx.dry_run = kube::get_array(*given, "dryRun") && !kube::get_array(*given, "dryRun")->empty();
  return options;
}

void serve_delete(const CallRef& call) {
  const Resource& r = *call->resource;
  if (!negotiate_or_fail(*call, Endpoint::kObject)) return;
  ApiResult<DeleteOptions> options = read_delete_options(*call);
  if (!options.ok()) return send_error(*call, options.error());
  ApiResult<DeleteOutcome> outcome = call->parts.api.remove(r, call->ns(), call->info.name, *options, call->ctx);
  if (!outcome.ok()) return send_error(*call, outcome.error());
  if (outcome->gone && !strategy_for(r).delete_returns_object()) {
    return send_value(*call, 200, success_status(r, *outcome->object, call->parts.api.decode(r, *outcome->object)));
  }
  const bool asks_to_wait = options->orphan_dependents_given && !options->orphan_dependents && !outcome->gone;
  send_object(*call, asks_to_wait ? 202 : 200, *outcome->object);
}

void serve_delete_collection(const CallRef& call) {
  const Resource& r = *call->resource;
  if (!negotiate_or_fail(*call, Endpoint::kList)) return;
  ApiResult<ListQuery> query = parse_list_query(r, call->parts.api.config_of(r), call->info.query, false);
  if (!query.ok()) return send_error(*call, query.error());
  ApiResult<DeleteOptions> options = read_delete_options(*call);
  if (!options.ok()) return send_error(*call, options.error());
  ListOptions list;
  list.prefix = call->ns().empty() ? "" : std::string(call->ns()) + "/";
  list.limit = query->limit;
  list.filter = [&query](const Object& object) { return query->filter.matches(object); };
  Result<ListResult> found = call->parts.api.store().list(r.store_kind, list);
  if (!found.ok()) return send_error(*call, kube::expired(found.error().message()));
  for (const ObjectRef& object : found->items) {
    ApiResult<DeleteOutcome> outcome = call->parts.api.remove(r, object->ns(), object->name(), *options, call->ctx);
    if (!outcome.ok() && outcome.error().code != 404) return send_error(*call, outcome.error());
  }
  stream_list(call, {format_revision(found->revision), "", 0}, std::move(found->items));
}

}  // namespace ghostfleet::controlplane
