// PodSecurity: the baseline and restricted levels a namespace asks for by labels.
#include <fmt/format.h>

#include <functional>

#include "controlplane/apiserver/admission/lookup.h"
#include "controlplane/apiserver/admission/plugins.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/workload_common.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr std::string_view kPrefix = "pod-security.kubernetes.io/";

enum class Level : unsigned char { kPrivileged, kBaseline, kRestricted };

struct LevelVersion {
  Level level = Level::kPrivileged;
  std::string version = "latest";
};

std::string_view level_name(Level level) {
  if (level == Level::kBaseline) return "baseline";
  return level == Level::kRestricted ? "restricted" : "privileged";
}

bool parse_level(std::string_view text, Level* level) {
  for (Level l : {Level::kPrivileged, Level::kBaseline, Level::kRestricted}) {
    if (text == level_name(l)) {
      *level = l;
      return true;
    }
  }
  return false;
}

// Containers of all three lists that a test picks, by name.
using Names = std::vector<std::string_view>;
using Test = std::function<bool(const Json& container)>;

Names pick(const Json& spec, const Test& test) {
  Names names;
  for (std::string_view key : {"initContainers", "containers", "ephemeralContainers"}) {
    const JsonArray* list = array_of(spec, key);
    for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
      if (test((*list)[i])) names.push_back(text_of((*list)[i], "name"));
    }
  }
  return names;
}

std::string quoted_list(const Names& names) {
  std::string out;
  for (std::string_view name : names) {
    if (!out.empty()) out += ", ";
    out += quoted(name);
  }
  return out;
}

std::string containers_text(const Names& names) {
  return fmt::format("{} {}", names.size() == 1 ? "container" : "containers", quoted_list(names));
}

const Json& context_of(const Json& container) {
  static const Json kEmpty = JsonObject();
  const Json* context = member(container, "securityContext");
  return context == nullptr ? kEmpty : *context;
}

// true, false or not set.
int tri_state(const Json& owner, std::string_view key) {
  const Json* value = member(owner, key);
  if (value == nullptr || !value->is_bool()) return -1;
  return value->get_bool() ? 1 : 0;
}

class Evaluation {
 public:
  Evaluation(const Json& spec, Level level) : spec_(spec), restricted_(level == Level::kRestricted) {}

  // Findings joined as a real server joins them; empty: allowed.
  std::string run() {
    if (!restricted_) check_baseline_capabilities();
    check_host_namespaces();
    if (!restricted_) check_host_path();
    check_host_ports();
    check_privileged();
    if (!restricted_) check_baseline_seccomp();
    if (restricted_) check_restricted();
    std::string out;
    for (const std::string& f : findings_) out += (out.empty() ? "" : ", ") + f;
    return out;
  }

 private:
  void add(std::string_view reason, std::string_view detail) {
    findings_.push_back(fmt::format("{} ({})", reason, detail));
  }

  void check_host_namespaces() {
    std::string detail;
    for (std::string_view key : {"hostNetwork", "hostPID", "hostIPC"}) {
      if (bool_of(spec_, key)) detail += fmt::format("{}{}=true", detail.empty() ? "" : ", ", key);
    }
    if (!detail.empty()) add("host namespaces", detail);
  }

  void check_host_path() {
    Names names;
    const JsonArray* volumes = array_of(spec_, "volumes");
    for (size_t i = 0; volumes != nullptr && i < volumes->size(); ++i) {
      if (member((*volumes)[i], "hostPath") != nullptr) names.push_back(text_of((*volumes)[i], "name"));
    }
    if (!names.empty()) {
      add("hostPath volumes", fmt::format("{} {}", names.size() == 1 ? "volume" : "volumes", quoted_list(names)));
    }
  }

  void check_host_ports() {
    std::string ports_text;
    int ports_count = 0;
    Names names = pick(spec_, [&](const Json& container) {
      const JsonArray* ports = array_of(container, "ports");
      bool bad = false;
      for (size_t i = 0; ports != nullptr && i < ports->size(); ++i) {
        int64_t port = int_of((*ports)[i], "hostPort");
        if (port == 0) continue;
        bad = true;
        ++ports_count;
        ports_text += fmt::format("{}{}", ports_text.empty() ? "" : ", ", port);
      }
      return bad;
    });
    if (names.empty()) return;
    add("hostPort", fmt::format("{} {} {} {}", containers_text(names), names.size() == 1 ? "uses" : "use",
                                ports_count == 1 ? "hostPort" : "hostPorts", ports_text));
  }

  void check_privileged() {
    Names names = pick(spec_, [](const Json& c) { return bool_of(context_of(c), "privileged"); });
    if (names.empty()) return;
    add("privileged", fmt::format("{} must not set securityContext.privileged=true", containers_text(names)));
  }

  void check_baseline_capabilities() {
    std::string added;
    Names names = pick(spec_, [&](const Json& c) {
      const Json* caps = member(context_of(c), "capabilities");
      const JsonArray* add_list = caps == nullptr ? nullptr : array_of(*caps, "add");
      bool bad = false;
      for (size_t i = 0; add_list != nullptr && i < add_list->size(); ++i) {
        std::string_view cap = as_text((*add_list)[i]);
        if (one_of(cap, {"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
                         "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"})) {
          continue;
        }
        bad = true;
        added += fmt::format("{}{}", added.empty() ? "" : ", ", quoted(cap));
      }
      return bad;
    });
    if (names.empty()) return;
    add("non-default capabilities",
        fmt::format("{} must not include {} in securityContext.capabilities.add", containers_text(names), added));
  }

  void check_baseline_seccomp() {
    Names names = pick(spec_, [](const Json& c) {
      const Json* profile = member(context_of(c), "seccompProfile");
      return profile != nullptr && text_of(*profile, "type") == "Unconfined";
    });
    if (names.empty()) return;
    add("seccompProfile",
        fmt::format("{} must not set securityContext.seccompProfile.type to \"Unconfined\"", containers_text(names)));
  }

  void check_restricted() {
    Names names = pick(spec_, [](const Json& c) { return tri_state(context_of(c), "allowPrivilegeEscalation") != 0; });
    if (!names.empty()) {
      add("allowPrivilegeEscalation != false",
          fmt::format("{} must set securityContext.allowPrivilegeEscalation=false", containers_text(names)));
    }
    check_restricted_capabilities();
    check_volumes();
    check_non_root();
    check_user();
    check_restricted_seccomp();
  }

  void check_restricted_capabilities() {
    auto has = [](const Json& c, std::string_view part, auto test) {
      const Json* caps = member(context_of(c), "capabilities");
      const JsonArray* list = caps == nullptr ? nullptr : array_of(*caps, part);
      for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
        if (test(as_text((*list)[i]))) return true;
      }
      return false;
    };
    Names missing =
        pick(spec_, [&](const Json& c) { return !has(c, "drop", [](std::string_view cap) { return cap == "ALL"; }); });
    Names adding = pick(spec_, [&](const Json& c) {
      return has(c, "add", [](std::string_view cap) { return cap != "NET_BIND_SERVICE"; });
    });
    std::string detail;
    if (!missing.empty()) {
      detail = fmt::format("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers_text(missing));
    }
    if (!adding.empty()) {
      detail += fmt::format(
          "{}{} must not include capabilities other than \"NET_BIND_SERVICE\" in "
          "securityContext.capabilities.add",
          detail.empty() ? "" : "; ", containers_text(adding));
    }
    if (!detail.empty()) add("unrestricted capabilities", detail);
  }

  void check_volumes() {
    Names names;
    Names types;
    const JsonArray* volumes = array_of(spec_, "volumes");
    for (size_t i = 0; volumes != nullptr && i < volumes->size(); ++i) {
      for (const auto& entry : (*volumes)[i].get_object()) {
        if (entry.key() == "name" || one_of(entry.key(), {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral",
                                                          "image", "persistentVolumeClaim", "projected", "secret"})) {
          continue;
        }
        names.push_back(text_of((*volumes)[i], "name"));
        types.push_back(entry.key());
      }
    }
    if (names.empty()) return;
    add("restricted volume types",
        fmt::format("{} {} {} restricted volume {} {}", names.size() == 1 ? "volume" : "volumes", quoted_list(names),
                    names.size() == 1 ? "uses" : "use", types.size() == 1 ? "type" : "types", quoted_list(types)));
  }

  void check_non_root() {
    int pod = tri_state(context_of(spec_), "runAsNonRoot");
    Names explicitly = pick(spec_, [](const Json& c) { return tri_state(context_of(c), "runAsNonRoot") == 0; });
    Names silent = pick(spec_, [](const Json& c) { return tri_state(context_of(c), "runAsNonRoot") == -1; });
    if (pod == 0 || !explicitly.empty()) {
      std::string who = pod == 0 ? "pod" : "";
      if (!explicitly.empty()) who += (who.empty() ? "" : " and ") + containers_text(explicitly);
      add("runAsNonRoot != true", fmt::format("{} must not set securityContext.runAsNonRoot=false", who));
    } else if (pod != 1 && !silent.empty()) {
      add("runAsNonRoot != true",
          fmt::format("pod or {} must set securityContext.runAsNonRoot=true", containers_text(silent)));
    }
  }

  void check_user() {
    auto is_root = [](const Json& owner) {
      const Json* user = member(context_of(owner), "runAsUser");
      return user != nullptr && as_int(*user) == 0;
    };
    std::string who = is_root(spec_) ? "pod" : "";
    Names names = pick(spec_, is_root);
    if (!names.empty()) who += (who.empty() ? "" : " and ") + containers_text(names);
    if (!who.empty()) add("runAsUser=0", fmt::format("{} must not set runAsUser=0", who));
  }

  // -1 not set, 0 bad, 1 fine.
  static int seccomp_state(const Json& owner) {
    const Json* profile = member(context_of(owner), "seccompProfile");
    if (profile == nullptr) return -1;
    return one_of(text_of(*profile, "type"), {"RuntimeDefault", "Localhost"}) ? 1 : 0;
  }

  void check_restricted_seccomp() {
    int pod = seccomp_state(spec_);
    Names bad = pick(spec_, [](const Json& c) { return seccomp_state(c) == 0; });
    Names silent = pick(spec_, [](const Json& c) { return seccomp_state(c) == -1; });
    constexpr std::string_view kTail =
        "must set securityContext.seccompProfile.type to \"RuntimeDefault\" or "
        "\"Localhost\"";
    if (pod == 0 || !bad.empty()) {
      std::string who = pod == 0 ? "pod" : "";
      if (!bad.empty()) who += (who.empty() ? "" : " and ") + containers_text(bad);
      add("seccompProfile", fmt::format("{} must not set securityContext.seccompProfile.type to \"Unconfined\"", who));
    } else if (pod != 1 && !silent.empty()) {
      add("seccompProfile", fmt::format("pod or {} {}", containers_text(silent), kTail));
    }
  }

  const Json& spec_;
  bool restricted_;
  std::vector<std::string> findings_;
};

// The pod spec inside an object of this kind; null when it carries none.
const Json* pod_spec_of(const StrategyContext& ctx, const Json& object) {
  if (is_kind(ctx, "", "pods")) return member(object, "spec");
  if (is_kind(ctx, "batch", "cronjobs")) {
    const Json* job = member(spec_of(object), "jobTemplate");
    return job == nullptr ? nullptr : member(template_of(spec_of(*job)), "spec");
  }
  if (is_kind(ctx, "", "podtemplates")) return member(template_of(object), "spec");
  bool workload = is_kind(ctx, "apps", "deployments") || is_kind(ctx, "apps", "replicasets") ||
                  is_kind(ctx, "apps", "statefulsets") || is_kind(ctx, "apps", "daemonsets") ||
                  is_kind(ctx, "batch", "jobs") || is_kind(ctx, "", "replicationcontrollers");
  return workload ? member(template_of(spec_of(object)), "spec") : nullptr;
}

LevelVersion level_from(const Json& labels, std::string_view mode, bool* given) {
  LevelVersion out;
  std::string key = fmt::format("{}{}", kPrefix, mode);
  *given = parse_level(text_of(labels, key), &out.level);
  std::string_view version = text_of(labels, key + "-version");
  if (!version.empty()) out.version = version;
  return out;
}

std::string violation(const Json& spec, const LevelVersion& level) {
  if (level.level == Level::kPrivileged) return {};
  return Evaluation(spec, level.level).run();
}

}  // namespace

Admitted check_pod_security(Operation operation, const Json& object, const Json* old, StrategyContext& ctx) {
  const Json* spec = pod_spec_of(ctx, object);
  if (spec == nullptr) return true;
  ObjectRef ns = stored(ctx.api, KnownKind::kNamespaces, "", ctx.ns);
  // Most namespaces carry no such label.
  if (ns == nullptr || ns->json.find(kPrefix) == std::string::npos) return true;
  auto parsed = kube::parse_json(ns->json);
  if (!parsed.ok()) return true;
  const Json* labels = member(metadata_of(*parsed), "labels");
  if (labels == nullptr) return true;
  bool pod = is_kind(ctx, "", "pods");
  if (pod && operation == Operation::kUpdate && old != nullptr && equal_members(object, *old, "spec")) return true;
  bool enforced = false;
  bool warned = false;
  LevelVersion enforce = level_from(*labels, "enforce", &enforced);
  LevelVersion warn = level_from(*labels, "warn", &warned);
  if (!warned && enforced && enforce.level > warn.level) warn = enforce;
  if (pod) {
    std::string text = violation(*spec, enforce);
    if (!text.empty()) {
      return refuse(
          ctx, object,
          fmt::format("violates PodSecurity \"{}:{}\": {}", level_name(enforce.level), enforce.version, text));
    }
  }
  std::string text = violation(*spec, warn);
  if (!text.empty()) {
    ctx.request.warn(
        fmt::format("would violate PodSecurity \"{}:{}\": {}", level_name(warn.level), warn.version, text));
  }
  return true;
}

Admitted check_namespace_labels(const Json& object, const Json* old, StrategyContext& ctx) {
  const Json* labels = member(metadata_of(object), "labels");
  if (labels == nullptr) return true;
  Findings out;
  Path path("metadata.labels");
  for (std::string_view mode : {"enforce", "audit", "warn"}) {
    std::string key = fmt::format("{}{}", kPrefix, mode);
    const Json* value = member(*labels, key);
    if (value == nullptr) continue;
    const Json* old_labels = old == nullptr ? nullptr : member(metadata_of(*old), "labels");
    const Json* before = member(old_labels, key);
    if (before != nullptr && *before == *value) continue;
    Level level;
    if (!parse_level(as_text(*value), &level)) {
      out.invalid_text(path.key(key), as_text(*value), "must be one of privileged, baseline, restricted");
    }
  }
  if (out.empty()) return true;
  return kube::invalid("", ctx.resource.info.kind, name_of(object), out.take());
}

}  // namespace ghostfleet::controlplane
