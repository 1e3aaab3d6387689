#include "controlplane/auth/reviews.h"

#include <fmt/format.h>

#include <algorithm>

namespace ghostfleet::controlplane {
namespace {

using kube::ApiError;
using kube::ApiResult;
using kube::FieldError;
using kube::FieldErrorType;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

constexpr int64_t kDefaultTokenSeconds = 3600;
constexpr int64_t kMinTokenSeconds = 600;
constexpr int64_t kMaxTokenSeconds = 1LL << 32;

std::string quoted(std::string_view text) {
  std::string out;
  kube::append_json_string(text, &out);
  return out;
}

std::vector<std::string> strings(const Json& value, std::string_view path) {
  std::vector<std::string> out;
  if (const JsonArray* list = kube::get_array(value, path)) {
    for (const Json& item : *list) {
      if (item.is_string()) out.emplace_back(item.get_string());
    }
  }
  return out;
}

JsonArray to_array(const std::vector<std::string>& items) {
  JsonArray out;
  for (const std::string& item : items) out.emplace_back(item);
  return out;
}

Json user_json(const UserInfo& user) {
  JsonObject out;
  if (!user.name.empty()) out["username"] = user.name;
  if (!user.uid.empty()) out["uid"] = user.uid;
  if (!user.groups.empty()) out["groups"] = to_array(user.groups);
  JsonObject extra;
  for (const auto& [key, values] : user.extra) extra[key] = to_array(values);
  if (!extra.empty()) out["extra"] = std::move(extra);
  return out;
}

UserInfo user_of_spec(const Json& spec) {
  UserInfo user;
  user.name = std::string(kube::get_string(spec, "user"));
  user.uid = std::string(kube::get_string(spec, "uid"));
  user.groups = strings(spec, "groups");
  return user;
}

// These two groups of attributes exclude each other; the texts of their findings carry no kind.
std::vector<FieldError> check_access_spec(const Json& spec, bool self) {
  std::vector<FieldError> errors;
  const bool resource = kube::find_key(spec, "resourceAttributes") != nullptr;
  const Json* path = kube::find_key(spec, "nonResourceAttributes");
  if (resource && path != nullptr) {
    errors.push_back({FieldErrorType::kInvalid, "spec.nonResourceAttributes", kube::to_json(*path),
                      "cannot be specified in combination with resourceAttributes"});
  }
  if (!resource && path == nullptr) {
    errors.push_back({FieldErrorType::kInvalid, "spec.resourceAttributes", "null",
                      "exactly one of nonResourceAttributes or resourceAttributes must be specified"});
  }
  if (!self && kube::get_string(spec, "user").empty() && strings(spec, "groups").empty()) {
    errors.push_back(
        {FieldErrorType::kInvalid, "spec.user", "\"\"", "at least one of user or group must be specified"});
  }
  return errors;
}

std::vector<kube::FieldRequirement> field_selector_of(const Json& resource) {
  const Json* selector = kube::find_key(resource, "fieldSelector");
  if (selector == nullptr) return {};
  if (const std::string_view raw = kube::get_string(*selector, "rawSelector"); !raw.empty()) {
    ApiResult<std::vector<kube::FieldRequirement>> parsed = kube::parse_field_selector(raw);
    return parsed.ok() ? *parsed : std::vector<kube::FieldRequirement>();
  }
  std::vector<kube::FieldRequirement> out;
  const JsonArray* requirements = kube::get_array(*selector, "requirements");
  if (requirements == nullptr) return out;
  for (const Json& r : *requirements) {
    const std::vector<std::string> values = strings(r, "values");
    const std::string_view op = kube::get_string(r, "operator");
    if (values.size() != 1 || (op != "In" && op != "NotIn")) continue;
    out.push_back({std::string(kube::get_string(r, "key")), op == "In", values[0]});
  }
  return out;
}

Attributes attributes_of_spec(const Json& spec, const UserInfo& user) {
  Attributes a;
  a.user = &user;
  if (const Json* r = kube::find_key(spec, "resourceAttributes")) {
    a.verb = std::string(kube::get_string(*r, "verb"));
    a.group = std::string(kube::get_string(*r, "group"));
    a.version = std::string(kube::get_string(*r, "version"));
    a.resource = std::string(kube::get_string(*r, "resource"));
    a.subresource = std::string(kube::get_string(*r, "subresource"));
    a.ns = std::string(kube::get_string(*r, "namespace"));
    a.name = std::string(kube::get_string(*r, "name"));
    a.field_selector = field_selector_of(*r);
    return a;
  }
  a.is_resource = false;
  a.verb = std::string(kube::get_string(spec, "nonResourceAttributes.verb"));
  a.path = std::string(kube::get_string(spec, "nonResourceAttributes.path"));
  return a;
}

Json decision_json(const Decision& d) {
  JsonObject status{{"allowed", d.allowed()}};
  if (d.kind == Decision::Kind::kDeny) status["denied"] = true;
  if (!d.reason.empty()) status["reason"] = d.reason;
  if (!d.error.empty()) status["evaluationError"] = d.error;
  return status;
}

void set_status(Json* review, Json status) { review->get_object().insert_or_assign("status", std::move(status)); }

ApiError not_found(std::string_view resource, std::string_view name) {
  ApiError e;
  e.code = 404;
  e.reason = "NotFound";
  e.message = fmt::format("{} \"{}\" not found", resource, name);
  e.kind = std::string(resource);
  e.name = std::string(name);
  return e;
}

ApiError uid_conflict(std::string_view kind, std::string_view name, std::string_view why) {
  ApiError e;
  e.code = 409;
  e.reason = "Conflict";
  e.message = fmt::format("Operation cannot be fulfilled on {} \"{}\": {}", kind, name, why);
  e.kind = std::string(kind);
  e.name = std::string(name);
  return e;
}

ApiResult<Json> fetch(const ClusterObjects& objects, std::string_view resource, std::string_view ns,
                      std::string_view name) {
  const ObjectRef object = objects.get(resource, ns, name);
  if (object == nullptr) return not_found(resource, name);
  Result<Json> json = kube::parse_json(object->json);
  if (!json.ok()) return kube::internal_api_error(json.error().message());
  return *json;
}

BoundRef ref_to(const Json& object) {
  return {std::string(kube::get_string(object, "metadata.name")),
          std::string(kube::get_string(object, "metadata.uid"))};
}

// Fills the claims' pod, node or secret from spec.boundObjectRef.
ApiResult<bool> bind_object(const Json& spec, const ClusterObjects& objects, ServiceAccountClaims* claims) {
  const Json* ref = kube::find_key(spec, "boundObjectRef");
  if (ref == nullptr || ref->is_null()) return true;
  const std::string kind(kube::get_string(*ref, "kind")), name(kube::get_string(*ref, "name"));
  const std::string version(kube::get_string(*ref, "apiVersion"));
  const char* resource = kind == "Pod" ? "pods" : kind == "Node" ? "nodes" : kind == "Secret" ? "secrets" : nullptr;
  if (resource == nullptr || version.find('/') != std::string::npos) {
    const size_t slash = version.find('/');
    const std::string gv = slash == std::string::npos ? "/" + version : version;
    return kube::bad_request(fmt::format("cannot bind token to object of type {}, Kind={}", gv, kind));
  }
  ApiResult<Json> object = fetch(objects, resource, kind == "Node" ? "" : std::string_view(claims->ns), name);
  if (!object.ok()) return object.error();
  const BoundRef found = ref_to(*object);
  if (kind == "Pod") {
    if (kube::get_string(*object, "spec.serviceAccountName") != claims->name) {
      return kube::bad_request(
          fmt::format("cannot bind token for serviceaccount \"{}\" to pod running with different serviceaccount name.",
                      claims->name));
    }
    claims->pod = found;
    if (const std::string_view node = kube::get_string(*object, "spec.nodeName"); !node.empty()) {
      ApiResult<Json> node_object = fetch(objects, "nodes", "", node);
      claims->node = node_object.ok() ? ref_to(*node_object) : BoundRef{std::string(node), ""};
    }
  }
  if (kind == "Node") claims->node = found;
  if (kind == "Secret") claims->secret = found;
  const std::string_view wanted = kube::get_string(*ref, "uid");
  if (!wanted.empty() && wanted != found.uid) {
    return uid_conflict(kind, name,
                        fmt::format("the UID in the bound object reference ({}) does not match the UID in record. The "
                                    "object might have been deleted and then recreated",
                                    wanted));
  }
  return true;
}

ApiError token_request_invalid(std::string_view name, FieldError error) {
  return kube::invalid("authentication.k8s.io", "TokenRequest", name, {std::move(error)});
}

ApiResult<bool> check_request_names(const Json& request, std::string_view ns, std::string_view name) {
  const std::string_view given = kube::get_string(request, "metadata.name");
  if (!given.empty() && given != name) {
    return token_request_invalid(name, {FieldErrorType::kInvalid, "metadata.name", quoted(given),
                                        "must match the service account name if specified"});
  }
  const std::string_view space = kube::get_string(request, "metadata.namespace");
  if (!space.empty() && space != ns) {
    return token_request_invalid(name, {FieldErrorType::kInvalid, "metadata.namespace", quoted(space),
                                        "must match the service account namespace if specified"});
  }
  return true;
}

ApiResult<bool> check_lifetime(int64_t seconds) {
  const char* why = seconds < kMinTokenSeconds   ? "may not specify a duration less than 10 minutes"
                    : seconds > kMaxTokenSeconds ? "may not specify a duration larger than 2^32 seconds"
                                                 : nullptr;
  if (why == nullptr) return true;
  return token_request_invalid("", {FieldErrorType::kInvalid, "spec.expirationSeconds", std::to_string(seconds), why});
}

}  // namespace

ApiResult<Json> review_access(Json review, std::string_view kind, std::string_view ns, const UserInfo& requester,
                              const Authorizer& authorizer) {
  const Json spec = kube::find_key(review, "spec") != nullptr ? *kube::find_key(review, "spec") : Json(JsonObject());
  const bool self = kind == "SelfSubjectAccessReview";
  std::vector<FieldError> errors = check_access_spec(spec, self);
  if (kind == "LocalSubjectAccessReview") {
    const std::string_view asked = kube::get_string(spec, "resourceAttributes.namespace");
    if (kube::find_key(spec, "resourceAttributes") != nullptr && asked != ns) {
      errors.push_back({FieldErrorType::kInvalid, "spec.resourceAttributes.namespace", quoted(asked),
                        "must match metadata.namespace"});
    }
    if (kube::find_key(spec, "nonResourceAttributes") != nullptr) {
      errors.push_back({FieldErrorType::kInvalid, "spec.nonResourceAttributes",
                        kube::to_json(*kube::find_key(spec, "nonResourceAttributes")),
                        "disallowed on this kind of request"});
    }
  }
  if (!errors.empty()) return kube::invalid("authorization.k8s.io", "", "", errors);
  const UserInfo user = self ? requester : user_of_spec(spec);
  set_status(&review, decision_json(authorizer.authorize(attributes_of_spec(spec, user))));
  return review;
}

ApiResult<Json> review_rules(Json review, const UserInfo& requester, const Authorizer& authorizer) {
  const std::string ns(kube::get_string(review, "spec.namespace"));
  if (ns.empty()) return kube::bad_request("no namespace on request");
  std::string error;
  JsonArray resources, paths;
  for (const PolicyRule& rule : authorizer.rules_for(requester, ns, &error)) {
    JsonObject out{{"verbs", to_array(rule.verbs)}};
    if (!rule.non_resource_urls.empty()) {
      out["nonResourceURLs"] = to_array(rule.non_resource_urls);
      paths.push_back(std::move(out));
      continue;
    }
    if (!rule.api_groups.empty()) out["apiGroups"] = to_array(rule.api_groups);
    if (!rule.resources.empty()) out["resources"] = to_array(rule.resources);
    if (!rule.resource_names.empty()) out["resourceNames"] = to_array(rule.resource_names);
    resources.push_back(std::move(out));
  }
  // A real server answers without metadata and spec.
  JsonObject status{
      {"resourceRules", std::move(resources)}, {"nonResourceRules", std::move(paths)}, {"incomplete", !error.empty()}};
  if (!error.empty()) status["evaluationError"] = error;
  review.get_object().insert_or_assign("metadata", JsonObject());
  review.get_object().insert_or_assign("spec", JsonObject());
  set_status(&review, std::move(status));
  return review;
}

ApiResult<Json> review_self(Json review, const UserInfo& requester) {
  set_status(&review, JsonObject{{"userInfo", user_json(requester)}});
  return review;
}

ApiResult<Json> review_token(Json review, const Authenticator& authenticator, const TokenIssuer& issuer) {
  const std::string token(kube::get_string(review, "spec.token"));
  if (token.empty()) return kube::bad_request("token is required for TokenReview in authentication");
  std::vector<std::string> audiences = strings(review, "spec.audiences");
  if (audiences.empty()) audiences = issuer.audiences();
  Result<TokenIdentity> identity = authenticator.authenticate_token(token, audiences);
  if (!identity.ok()) {
    set_status(&review, JsonObject{{"user", JsonObject()}, {"error", identity.error().message()}});
    return review;
  }
  UserInfo user = identity->user;
  if (!user.in_group("system:authenticated")) user.groups.emplace_back("system:authenticated");
  JsonObject status{{"authenticated", true}, {"user", user_json(user)}};
  if (!identity->audiences.empty()) status["audiences"] = to_array(identity->audiences);
  set_status(&review, std::move(status));
  return review;
}

ApiResult<Json> request_token(Json request, std::string_view ns, std::string_view name, const ClusterObjects& objects,
                              const TokenIssuer& issuer, const Clock& clock) {
  if (ApiResult<bool> names = check_request_names(request, ns, name); !names.ok()) return names.error();
  ApiResult<Json> account = fetch(objects, "serviceaccounts", ns, name);
  if (!account.ok()) return account.error();
  ServiceAccountClaims claims;
  claims.ns = std::string(ns);
  claims.name = std::string(name);
  claims.uid = std::string(kube::get_string(*account, "metadata.uid"));
  const std::string_view uid = kube::get_string(request, "metadata.uid");
  if (!uid.empty() && uid != claims.uid) {
    return uid_conflict("TokenRequest", name,
                        fmt::format("the UID in the token request ({}) does not match the UID of the service account "
                                    "({})",
                                    uid, claims.uid));
  }
  kube::ensure_object(request, "spec");
  const Json& given = *kube::find_key(request, "spec");
  const int64_t seconds = kube::find_key(given, "expirationSeconds") != nullptr
                              ? kube::get_int(given, "expirationSeconds")
                              : kDefaultTokenSeconds;
  if (ApiResult<bool> fits = check_lifetime(seconds); !fits.ok()) return fits.error();
  claims.audiences = strings(given, "audiences");
  if (claims.audiences.empty()) claims.audiences = issuer.audiences();
  if (ApiResult<bool> bound = bind_object(given, objects, &claims); !bound.ok()) return bound.error();
  const WallTime now = clock.wall_now();
  claims.issued = claims.not_before = now;
  claims.expires = now + std::chrono::seconds(seconds);
  Result<std::string> token = issuer.issue(claims);
  if (!token.ok()) return kube::internal_api_error("failed to generate token: " + token.error().message());
  kube::set_path(request, "metadata.name", Json(claims.name));
  kube::set_path(request, "metadata.namespace", Json(claims.ns));
  kube::set_path(request, "metadata.uid", Json(claims.uid));
  kube::set_path(request, "metadata.creationTimestamp", Json(format_time(now)));
  kube::set_path(request, "spec.audiences", to_array(claims.audiences));
  kube::set_path(request, "spec.expirationSeconds", seconds);
  set_status(&request, JsonObject{{"token", *token}, {"expirationTimestamp", format_time(claims.expires)}});
  return request;
}

}  // namespace ghostfleet::controlplane
