// MutatingAdmissionWebhook and ValidatingAdmissionWebhook.
#include <fmt/format.h>

#include "base/digest.h"
#include "controlplane/apiserver/admission/lookup.h"
#include "controlplane/apiserver/admission/plugins.h"
#include "controlplane/apiserver/admission/webhook_client.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/workload_common.h"
#include "controlplane/auth/tokens.h"
#include "kube/api/codec.h"
#include "kube/api/patch.h"
#include "kube/api/selector.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

struct Write {
  Operation operation;
  const Json* old;
  StrategyContext& ctx;
};

std::string_view operation_name(Operation operation) {
  switch (operation) {
    case Operation::kCreate: return "CREATE";
    case Operation::kUpdate: return "UPDATE";
    case Operation::kDelete: return "DELETE";
    case Operation::kConnect: return "CONNECT";
  }
  return "";
}

bool lists(const Json& rule, std::string_view key, std::string_view value) {
  const JsonArray* list = array_of(rule, key);
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    std::string_view item = as_text((*list)[i]);
    if (item == "*" || item == value) return true;
  }
  return false;
}

bool lists_resource(const Json& rule, const StrategyContext& ctx) {
  const JsonArray* list = array_of(rule, "resources");
  const std::string& resource = ctx.resource.info.resource;
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    std::string_view item = as_text((*list)[i]);
    size_t slash = item.find('/');
    std::string_view main = item.substr(0, slash);
    std::string_view sub = slash == std::string_view::npos ? std::string_view() : item.substr(slash + 1);
    bool main_fits = main == "*" || main == resource;
    if (main_fits && (sub == ctx.subresource || sub == "*")) return true;
  }
  return false;
}

bool rule_matches(const Json& rule, const Write& w) {
  const kube::KindInfo& info = w.ctx.resource.info;
  std::string_view scope = text_of(rule, "scope");
  if (scope == "Cluster" && info.namespaced) return false;
  if (scope == "Namespaced" && !info.namespaced) return false;
  return lists(rule, "operations", operation_name(w.operation)) && lists(rule, "apiGroups", info.group) &&
         lists(rule, "apiVersions", info.version) && lists_resource(rule, w.ctx);
}

bool selector_matches(const Json* selector, const JsonObject* labels) {
  if (selector == nullptr || selector_is_empty(selector)) return true;
  auto parsed = kube::LabelSelector::from_json(selector);
  return parsed.ok() && parsed->matches(labels);
}

bool hook_matches(const Json& hook, const Json& object, const Write& w) {
  const JsonArray* rules = array_of(hook, "rules");
  bool matched = false;
  for (size_t i = 0; rules != nullptr && i < rules->size() && !matched; ++i) matched = rule_matches((*rules)[i], w);
  if (!matched) return false;
  const JsonObject* labels = object_of(metadata_of(object), "labels");
  const Json* of_namespace = member(hook, "namespaceSelector");
  if (is_kind(w.ctx, "", "namespaces")) {
    if (!selector_matches(of_namespace, labels)) return false;
  } else if (!w.ctx.ns.empty() && of_namespace != nullptr && !selector_is_empty(of_namespace)) {
    Json ns = stored_json(w.ctx.api, KnownKind::kNamespaces, "", w.ctx.ns);
    if (!selector_matches(of_namespace, object_of(metadata_of(ns), "labels"))) return false;
  }
  return selector_matches(member(hook, "objectSelector"), labels);
}

// Webhook configurations themselves are never sent to webhooks: a bad one could not be repaired.
bool is_exempt(const StrategyContext& ctx) { return ctx.resource.info.group == "admissionregistration.k8s.io"; }

Json review_of(const Json& object, const Write& w) {
  const kube::KindInfo& info = w.ctx.resource.info;
  JsonObject kind{{"group", info.group}, {"version", info.version}, {"kind", info.kind}};
  JsonObject resource{{"group", info.group}, {"version", info.version}, {"resource", info.resource}};
  const UserInfo& user = w.ctx.request.user;
  JsonObject who{{"username", user.name}, {"groups", JsonArray(user.groups.begin(), user.groups.end())}};
  if (!user.uid.empty()) who["uid"] = user.uid;
  JsonObject request{{"uid", random_uuid()},
                     {"kind", kind},
                     {"resource", resource},
                     {"requestKind", kind},
                     {"requestResource", resource},
                     {"name", name_of(object)},
                     {"operation", operation_name(w.operation)},
                     {"userInfo", std::move(who)},
                     {"dryRun", w.ctx.request.dry_run}};
  if (!w.ctx.ns.empty()) request["namespace"] = w.ctx.ns;
  if (!w.ctx.subresource.empty()) request["subResource"] = w.ctx.subresource;
  request["object"] = w.operation == Operation::kDelete ? Json() : object;
  request["oldObject"] = w.old == nullptr ? Json() : *w.old;
  return JsonObject{
      {"kind", "AdmissionReview"}, {"apiVersion", "admission.k8s.io/v1"}, {"request", std::move(request)}};
}

Result<WebhookTarget> target_of(const Json& hook, Api& api) {
  static const Json kEmpty = JsonObject();
  const Json* found = member(hook, "clientConfig");
  const Json& client = found == nullptr ? kEmpty : *found;
  WebhookTarget target;
  target.timeout_seconds = static_cast<int>(int_of(hook, "timeoutSeconds", 10));
  base64_decode(text_of(client, "caBundle"), &target.ca_pem);
  target.url = text_of(client, "url");
  const Json* service = member(client, "service");
  if (service == nullptr) return target;
  std::string_view ns = text_of(*service, "namespace");
  std::string_view name = text_of(*service, "name");
  Json live = stored_json(api, KnownKind::kServices, ns, name);
  if (live.is_null()) return not_found(fmt::format("service \"{}\" not found", name));
  target.server_name = fmt::format("{}.{}.svc", name, ns);
  target.url = fmt::format("https://{}:{}{}", text_of(spec_of(live), "clusterIP"), int_of(*service, "port", 443),
                           text_of(*service, "path"));
  return target;
}

kube::ApiError call_failed(std::string_view name, const Status& why) {
  return kube::internal_api_error(fmt::format(
      "Internal error occurred: failed calling webhook \"{}\": failed to call webhook: {}", name, why.message()));
}

kube::ApiError denial(std::string_view name, const Json& response) {
  static const Json kEmpty = JsonObject();
  const Json* status = member(response, "status");
  if (status == nullptr) status = &kEmpty;
  kube::ApiError error;
  error.code = static_cast<int>(int_of(*status, "code", 403));
  if (error.code < 400) error.code = 403;
  error.reason = text_of(*status, "reason");
  std::string_view message = text_of(*status, "message");
  error.message = message.empty() && error.reason.empty()
                      ? fmt::format("admission webhook \"{}\" denied the request without explanation", name)
                      : fmt::format("admission webhook \"{}\" denied the request: {}", name,
                                    message.empty() ? std::string_view(error.reason) : message);
  if (error.reason.empty() && error.code == 403) error.reason = "Forbidden";
  return error;
}

void take_warnings(const Json& response, RequestContext& request) {
  const JsonArray* warnings = array_of(response, "warnings");
  for (size_t i = 0; warnings != nullptr && i < warnings->size(); ++i)
    request.warn(std::string(as_text((*warnings)[i])));
}

Admitted apply_answer(std::string_view name, const Json& response, Json* object, StrategyContext& ctx) {
  take_warnings(response, ctx.request);
  if (!bool_of(response, "allowed")) return denial(name, response);
  std::string_view encoded = text_of(response, "patch");
  if (object == nullptr || encoded.empty()) return true;
  std::string text;
  if (!base64_decode(encoded, &text)) return call_failed(name, invalid_argument("its patch is no base64"));
  auto patch = kube::parse_json(text);
  if (!patch.ok()) return call_failed(name, patch.error());
  auto patched = kube::apply_json_patch(*object, *patch);
  if (!patched.ok()) return patched.error();
  if (ctx.resource.info.type == nullptr) {
    *object = std::move(*patched);
    return true;
  }
  auto clean = kube::normalize(std::move(*patched), *ctx.resource.info.type);
  if (!clean.ok()) return clean.error();
  *object = std::move(*clean);
  strategy_for(ctx.resource).apply_defaults(*object, ctx);
  return true;
}

// `object` is what a mutating webhook may change; null for validating ones.
Admitted call_hook(const Json& hook, const Json& seen, Json* object, const Write& w) {
  if (!hook_matches(hook, seen, w)) return true;
  std::string_view name = text_of(hook, "name");
  bool ignore = text_of(hook, "failurePolicy") == "Ignore";
  auto target = target_of(hook, w.ctx.api);
  Result<Json> answer = target.ok() ? post_review(*target, review_of(seen, w)) : Result<Json>(target.error());
  const Json* response = answer.ok() ? member(*answer, "response") : nullptr;
  if (response == nullptr) {
    if (ignore) return true;
    return call_failed(name, answer.ok() ? invalid_argument("webhook response was absent") : answer.error());
  }
  return apply_answer(name, *response, object, w.ctx);
}

std::vector<Json> hooks_of(KnownKind kind, StrategyContext& ctx) {
  std::vector<Json> out;
  for (const Json& configuration : stored_list(ctx.api, kind, "")) {
    const JsonArray* hooks = array_of(configuration, "webhooks");
    if (hooks != nullptr) out.insert(out.end(), hooks->begin(), hooks->end());
  }
  return out;
}

}  // namespace

Admitted call_mutating_webhooks(Operation operation, Json& object, const Json* old, StrategyContext& ctx) {
  if (none_stored(ctx.api, KnownKind::kMutatingWebhooks, "") || is_exempt(ctx)) return true;
  Write w{operation, old, ctx};
  for (const Json& hook : hooks_of(KnownKind::kMutatingWebhooks, ctx)) {
    Admitted admitted = call_hook(hook, object, &object, w);
    if (!admitted.ok()) return admitted.error();
  }
  return true;
}

Admitted call_validating_webhooks(Operation operation, const Json& object, const Json* old, StrategyContext& ctx) {
  if (none_stored(ctx.api, KnownKind::kValidatingWebhooks, "") || is_exempt(ctx)) return true;
  Write w{operation, old, ctx};
  for (const Json& hook : hooks_of(KnownKind::kValidatingWebhooks, ctx)) {
    Admitted admitted = call_hook(hook, object, nullptr, w);
    if (!admitted.ok()) return admitted.error();
  }
  return true;
}

}  // namespace ghostfleet::controlplane
