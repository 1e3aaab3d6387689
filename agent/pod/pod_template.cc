#include "agent/pod/pod_template.h"

#include <algorithm>

#include "agent/pod/pod_resources.h"

namespace ghostfleet::agent {

using kube::get_array;
using kube::get_bool;
using kube::get_int;
using kube::get_string;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr std::string_view kTokenVolume = "kube-api-access-";
constexpr size_t kMaxContainers = 500;  // of one pod; more are left out (an API server allows about as many)

const JsonArray& array_or_empty(const Json& value, std::string_view path) {
  static const JsonArray kEmpty;
  const JsonArray* found = get_array(value, path);
  return found != nullptr ? *found : kEmpty;
}

RestartPolicy parse_policy(std::string_view text) {
  if (text == "OnFailure") return RestartPolicy::kOnFailure;
  return text == "Never" ? RestartPolicy::kNever : RestartPolicy::kAlways;
}

bool owned_by_job(const Json& pod) {
  for (const Json& owner : array_or_empty(pod, "metadata.ownerReferences")) {
    if (get_string(owner, "kind") == "Job" && get_bool(owner, "controller")) return true;
  }
  return false;
}

int clamp_count(int64_t value, int fallback) {
  return value < 1 ? fallback : static_cast<int>(std::min<int64_t>(value, 100000));
}

Duration seconds_of(const Json& value, std::string_view path, int64_t fallback) {
  return std::chrono::seconds(std::clamp<int64_t>(get_int(value, path, fallback), 0, 1000000000));
}

ProbeWord word_of(std::string_view first_word) {
  if (first_word == "ready") return ProbeWord::kReady;
  if (first_word == "live") return ProbeWord::kLive;
  return first_word == "started" ? ProbeWord::kStarted : ProbeWord::kNone;
}

ProbeSpec read_probe(const Json& container, std::string_view field, ProbeWord role) {
  ProbeSpec probe;
  const Json* json = kube::find_key(container, field);
  if (json == nullptr || !json->is_object()) return probe;
  probe.present = true;
  probe.word = role;
  const auto has = [&](std::string_view key) { return kube::find_key(*json, key) != nullptr; };
  if (has("httpGet")) {
    probe.handler = ProbeHandler::kHttp;
  } else if (has("tcpSocket")) {
    probe.handler = ProbeHandler::kTcp;
  } else if (has("grpc")) {
    probe.handler = ProbeHandler::kGrpc;
  } else {
    // An exec probe follows the word that it names, whatever its role.
    const JsonArray& command = array_or_empty(*json, "exec.command");
    probe.word = !command.empty() && command[0].is_string() ? word_of(command[0].get_string()) : ProbeWord::kNone;
  }
  probe.period = std::max(seconds_of(*json, "periodSeconds", 10), Duration(std::chrono::seconds(1)));
  probe.initial_delay = seconds_of(*json, "initialDelaySeconds", 0);
  probe.failure_threshold = clamp_count(get_int(*json, "failureThreshold", 3), 3);
  probe.success_threshold = clamp_count(get_int(*json, "successThreshold", 1), 1);
  return probe;
}

void add_variable(const Json* ref, bool secret, ContainerSpec* out) {
  if (ref == nullptr || get_string(*ref, "name").empty()) return;
  out->variables.push_back({secret,
                            get_bool(*ref, "optional"),
                            std::string(get_string(*ref, "name")),
                            std::string(get_string(*ref, "key")),
                            {}});
}

void read_variables(const Json& container, ContainerSpec* out) {
  for (const Json& from : array_or_empty(container, "envFrom")) {
    add_variable(kube::find_key(from, "configMapRef"), false, out);
    add_variable(kube::find_key(from, "secretRef"), true, out);
  }
  for (const Json& env : array_or_empty(container, "env")) {
    add_variable(kube::find_path(env, "valueFrom.configMapKeyRef"), false, out);
    add_variable(kube::find_path(env, "valueFrom.secretKeyRef"), true, out);
  }
}

std::string render_mounts(const Json& container, std::string_view token_volume) {
  std::string out;
  for (const Json& mount : array_or_empty(container, "volumeMounts")) {
    out += out.empty() ? "[" : ",";
    out += "{\"mountPath\":";
    kube::append_json_string(get_string(mount, "mountPath"), &out);
    const std::string_view name = get_string(mount, "name");
    if (!token_volume.empty() && name == token_volume) {
      out += ",\"name\":\"" + std::string(kTokenVolume) + kSuffixMark + "\"";
    } else {
      out += ",\"name\":";
      kube::append_json_string(name, &out);
    }
    if (get_bool(mount, "readOnly")) {
      out += ",\"readOnly\":true,\"recursiveReadOnly\":";
      const std::string_view recursive = get_string(mount, "recursiveReadOnly");
      out += recursive == "Enabled" || recursive == "IfPossible" ? "\"Enabled\"" : "\"Disabled\"";
    }
    out += "}";
  }
  return out.empty() ? out : out + "]";
}

void read_restart_rules(const Json& container, ContainerSpec* out) {
  for (const Json& rule : array_or_empty(container, "restartPolicyRules")) {
    if (get_string(rule, "action") != "Restart") continue;
    RestartRule r;
    r.in = get_string(rule, "exitCodes.operator") != "NotIn";
    for (const Json& code : array_or_empty(rule, "exitCodes.values")) {
      if (code.is_int64()) r.codes.push_back(static_cast<int>(code.get_int64()));
    }
    out->restart_rules.push_back(std::move(r));
  }
}

PullPolicy read_pull_policy(const Json& container) {
  const std::string_view text = get_string(container, "imagePullPolicy");
  if (text == "Always") return PullPolicy::kAlways;
  return text == "Never" ? PullPolicy::kNever : PullPolicy::kIfNotPresent;
}

// Default: runs until stopped; an init container, and what a Job owns, ends with 0 after a second.
Script read_script(const Json& pod, const ContainerSpec& container, bool job, PodTemplate* out) {
  Script defaults;
  if ((job && !container.init) || (container.init && !container.sidecar)) {
    defaults.exits = {0};
    defaults.after = std::chrono::seconds(1);
  }
  const Json* annotations = kube::find_path(pod, "metadata.annotations");
  const std::string key = std::string(kBehaviorPrefix) + container.name;
  const Json* text = annotations != nullptr ? kube::find_key(*annotations, key) : nullptr;
  if (text == nullptr || !text->is_string()) return defaults;
  std::vector<std::string> problems;
  Script script = parse_script(text->get_string(), std::move(defaults), &problems);
  for (std::string& p : problems) out->problems.emplace_back(key, std::move(p));
  return script;
}

ContainerSpec read_container(const Json& json, bool init, RestartPolicy pod_policy, std::string_view token_volume) {
  ContainerSpec c;
  c.name = get_string(json, "name");
  c.image = get_string(json, "image");
  c.init = init;
  const std::string_view own = get_string(json, "restartPolicy");
  c.has_restart_policy = !own.empty();
  c.sidecar = init && own == "Always";
  c.restart_policy = c.has_restart_policy ? parse_policy(own) : pod_policy;
  // A regular init container is run again after a failure even when the pod's policy is Always, never after success.
  if (init && !c.sidecar && c.restart_policy == RestartPolicy::kAlways) c.restart_policy = RestartPolicy::kOnFailure;
  read_restart_rules(json, &c);
  c.pull_policy = read_pull_policy(json);
  c.probes[static_cast<int>(ProbeKind::kStartup)] = read_probe(json, "startupProbe", ProbeWord::kStarted);
  c.probes[static_cast<int>(ProbeKind::kReadiness)] = read_probe(json, "readinessProbe", ProbeWord::kReady);
  c.probes[static_cast<int>(ProbeKind::kLiveness)] = read_probe(json, "livenessProbe", ProbeWord::kLive);
  c.pre_stop_sleep = seconds_of(json, "lifecycle.preStop.sleep.seconds", 0);
  read_variables(json, &c);
  c.resources = render_resources(json);
  c.allocated = render_requests(json);
  c.mounts = render_mounts(json, token_volume);
  return c;
}

void read_object_volume(const Json* source, bool secret, std::string_view name_field, std::string_view volume,
                        PodTemplate* out) {
  if (source == nullptr || get_string(*source, name_field).empty()) return;
  out->volumes.push_back(
      {secret, get_bool(*source, "optional"), std::string(get_string(*source, name_field)), {}, std::string(volume)});
}

void read_volumes(const Json& pod, std::string_view token_volume, PodTemplate* out) {
  for (const Json& volume : array_or_empty(pod, "spec.volumes")) {
    std::string name(get_string(volume, "name"));
    if (!token_volume.empty() && name == token_volume) name = std::string(kTokenVolume) + kSuffixMark;
    read_object_volume(kube::find_key(volume, "configMap"), false, "name", name, out);
    read_object_volume(kube::find_key(volume, "secret"), true, "secretName", name, out);
    for (const Json& source : array_or_empty(volume, "projected.sources")) {
      read_object_volume(kube::find_key(source, "configMap"), false, "name", name, out);
      read_object_volume(kube::find_key(source, "secret"), true, "name", name, out);
      const Json* token = kube::find_key(source, "serviceAccountToken");
      if (token == nullptr || !token->is_object()) continue;
      out->tokens.push_back({name, std::string(get_string(*token, "audience")),
                             std::clamp<int64_t>(get_int(*token, "expirationSeconds", 3600), 600, 1LL << 32)});
    }
  }
}

void read_host_ports(const Json& pod, PodTemplate* out) {
  for (const Json& container : array_or_empty(pod, "spec.containers")) {
    for (const Json& port : array_or_empty(container, "ports")) {
      const int64_t number = get_int(port, "hostPort");
      if (number <= 0 || number > 65535) continue;
      const std::string_view protocol = get_string(port, "protocol");
      out->host_ports.push_back({static_cast<int>(number), std::string(protocol.empty() ? "TCP" : protocol),
                                 std::string(get_string(port, "hostIP"))});
    }
  }
}

void check_annotations(const Json& pod, PodTemplate* out) {
  const JsonObject* annotations = kube::get_object(pod, "metadata.annotations");
  if (annotations == nullptr) return;
  for (const auto& [key, value] : *annotations) {
    const std::string_view k = key;
    if (!k.starts_with(kBehaviorPrefix) || out->problems.size() >= 8) continue;
    const std::string_view name = k.substr(kBehaviorPrefix.size());
    const bool known = std::any_of(out->containers.begin(), out->containers.end(),
                                   [&](const ContainerSpec& c) { return c.name == name; });
    if (!known) out->problems.emplace_back(std::string(k.substr(0, 128)), "the pod has no such container");
  }
}

void read_containers(const Json& pod, std::string_view token_volume, PodTemplate* out) {
  const bool job = owned_by_job(pod);
  for (const bool init : {true, false}) {
    for (const Json& json : array_or_empty(pod, init ? "spec.initContainers" : "spec.containers")) {
      if (out->containers.size() == kMaxContainers || !json.is_object()) continue;
      out->containers.push_back(read_container(json, init, out->restart_policy, token_volume));
      out->containers.back().script = read_script(pod, out->containers.back(), job, out);
    }
    if (init) out->init_count = out->containers.size();
  }
  for (size_t i = out->init_count; i < out->containers.size(); ++i) out->by_name.push_back(static_cast<uint32_t>(i));
  std::stable_sort(out->by_name.begin(), out->by_name.end(),
                   [&](uint32_t a, uint32_t b) { return out->containers[a].name < out->containers[b].name; });
}

}  // namespace

std::string_view token_suffix(const Json& pod) {
  for (const Json& volume : array_or_empty(pod, "spec.volumes")) {
    const std::string_view name = get_string(volume, "name");
    if (name.size() == kTokenVolume.size() + 5 && name.starts_with(kTokenVolume)) {
      return name.substr(kTokenVolume.size());
    }
  }
  return {};
}

std::shared_ptr<const PodTemplate> make_template(const Json& pod) {
  auto out = std::make_shared<PodTemplate>();
  const std::string_view suffix = token_suffix(pod);
  const std::string token_volume = suffix.empty() ? std::string() : std::string(kTokenVolume) + std::string(suffix);
  out->restart_policy = parse_policy(get_string(pod, "spec.restartPolicy"));
  out->grace_seconds = std::clamp<int64_t>(get_int(pod, "spec.terminationGracePeriodSeconds", 30), 0, 1000000000);
  out->active_deadline_seconds = std::clamp<int64_t>(get_int(pod, "spec.activeDeadlineSeconds", 0), 0, 1000000000);
  out->host_network = get_bool(pod, "spec.hostNetwork");
  out->service_account = get_string(pod, "spec.serviceAccountName");
  if (out->service_account.empty()) out->service_account = "default";
  for (const Json& gate : array_or_empty(pod, "spec.readinessGates")) {
    if (out->readiness_gates.size() < 32) out->readiness_gates.emplace_back(get_string(gate, "conditionType"));
  }
  read_containers(pod, token_volume, out.get());
  read_volumes(pod, token_volume, out.get());
  read_host_ports(pod, out.get());
  check_annotations(pod, out.get());
  out->requests = pod_requests(pod);
  out->allocated = render_pod_allocated(pod);
  out->resources = render_pod_resources(pod);
  return out;
}

}  // namespace ghostfleet::agent
