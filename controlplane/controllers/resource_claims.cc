#include "controlplane/controllers/resource_claims.h"

#include <fmt/format.h>

#include <algorithm>

#include "controlplane/controllers/meta.h"
#include "controlplane/informer/device_claims.h"

namespace ghostfleet::controlplane::controllers {

using kube::get_array;
using kube::get_string;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr const char* kName = "resourceclaim-controller";
constexpr const char* kEntryAnnotation = "resource.kubernetes.io/pod-claim-name";
constexpr size_t kLongestBase = 58;  // of a generated name

// Also one that the scheduler made for its extended resources.
bool has_claims(const Object& pod) {
  return pod.json.find("\"resourceClaims\":[") != std::string::npos ||
         pod.json.find("\"extendedResourceClaimStatus\":{") != std::string::npos;
}

std::string made_key(std::string_view pod_uid, std::string_view entry) { return fmt::format("{}/{}", pod_uid, entry); }

// The pod that a claim was made for.
std::optional<OwnerRef> owning_pod(const Json& claim) {
  auto owner = controller_of(claim);
  if (owner && owner->api_version == "v1" && owner->kind == "Pod") return owner;
  return std::nullopt;
}

const Json* status_entry(const Json& pod, std::string_view name) {
  const JsonArray* list = get_array(pod, "status.resourceClaimStatuses");
  if (list == nullptr) return nullptr;
  const auto at =
      std::find_if(list->begin(), list->end(), [name](const Json& entry) { return get_string(entry, "name") == name; });
  return at == list->end() ? nullptr : &*at;
}

// Of each entry of the pod's spec, as spec and status tell it.
std::vector<std::string> claim_names(const Json& pod) {
  std::vector<std::string> out;
  const JsonArray* entries = get_array(pod, "spec.resourceClaims");
  for (size_t i = 0; entries != nullptr && i < entries->size(); ++i) {
    std::string name(get_string((*entries)[i], "resourceClaimName"));
    const Json* told = status_entry(pod, get_string((*entries)[i], "name"));
    if (name.empty() && told != nullptr) name = get_string(*told, "resourceClaimName");
    if (!name.empty()) out.push_back(std::move(name));
  }
  const std::string_view extended = get_string(pod, "status.extendedResourceClaimStatus.resourceClaimName");
  if (!extended.empty()) out.emplace_back(extended);
  return out;
}

bool is_pod(const Json& user) { return get_string(user, "resource") == "pods" && get_string(user, "apiGroup").empty(); }

bool is_reserved_for(const Json& claim, std::string_view uid) {
  const JsonArray* users = get_array(claim, "status.reservedFor");
  return users != nullptr &&
         std::any_of(users->begin(), users->end(), [uid](const Json& user) { return get_string(user, "uid") == uid; });
}

bool pod_is_done(const PodInfo& pod, std::string_view uid) {
  return pod.uid != uid || pod.finished() || (pod.deleting && pod.node.empty());
}

}  // namespace

ResourceClaimController::ResourceClaimController(Context& context)
    : context_(context),
      claims_resource_(*context.find("resource.k8s.io", "v1", "resourceclaims")),
      templates_resource_(*context.find("resource.k8s.io", "v1", "resourceclaimtemplates")),
      claims_(context.watch(claims_resource_)),
      templates_(context.watch(templates_resource_)),
      pod_queue_(context.loop(), [this](const std::string& key) { return sync_pod(key); }),
      claim_queue_(context.loop(), [this](const std::string& key) { return sync_claim(key); }) {
  (void)context.pods();
  pod_queue_.hold(true);
  claim_queue_.hold(true);
}

void ResourceClaimController::start() {
  claims_.subscribe([this](const ObjectRef& old, const ObjectRef& now) { claim_changed(old, now); });
  context_.pods().subscribe([this](const PodInfo* old, const PodInfo* now) { pod_changed(old, now); });
  for (const auto& [key, pod] : context_.pods().all()) pod_changed(nullptr, pod.get());
  context_.when_synced([this] {
    pod_queue_.hold(false);
    claim_queue_.hold(false);
  });
}

void ResourceClaimController::pod_changed(const PodInfo* old, const PodInfo* now) {
  const PodInfo& pod = now != nullptr ? *now : *old;
  if (!has_claims(*pod.object)) return;
  const bool gone = now == nullptr || now->finished() || now->deleting;
  if (now != nullptr && !now->finished()) pod_queue_.add(pod.object->key);
  if (!gone && old != nullptr && old->uid == now->uid) return;
  for (const std::string& claim : claim_names(parse_object(pod.object))) claim_queue_.add(key_of(pod.ns(), claim));
}

void ResourceClaimController::claim_changed(const ObjectRef& old, const ObjectRef& now) {
  const Json claim = parse_object(now ? now : old);
  const auto owner = owning_pod(claim);
  const std::string_view entry = annotation(claim, kEntryAnnotation);
  if (owner && !entry.empty()) {
    if (now) {
      made_[made_key(owner->uid, entry)] = now->name();
    } else {
      made_.erase(made_key(owner->uid, entry));
    }
  }
  claim_queue_.add(now ? now->key : old->key);
}

// ---- pods

SyncResult ResourceClaimController::sync_pod(const std::string& key) {
  const PodInfo* info = context_.pods().find(key);
  if (info == nullptr || info->finished() || info->deleting) return SyncResult::done();
  const Json pod = parse_object(info->object);
  const JsonArray* entries = get_array(pod, "spec.resourceClaims");
  if (entries == nullptr) return SyncResult::done();
  JsonArray fresh;
  for (const Json& entry : *entries) {
    const auto name = ensure_claim(pod, entry);
    if (!name.ok()) {
      if (is_moot(name.error())) return SyncResult::done();
      const std::string why = fmt::format("PodResourceClaim {}: {}", get_string(entry, "name"), name.error().message);
      context_.events().record({"v1", "Pod", std::string(info->ns()), std::string(info->name()), info->uid, ""},
                               "Warning", "FailedResourceClaimCreation", why, kName);
      return SyncResult::retry();
    }
    if (!name->empty()) fresh.push_back(JsonObject{{"name", get_string(entry, "name")}, {"resourceClaimName", *name}});
  }
  if (!fresh.empty() && !tell_names(pod, fresh)) return SyncResult::retry();
  if (info->node.empty()) return SyncResult::done();
  // Somebody chose its node without a scheduler: what is allocated already may be its.
  bool ok = true;
  for (const std::string& claim : claim_names(pod)) ok &= reserve(pod, claim);
  return ok ? SyncResult::done() : SyncResult::retry();
}

kube::ApiResult<std::string> ResourceClaimController::ensure_claim(const Json& pod, const Json& entry) {
  if (get_string(entry, "resourceClaimTemplateName").empty()) return std::string();
  const std::string_view ns = get_string(pod, "metadata.namespace"), name = get_string(entry, "name");
  if (const Json* told = status_entry(pod, name)) {
    const std::string_view claim = get_string(*told, "resourceClaimName");
    if (claim.empty() || claims_.get(key_of(ns, claim)) != nullptr) return std::string();
  }
  const auto made = made_.find(made_key(get_string(pod, "metadata.uid"), name));
  if (made != made_.end()) return made->second;
  return create_claim(pod, entry);
}

kube::ApiResult<std::string> ResourceClaimController::create_claim(const Json& pod, const Json& entry) {
  const std::string_view ns = get_string(pod, "metadata.namespace");
  const std::string_view wanted = get_string(entry, "resourceClaimTemplateName");
  const ObjectRef found = templates_.get(key_of(ns, wanted));
  if (!found) {
    kube::ApiError error;
    error.code = 500;
    error.message = fmt::format(
        "resource claim template \"{}\": resourceclaimtemplate.resource.k8s.io \"{}\" not found", wanted, wanted);
    return error;
  }
  const Json tmpl = parse_object(found);
  std::string base = fmt::format("{}-{}-", get_string(pod, "metadata.name"), get_string(entry, "name"));
  if (base.size() > kLongestBase) base.resize(kLongestBase);
  Json claim = JsonObject{{"apiVersion", "resource.k8s.io/v1"}, {"kind", "ResourceClaim"}};
  Json& metadata = claim.get_object()["metadata"] = JsonObject{{"generateName", base}, {"namespace", ns}};
  for (const char* field : {"labels", "annotations"}) {
    const Json* given = kube::find_path(tmpl, std::string("spec.metadata.") + field);
    if (given != nullptr) metadata.get_object()[field] = *given;
  }
  kube::ensure_object(metadata, "annotations")[kEntryAnnotation] = get_string(entry, "name");
  metadata.get_object()["ownerReferences"] = JsonArray{controller_ref_to(pod)};
  if (const Json* spec = kube::find_path(tmpl, "spec.spec")) claim.get_object()["spec"] = *spec;
  const auto made = context_.create(kName, claims_resource_, ns, std::move(claim));
  if (!made.ok()) return made.error();
  return std::string((*made)->name());
}

bool ResourceClaimController::tell_names(const Json& pod, const JsonArray& names) {
  const std::string uid(get_string(pod, "metadata.uid"));
  const auto done = context_.modify(
      kName, context_.pod_resource(), get_string(pod, "metadata.namespace"), get_string(pod, "metadata.name"), "status",
      [&](Json& live) -> kube::ApiResult<bool> {
        if (get_string(live, "metadata.uid") != uid) return false;
        JsonArray& list = kube::ensure_array(live, "status.resourceClaimStatuses");
        for (const Json& fresh : names) {
          list.erase(
              std::remove_if(list.begin(), list.end(),
                             [&](const Json& old) { return get_string(old, "name") == get_string(fresh, "name"); }),
              list.end());
          list.push_back(fresh);
        }
        return true;
      });
  return done.ok() || is_moot(done.error());
}

bool ResourceClaimController::reserve(const Json& pod, const std::string& claim) {
  const std::string_view ns = get_string(pod, "metadata.namespace");
  const ObjectRef found = claims_.get(key_of(ns, claim));
  const std::string uid(get_string(pod, "metadata.uid"));
  if (!found) return true;
  const Json known = parse_object(found);
  if (!is_allocated(known) || is_reserved_for(known, uid)) return true;
  const auto done =
      context_.modify(kName, claims_resource_, ns, claim, "status", [&](Json& live) -> kube::ApiResult<bool> {
        if (!is_allocated(live) || is_reserved_for(live, uid)) return false;
        JsonArray& users = kube::ensure_array(live, "status.reservedFor");
        if (users.size() >= kMostReserved) return false;
        users.push_back(JsonObject{{"resource", "pods"}, {"name", get_string(pod, "metadata.name")}, {"uid", uid}});
        return true;
      });
  return done.ok() || is_moot(done.error());
}

// ---- claims

// A claim may be told of before the pod that has it: who is not known yet is looked up.
bool ResourceClaimController::is_done(std::string_view ns, std::string_view name, std::string_view uid) const {
  const std::string key = key_of(ns, name);
  const PodInfo* pod = context_.pods().find(key);
  if (pod != nullptr && !pod_is_done(*pod, uid)) return false;
  const ObjectRef now = context_.store().get(context_.pod_resource().store_kind, key);
  return !now || pod_is_done(parse_pod(now), uid);
}

SyncResult ResourceClaimController::sync_claim(const std::string& key) {
  const ObjectRef object = claims_.get(key);
  if (!object) return SyncResult::done();
  Json claim = parse_object(object);
  if (!release(claim)) return SyncResult::retry();
  const ObjectRef after = claims_.get(key);
  if (!after) return SyncResult::done();
  claim = parse_object(after);
  if (!is_allocated(claim) && has_finalizer(claim, kClaimFinalizer) && !drop_finalizer(claim))
    return SyncResult::retry();
  const auto owner = owning_pod(claim);
  if (!owner || is_deleting(claim) || !is_done(object->ns(), owner->name, owner->uid)) return SyncResult::done();
  const auto removed = context_.remove(kName, claims_resource_, object->ns(), object->name(),
                                       {.uid_precondition = std::string(get_string(claim, "metadata.uid"))});
  return removed.ok() || is_moot(removed.error()) || removed.error().code == 409 ? SyncResult::done()
                                                                                 : SyncResult::retry();
}

// Whoever is done has it no longer; what nobody has is free.
bool ResourceClaimController::release(const Json& claim) {
  const std::string ns(get_string(claim, "metadata.namespace"));
  const auto is_stale = [this, &ns](const Json& user) {
    return is_pod(user) && is_done(ns, get_string(user, "name"), get_string(user, "uid"));
  };
  const JsonArray* known = get_array(claim, "status.reservedFor");
  const bool stale = known != nullptr && std::any_of(known->begin(), known->end(), is_stale);
  const bool unused = (known == nullptr || known->empty()) && is_deleting(claim) && is_allocated(claim);
  if (!stale && !unused) return true;
  const auto done = context_.modify(kName, claims_resource_, ns, get_string(claim, "metadata.name"), "status",
                                    [&](Json& live) -> kube::ApiResult<bool> {
                                      JsonArray& users = kube::ensure_array(live, "status.reservedFor");
                                      const size_t before = users.size();
                                      users.erase(std::remove_if(users.begin(), users.end(), is_stale), users.end());
                                      if (!users.empty()) return users.size() != before;
                                      if (before == 0 && !is_deleting(live)) return false;
                                      kube::erase_path(live, "status.reservedFor");
                                      kube::erase_path(live, "status.allocation");
                                      kube::erase_path(live, "status.devices");
                                      return true;
                                    });
  return done.ok() || is_moot(done.error());
}

bool ResourceClaimController::drop_finalizer(const Json& claim) {
  const auto done = context_.modify(kName, claims_resource_, get_string(claim, "metadata.namespace"),
                                    get_string(claim, "metadata.name"), "", [](Json& live) -> kube::ApiResult<bool> {
                                      return !is_allocated(live) && remove_finalizer(live, kClaimFinalizer);
                                    });
  return done.ok() || is_moot(done.error());
}

}  // namespace ghostfleet::controlplane::controllers
