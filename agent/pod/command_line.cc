#include "agent/pod/command_line.h"

#include <algorithm>

namespace ghostfleet::agent {

using kube::find_key;
using kube::find_path;
using kube::get_array;
using kube::get_int;
using kube::get_string;
using kube::Json;
using kube::JsonArray;

namespace {

const JsonArray& list_of(const Json& value, std::string_view path) {
  static const JsonArray kEmpty;
  const JsonArray* found = get_array(value, path);
  return found != nullptr ? *found : kEmpty;
}

std::vector<std::string> words_of(const Json& value, std::string_view path) {
  std::vector<std::string> out;
  for (const Json& word : list_of(value, path)) {
    if (word.is_string()) out.emplace_back(std::string_view(word.get_string()));
  }
  return out;
}

// "metadata.labels['x']" is x of metadata.labels; a path without brackets is itself.
std::optional<std::string> field_of(const Json& pod, std::string_view path) {
  const size_t open = path.find("['");
  if (open != std::string_view::npos && path.ends_with("']")) {
    const Json* map = find_path(pod, path.substr(0, open));
    // Names of labels hold dots: they are keys, not paths.
    const Json* value = map != nullptr ? find_key(*map, path.substr(open + 2, path.size() - open - 4)) : nullptr;
    return value != nullptr && value->is_string() ? std::string(value->get_string().c_str()) : std::string();
  }
  const bool known = path == "metadata.name" || path == "metadata.namespace" || path == "metadata.uid" ||
                     path == "spec.nodeName" || path == "spec.serviceAccountName";
  return known ? std::optional<std::string>(get_string(pod, path)) : std::nullopt;
}

std::optional<std::string> value_of(const Json& pod, const Json& variable, const CommandLine& line) {
  if (find_key(variable, "valueFrom") != nullptr)
    return field_of(pod, get_string(variable, "valueFrom.fieldRef.fieldPath"));
  std::string out;
  if (!expand_variables(get_string(variable, "value"), line, &out)) return std::nullopt;
  return out;
}

const Json* volume_named(const Json& pod, std::string_view name) {
  for (const Json& volume : list_of(pod, "spec.volumes")) {
    if (get_string(volume, "name") == name) return &volume;
  }
  return nullptr;
}

void read_mounts(const Json& pod, const Json& container, CommandLine* out) {
  for (const Json& mount : list_of(container, "volumeMounts")) {
    const Json* volume = volume_named(pod, get_string(mount, "name"));
    const bool empty = volume != nullptr && find_key(*volume, "emptyDir") != nullptr &&
                       get_string(mount, "subPath").empty() && get_string(mount, "subPathExpr").empty();
    std::string path(get_string(mount, "mountPath"));
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    (empty ? out->volumes : out->mounts).push_back(std::move(path));
  }
}

void apply_plan(const CommandPlan& plan, Script* script) {
  script->exits.clear();
  script->afters.clear();
  script->messages.clear();
  for (const CommandAttempt& attempt : plan.attempts) {
    script->exits.push_back(attempt.exit.value_or(kRunsOn));
    script->afters.push_back(attempt.after);
    script->messages.push_back(attempt.message);
  }
  script->stop = plan.stop;
  script->stop_after = plan.stop_after;
  script->command_log = plan.log;
}

// A number, or the name of one of the container's ports; 0: neither.
int port_of(const Json& container, const Json* port) {
  if (port == nullptr) return 0;
  if (port->is_int64()) return static_cast<int>(std::clamp<int64_t>(port->get_int64(), 0, 65535));
  for (const Json& known : list_of(container, "ports")) {
    if (port->is_string() && get_string(known, "name") == std::string_view(port->get_string())) {
      return static_cast<int>(std::clamp<int64_t>(get_int(known, "containerPort"), 0, 65535));
    }
  }
  return 0;
}

void apply_probe(const CommandModel& model, const Json& container, std::string_view field, ProbeSpec* probe) {
  if (!probe->present) return;
  const Json* json = find_key(container, field);
  if (probe->handler != ProbeHandler::kExec) {
    const bool http = probe->handler == ProbeHandler::kHttp;
    const bool grpc = probe->handler == ProbeHandler::kGrpc;
    const int port = port_of(container, find_path(*json, http   ? "httpGet.port"
                                                         : grpc ? "grpc.port"
                                                                : "tcpSocket.port"));
    const bool elsewhere = !get_string(*json, http ? "httpGet.host" : "tcpSocket.host").empty();
    if (port != 0 && !elsewhere) probe->window = model.port_probe(port, grpc, get_string(*json, "httpGet.path"));
    return;
  }
  const Duration timeout = std::chrono::seconds(std::clamp<int64_t>(get_int(*json, "timeoutSeconds", 1), 1, 1000000));
  probe->window = model.exec_probe(words_of(*json, "exec.command"), timeout);
}

}  // namespace

CommandLine read_command_line(const Json& pod, const Json& container) {
  CommandLine line;
  line.image = get_string(container, "image");
  line.command = words_of(container, "command");
  line.args = words_of(container, "args");
  for (const Json& variable : list_of(container, "env")) {
    std::optional<std::string> value = value_of(pod, variable, line);
    line.env[std::string(get_string(variable, "name"))] = std::move(value);
  }
  read_mounts(pod, container, &line);
  const std::string_view path = get_string(container, "terminationMessagePath");
  if (!path.empty()) line.message_path = path;
  line.message_from_log = get_string(container, "terminationMessagePolicy") == "FallbackToLogsOnError";
  return line;
}

void apply_command_model(const Json& pod, const Json& container, ContainerSpec* out) {
  const Json* annotations = find_path(pod, "metadata.annotations");
  if (annotations != nullptr && find_key(*annotations, std::string(kBehaviorPrefix) + out->name) != nullptr) return;
  const CommandModel model(read_command_line(pod, container));
  if (!model.plan()) return;
  apply_plan(*model.plan(), &out->script);
  apply_probe(model, container, "startupProbe", &out->probes[static_cast<int>(ProbeKind::kStartup)]);
  apply_probe(model, container, "readinessProbe", &out->probes[static_cast<int>(ProbeKind::kReadiness)]);
  apply_probe(model, container, "livenessProbe", &out->probes[static_cast<int>(ProbeKind::kLiveness)]);
}

bool depends_on_metadata(const Json& pod) {
  for (const std::string_view list : {"spec.initContainers", "spec.containers", "spec.ephemeralContainers"}) {
    for (const Json& container : list_of(pod, list)) {
      for (const Json& variable : list_of(container, "env")) {
        if (find_path(variable, "valueFrom.fieldRef") != nullptr) return true;
      }
    }
  }
  return false;
}

}  // namespace ghostfleet::agent
