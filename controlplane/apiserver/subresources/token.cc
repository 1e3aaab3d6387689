// serviceaccounts/token: a signed token for a service account.
#include <fmt/format.h>

#include "controlplane/apiserver/admission/lookup.h"
#include "controlplane/apiserver/admission/plugins.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/workload_common.h"
#include "controlplane/apiserver/subresources/handlers.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr int64_t kMinSeconds = 600;
constexpr int64_t kMaxSeconds = int64_t{1} << 32;
// A pod's mounted token asks for this many seconds; it is given a year, as clients of old do not reload it.
constexpr int64_t kMountedSeconds = 3607;
constexpr int64_t kYear = 365 * 24 * 3600;

kube::ApiResult<bool> check_spec(const Json& request) {
  Findings out;
  Path path("spec");
  int64_t seconds = int_of(spec_of(request), "expirationSeconds", 3600);
  if (seconds < kMinSeconds) {
    out.invalid_number(path.child("expirationSeconds"), seconds, "may not specify a duration less than 10 minutes");
  }
  if (seconds > kMaxSeconds) {
    out.invalid_number(path.child("expirationSeconds"), seconds, "may not specify a duration larger than 2^32 seconds");
  }
  if (out.empty()) return true;
  return kube::invalid("authentication.k8s.io", "TokenRequest", "", out.take());
}

kube::ApiError uid_mismatch(const Resource& kind, std::string_view name, std::string_view given,
                            std::string_view actual) {
  return kube::conflict(kind.info, name,
                        fmt::format("the UID in the bound object reference ({}) does not match the UID in record. The "
                                    "object might have been deleted and then recreated",
                                    given.empty() ? actual : given));
}

// Fills in what the token is bound to.
kube::ApiResult<bool> bind_token(const Json& request, const SubresourceCall& call, Api& api, TokenSpec& token) {
  const Json* ref = member(spec_of(request), "boundObjectRef");
  if (ref == nullptr) return true;
  std::string_view kind = text_of(*ref, "kind");
  std::string_view name = text_of(*ref, "name");
  KnownKind known = KnownKind::kPods;
  if (kind == "Secret") {
    known = KnownKind::kSecrets;
  } else if (kind == "Node") {
    known = KnownKind::kNodes;
  } else if (kind != "Pod") {
    return kube::bad_request(fmt::format("cannot bind token for serviceaccount {} to type {}, Kind={}",
                                         quoted(call.name), text_of(*ref, "apiVersion"), kind));
  }
  const Resource* resource = api.cluster_state().known(api, known);
  std::string_view ns = kind == "Node" ? std::string_view() : call.ns;
  Json object = stored_json(api, known, ns, name);
  if (object.is_null()) return kube::not_found_error(resource->info, name);
  std::string_view given = text_of(*ref, "uid");
  if (!given.empty() && given != uid_of(object)) return uid_mismatch(*resource, name, given, uid_of(object));
  if (kind == "Pod" && text_of(spec_of(object), "serviceAccountName") != call.name) {
    return kube::bad_request(
        fmt::format("cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                    quoted(call.name)));
  }
  token.bound_kind = kind;
  token.bound_name = name;
  token.bound_uid = uid_of(object);
  if (kind == "Pod") {
    token.node_name = text_of(spec_of(object), "nodeName");
    if (!token.node_name.empty()) {
      token.node_uid = uid_of(stored_json(api, KnownKind::kNodes, "", token.node_name));
    }
  }
  return true;
}

}  // namespace

Answered serve_token(SubresourceCall& call, Api& api, RequestContext& ctx) {
  if (call.verb != "create") return kube::method_not_allowed(call.resource.info, call.verb);
  StrategyContext sctx{api, call.resource, ctx, call.ns, "token"};
  std::string given(name_of(call.body));
  if (!given.empty() && given != call.name) {
    return kube::bad_request(
        fmt::format("the name of the object ({}) does not match the name on the URL ({})", given, call.name));
  }
  Json request = std::move(call.body);
  metadata_of(request).get_object()["name"] = call.name;
  metadata_of(request).get_object()["namespace"] = call.ns;
  if (!ctx.internal) {
    if (auto fine = admit_node_user(Operation::kCreate, request, nullptr, sctx); !fine.ok()) return fine.error();
  }
  auto account = parent_of(call, api);
  if (!account.ok()) return account.error();
  if (auto fine = check_spec(request); !fine.ok()) return fine.error();
  ClusterOptions& options = api.cluster_state().options;
  JsonObject& spec = make_spec(request);
  default_to(spec, "expirationSeconds", 3600);
  const JsonArray* audiences = array_of(spec_of(request), "audiences");
  if (audiences == nullptr || audiences->empty()) spec["audiences"] = JsonArray{Json(options.default_audience)};
  TokenSpec token;
  token.ns = call.ns;
  token.service_account = call.name;
  token.service_account_uid = uid_of(*account);
  for (const Json& audience : *array_of(spec_of(request), "audiences")) token.audiences.emplace_back(as_text(audience));
  token.expiration_seconds = int_of(spec_of(request), "expirationSeconds");
  if (auto fine = bind_token(request, call, api, token); !fine.ok()) return fine.error();
  if (token.expiration_seconds == kMountedSeconds && token.bound_kind == "Pod") token.expiration_seconds = kYear;
  if (!options.issue_token) return kube::internal_api_error("this server signs no tokens");
  auto issued = options.issue_token(token);
  if (!issued.ok()) return issued.error();
  SubresourceAnswer answer;
  answer.code = 201;
  std::string now = format_time(api.clock().wall_now());
  metadata_of(request).get_object()["creationTimestamp"] = now;
  request.get_object()["status"] = JsonObject{{"token", issued->token}, {"expirationTimestamp", issued->expires}};
  request.get_object()["kind"] = "TokenRequest";
  request.get_object()["apiVersion"] = "authentication.k8s.io/v1";
  answer.object = std::move(request);
  return answer;
}

}  // namespace ghostfleet::controlplane
