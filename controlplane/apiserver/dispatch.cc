#include "controlplane/apiserver/dispatch.h"

#include <algorithm>
#include <random>

#include "base/random.h"
#include "controlplane/apiserver/proxy/aggregation.h"
#include "controlplane/apiserver/subresources/subresources.h"

namespace ghostfleet::controlplane {
namespace {

using kube::ApiError;
using kube::ApiResult;

bool is_mutating(std::string_view method) { return method != "GET" && method != "HEAD" && method != "OPTIONS"; }

// Watches and connections to pods live long: they take no place.
bool is_long_running(const RequestInfo& info) {
  static constexpr std::string_view kSubresources[] = {"attach", "exec", "proxy", "log", "portforward"};
  if (info.verb == "watch") return true;
  for (const std::string_view name : kSubresources) {
    if (info.subresource == name) return true;
  }
  return false;
}

// Takes a place; false when all are taken.
bool take_slot(Call& call) {
  if (is_long_running(call.info)) return true;
  const bool mutating = is_mutating(call.info.method);
  std::atomic<int>& count = mutating ? call.parts.mutating_in_flight : call.parts.in_flight;
  const int limit = mutating ? call.parts.max_mutating_in_flight : call.parts.max_in_flight;
  const bool privileged = call.ctx.user.in_group(kMastersGroup);
  if (count.fetch_add(1) >= limit && !(privileged && call.info.path.starts_with("/livez"))) {
    count.fetch_sub(1);
    return false;
  }
  call.slot = Slot(&count, [](void* counter) { static_cast<std::atomic<int>*>(counter)->fetch_sub(1); });
  return true;
}

ApiError too_many() { return kube::too_many_requests("Too many requests, please try again later.", 1); }

std::string manager_of(std::string_view user_agent) {
  const std::string_view name = user_agent.substr(0, user_agent.find('/'));
  return std::string(name.substr(0, 128));
}

bool asks_to_impersonate(const kube::http::HeaderList& headers) {
  return std::any_of(headers.begin(), headers.end(),
                     [](const auto& header) { return header.first.starts_with("impersonate-"); });
}

// A name for the request in logs: it need be unique, not secret, and every request gets one.
std::string fresh_audit_id() {
  thread_local Rng random((static_cast<uint64_t>(std::random_device{}()) << 32) ^ std::random_device{}());
  static constexpr std::string_view kForm = "xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx";
  std::string id(kForm);
  uint64_t bits = 0;
  int left = 0;
  for (char& c : id) {
    if (c != 'x') continue;
    if (left == 0) {
      bits = random.next();
      left = 16;
    }
    c = "0123456789abcdef"[bits & 15];
    bits >>= 4;
    left--;
  }
  return id;
}

bool shows_credentials(const kube::http::Request& request) {
  return request.peer_certificate || request.headers.find("authorization");
}

ApiResult<UserInfo> who_asks(Call& call, const DispatchOptions& options) {
  const kube::http::Request& request = call.request();
  UserInfo user;
  if (options.anonymous_is_admin && !shows_credentials(request)) {
    user.name = "admin";
    user.groups = {kMastersGroup, "system:authenticated"};
  } else {
    ApiResult<UserInfo> authenticated = call.parts.authenticator->authenticate(request);
    if (!authenticated.ok()) return authenticated;
    user = std::move(*authenticated);
  }
  if (!asks_to_impersonate(request.headers)) return user;
  return impersonate(user, request.headers, *call.parts.authorizer);
}

// Members of system:masters may do everything; for them nothing is put together to be asked.
ApiResult<bool> may_do(const Call& call) {
  if (call.ctx.user.in_group(kMastersGroup)) return true;
  const Attributes attributes = attributes_of(call);
  const Decision decision = call.parts.authorizer->authorize(attributes);
  if (decision.allowed()) return true;
  ApiError refused = forbidden_error(attributes, decision.reason);
  refused.empty_details = !attributes.is_resource;
  return refused;
}

void serve_verb(const CallRef& call) {
  const RequestInfo& info = call->info;
  const kube::KindInfo& kind = call->resource->info;
  const bool whole = !info.subresource.empty();
  if (!whole && info.verb == "get" && !kind.has_verb("get") && !kind.has_verb("list")) {
    return send_error(*call, kube::method_not_allowed(kind, "get"));
  }
  if (!kind.has_verb(info.verb) && !(info.verb == "watch" && kind.has_verb("list"))) {
    ApiError error = kube::method_not_allowed(kind, info.verb);
    return send_error(*call, error);
  }
  if (info.verb == "get") return serve_get(call);
  if (info.verb == "list") return serve_list(call);
  if (info.verb == "watch") return serve_watch(call);
  if (info.verb == "create" && !info.name.empty()) return send_error(*call, kube::method_not_allowed(kind, "create"));
  if (info.verb == "create") return serve_create(call);
  if (info.name.empty() && info.verb != "deletecollection") {
    return send_error(*call, kube::method_not_allowed(kind, info.verb));
  }
  if (info.verb == "update") return serve_update(call);
  if (info.verb == "patch") return serve_patch(call);
  if (info.verb == "delete") return serve_delete(call);
  if (info.verb == "deletecollection") return serve_delete_collection(call);
  send_error(*call, kube::method_not_allowed(kind, info.verb));
}

void serve_resource(const CallRef& call) {
  RequestInfo& info = call->info;
  call->resource = call->parts.api.find(info.group, info.version, info.resource);
  if (!call->resource) return send_error(*call, unknown_path_error());
  const kube::KindInfo& kind = call->resource->info;
  // /namespaces/x names the object, not a place.
  if (!kind.namespaced && kind.resource != "namespaces") {
    if (!info.ns.empty()) return send_error(*call, unknown_path_error());
  }
  const bool pseudo = !kind.has_verb("list");
  if (!info.subresource.empty() || pseudo) return serve_subresource(call);
  serve_verb(call);
}

}  // namespace

Attributes attributes_of(const Call& call) {
  Attributes a;
  a.user = &call.ctx.user;
  a.verb = call.info.verb;
  a.is_resource = call.info.is_resource;
  a.group = call.info.group;
  a.version = call.info.version;
  a.resource = call.info.resource;
  a.subresource = call.info.subresource;
  a.ns = call.info.ns;
  a.name = call.info.name;
  a.path = call.info.path;
  if (call.info.verb == "list" || call.info.verb == "watch" || call.info.verb == "deletecollection") {
    ApiResult<std::vector<kube::FieldRequirement>> fields =
        kube::parse_field_selector(call.info.query.get("fieldSelector"));
    if (fields.ok()) a.field_selector = std::move(*fields);
    // As a real server: a selector on one name makes it a request about that object.
    for (const kube::FieldRequirement& field : a.field_selector) {
      if (field.field == "metadata.name" && field.equals && a.name.empty()) a.name = field.value;
    }
  }
  return a;
}

void dispatch(ServerParts& parts, const DispatchOptions& options, std::shared_ptr<kube::http::Exchange> exchange) {
  const kube::http::Request& request = exchange->request();
  auto call = std::make_shared<Call>(Call{.parts = parts, .exchange = exchange});
  call->info = parse_request_info(request.method, request.path(), request.query());
  call->begun = parts.clock.now();
  call->audit_id = request.headers.get("audit-id");
  if (call->audit_id.empty() || call->audit_id.size() > 128) call->audit_id = fresh_audit_id();
  call->ctx.user_agent = request.headers.get("user-agent");
  call->ctx.field_manager = manager_of(call->ctx.user_agent);
  ApiResult<UserInfo> user = who_asks(*call, options);
  if (!user.ok()) return send_error(*call, user.error());
  call->ctx.user = std::move(*user);
  if (ApiResult<bool> ok = may_do(*call); !ok.ok()) return send_error(*call, ok.error());
  if (!take_slot(*call)) return send_error(*call, too_many());
  if (request.body.size() > options.max_body_bytes) {
    return send_error(
        *call, kube::entity_too_large("Request entity too large: limit is " + std::to_string(options.max_body_bytes)));
  }
  if (serve_aggregated_api(call)) return;
  if (!call->info.is_resource) return serve_other(call);
  serve_resource(call);
}

}  // namespace ghostfleet::controlplane
