#include "controlplane/apiserver/strategies/pod_warnings.h"

#include <fmt/format.h>

#include <map>

#include "controlplane/apiserver/strategies/resources.h"
#include "controlplane/apiserver/strategies/validation.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

struct SeenPort {
  std::string where;
  const Json* port;
};

// What is collected over all containers of a pod.
struct PortBook {
  std::map<std::string, std::vector<SeenPort>> by_number;
  std::map<std::string_view, std::string> by_name;
};

bool is_fractional(std::string_view text) {
  if (text.empty()) return false;
  char last = text.back();
  if (last != 'm' && last != 'u' && last != 'n') return false;
  return quantity_of(text).milli_value() % 1000 != 0;
}

void warn_about_bytes(const Json& container, const std::string& path, RequestContext& request) {
  const Json* resources = member(container, "resources");
  if (resources == nullptr) return;
  for (std::string_view name : {"memory", "ephemeral-storage"}) {
    for (std::string_view part : {"limits", "requests"}) {
      std::string_view text = quantity_text(member(*resources, part), name);
      if (!is_fractional(text)) continue;
      request.warn(fmt::format("{}.resources.{}[{}]: fractional byte value \"{}\" is invalid, must be an integer", path,
                               part, name, text));
    }
  }
}

void warn_about_env(const Json& container, const std::string& path, RequestContext& request) {
  const JsonArray* env = array_of(container, "env");
  if (env == nullptr || env->size() < 2) return;
  std::map<std::string_view, bool> seen;
  for (size_t i = 0; i < env->size(); ++i) {
    std::string_view name = text_of((*env)[i], "name");
    if (!seen.emplace(name, true).second) {
      std::string reference = fmt::format("$({})", name);
      std::string_view value = text_of((*env)[i], "value");
      bool hides = member((*env)[i], "valueFrom") != nullptr || value == reference ||
                   value.find(reference) == std::string_view::npos;
      if (hides) {
        request.warn(fmt::format(
            "{}.env[{}]: hides previous definition of \"{}\", which may be dropped when using apply", path, i, name));
      }
    }
  }
}

std::string_view clash_of(const Json& port, const Json& other) {
  int64_t host = int_of(port, "hostPort");
  int64_t other_host = int_of(other, "hostPort");
  std::string_view ip = text_of(port, "hostIP");
  std::string_view other_ip = text_of(other, "hostIP");
  if (ip == other_ip && host == other_host) return "duplicate";
  if (host == 0 || other_host == 0) return "overlapping";
  if (host == other_host && ip.empty() != other_ip.empty()) return "dangerously ambiguous";
  return {};
}

void warn_about_ports(const Json& container, const std::string& path, PortBook& book, RequestContext& request) {
  const JsonArray* ports = array_of(container, "ports");
  if (ports == nullptr) return;
  for (size_t i = 0; i < ports->size(); ++i) {
    const Json& port = (*ports)[i];
    std::string where = fmt::format("{}.ports[{}]", path, i);
    auto& others = book.by_number[fmt::format("{}/{}", int_of(port, "containerPort"), text_of(port, "protocol"))];
    for (const SeenPort& other : others) {
      std::string_view clash = clash_of(port, *other.port);
      if (!clash.empty()) request.warn(fmt::format("{}: {} port definition with {}", where, clash, other.where));
    }
    others.push_back({where, &port});
  }
}

void warn_about_port_names(const Json& container, const std::string& path, PortBook& book, RequestContext& request) {
  const JsonArray* ports = array_of(container, "ports");
  for (size_t i = 0; ports != nullptr && i < ports->size(); ++i) {
    std::string_view name = text_of((*ports)[i], "name");
    if (name.empty()) continue;
    std::string where = fmt::format("{}.ports[{}]", path, i);
    auto [it, fresh] = book.by_name.emplace(name, where);
    if (fresh) continue;
    request.warn(
        fmt::format("{}: duplicate port name \"{}\" with {}, services and probes that select ports by name "
                    "will use {}",
                    where, name, it->second, it->second));
  }
}

template <class Visit>
void visit_containers(const Json& spec, std::string_view path, Visit visit) {
  for (std::string_view key : {"initContainers", "containers", "ephemeralContainers"}) {
    const JsonArray* list = array_of(spec, key);
    for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
      visit((*list)[i], fmt::format("{}.{}[{}]", path, key, i));
    }
  }
}

void warn_about_names(const Json& spec, std::string_view path, std::string_view list_key, std::string_view name_key,
                      RequestContext& request) {
  const JsonArray* list = array_of(spec, list_key);
  std::map<std::string_view, bool> seen;
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    std::string_view name = text_of((*list)[i], name_key);
    if (!seen.emplace(name, true).second) {
      request.warn(fmt::format("{}.{}[{}].{}: duplicate {} \"{}\"", path, list_key, i, name_key, name_key, name));
    }
  }
}

void warn_about_spread(const Json& spec, std::string_view path, RequestContext& request) {
  const JsonArray* list = array_of(spec, "topologySpreadConstraints");
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    if (member((*list)[i], "labelSelector") == nullptr) {
      request.warn(fmt::format(
          "{}.topologySpreadConstraints[{}].labelSelector: a null labelSelector results in matching no pod", path, i));
    }
  }
}

void warn_about_affinity(const Json& spec, std::string_view path, RequestContext& request) {
  const Json* affinity = member(spec, "affinity");
  if (affinity == nullptr) return;
  constexpr std::string_view kRequired = "requiredDuringSchedulingIgnoredDuringExecution";
  for (std::string_view kind : {"podAffinity", "podAntiAffinity"}) {
    const Json* part = member(*affinity, kind);
    const JsonArray* terms = part == nullptr ? nullptr : array_of(*part, kRequired);
    for (size_t i = 0; terms != nullptr && i < terms->size(); ++i) {
      if (member((*terms)[i], "labelSelector") == nullptr) {
        request.warn(fmt::format("{}.affinity.{}.{}[{}].labelSelector: a null labelSelector results in matching no pod",
                                 path, kind, kRequired, i));
      }
    }
  }
}

}  // namespace

void warn_about_pod_spec(const Json& spec, std::string_view path, RequestContext& request) {
  warn_about_spread(spec, path, request);
  warn_about_names(spec, path, "hostAliases", "ip", request);
  warn_about_names(spec, path, "imagePullSecrets", "name", request);
  visit_containers(spec, path, [&request](const Json& container, const std::string& where) {
    warn_about_bytes(container, where, request);
    warn_about_env(container, where, request);
  });
  PortBook book;
  visit_containers(spec, path, [&](const Json& c, const std::string& at) { warn_about_ports(c, at, book, request); });
  visit_containers(spec, path,
                   [&](const Json& c, const std::string& at) { warn_about_port_names(c, at, book, request); });
  if (int_of(spec, "terminationGracePeriodSeconds") < 0) {
    request.warn(fmt::format(
        "{}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1", path));
  }
  warn_about_affinity(spec, path, request);
}

void warn_about_pod(const Json& pod, RequestContext& request) {
  if (const Json* spec = member(pod, "spec")) warn_about_pod_spec(*spec, "spec", request);
}

}  // namespace ghostfleet::controlplane
