#include "controlplane/controllers/resource_quota.h"

#include <algorithm>

#include "controlplane/apiserver/admission/quota.h"
#include "controlplane/controllers/meta.h"

namespace ghostfleet::controlplane::controllers {

using kube::Json;
using kube::JsonObject;

namespace {

constexpr const char* kName = "resourcequota-controller";
constexpr Duration kSoon = std::chrono::milliseconds(50);
constexpr Duration kCountAnew = std::chrono::minutes(5);
constexpr std::string_view kCounted[] = {
    "pods", "services", "secrets", "configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas"};

bool same_spec(const ObjectRef& old, const ObjectRef& now) {
  const Json before = parse_object(old), after = parse_object(now);
  const Json *a = kube::find_path(before, "spec"), *b = kube::find_path(after, "spec");
  return a != nullptr && b != nullptr && kube::json_equal(*a, *b);
}

bool has_ended(const Json& pod) {
  const std::string_view phase = kube::get_string(pod, "status.phase");
  return phase == "Succeeded" || phase == "Failed";
}

}  // namespace

ResourceQuotaController::ResourceQuotaController(Context& context)
    : context_(context),
      quotas_(*context.find("", "v1", "resourcequotas")),
      queue_(context.loop(), [this](const std::string& key) { return sync(key); }) {
  (void)context.watch(quotas_);
}

void ResourceQuotaController::start() {
  queue_.hold(true);
  context_.watch(quotas_).subscribe([this](const ObjectRef& old, const ObjectRef& now) { on_quota(old, now); });
  for (const std::string_view plural : kCounted) {
    const Resource* kind = context_.find("", "v1", plural);
    if (kind == nullptr) continue;
    context_.watch(*kind).subscribe([this](const ObjectRef& old, const ObjectRef& now) { on_object(old, now); });
  }
  context_.when_synced([this] { queue_.hold(false); });
}

void ResourceQuotaController::on_quota(const ObjectRef& old, const ObjectRef& now) {
  const ObjectRef& either = now ? now : old;
  std::set<std::string>& keys = by_namespace_[std::string(either->ns())];
  if (now) {
    keys.insert(now->key);
    // Who admits an object changes the status before the object is there: that is no occasion to count.
    if (!old || !same_spec(old, now)) queue_.add(now->key);
    return;
  }
  keys.erase(old->key);
  if (keys.empty()) by_namespace_.erase(std::string(old->ns()));
}

// What is new was counted when it was admitted.
void ResourceQuotaController::on_object(const ObjectRef& old, const ObjectRef& now) {
  if (!old) return;
  const auto keys = by_namespace_.find((now ? now : old)->ns());
  if (keys == by_namespace_.end()) return;
  for (const std::string& key : keys->second) queue_.add_after(key, kSoon);
}

const Resource* ResourceQuotaController::counted_kind(std::string_view name) const {
  std::string_view group;
  if (name.starts_with("count/")) {
    name.remove_prefix(6);
    const size_t dot = name.find('.');
    if (dot != std::string_view::npos) group = name.substr(dot + 1);
    name = name.substr(0, dot);
  } else if (name.starts_with("services.")) {
    name = "services";
  } else if (name == "requests.storage") {
    name = "persistentvolumeclaims";
  } else if (std::find(std::begin(kCounted), std::end(kCounted), name) == std::end(kCounted)) {
    name = "pods";  // cpu, requests.memory, limits.nvidia.com/gpu, ...
  }
  return context_.find(group, "v1", name);
}

SyncResult ResourceQuotaController::sync(const std::string& key) {
  const ObjectRef object = context_.watch(quotas_).get(key);
  if (!object) return SyncResult::done();
  const Json quota = parse_object(object);
  const JsonObject* hard = kube::get_object(quota, "spec.hard");
  if (hard == nullptr) return SyncResult::done();
  const auto [ns, name] = split_key(key);
  std::set<const Resource*> kinds;
  for (const auto& entry : *hard) kinds.insert(counted_kind(entry.key()));
  kinds.erase(nullptr);
  QuotaUsage usage;
  for (const Resource* kind : kinds) {
    const auto listed = context_.store().list(kind->store_kind, {.prefix = std::string(ns) + "/"});
    if (!listed.ok()) return SyncResult::retry();
    const bool pods = kind->store_kind == context_.pod_resource().store_kind;
    for (const ObjectRef& each : listed->items) {
      const Json parsed = parse_object(each);
      if (pods && has_ended(parsed)) continue;
      if (quota_covers(quota, *kind, parsed)) add_usage(&usage, quota_usage(*kind, parsed));
    }
  }
  JsonObject used;
  for (const auto& entry : *hard) {
    const auto known = usage.find(std::string(entry.key()));
    used[entry.key()] = known == usage.end() ? std::string("0") : known->second.to_string();
  }
  const std::string seen(kube::get_string(quota, "metadata.resourceVersion"));
  bool overtaken = false;
  const auto done = context_.modify(kName, quotas_, ns, name, "status", [&](Json& live) -> kube::ApiResult<bool> {
    // Somebody was admitted meanwhile, and is perhaps not in this count.
    overtaken = kube::get_string(live, "metadata.resourceVersion") != seen;
    if (overtaken) return false;
    const JsonObject* now = kube::get_object(live, "spec.hard");
    if (now == nullptr || !kube::json_equal(Json(*now), Json(*hard))) return false;  // it comes again
    const JsonObject before = kube::ensure_object(live, "status");
    kube::set_path(live, "status.hard", *hard);
    kube::set_path(live, "status.used", used);
    return !kube::json_equal(Json(before), Json(kube::ensure_object(live, "status")));
  });
  if (overtaken || (!done.ok() && !is_moot(done.error()))) return SyncResult::retry();
  return SyncResult::again(kCountAnew);
}

}  // namespace ghostfleet::controlplane::controllers
