#include "controlplane/apiserver/strategies/pod_validation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "controlplane/apiserver/strategies/resources.h"
#include "kube/api/names.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr int64_t kMaxInt32 = 2147483647;

void check_host_network(const Json& spec, const Path& path, bool is_pod, Findings& out) {
  if (!bool_of(spec, "hostNetwork")) return;
  const JsonArray* containers = array_of(spec, "containers");
  for (size_t i = 0; containers != nullptr && i < containers->size(); ++i) {
    const JsonArray* ports = array_of((*containers)[i], "ports");
    Path container = path.child("containers", i);
    for (size_t k = 0; ports != nullptr && k < ports->size(); ++k) {
      int64_t host = int_of((*ports)[k], "hostPort");
      if ((is_pod || host != 0) && host != int_of((*ports)[k], "containerPort")) {
        Path port = container.child("ports", k);
        out.invalid_number(port.child("hostPort"), host, "must match `containerPort` when `hostNetwork` is true");
      }
    }
  }
}

void check_dns(const Json& spec, const Path& path, Findings& out) {
  std::string_view policy = text_of(spec, "dnsPolicy");
  if (!one_of(policy, {"ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"})) {
    out.not_supported(path.child("dnsPolicy"), policy, {"ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"});
  }
}

void check_dns_config(const Json& spec, const Path& path, Findings& out) {
  const Json* config = member(spec, "dnsConfig");
  Path at = path.child("dnsConfig");
  const JsonArray* servers = config == nullptr ? nullptr : array_of(*config, "nameservers");
  if (text_of(spec, "dnsPolicy") == "None") {
    if (config == nullptr) {
      out.required(at, "must provide `dnsConfig` when `dnsPolicy` is None");
    } else if (servers == nullptr || servers->empty()) {
      out.required(at.child("nameservers"), "must provide at least one DNS nameserver when `dnsPolicy` is None");
    }
  }
  if (servers == nullptr) return;
  if (servers->size() > 3) {
    out.invalid(at.child("nameservers"), json_text(*servers), "must not have more than 3 nameservers");
  }
  for (size_t i = 0; i < servers->size(); ++i) {
    if (!kube::is_valid_ip(as_text((*servers)[i]))) {
      out.invalid_text(at.child("nameservers", i), as_text((*servers)[i]), "must be valid IP address");
    }
  }
}

void check_security(const Json& spec, const Path& path, Findings& out) {
  const Json* context = member(spec, "securityContext");
  if (context == nullptr) return;
  Path at = path.child("securityContext");
  for (std::string_view key : {"fsGroup", "runAsUser", "runAsGroup"}) {
    const Json* id = member(*context, key);
    if (id != nullptr && (as_int(*id) < 0 || as_int(*id) > kMaxInt32)) {
      out.invalid_number(at.child(key), as_int(*id), "must be between 0 and 2147483647, inclusive");
    }
  }
  if (bool_of(spec, "shareProcessNamespace") && bool_of(spec, "hostPID")) {
    out.invalid(at.child("shareProcessNamespace"), "true", "ShareProcessNamespace and HostPID cannot both be enabled");
  }
}

void check_gates(const Json& spec, const Path& path, Findings& out) {
  const JsonArray* gates = array_of(spec, "schedulingGates");
  if (gates == nullptr) return;
  NameSet seen;
  for (size_t i = 0; i < gates->size(); ++i) {
    Path at = path.child("schedulingGates", i);
    std::string_view name = text_of((*gates)[i], "name");
    out.messages(at.child("name"), name, kube::check_qualified_name(name));
    if (!seen.insert(name).second) out.duplicate(at, name);
  }
}

// "null" or the text, as it stands in a Go object that is shown as JSON.
std::string shown_text(const Json& object, std::string_view key) {
  const std::string_view text = text_of(object, key);
  return text.empty() ? "null" : quoted(text);
}

NameSet check_pod_claims(const Json& spec, const Path& path, Findings& out) {
  NameSet names;
  const JsonArray* claims = array_of(spec, "resourceClaims");
  for (size_t i = 0; claims != nullptr && i < claims->size(); ++i) {
    const Json& claim = (*claims)[i];
    const Path at = path.child("resourceClaims", i);
    const std::string_view name = text_of(claim, "name"), of = text_of(claim, "resourceClaimName"),
                           from = text_of(claim, "resourceClaimTemplateName");
    if (name.empty()) {
      out.required(at.child("name"));
    } else if (!names.insert(name).second) {
      out.duplicate(at.child("name"), name);
    } else {
      out.messages(at.child("name"), name, kube::check_dns1123_label(name));
    }
    if (of.empty() == from.empty()) {
      out.invalid(at,
                  fmt::format(R"({{"Name":{},"ResourceClaimName":{},"ResourceClaimTemplateName":{}}})", quoted(name),
                              shown_text(claim, "resourceClaimName"), shown_text(claim, "resourceClaimTemplateName")),
                  of.empty() ? "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
                             : "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified");
    }
    if (!of.empty()) out.messages(at.child("resourceClaimName"), of, kube::check_dns1123_subdomain(of));
    if (!from.empty()) out.messages(at.child("resourceClaimTemplateName"), from, kube::check_dns1123_subdomain(from));
  }
  return names;
}

// Claims that a container uses, whole or by request, each once.
void check_container_claims(const Json& container, const Path& path, const NameSet& names, Findings& out) {
  const Json* resources = member(container, "resources");
  const JsonArray* claims = resources == nullptr ? nullptr : array_of(*resources, "claims");
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (size_t i = 0; claims != nullptr && i < claims->size(); ++i) {
    const std::string_view name = text_of((*claims)[i], "name"), request = text_of((*claims)[i], "request");
    const Path resources_path = path.child("resources"), at = resources_path.child("claims", i);
    if (name.empty()) {
      out.required(at);
      continue;
    }
    const auto same = [&](const auto& one) {
      return one.first == name && (one.second.empty() || request.empty() || one.second == request);
    };
    if (std::any_of(seen.begin(), seen.end(), same)) out.duplicate(at, name);
    seen.insert({name, request});
    if (names.contains(name)) continue;
    out.not_found(at, name,
                  fmt::format("must be one of the names in pod.spec.resourceClaims{}{}",
                              names.empty() ? " which is empty" : ": ", fmt::join(names, ", ")));
  }
}

void check_claims(const Json& spec, const Path& path, Findings& out) {
  const NameSet names = check_pod_claims(spec, path, out);
  for (const std::string_view list : {"containers", "initContainers"}) {
    const JsonArray* containers = array_of(spec, list);
    for (size_t i = 0; containers != nullptr && i < containers->size(); ++i) {
      check_container_claims((*containers)[i], path.child(list, i), names, out);
    }
  }
}

void check_names(const Json& spec, const Path& path, Findings& out) {
  if (std::string_view name = text_of(spec, "serviceAccountName"); !name.empty()) {
    out.messages(path.child("serviceAccountName"), name, kube::check_dns1123_subdomain(name));
  }
  if (std::string_view name = text_of(spec, "nodeName"); !name.empty()) {
    out.messages(path.child("nodeName"), name, kube::check_dns1123_subdomain(name));
  }
  if (const Json* deadline = member(spec, "activeDeadlineSeconds")) {
    int64_t n = as_int(*deadline);
    if (n < 1 || n > kMaxInt32) {
      out.invalid_number(path.child("activeDeadlineSeconds"), n, "must be between 1 and 2147483647, inclusive");
    }
  }
  for (std::string_view key : {"hostname", "subdomain"}) {
    std::string_view name = text_of(spec, key);
    if (!name.empty()) out.messages(path.child(key), name, kube::check_dns1123_label(name));
  }
  check_tolerations(spec, path, out);
  for (std::string_view key : {"priorityClassName", "runtimeClassName"}) {
    std::string_view name = text_of(spec, key);
    if (!name.empty()) out.messages(path.child(key), name, kube::check_dns1123_subdomain(name));
  }
  if (const Json* policy = member(spec, "preemptionPolicy")) {
    if (!one_of(as_text(*policy), {"PreemptLowerPriority", "Never"})) {
      out.not_supported(path.child("preemptionPolicy"), as_text(*policy), {"PreemptLowerPriority", "Never"});
    }
  }
}

}  // namespace

void check_pod_spec(const Json& spec, const Path& path, const PodRules& rules, Findings& out) {
  NameSet volumes = check_volumes(spec, path, out);
  check_all_containers(spec, path, volumes, rules, out);
  check_host_network(spec, path, rules.is_pod, out);
  std::string_view restart = text_of(spec, "restartPolicy");
  if (!one_of(restart, {"Always", "OnFailure", "Never"})) {
    out.not_supported(path.child("restartPolicy"), restart, {"Always", "OnFailure", "Never"});
  }
  check_dns(spec, path, out);
  check_labels(member(spec, "nodeSelector"), path.child("nodeSelector"), out);
  check_security(spec, path, out);
  check_affinity(spec, path, out);
  check_dns_config(spec, path, out);
  check_gates(spec, path, out);
  check_claims(spec, path, out);
  check_spread_constraints(spec, path, out);
  check_names(spec, path, out);
  if (const Json* overhead = member(spec, "overhead")) check_resource_list(overhead, path.child("overhead"), out);
  if (rules.is_pod) check_image_spaces(spec, path, out);
}

void check_template(const Json& template_object, const Path& path, const PodRules& rules, Findings& out) {
  static const Json kEmpty = JsonObject();
  const Json* metadata = member(template_object, "metadata");
  if (metadata != nullptr) {
    Path meta = path.child("metadata");
    check_labels(member(*metadata, "labels"), meta.child("labels"), out);
    check_annotations(member(*metadata, "annotations"), meta.child("annotations"), out);
  }
  const Json* spec = member(template_object, "spec");
  Path spec_path = path.child("spec");
  check_pod_spec(spec == nullptr ? kEmpty : *spec, spec_path, rules, out);
  const JsonArray* ephemeral = spec == nullptr ? nullptr : array_of(*spec, "ephemeralContainers");
  if (ephemeral != nullptr && !ephemeral->empty()) {
    out.forbidden(spec_path.child("ephemeralContainers"), "ephemeral containers not allowed in pod template");
  }
}

}  // namespace ghostfleet::controlplane
