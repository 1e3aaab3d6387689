// ServiceAccount, Priority, DefaultTolerationSeconds, RuntimeClass.
#include <fmt/format.h>

#include <atomic>

#include "controlplane/apiserver/admission/lookup.h"
#include "controlplane/apiserver/admission/plugins.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/workload_common.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr std::string_view kTokenPath = "/var/run/secrets/kubernetes.io/serviceaccount";
constexpr std::string_view kVolumePrefix = "kube-api-access-";
constexpr std::string_view kNameLetters = "bcdfghjklmnpqrstvwxz2456789";
constexpr int64_t kTokenSeconds = 3607;

// Five letters that differ from pod to pod; no secret.
std::string name_suffix() {
  static std::atomic<uint64_t> counter{0x9e3779b97f4a7c15ULL};
  uint64_t x = counter.fetch_add(0x9e3779b97f4a7c15ULL, std::memory_order_relaxed);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  x ^= x >> 31;
  std::string out;
  for (int i = 0; i < 5; ++i, x /= kNameLetters.size()) out.push_back(kNameLetters[x % kNameLetters.size()]);
  return out;
}

Json token_volume(const std::string& name) {
  JsonObject token{{"expirationSeconds", kTokenSeconds}, {"path", "token"}};
  JsonObject ca{{"name", "kube-root-ca.crt"}, {"items", JsonArray{JsonObject{{"key", "ca.crt"}, {"path", "ca.crt"}}}}};
  JsonObject field{{"apiVersion", "v1"}, {"fieldPath", "metadata.namespace"}};
  JsonObject where{{"items", JsonArray{JsonObject{{"path", "namespace"}, {"fieldRef", std::move(field)}}}}};
  JsonArray sources{JsonObject{{"serviceAccountToken", std::move(token)}}, JsonObject{{"configMap", std::move(ca)}},
                    JsonObject{{"downwardAPI", std::move(where)}}};
  JsonObject projected{{"sources", std::move(sources)}, {"defaultMode", 420}};
  return JsonObject{{"name", name}, {"projected", std::move(projected)}};
}

bool mounts_token_path(const Json& container) {
  const JsonArray* mounts = array_of(container, "volumeMounts");
  for (size_t i = 0; mounts != nullptr && i < mounts->size(); ++i) {
    if (text_of((*mounts)[i], "mountPath") == kTokenPath) return true;
  }
  return false;
}

bool mount_token(Json& spec, std::string_view key, const std::string& volume) {
  Json* list = member(spec, key);
  if (list == nullptr || !list->is_array()) return false;
  bool used = false;
  for (Json& container : list->get_array()) {
    if (!container.is_object() || mounts_token_path(container)) continue;
    Json& mounts = container.get_object()["volumeMounts"];
    if (!mounts.is_array()) mounts = JsonArray();
    mounts.get_array().push_back(JsonObject{{"name", volume}, {"readOnly", true}, {"mountPath", kTokenPath}});
    used = true;
  }
  return used;
}

void add_token_volume(Json& spec) {
  std::string name;
  const JsonArray* volumes = array_of(spec, "volumes");
  for (size_t i = 0; volumes != nullptr && i < volumes->size(); ++i) {
    std::string_view existing = text_of((*volumes)[i], "name");
    if (existing.starts_with(kVolumePrefix)) name = existing;
  }
  bool there = !name.empty();
  if (!there) name = std::string(kVolumePrefix) + name_suffix();
  bool used = mount_token(spec, "initContainers", name);
  used = mount_token(spec, "containers", name) || used;
  if (!used || there) return;
  Json& list = spec.get_object()["volumes"];
  if (!list.is_array()) list = JsonArray();
  list.get_array().push_back(token_volume(name));
}

// Does the account say anything beside its name? Most do not, and are not parsed.
bool is_plain_account(const Object& account) {
  return account.json.find("\"automountServiceAccountToken\"") == std::string::npos &&
         account.json.find("\"imagePullSecrets\"") == std::string::npos;
}

bool wants_token(const Json& spec, const Json& account) {
  const Json* of_pod = member(spec, "automountServiceAccountToken");
  if (of_pod != nullptr && of_pod->is_bool()) return of_pod->get_bool();
  const Json* of_account = member(account, "automountServiceAccountToken");
  return of_account == nullptr || !of_account->is_bool() || of_account->get_bool();
}

}  // namespace

Admitted admit_service_account(Json& pod, StrategyContext& ctx) {
  JsonObject& spec = make_spec(pod);
  Json& view = pod.get_object()["spec"];
  const Json* annotations = member(metadata_of(pod), "annotations");
  if (annotations != nullptr && member(*annotations, "kubernetes.io/config.mirror") != nullptr) return true;
  default_text(spec, "serviceAccountName", "default");
  std::string name(text_of(view, "serviceAccountName"));
  spec["serviceAccount"] = name;
  ObjectRef found = stored(ctx.api, KnownKind::kServiceAccounts, ctx.ns, name);
  if (found == nullptr) {
    return refuse(
        ctx, pod,
        fmt::format("error looking up service account {}/{}: serviceaccount \"{}\" not found", ctx.ns, name, name));
  }
  Json account = JsonObject();
  if (!is_plain_account(*found)) {
    auto parsed = kube::parse_json(found->json);
    if (parsed.ok()) account = std::move(*parsed);
  }
  if (wants_token(view, account)) add_token_volume(view);
  const JsonArray* own = array_of(view, "imagePullSecrets");
  if (own == nullptr || own->empty()) {
    const Json* secrets = member(account, "imagePullSecrets");
    if (secrets != nullptr) spec["imagePullSecrets"] = *secrets;
  }
  return true;
}

Admitted admit_priority(Json& pod, StrategyContext& ctx) {
  JsonObject& spec = make_spec(pod);
  std::string name(text_of(spec_of(pod), "priorityClassName"));
  int64_t priority = 0;
  std::string policy = "PreemptLowerPriority";
  Json chosen;
  if (name.empty()) {
    chosen = stored_with(ctx.api, KnownKind::kPriorityClasses, "\"globalDefault\":true",
                         [](const Json& candidate) { return bool_of(candidate, "globalDefault"); });
    if (!chosen.is_null()) spec["priorityClassName"] = name_of(chosen);
  } else {
    chosen = stored_json(ctx.api, KnownKind::kPriorityClasses, "", name);
    if (chosen.is_null()) return refuse(ctx, pod, fmt::format("no PriorityClass with name {} was found", name));
  }
  if (!chosen.is_null()) {
    priority = int_of(chosen, "value");
    if (std::string_view p = text_of(chosen, "preemptionPolicy"); !p.empty()) policy = p;
  }
  const Json* given = spec.if_contains("priority");
  if (given != nullptr && !given->is_null() && as_int(*given) != priority) {
    return refuse(ctx, pod,
                  fmt::format("the integer value of priority ({}) must not be provided in pod spec; priority admission "
                              "controller computed {} from the given PriorityClass name",
                              as_int(*given), priority));
  }
  spec["priority"] = priority;
  const Json* given_policy = spec.if_contains("preemptionPolicy");
  if (given_policy != nullptr && !given_policy->is_null() && as_text(*given_policy) != policy) {
    return refuse(ctx, pod,
                  fmt::format("the string value of PreemptionPolicy ({}) must not be provided in pod spec; priority "
                              "admission controller computed {} from the given PriorityClass name",
                              as_text(*given_policy), policy));
  }
  spec["preemptionPolicy"] = policy;
  return true;
}

void add_default_tolerations(Json& pod) {
  constexpr std::string_view kKeys[] = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"};
  JsonObject& spec = make_spec(pod);
  for (std::string_view key : kKeys) {
    Json& list = spec["tolerations"];
    if (!list.is_array()) list = JsonArray();
    bool tolerated = false;
    for (const Json& t : list.get_array()) {
      std::string_view its_key = text_of(t, "key");
      std::string_view effect = text_of(t, "effect");
      if ((its_key == key || its_key.empty()) && (effect.empty() || effect == "NoExecute")) tolerated = true;
    }
    if (tolerated) continue;
    list.get_array().push_back(
        JsonObject{{"key", key}, {"operator", "Exists"}, {"effect", "NoExecute"}, {"tolerationSeconds", 300}});
  }
}

Admitted admit_runtime_class(Json& pod, StrategyContext& ctx) {
  JsonObject& spec = make_spec(pod);
  std::string name(text_of(spec_of(pod), "runtimeClassName"));
  const Json* overhead = spec.if_contains("overhead");
  bool has_overhead = overhead != nullptr && overhead->is_object() && !overhead->get_object().empty();
  if (name.empty()) {
    if (!has_overhead) return true;
    return refuse(ctx, pod, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead");
  }
  Json chosen = stored_json(ctx.api, KnownKind::kRuntimeClasses, "", name);
  if (chosen.is_null()) return refuse(ctx, pod, fmt::format("pod rejected: RuntimeClass \"{}\" not found", name));
  const Json* declared = member(chosen, "overhead");
  const Json* fixed = declared == nullptr ? nullptr : member(*declared, "podFixed");
  if (fixed != nullptr) {
    if (has_overhead && !kube::json_equal(*overhead, *fixed)) {
      return refuse(ctx, pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead");
    }
    spec["overhead"] = *fixed;
  }
  const Json* scheduling = member(chosen, "scheduling");
  if (scheduling == nullptr) return true;
  if (const JsonObject* selector = object_of(*scheduling, "nodeSelector")) {
    JsonObject& own = object_in(spec, "nodeSelector");
    for (const auto& entry : *selector) {
      const Json* value = own.if_contains(entry.key());
      if (value != nullptr && *value != entry.value()) {
        return refuse(ctx, pod,
                      "pod rejected: conflict: runtimeClass.scheduling.nodeSelector conflicts with "
                      "pod.spec.nodeSelector");
      }
      own[entry.key()] = entry.value();
    }
  }
  if (const JsonArray* tolerations = array_of(*scheduling, "tolerations")) {
    Json& list = spec["tolerations"];
    if (!list.is_array()) list = JsonArray();
    for (const Json& t : *tolerations) {
      bool there = false;
      for (const Json& own : list.get_array()) there = there || kube::json_equal(own, t);
      if (!there) list.get_array().push_back(t);
    }
  }
  return true;
}

}  // namespace ghostfleet::controlplane
