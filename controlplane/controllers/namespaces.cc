#include "controlplane/controllers/namespaces.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/digest.h"
#include "controlplane/apiserver/json_scan.h"

namespace ghostfleet::controlplane::controllers {

using kube::get_string;
using kube::Json;
using kube::JsonObject;

namespace {
constexpr const char* kName = "namespace-controller";
constexpr Duration kSlice = std::chrono::milliseconds(10);
constexpr Duration kRecheck = std::chrono::milliseconds(500);
constexpr size_t kPage = 200;
constexpr Duration kAccountMayCome = std::chrono::seconds(5);  // a secret made in the same breath as its namespace

bool has_verb(const Resource& r, std::string_view verb) {
  return std::find(r.info.verbs.begin(), r.info.verbs.end(), verb) != r.info.verbs.end();
}

void count_finalizers(const ObjectRef& object, Remaining* left) {
  const std::string_view raw = json_at_path(object->json, "metadata.finalizers");
  if (raw.empty()) return;
  const auto list = kube::parse_json(raw);
  if (!list.ok() || !list->is_array()) return;
  for (const Json& f : list->get_array()) {
    if (f.is_string()) ++left->finalizers[std::string(f.get_string())];
  }
}

}  // namespace

std::string remaining_message(const std::map<std::string, int64_t>& resources) {
  std::string text;
  for (const auto& [resource, count] : resources) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} has {} resource instances", resource, count);
  }
  return "Some resources are remaining: " + text;
}

std::string finalizers_message(const std::map<std::string, int64_t>& finalizers) {
  std::string text;
  for (const auto& [finalizer, count] : finalizers) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} in {} resource instances", finalizer, count);
  }
  return "Some content in the namespace has finalizers remaining: " + text;
}

bool fill_deletion_conditions(Json* ns, const Remaining& left, const std::string& failure, WallTime now) {
  bool changed = set_condition(*ns, "NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered",
                               "All resources successfully discovered", now);
  changed |= set_condition(*ns, "NamespaceDeletionGroupVersionParsingFailure", "False", "ParsedGroupVersions",
                           "All legacy kube types successfully parsed", now);
  if (failure.empty()) {
    changed |= set_condition(*ns, "NamespaceDeletionContentFailure", "False", "ContentDeleted",
                             "All content successfully deleted, may be waiting on finalization", now);
  } else {
    changed |= set_condition(*ns, "NamespaceDeletionContentFailure", "True", "ContentDeletionFailed", failure, now);
  }
  if (left.resources.empty()) {
    changed |= set_condition(*ns, "NamespaceContentRemaining", "False", "ContentRemoved",
                             "All content successfully removed", now);
  } else {
    changed |= set_condition(*ns, "NamespaceContentRemaining", "True", "SomeResourcesRemain",
                             remaining_message(left.resources), now);
  }
  if (left.finalizers.empty()) {
    changed |= set_condition(*ns, "NamespaceFinalizersRemaining", "False", "ContentHasNoFinalizers",
                             "All content-preserving finalizers finished", now);
  } else {
    changed |= set_condition(*ns, "NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain",
                             finalizers_message(left.finalizers), now);
  }
  return changed;
}

NamespaceController::NamespaceController(Context& context)
    : context_(context),
      resource_(*context.find("", "v1", "namespaces")),
      queue_(context.loop(), [this](const std::string& name) { return sync(name); }) {}

void NamespaceController::start() {
  context_.watch(resource_).subscribe([this](const ObjectRef&, const ObjectRef& now) {
    if (now && !json_at_path(now->json, "metadata.deletionTimestamp").empty()) queue_.add(now->key);
  });
}

bool NamespaceController::empty_namespace(const std::string& name, Remaining* left, std::string* failure) {
  const TimePoint end = context_.loop().now() + kSlice;
  const std::string prefix = name + "/";
  std::vector<KindId> seen;
  for (const Resource* r : context_.api().resources()) {
    if (!r->info.namespaced || !has_verb(*r, "delete") || !has_verb(*r, "list")) continue;
    if (std::find(seen.begin(), seen.end(), r->store_kind) != seen.end()) continue;
    seen.push_back(r->store_kind);
    ListOptions options{.prefix = prefix, .limit = kPage};
    auto list = context_.store().list(r->store_kind, options);
    if (!list.ok()) continue;
    for (const ObjectRef& object : list->items) {
      if (context_.loop().now() >= end) return false;
      if (!json_at_path(object->json, "metadata.deletionTimestamp").empty()) continue;
      const auto removed = context_.remove(kName, *r, name, object->name(), {.propagation_policy = "Background"});
      if (!removed.ok() && removed.error().code != 404) *failure = removed.error().message;
    }
    // Another look: what is left has finalizers, a grace period, or did not fit in the page.
    list = context_.store().list(r->store_kind, options);
    if (!list.ok() || list->items.empty()) continue;
    for (const ObjectRef& object : list->items) count_finalizers(object, left);
    const std::string label = fmt::format("{}.{}", r->info.resource, r->info.group);
    left->resources[label] = static_cast<int64_t>(context_.store().count(r->store_kind, prefix));
  }
  return true;
}

SyncResult NamespaceController::sync(const std::string& name) {
  const ObjectRef object = context_.watch(resource_).get(name);
  if (!object) return SyncResult::done();
  const Json ns = parse_object(object);
  if (!is_deleting(ns)) return SyncResult::done();
  Remaining left;
  std::string failure;
  if (!empty_namespace(name, &left, &failure)) return SyncResult::again(Duration(0));
  if (left.empty() && failure.empty()) {
    const auto done = context_.modify(kName, resource_, "", name, "finalize", [](Json& live) -> kube::ApiResult<bool> {
      if (!is_deleting(live)) return false;
      kube::JsonArray kept;
      for (Json& f : kube::ensure_array(live, "spec.finalizers")) {
        if (!f.is_string() || f.get_string() != "kubernetes") kept.push_back(std::move(f));
      }
      kube::set_path(live, "spec.finalizers", std::move(kept));
      return true;
    });
    return done.ok() || is_moot(done.error()) ? SyncResult::done() : SyncResult::retry();
  }
  const auto done = context_.modify(kName, resource_, "", name, "status", [&](Json& live) -> kube::ApiResult<bool> {
    return is_deleting(live) && fill_deletion_conditions(&live, left, failure, context_.now());
  });
  if (!done.ok() && is_moot(done.error())) return SyncResult::done();
  return SyncResult::again(kRecheck);
}

namespace {

// Calls `wake` with the name of every namespace that is not ending, now and whenever an object of `kind` in it goes or
// changes.
void follow_namespaces(Context& context, const Resource& namespaces, const Resource& kind, std::string_view object_name,
                       std::function<void(std::string_view)> wake) {
  context.watch(namespaces).subscribe([wake](const ObjectRef&, const ObjectRef& now) {
    if (now) wake(now->key);
  });
  context.watch(kind).subscribe([wake, name = std::string(object_name)](const ObjectRef& old, const ObjectRef& now) {
    const ObjectRef& any = now ? now : old;
    if (old && any->name() == name) wake(any->ns());
  });
}

bool is_active(Context& context, const Resource& namespaces, const std::string& ns) {
  const ObjectRef object = context.watch(namespaces).get(ns);
  return object && json_at_path(object->json, "metadata.deletionTimestamp").empty();
}

SyncResult outcome(const kube::ApiResult<ObjectRef>& result) {
  if (result.ok() || is_moot(result.error()) || result.error().code == 409) return SyncResult::done();
  return SyncResult::retry();
}

}  // namespace

ServiceAccountController::ServiceAccountController(Context& context)
    : context_(context),
      namespaces_(*context.find("", "v1", "namespaces")),
      accounts_(*context.find("", "v1", "serviceaccounts")),
      queue_(context.loop(), [this](const std::string& ns) { return sync(ns); }) {}

void ServiceAccountController::start() {
  follow_namespaces(context_, namespaces_, accounts_, "default", [this](std::string_view ns) { queue_.add(ns); });
}

SyncResult ServiceAccountController::sync(const std::string& ns) {
  if (!is_active(context_, namespaces_, ns) || context_.watch(accounts_).get(ns + "/default")) {
    return SyncResult::done();
  }
  Json account = JsonObject{{"apiVersion", "v1"}, {"kind", "ServiceAccount"}};
  kube::set_path(account, "metadata.name", "default");
  return outcome(context_.create("service-account-controller", accounts_, ns, std::move(account)));
}

RootCaController::RootCaController(Context& context)
    : context_(context),
      namespaces_(*context.find("", "v1", "namespaces")),
      config_maps_(*context.find("", "v1", "configmaps")),
      queue_(context.loop(), [this](const std::string& ns) { return sync(ns); }) {}

void RootCaController::start() {
  if (context_.options().root_ca_pem.empty()) return;
  follow_namespaces(context_, namespaces_, config_maps_, "kube-root-ca.crt",
                    [this](std::string_view ns) { queue_.add(ns); });
}

SyncResult RootCaController::sync(const std::string& ns) {
  if (!is_active(context_, namespaces_, ns)) return SyncResult::done();
  const std::string& pem = context_.options().root_ca_pem;
  const ObjectRef existing = context_.watch(config_maps_).get(ns + "/kube-root-ca.crt");
  if (!existing) {
    Json map = JsonObject{{"apiVersion", "v1"}, {"kind", "ConfigMap"}};
    kube::set_path(map, "metadata.name", "kube-root-ca.crt");
    set_annotation(map, "kubernetes.io/description",
                   "Holds the certificates to verify this cluster's API server with; use no other data of it.");
    kube::ensure_object(map, "data")["ca.crt"] = pem;
    return outcome(context_.create("root-ca-cert-publisher", config_maps_, ns, std::move(map)));
  }
  const auto holds = [&](const Json& map) {
    const JsonObject* data = kube::get_object(map, "data");
    const Json* v = data == nullptr || data->size() != 1 ? nullptr : data->if_contains("ca.crt");
    return v != nullptr && v->is_string() && std::string_view(v->get_string()) == pem;
  };
  if (holds(parse_object(existing))) return SyncResult::done();
  return outcome(context_.modify("root-ca-cert-publisher", config_maps_, ns, "kube-root-ca.crt", "",
                                 [&](Json& live) -> kube::ApiResult<bool> {
                                   kube::set_path(live, "data", JsonObject{{"ca.crt", pem}});
                                   return true;
                                 }));
}

TokenSecretController::TokenSecretController(Context& context)
    : context_(context),
      secrets_(*context.find("", "v1", "secrets")),
      accounts_(*context.find("", "v1", "serviceaccounts")),
      queue_(context.loop(), [this](const std::string& key) { return sync(key); }) {}

void TokenSecretController::start() {
  if (!context_.options().service_account_token) return;
  context_.watch(secrets_).subscribe([this](const ObjectRef&, const ObjectRef& now) {
    if (now && now->json.find("kubernetes.io/service-account-token") != std::string::npos) queue_.add(now->key);
  });
  context_.watch(accounts_).subscribe([this](const ObjectRef& old, const ObjectRef& now) {
    if (now) return;
    for (const auto& [key, secret] : context_.watch(secrets_).objects()) {  // their account is gone
      if (secret->ns() == old->ns() && secret->json.find("service-account-token") != std::string::npos) queue_.add(key);
    }
  });
}

SyncResult TokenSecretController::sync(const std::string& key) {
  constexpr const char* kComponent = "tokens-controller";
  constexpr const char* kAccountName = "kubernetes.io/service-account.name";
  constexpr const char* kAccountUid = "kubernetes.io/service-account.uid";
  const ObjectRef object = context_.watch(secrets_).get(key);
  if (!object) return SyncResult::done();
  const Json secret = parse_object(object);
  const std::string account_name(annotation(secret, kAccountName));
  if (get_string(secret, "type") != "kubernetes.io/service-account-token" || account_name.empty()) {
    return SyncResult::done();
  }
  const std::string ns(object->ns()), name(object->name());
  const ObjectRef account = context_.store().get(accounts_.store_kind, key_of(ns, account_name));
  const std::string account_uid = account ? json_text(json_at_path(account->json, "metadata.uid")) : "";
  const std::string wanted_uid(annotation(secret, kAccountUid));
  const int64_t age_ns = context_.now().ns - time_at(secret, "metadata.creationTimestamp");
  if (!account && age_ns < kAccountMayCome.count()) return SyncResult::again(kRecheck);
  if (!account || (!wanted_uid.empty() && wanted_uid != account_uid)) {
    const auto gone = context_.remove(kComponent, secrets_, ns, name,
                                      {.uid_precondition = std::string(get_string(secret, "metadata.uid"))});
    return gone.ok() || gone.error().code == 404 ? SyncResult::done() : SyncResult::retry();
  }
  const JsonObject* data = kube::get_object(secret, "data");
  if (data != nullptr && data->contains("token") && !wanted_uid.empty()) return SyncResult::done();
  const std::string token = context_.options().service_account_token(ns, account_name, account_uid, name,
                                                                     std::string(get_string(secret, "metadata.uid")));
  if (token.empty()) return SyncResult::retry();
  return outcome(context_.modify(kComponent, secrets_, ns, name, "", [&](Json& live) -> kube::ApiResult<bool> {
    set_annotation(live, kAccountUid, account_uid);
    JsonObject& to = kube::ensure_object(live, "data");
    to["ca.crt"] = base64_encode(context_.options().root_ca_pem);
    to["namespace"] = base64_encode(ns);
    to["token"] = base64_encode(token);
    return true;
  }));
}

}  // namespace ghostfleet::controlplane::controllers
