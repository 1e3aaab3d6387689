// GET of one object, and LIST.
#include "controlplane/apiserver/call.h"
#include "controlplane/apiserver/list_options.h"
#include "controlplane/apiserver/list_stream.h"

namespace ghostfleet::controlplane {
namespace {

using kube::ApiError;
using kube::ApiResult;

constexpr const char* kTokenTooOld =
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list.";

ApiError bad_version(int code, std::string message) {
  ApiError error;
  error.code = code;
  error.message = std::move(message);
  if (code == 400) error.reason = "BadRequest";
  return error;
}

// Where a list begins and at which revision it is taken.
struct ListPlan {
  ListOptions options;
  bool from_token = false;
  std::string token_start;
};

ApiResult<ListPlan> plan_list(Call& call, const ListQuery& query) {
  const Store& store = call.parts.api.store();
  ListPlan plan;
  plan.options.prefix = call.ns().empty() ? "" : std::string(call.ns()) + "/";
  plan.options.limit = query.limit;
  if (!query.filter.empty()) {
    plan.options.filter = [&query](const Object& object) { return query.filter.matches(object); };
  }
  if (!query.continue_token.empty()) {
    if (!query.resource_version.empty() && query.resource_version != "0") {
      return kube::bad_request("specifying resource version is not allowed when using continue");
    }
    ApiResult<ContinueToken> token = decode_continue(query.continue_token);
    if (!token.ok()) return token.error();
    plan.from_token = true;
    plan.token_start = token->start;
    plan.options.start_after = plan.options.prefix + token->start;
    plan.options.revision = token->revision > 0 ? static_cast<Revision>(token->revision) : 0;
    return plan;
  }
  Revision asked = 0;
  std::string problem;
  if (!parse_version(query.resource_version, &asked, &problem)) {
    return bad_version(400, "invalid resource version: resourceVersion: Invalid value: \"" + query.resource_version +
                                "\": " + problem);
  }
  if (asked > store.revision()) return too_large_version(asked, store.revision());
  const bool exact = query.version_match == "Exact" || (query.version_match.empty() && query.limit > 0);
  if (asked > 0 && exact) plan.options.revision = asked;
  return plan;
}

ApiError expired_list(const ListPlan& plan) {
  if (!plan.from_token) return kube::expired("The provided resource version is no longer available.");
  ApiError error = kube::expired(kTokenTooOld);
  error.continue_token = encode_continue({-1, plan.token_start});
  return error;
}

// A selector that names the object, its namespace or its node saves the scan.
void narrow_list(Call& call, const ListQuery& query, ListOptions* options) {
  const Resource& r = *call.resource;
  if (options->revision != 0) return;
  if (r.info.namespaced && options->prefix.empty() && !query.filter.exact_namespace().empty() &&
      options->start_after.empty()) {
    options->prefix = std::string(query.filter.exact_namespace()) + "/";
  }
  const std::string_view name = query.filter.exact_name();
  if (!name.empty() && (!r.info.namespaced || !options->prefix.empty())) {
    options->key = options->prefix + std::string(name);
  }
  const int field = call.parts.api.config_of(r).watch_index_field;
  if (field >= 0) options->index_value = query.filter.exact_field(field);
}

}  // namespace

void serve_get(const CallRef& call) {
  if (!negotiate_or_fail(*call, Endpoint::kObject)) return;
  Revision asked = 0;
  std::string problem;
  const std::string& version = call->info.query.get("resourceVersion");
  if (!parse_version(version, &asked, &problem)) {
    return send_error(*call, bad_version(500, "resourceVersion: Invalid value: \"" + version + "\": " + problem));
  }
  const Revision current = call->parts.api.store().revision();
  if (asked > current) return send_error(*call, too_large_version(asked, current));
  ApiResult<ObjectRef> object = call->parts.api.get(*call->resource, call->ns(), call->info.name);
  if (!object.ok()) return send_error(*call, object.error());
  send_object(*call, 200, **object);
}

void serve_list(const CallRef& call) {
  if (!negotiate_or_fail(*call, Endpoint::kList)) return;
  const Resource& r = *call->resource;
  ApiResult<ListQuery> query = parse_list_query(r, call->parts.api.config_of(r), call->info.query, false);
  if (!query.ok()) return send_error(*call, query.error());
  ApiResult<ListPlan> plan = plan_list(*call, *query);
  if (!plan.ok()) return send_error(*call, plan.error());
  const size_t prefix_size = plan->options.prefix.size();
  narrow_list(*call, *query, &plan->options);
  Result<ListResult> listed = call->parts.api.store().list(r.store_kind, plan->options);
  if (!listed.ok()) return send_error(*call, expired_list(*plan));
  ListResult result = std::move(*listed);
  ListMeta meta{format_revision(result.revision), "", 0};
  if (result.more) {
    const std::string& last = result.items.back()->key;
    meta.continue_token = encode_continue({static_cast<int64_t>(result.revision), last.substr(prefix_size)});
    if (query->filter.empty()) meta.remaining = result.remaining;
  }
  stream_list(call, meta, std::move(result.items));
}

}  // namespace ghostfleet::controlplane
