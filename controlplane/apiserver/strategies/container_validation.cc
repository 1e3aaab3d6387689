// Containers: regular, init and ephemeral ones.
#include <fmt/format.h>

#include "controlplane/apiserver/strategies/pod_validation.h"
#include "controlplane/apiserver/strategies/resources.h"
#include "kube/api/names.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr std::string_view kOneHandler = "may not specify more than 1 handler type";
constexpr std::string_view kNotForInit = "may not be set for init containers without restartPolicy=Always";
constexpr std::string_view kNotEphemeral = "cannot be set for an Ephemeral Container";

bool printable_without_equals(std::string_view text) {
  for (char c : text) {
    if (c < ' ' || c > '~' || c == '=') return false;
  }
  return true;
}

bool has_outer_space(std::string_view text) {
  auto space = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f'; };
  return !text.empty() && (space(text.front()) || space(text.back()));
}

void check_ports(const Json& container, const Path& path, Findings& out) {
  const JsonArray* ports = array_of(container, "ports");
  if (ports == nullptr) return;
  NameSet names;
  for (size_t i = 0; i < ports->size(); ++i) {
    const Json& port = (*ports)[i];
    Path at = path.child("ports", i);
    if (std::string_view name = text_of(port, "name"); !name.empty()) {
      std::vector<std::string> messages = kube::check_port_name(name);
      out.messages(at.child("name"), name, messages);
      if (messages.empty() && !names.insert(name).second) out.duplicate(at.child("name"), name);
    }
    const Json* number = member(port, "containerPort");
    if (number == nullptr || as_int(*number) == 0) {
      out.required(at.child("containerPort"));
    } else {
      check_port(*number, at.child("containerPort"), out);
    }
    if (const Json* host = member(port, "hostPort"); host != nullptr && as_int(*host) != 0) {
      check_port(*host, at.child("hostPort"), out);
    }
    if (std::string_view protocol = text_of(port, "protocol"); !one_of(protocol, {"TCP", "UDP", "SCTP"})) {
      out.not_supported(at.child("protocol"), protocol, {"SCTP", "TCP", "UDP"});
    }
  }
}

void check_resource_field_ref(const Json& ref, const Path& path, Findings& out) {
  std::string_view resource = text_of(ref, "resource");
  if (resource.empty()) {
    out.required(path.child("resource"));
    return;
  }
  if (one_of(resource, {"limits.cpu", "limits.memory", "limits.ephemeral-storage", "requests.cpu", "requests.memory",
                        "requests.ephemeral-storage"}) ||
      resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-")) {
    return;
  }
  out.not_supported(path.child("resource"), resource,
                    {"limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu",
                     "requests.ephemeral-storage", "requests.memory"});
}

void check_key_ref(const Json& ref, const Path& path, Findings& out) {
  if (text_of(ref, "name").empty()) out.required(path.child("name"));
  std::string_view key = text_of(ref, "key");
  if (key.empty()) {
    out.required(path.child("key"));
  } else {
    out.messages(path.child("key"), key, kube::check_config_map_key(key));
  }
}

void check_value_from(const Json& env, const Path& env_path, Findings& out) {
  const Json* from = member(env, "valueFrom");
  if (from == nullptr) return;
  Path path = env_path.child("valueFrom");
  int sources = 0;
  if (const Json* ref = member(*from, "fieldRef")) {
    ++sources;
    check_field_ref(*ref, path.child("fieldRef"), false, out);
  }
  if (const Json* ref = member(*from, "resourceFieldRef")) {
    ++sources;
    check_resource_field_ref(*ref, path.child("resourceFieldRef"), out);
  }
  for (std::string_view key : {"configMapKeyRef", "secretKeyRef"}) {
    if (const Json* ref = member(*from, key)) {
      ++sources;
      check_key_ref(*ref, path.child(key), out);
    }
  }
  if (member(*from, "fileKeyRef") != nullptr) ++sources;
  if (sources == 0) {
    out.invalid_text(path, "",
                     "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or "
                     "`fileKeyRef`");
  } else if (!text_of(env, "value").empty()) {
    out.invalid_text(path, "", "may not be specified when `value` is not empty");
  } else if (sources > 1) {
    out.invalid_text(path, "", "may not have more than one field specified at a time");
  }
}

void check_env(const Json& container, const Path& path, Findings& out) {
  const JsonArray* list = array_of(container, "env");
  if (list == nullptr) return;
  for (size_t i = 0; i < list->size(); ++i) {
    const Json& env = (*list)[i];
    Path at = path.child("env", i);
    std::string_view name = text_of(env, "name");
    if (name.empty()) {
      out.required(at.child("name"));
    } else if (!printable_without_equals(name)) {
      out.invalid_text(
          at.child("name"), name,
          "a valid environment variable name must consist only of printable ASCII characters other than '='");
    }
    check_value_from(env, at, out);
  }
}

void check_env_from(const Json& container, const Path& path, Findings& out) {
  const JsonArray* list = array_of(container, "envFrom");
  if (list == nullptr) return;
  Path at = path.child("envFrom");
  for (size_t i = 0; i < list->size(); ++i) {
    const Json& source = (*list)[i];
    Path item = path.child("envFrom", i);
    int sources = 0;
    for (std::string_view key : {"configMapRef", "secretRef"}) {
      const Json* ref = member(source, key);
      if (ref == nullptr) continue;
      ++sources;
      Path ref_path = item.child(key);
      if (text_of(*ref, "name").empty()) out.required(ref_path.child("name"));
    }
    if (sources == 0) {
      out.invalid_text(at, "", "must specify one of: `configMapRef` or `secretRef`");
    } else if (sources > 1) {
      out.invalid_text(at, "", "may not have more than one field specified at a time");
    }
  }
}

bool steps_back(std::string_view path) {
  size_t start = 0;
  while (start <= path.size()) {
    size_t end = path.find('/', start);
    if (end == std::string_view::npos) end = path.size();
    if (path.substr(start, end - start) == "..") return true;
    start = end + 1;
  }
  return false;
}

void check_sub_path(const Json& mount, std::string_view key, const Path& mounts, Findings& out) {
  std::string_view path = text_of(mount, key);
  if (path.empty()) return;
  if (path[0] == '/') out.invalid_text(mounts.child(key), path, "must be a relative path");
  if (steps_back(path)) out.invalid_text(mounts.child(key), path, "must not contain '..'");
}

void check_mounts(const Json& container, const Path& path, const NameSet& volumes, Findings& out) {
  const JsonArray* mounts = array_of(container, "volumeMounts");
  if (mounts == nullptr) return;
  Path mounts_path = path.child("volumeMounts");
  NameSet paths;
  for (size_t i = 0; i < mounts->size(); ++i) {
    const Json& mount = (*mounts)[i];
    Path at = path.child("volumeMounts", i);
    std::string_view name = text_of(mount, "name");
    if (name.empty()) out.required(at.child("name"));
    if (!volumes.contains(name)) out.not_found(at.child("name"), name);
    std::string_view where = text_of(mount, "mountPath");
    if (where.empty()) out.required(at.child("mountPath"));
    if (!paths.insert(where).second) out.invalid_text(at.child("mountPath"), where, "must be unique");
    check_sub_path(mount, "subPath", mounts_path, out);
    if (!text_of(mount, "subPathExpr").empty() && !text_of(mount, "subPath").empty()) {
      out.invalid_text(at.child("subPathExpr"), text_of(mount, "subPathExpr"),
                       "subPathExpr and subPath are mutually exclusive");
    }
    check_sub_path(mount, "subPathExpr", mounts_path, out);
  }
}

void check_devices(const Json& container, const Path& path, const NameSet& volumes, Findings& out) {
  const JsonArray* devices = array_of(container, "volumeDevices");
  if (devices == nullptr) return;
  for (size_t i = 0; i < devices->size(); ++i) {
    Path at = path.child("volumeDevices", i);
    std::string_view name = text_of((*devices)[i], "name");
    if (name.empty()) out.required(at.child("name"));
    if (!volumes.contains(name)) out.not_found(at.child("name"), name);
    if (text_of((*devices)[i], "devicePath").empty()) out.required(at.child("devicePath"));
  }
}

void check_security_context(const Json& container, const Path& path, const PodRules& rules, Findings& out) {
  const Json* context = member(container, "securityContext");
  if (context == nullptr) return;
  Path at = path.child("securityContext");
  bool privileged = bool_of(*context, "privileged");
  if (privileged && !rules.allow_privileged) out.forbidden(at.child("privileged"), "disallowed by cluster policy");
  for (std::string_view key : {"runAsUser", "runAsGroup"}) {
    const Json* id = member(*context, key);
    if (id != nullptr && (as_int(*id) < 0 || as_int(*id) > 2147483647)) {
      out.invalid_number(at.child(key), as_int(*id), "must be between 0 and 2147483647, inclusive");
    }
  }
  const Json* escalation = member(*context, "allowPrivilegeEscalation");
  if (privileged && escalation != nullptr && escalation->is_bool() && !escalation->get_bool()) {
    out.invalid(at, json_text(*context), "cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
  }
}

void check_common(const Json& container, const Path& path, const NameSet& volumes, const PodRules& rules,
                  Findings& out) {
  std::string_view name = text_of(container, "name");
  if (name.empty()) {
    out.required(path.child("name"));
  } else {
    out.messages(path.child("name"), name, kube::check_dns1123_label(name));
  }
  if (text_of(container, "image").empty()) out.required(path.child("image"));
  std::string_view policy = text_of(container, "terminationMessagePolicy");
  if (!one_of(policy, {"File", "FallbackToLogsOnError"})) {
    out.not_supported(path.child("terminationMessagePolicy"), policy, {"File", "FallbackToLogsOnError"});
  }
  check_ports(container, path, out);
  check_env(container, path, out);
  check_env_from(container, path, out);
  check_mounts(container, path, volumes, out);
  check_devices(container, path, volumes, out);
  std::string_view pull = text_of(container, "imagePullPolicy");
  if (!one_of(pull, {"Always", "IfNotPresent", "Never"})) {
    out.not_supported(path.child("imagePullPolicy"), pull, {"Always", "IfNotPresent", "Never"});
  }
  check_requirements(member(container, "resources"), path.child("resources"), out);
  check_security_context(container, path, rules, out);
}

void check_http_get(const Json& http, const Path& path, Findings& out) {
  static const Json kZero = 0;
  const Json* port = member(http, "port");
  check_port(port == nullptr ? kZero : *port, path.child("port"), out);
  std::string_view scheme = text_of(http, "scheme");
  if (!one_of(scheme, {"HTTP", "HTTPS"})) out.not_supported(path.child("scheme"), scheme, {"HTTP", "HTTPS"});
}

void check_handler(const Json& handler, const Path& path, Findings& out) {
  int count = 0;
  for (std::string_view key : {"exec", "httpGet", "tcpSocket", "grpc", "sleep"}) {
    const Json* action = member(handler, key);
    if (action == nullptr) continue;
    Path at = path.child(key);
    if (++count > 1) {
      out.forbidden(at, kOneHandler);
      continue;
    }
    if (key == "exec") {
      const JsonArray* command = array_of(*action, "command");
      if (command == nullptr || command->empty()) out.required(at.child("command"));
    } else if (key == "httpGet") {
      check_http_get(*action, at, out);
    } else if (key == "tcpSocket" || key == "grpc") {
      static const Json kZero = 0;
      const Json* port = member(*action, "port");
      check_port(port == nullptr ? kZero : *port, at.child("port"), out);
    }
  }
  if (count == 0) out.required(path, "must specify a handler type");
}

enum class ProbeKind : unsigned char { kLiveness, kReadiness, kStartup };

void check_probe(const Json& container, std::string_view key, ProbeKind kind, const Path& path, Findings& out) {
  const Json* probe = member(container, key);
  if (probe == nullptr) return;
  Path at = path.child(key);
  check_handler(*probe, at, out);
  for (std::string_view number :
       {"initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"}) {
    check_not_negative(*probe, number, at, out);
  }
  check_positive(*probe, "terminationGracePeriodSeconds", at, out);
  if (kind == ProbeKind::kReadiness) {
    if (const Json* grace = member(*probe, "terminationGracePeriodSeconds")) {
      out.invalid_number(at.child("terminationGracePeriodSeconds"), as_int(*grace),
                         "must not be set for readinessProbes");
    }
  } else if (int64_t n = int_of(*probe, "successThreshold", 1); n != 1) {
    out.invalid_number(at.child("successThreshold"), n, "must be 1");
  }
}

void check_life(const Json& container, const Path& path, Findings& out) {
  if (const Json* lifecycle = member(container, "lifecycle")) {
    Path at = path.child("lifecycle");
    for (std::string_view key : {"postStart", "preStop"}) {
      if (const Json* handler = member(*lifecycle, key)) check_handler(*handler, at.child(key), out);
    }
  }
  check_probe(container, "livenessProbe", ProbeKind::kLiveness, path, out);
  check_probe(container, "readinessProbe", ProbeKind::kReadiness, path, out);
  check_probe(container, "startupProbe", ProbeKind::kStartup, path, out);
}

void check_restart_policy(const Json& container, const Path& path, Findings& out) {
  const Json* policy = member(container, "restartPolicy");
  if (policy == nullptr) {
    if (const JsonArray* rules = array_of(container, "restartPolicyRules"); rules != nullptr && !rules->empty()) {
      out.required(path.child("restartPolicy"), "must specify restartPolicy when restart rules are used");
    }
  } else if (!one_of(as_text(*policy), {"Always", "Never", "OnFailure"})) {
    out.not_supported(path.child("restartPolicy"), as_text(*policy), {"Always", "Never", "OnFailure"});
  }
}

// `indexed`: findings name the list and the number; init containers are looked at one by one.
void check_host_ports(const Json& container, const Path& path, std::set<std::string>& taken, Findings& out) {
  const JsonArray* ports = array_of(container, "ports");
  if (ports == nullptr) return;
  for (size_t i = 0; i < ports->size(); ++i) {
    const Json& port = (*ports)[i];
    int64_t number = int_of(port, "hostPort");
    if (number == 0) continue;
    std::string text = fmt::format("{}/{}/{}", text_of(port, "protocol"), text_of(port, "hostIP"), number);
    Path at = path.child("ports", i);
    if (!taken.insert(text).second) out.duplicate(at.child("hostPort"), text);
  }
}

void check_regular(const JsonArray& list, const Path& path, const NameSet& volumes, const PodRules& rules,
                   Findings& out) {
  NameSet names;
  for (size_t i = 0; i < list.size(); ++i) {
    Path at = path.child("containers", i);
    check_common(list[i], at, volumes, rules, out);
    std::string_view name = text_of(list[i], "name");
    if (!names.insert(name).second) out.duplicate(at.child("name"), name);
    check_life(list[i], at, out);
    check_restart_policy(list[i], at, out);
  }
  std::set<std::string> taken;
  for (size_t i = 0; i < list.size(); ++i) check_host_ports(list[i], path.child("containers", i), taken, out);
}

void check_init(const JsonArray& list, const Path& path, const NameSet& volumes, const PodRules& rules, NameSet& names,
                Findings& out) {
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& container = list[i];
    Path at = path.child("initContainers", i);
    check_common(container, at, volumes, rules, out);
    check_restart_policy(container, at, out);
    std::string_view name = text_of(container, "name");
    if (!name.empty() && !names.insert(name).second) out.duplicate(at.child("name"), name);
    std::set<std::string> taken;
    check_host_ports(container, at, taken, out);
    if (text_of(container, "restartPolicy") == "Always") {
      check_life(container, at, out);
      continue;
    }
    for (std::string_view key : {"lifecycle", "livenessProbe", "readinessProbe", "startupProbe"}) {
      if (member(container, key) != nullptr) out.forbidden(at.child(key), kNotForInit);
    }
  }
}

void check_image_space(const Json& container, const Path& path, Findings& out) {
  std::string_view image = text_of(container, "image");
  if (has_outer_space(image)) {
    out.invalid_text(path.child("image"), image, "must not have leading or trailing whitespace");
  }
}

bool is_set(const Json& container, std::string_view key) {
  const Json* value = member(container, key);
  if (value == nullptr) return false;
  if (value->is_object()) return !value->get_object().empty();
  if (value->is_array()) return !value->get_array().empty();
  return true;
}

void check_ephemeral(const JsonArray& list, const Path& path, const NameSet& volumes, const PodRules& rules,
                     NameSet& names, Findings& out) {
  NameSet others = names;
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& container = list[i];
    Path at = path.child("ephemeralContainers", i);
    check_common(container, at, volumes, rules, out);
    check_image_space(container, at, out);
    std::string_view name = text_of(container, "name");
    if (!names.insert(name).second) out.duplicate(at.child("name"), name);
    std::string_view target = text_of(container, "targetContainerName");
    if (!target.empty() && !others.contains(target)) out.not_found(at.child("targetContainerName"), target);
    for (std::string_view key : {"ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules",
                                 "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"}) {
      if (is_set(container, key)) out.forbidden(at.child(key), kNotEphemeral);
    }
  }
}

}  // namespace

void check_field_ref(const Json& ref, const Path& path, bool volume, Findings& out) {
  std::string_view field = text_of(ref, "fieldPath");
  if (field.empty()) {
    out.required(path.child("fieldPath"));
    return;
  }
  size_t bracket = field.find("['");
  if (bracket != std::string_view::npos && field.ends_with("']")) {
    std::string_view base = field.substr(0, bracket);
    if (base == "metadata.annotations" || base == "metadata.labels") {
      std::string_view key = field.substr(bracket + 2, field.size() - bracket - 4);
      out.messages(path, key, kube::check_qualified_name(key));
    } else {
      out.invalid_text(path, base, "does not support subscript");
    }
    return;
  }
  bool known = one_of(field, {"metadata.name", "metadata.namespace", "metadata.uid"});
  if (known) return;
  bool of_env = one_of(field, {"spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs",
                               "status.podIP", "status.podIPs"});
  bool of_volume = one_of(field, {"metadata.labels", "metadata.annotations"});
  if (volume ? of_volume : of_env) return;
  if (!of_env && !of_volume && field != "spec.restartPolicy" && field != "spec.schedulerName" &&
      field != "status.phase") {
    out.invalid_text(path.child("fieldPath"), field,
                     fmt::format("error converting fieldPath: field label not supported: {}", field));
  } else if (volume) {
    out.not_supported(
        path.child("fieldPath"), field,
        {"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"});
  } else {
    out.not_supported(path.child("fieldPath"), field,
                      {"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
                       "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"});
  }
}

void check_all_containers(const Json& spec, const Path& path, const NameSet& volumes, const PodRules& rules,
                          Findings& out) {
  const JsonArray* regular = array_of(spec, "containers");
  if (regular == nullptr || regular->empty()) {
    out.required(path.child("containers"));
  } else {
    check_regular(*regular, path, volumes, rules, out);
  }
  const JsonArray* init = array_of(spec, "initContainers");
  const JsonArray* ephemeral = array_of(spec, "ephemeralContainers");
  if (init == nullptr && ephemeral == nullptr) return;
  NameSet names;
  if (regular != nullptr) {
    for (const Json& container : *regular) names.insert(text_of(container, "name"));
  }
  if (init != nullptr) check_init(*init, path, volumes, rules, names, out);
  if (ephemeral != nullptr) check_ephemeral(*ephemeral, path, volumes, rules, names, out);
}

// Only Pods are looked at this closely; templates keep what they always accepted.
void check_image_spaces(const Json& spec, const Path& path, Findings& out) {
  for (std::string_view key : {"containers", "initContainers"}) {
    const JsonArray* list = array_of(spec, key);
    if (list == nullptr) continue;
    for (size_t i = 0; i < list->size(); ++i) check_image_space((*list)[i], path.child(key, i), out);
  }
}

}  // namespace ghostfleet::controlplane
