// POST, PUT and what they share: options and bodies of writes.
#include "controlplane/apiserver/call.h"
#include "controlplane/apiserver/strategies/custom_schema.h"
#include "controlplane/apiserver/strategy.h"
#include "controlplane/apiserver/subresources/subresources.h"

namespace ghostfleet::controlplane {
namespace {

using kube::ApiError;
using kube::ApiResult;
using kube::FieldError;
using kube::FieldErrorType;
using kube::Json;

void check_dry_run(const Query& query, RequestContext* ctx, std::vector<FieldError>* errors) {
  const std::vector<std::string> values = query.all("dryRun");
  std::string list;
  bool bad = false;
  for (const std::string& value : values) {
    list += (list.empty() ? "" : ",") + quoted(value);
    bad = bad || value != "All";
    ctx->dry_run = true;
  }
  if (bad) {
    errors->push_back({FieldErrorType::kNotSupported, "dryRun", "[" + list + "]", "supported values: \"All\""});
  }
}

}  // namespace

ApiResult<bool> read_write_options(Call& call, std::string_view kind) {
  const Query& query = call.info.query;
  std::vector<FieldError> errors;
  check_dry_run(query, &call.ctx, &errors);
  const std::string& validation = query.get("fieldValidation");
  if (validation == "Strict") {
    call.ctx.validation = kube::FieldValidation::kStrict;
  } else if (validation == "Ignore") {
    call.ctx.validation = kube::FieldValidation::kIgnore;
  } else if (validation.empty() || validation == "Warn") {
    call.ctx.validation = kube::FieldValidation::kWarn;
  } else {
    errors.push_back({FieldErrorType::kNotSupported, "fieldValidation", quoted(validation),
                      "supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""});
  }
  const std::string& manager = query.get("fieldManager");
  if (manager.size() > 128) {
    errors.push_back({FieldErrorType::kTooLong, "fieldManager", "", "may not be more than 128 bytes"});
  }
  if (!manager.empty()) call.ctx.field_manager = manager;
  if (errors.empty()) return true;
  return kube::invalid("meta.k8s.io", kind, "", errors);
}

ApiResult<Json> decode_body(Call& call, const kube::KindInfo& kind) {
  const bool custom = call.resource && call.resource->info.custom();
  ApiResult<kube::MediaType> media = body_media_type(call.request().headers, custom);
  if (!media.ok()) return media.error();
  std::vector<std::string> warnings;
  kube::DecodeOptions options;
  options.validation = call.ctx.validation;
  options.warnings = &warnings;
  const bool by_schema = custom && kind.custom() && call.resource->schema;
  if (by_schema) options.prune = [&](Json* object) { return prune_by_schema(*object, *call.resource->schema); };
  ApiResult<Json> object = kube::decode_object(call.request().body, *media, kind, options);
  for (std::string& warning : warnings) call.ctx.warn(std::move(warning));
  return object;
}

void serve_create(const CallRef& call) {
  const Resource& r = *call->resource;
  if (!negotiate_or_fail(*call, Endpoint::kObject)) return;
  if (ApiResult<kube::MediaType> media = body_media_type(call->request().headers, r.info.custom()); !media.ok()) {
    return send_error(*call, media.error());
  }
  if (ApiResult<bool> ok = read_write_options(*call, "CreateOptions"); !ok.ok()) return send_error(*call, ok.error());
  ApiResult<Json> object = decode_body(*call, r.info);
  if (!object.ok()) return send_error(*call, object.error());
  const std::string_view given = kube::get_string(*object, "metadata.namespace");
  if (r.info.namespaced && !given.empty() && given != call->ns()) {
    return send_error(*call, kube::bad_request("the namespace of the provided object does not match the namespace sent "
                                               "on the request"));
  }
  if (r.info.namespaced && call->ns().empty()) {
    return send_error(*call, kube::bad_request("an empty namespace may not be set during creation"));
  }
  ApiResult<WriteOutcome> written = call->parts.api.create(r, call->ns(), std::move(*object), call->ctx);
  if (!written.ok()) return send_error(*call, written.error());
  send_object(*call, 201, *written->object);
}

namespace {

// Name and namespace of a PUT's body must be those of its path.
ApiResult<bool> check_identity(const Call& call, Json& object) {
  const std::string_view name = kube::get_string(object, "metadata.name");
  if (name.empty()) {
    kube::set_path(object, "metadata.name", Json(kube::JsonString(call.info.name)));
  } else if (name != call.info.name) {
    return kube::bad_request("the name of the object (" + std::string(name) + ") does not match the name on the URL (" +
                             call.info.name + ")");
  }
  const std::string_view ns = kube::get_string(object, "metadata.namespace");
  if (call.resource->info.namespaced && !ns.empty() && ns != call.ns()) {
    return kube::bad_request("the namespace of the provided object does not match the namespace sent on the request");
  }
  return true;
}

// Nodes answer for their own leases (NodeRestriction) on the general path.
bool may_be_renewal(const Call& call) {
  const kube::KindInfo& info = call.resource->info;
  return info.resource == "leases" && info.group == "coordination.k8s.io" && info.version == "v1" &&
         call.info.subresource.empty() && !call.ctx.user.name.starts_with("system:node:");
}

}  // namespace

void serve_update(const CallRef& call) {
  const Resource& r = *call->resource;
  if (!negotiate_or_fail(*call, Endpoint::kObject)) return;
  const ApiResult<kube::MediaType> media = body_media_type(call->request().headers, r.info.custom());
  if (!media.ok()) return send_error(*call, media.error());
  if (ApiResult<bool> ok = read_write_options(*call, "UpdateOptions"); !ok.ok()) return send_error(*call, ok.error());
  if (may_be_renewal(*call) && *media == kube::MediaType::kJson) {
    const ObjectRef renewed =
        call->parts.api.renew_lease(r, call->ns(), call->info.name, call->request().body, call->ctx);
    if (renewed) return send_object(*call, 200, *renewed);
  }
  ApiResult<Json> object = decode_body(*call, r.info);
  if (!object.ok()) return send_error(*call, object.error());
  if (ApiResult<bool> ok = check_identity(*call, *object); !ok.ok()) return send_error(*call, ok.error());
  ApiResult<WriteOutcome> written =
      call->parts.api.update(r, call->ns(), call->info.name, std::move(*object), call->info.subresource, call->ctx);
  if (!written.ok()) return send_error(*call, written.error());
  send_object(*call, written->created ? 201 : 200, *written->object);
}

}  // namespace ghostfleet::controlplane
