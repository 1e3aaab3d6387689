// Subresources, and the resources that only answer a question (reviews, bindings).
#include "controlplane/apiserver/subresources/subresources.h"

#include "controlplane/apiserver/call.h"
#include "controlplane/apiserver/proxy/pass_through.h"
#include "controlplane/auth/reviews.h"
#include "kube/api/codec.h"
#include "kube/api/managed_fields.h"

namespace ghostfleet::controlplane {
namespace {

using kube::ApiResult;
using kube::Json;

bool is_connect(std::string_view subresource) {
  return subresource == "exec" || subresource == "attach" || subresource == "portforward" || subresource == "proxy";
}

// The kind of a subresource's body: its own, or the parent's.
kube::KindInfo body_kind(const kube::KindInfo& parent, const kube::SubresourceInfo& sub) {
  kube::KindInfo kind;
  kind.group = sub.version.empty() ? "" : sub.group;
  kind.version = sub.version.empty() ? "v1" : sub.version;
  kind.kind = sub.kind;
  kind.resource = parent.resource;
  kind.type = kube::find_type((kind.group.empty() ? "core" : kind.group) + "/" + kind.version + "." + kind.kind);
  return kind;
}

ApiResult<Json> review(Call& call, Json body) {
  const std::string& kind = call.resource->info.kind;
  if (kind == "TokenReview") {
    return review_token(std::move(body), *call.parts.authenticator, *call.parts.issuer);
  }
  if (kind == "SelfSubjectReview") return review_self(std::move(body), call.ctx.user);
  if (kind == "SelfSubjectRulesReview") return review_rules(std::move(body), call.ctx.user, *call.parts.authorizer);
  return review_access(std::move(body), kind, call.ns(), call.ctx.user, *call.parts.authorizer);
}

// Reviews are created and answered, never stored.
void serve_review(const CallRef& call) {
  const kube::KindInfo& kind = call->resource->info;
  if (call->info.method != "POST" || !call->info.name.empty()) {
    return send_error(*call, kube::method_not_allowed(kind, call->info.verb));
  }
  if (!negotiate_or_fail(*call, Endpoint::kObject)) return;
  if (ApiResult<bool> ok = read_write_options(*call, "CreateOptions"); !ok.ok()) return send_error(*call, ok.error());
  ApiResult<Json> body = decode_body(*call, kind);
  if (!body.ok()) return send_error(*call, body.error());
  kube::ApplyOptions owner;
  owner.manager = call->ctx.field_manager;
  owner.api_version = kind.api_version();
  owner.now = call->parts.clock.wall_now();
  kube::record_update(Json(), &*body, {kind.type, nullptr}, owner);
  ApiResult<Json> answer = review(*call, std::move(*body));
  if (!answer.ok()) return send_error(*call, answer.error());
  send_value(*call, 201, *answer);
}

void answer_subresource(const CallRef& ref, const ApiResult<SubresourceAnswer>& answer) {
  Call& call = *ref;
  if (!answer.ok()) return send_error(call, answer.error());
  if (answer->forward) return serve_forward(ref, *answer->forward);
  if (!answer->object.is_null()) return send_value(call, answer->code, answer->object);
  send_bytes(call, answer->code, answer->content_type, answer->text);
}

// A WebSocket begins with a GET. What it does is no reading: who may not create may not do it.
ApiResult<bool> may_stream(const Call& call) {
  const std::string& name = call.info.subresource;
  const bool streams = name == "exec" || name == "attach" || name == "portforward";
  if (!streams || call.info.verb == "create" || call.ctx.user.in_group(kMastersGroup)) return true;
  Attributes attributes = attributes_of(call);
  attributes.verb = "create";
  const Decision decision = call.parts.authorizer->authorize(attributes);
  if (decision.allowed()) return true;
  return kube::forbidden(call.resource->info, call.info.name, decision.reason);
}

void serve_other_kind(const CallRef& call, const kube::KindInfo& kind) {
  SubresourceCall sub{.verb = call->info.verb,
                      .resource = *call->resource,
                      .ns = call->ns(),
                      .name = call->info.name,
                      .subresource = call->info.subresource};
  sub.query = call->info.query.items();
  PatchType type = PatchType::kMerge;
  if (is_connect(call->info.subresource)) {
    if (ApiResult<bool> ok = may_stream(*call); !ok.ok()) return send_error(*call, ok.error());
    sub.verb = "connect";
  } else if (call->info.verb == "create" || call->info.verb == "update") {
    const bool creates = call->info.verb == "create";
    if (ApiResult<bool> ok = read_write_options(*call, creates ? "CreateOptions" : "UpdateOptions"); !ok.ok()) {
      return send_error(*call, ok.error());
    }
    ApiResult<Json> body = decode_body(*call, kind);
    if (!body.ok()) return send_error(*call, body.error());
    sub.body = std::move(*body);
  } else if (call->info.verb == "patch") {
    ApiResult<PatchType> given = patch_type(call->request().headers, call->resource->info.custom());
    if (!given.ok()) return send_error(*call, given.error());
    if (ApiResult<bool> ok = read_write_options(*call, "PatchOptions"); !ok.ok()) return send_error(*call, ok.error());
    type = *given;
    sub.patch = [&](Json current) { return apply_patch(*call, type, current, kind); };
  }
  answer_subresource(call, call_subresource(std::move(sub), call->parts.api, call->ctx));
}

void serve_own_kind(const CallRef& call) {
  if (call->info.verb == "get") return serve_get(call);
  if (call->info.verb == "update") return serve_update(call);
  if (call->info.verb == "patch") return serve_patch(call);
  send_error(*call, kube::method_not_allowed(call->resource->info, call->info.verb));
}

bool is_review(const kube::KindInfo& kind) {
  return kind.group == "authentication.k8s.io" || kind.group == "authorization.k8s.io";
}

}  // namespace

void serve_subresource(const CallRef& call) {
  const kube::KindInfo& kind = call->resource->info;
  if (is_review(kind)) return serve_review(call);
  if (call->info.subresource.empty()) {
    // Collections that hold nothing: bindings take a POST, component statuses are an empty list.
    if (call->info.verb == "list" || call->info.verb == "get") return serve_get(call);
    if (call->info.verb != "create") return send_error(*call, kube::method_not_allowed(kind, call->info.verb));
    if (!negotiate_or_fail(*call, Endpoint::kObject)) return;
    return serve_other_kind(call, kind);
  }
  const kube::SubresourceInfo* sub = kind.find_subresource(call->info.subresource);
  if (!sub) return send_error(*call, unknown_path_error());
  const bool own = is_same_kind_subresource(*call->resource, sub->name);
  const bool allowed = std::find(sub->verbs.begin(), sub->verbs.end(), call->info.verb) != sub->verbs.end();
  if (!allowed && !(own && call->info.verb == "get")) {
    return send_error(*call, kube::method_not_allowed(kind, call->info.verb));
  }
  if (own) return serve_own_kind(call);
  // A log is text; everything else is negotiated like an object.
  if (sub->name != "log" && !is_connect(sub->name) && !negotiate_or_fail(*call, Endpoint::kObject)) return;
  serve_other_kind(call, body_kind(kind, *sub));
}

}  // namespace ghostfleet::controlplane
