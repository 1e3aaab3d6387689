#include "agent/pod/pod_template.h"

#include <algorithm>

#include "agent/behavior/behavior_declared.h"
#include "agent/pod/command_line.h"
#include "agent/pod/pod_resources.h"
#include "base/spelling.h"

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
constexpr size_t kMaxProblems = 20;     // annotations that are told to be wrong
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

// A port that is named, but not among the container's.
std::string unknown_port(const Json& container, const Json* port) {
  if (port == nullptr || !port->is_string()) return {};
  const std::string_view name = port->get_string();
  for (const Json& known : array_or_empty(container, "ports")) {
    if (get_string(known, "name") == name) return {};
  }
  return std::string(name);
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
    probe.unknown_port = unknown_port(container, kube::find_path(*json, "httpGet.port"));
  } else if (has("tcpSocket")) {
    probe.handler = ProbeHandler::kTcp;
    probe.unknown_port = unknown_port(container, kube::find_path(*json, "tcpSocket.port"));
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
  probe.grace_seconds = std::clamp<int64_t>(get_int(*json, "terminationGracePeriodSeconds", -1), -1, 1000000000);
  return probe;
}

// Go's %v of a list of strings.
std::string list_words(const JsonArray& list) {
  std::string out = "[";
  for (const Json& word : list) {
    if (out.size() > 1) out += ' ';
    if (word.is_string()) out += std::string_view(word.get_string());
  }
  return out + "]";
}

Hook read_hook(const Json& container, std::string_view path) {
  Hook hook;
  const Json* json = kube::find_path(container, path);
  if (json == nullptr || !json->is_object()) return hook;
  const auto has = [&](std::string_view key) { return kube::find_key(*json, key) != nullptr; };
  if (has("exec")) {
    const JsonArray& command = array_or_empty(*json, "exec.command");
    hook.kind = HookKind::kExec;
    if (!command.empty() && command[0].is_string()) hook.word = word_of(command[0].get_string());
    hook.command = list_words(command);
  } else if (has("httpGet")) {
    hook.kind = HookKind::kHttp;
  } else if (has("sleep")) {
    hook.kind = HookKind::kSleep;
    hook.sleep = seconds_of(*json, "sleep.seconds", 0);
  }
  return hook;
}

void add_variable(const Json* json, ObjectKind kind, ContainerSpec* out) {
  if (json == nullptr || get_string(*json, "name").empty()) return;
  ObjectRef ref;
  ref.kind = kind;
  ref.optional = get_bool(*json, "optional");
  ref.name = get_string(*json, "name");
  if (const std::string_view key = get_string(*json, "key"); !key.empty()) ref.keys.emplace_back(key);
  out->variables.push_back(std::move(ref));
}

void read_variables(const Json& container, ContainerSpec* out) {
  for (const Json& from : array_or_empty(container, "envFrom")) {
    add_variable(kube::find_key(from, "configMapRef"), ObjectKind::kConfigMap, out);
    add_variable(kube::find_key(from, "secretRef"), ObjectKind::kSecret, out);
  }
  for (const Json& env : array_or_empty(container, "env")) {
    add_variable(kube::find_path(env, "valueFrom.configMapKeyRef"), ObjectKind::kConfigMap, out);
    add_variable(kube::find_path(env, "valueFrom.secretKeyRef"), ObjectKind::kSecret, out);
  }
}

bool has_container(const Json& pod, std::string_view name) {
  const auto named = [&](const Json& c) { return get_string(c, "name") == name; };
  const JsonArray& regular = array_or_empty(pod, "spec.containers");
  const JsonArray& init = array_or_empty(pod, "spec.initContainers");
  return std::any_of(regular.begin(), regular.end(), named) || std::any_of(init.begin(), init.end(), named);
}

// A variable that tells the resources of a container which the pod has not.
std::string stray_resource_field(const Json& pod, const Json& container) {
  for (const Json& env : array_or_empty(container, "env")) {
    const std::string_view of = get_string(env, "valueFrom.resourceFieldRef.containerName");
    if (!of.empty() && !has_container(pod, of)) return "container " + std::string(of) + " not found";
  }
  return {};
}

// The first $(NAME) in a sub path whose variable the container has not.
std::string unset_name(std::string_view text, const Json& container) {
  for (size_t at = text.find("$("); at != std::string_view::npos; at = text.find("$(", at)) {
    const size_t end = text.find(')', at);
    if (end == std::string_view::npos) return {};
    const std::string_view name = text.substr(at + 2, end - at - 2);
    const bool escaped = at > 0 && text[at - 1] == '$';
    const JsonArray& env = array_or_empty(container, "env");
    const auto same = [&](const Json& e) { return get_string(e, "name") == name; };
    if (!escaped && std::none_of(env.begin(), env.end(), same)) return std::string(name);
    at = end;
  }
  return {};
}

// Whether envFrom has it only the objects could tell.
std::string stray_sub_path(const Json& container) {
  if (!array_or_empty(container, "envFrom").empty()) return {};
  for (const Json& mount : array_or_empty(container, "volumeMounts")) {
    const std::string name = unset_name(get_string(mount, "subPathExpr"), container);
    if (!name.empty()) return "missing value for " + name;
  }
  return {};
}

std::string read_config_error(const Json& pod, const Json& container) {
  std::string out = stray_resource_field(pod, container);
  return out.empty() ? stray_sub_path(container) : out;
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
    const std::string_view action = get_string(rule, "action");
    if (action != "Restart" && action != "RestartAllContainers") continue;
    RestartRule r;
    r.all = action != "Restart";
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

// One entry for each annotation, and what counts instead.
void add_problems(std::string key, const std::vector<std::string>& problems, std::string_view instead,
                  PodTemplate* out) {
  if (problems.empty()) return;
  std::string text;
  for (const std::string& problem : problems) text += (text.empty() ? "" : "; ") + problem;
  // Of a word that is there twice the first counts, and nothing instead of it.
  if (!text.ends_with("counts")) text += "; " + std::string(instead);
  out->problems.emplace_back(std::move(key), std::move(text));
}

// What a rule says stands between the defaults and the annotation. Default: runs until stopped; an init container, and
// what a Job owns, ends with 0 after a second when nobody says how, or when in words that make sense. `told`: the
// command line need not be asked.
Script read_script(const Json& pod, const Json& json, const ContainerSpec& container, bool job,
                   const BehaviorRules* rules, bool* told, PodTemplate* out) {
  const int rule = rules != nullptr ? rules->find(pod, json) : -1;
  const Histograms* histograms = rules != nullptr ? &rules->histograms() : nullptr;
  *told = rule >= 0 && rules->tells_course(rule);
  const Json* annotations = kube::find_path(pod, "metadata.annotations");
  const std::string key = std::string(kBehaviorPrefix) + container.name;
  const Json* text = annotations != nullptr ? kube::find_key(*annotations, key) : nullptr;
  const bool annotated = text != nullptr && text->is_string();
  Script defaults = rule >= 0 ? rules->apply(rule, {}) : Script{};
  const bool ends = (job && !container.init) || (container.init && !container.sidecar);
  std::vector<std::string> problems;
  const bool says_how =
      !(annotated ? parse_script(text->get_string(), defaults, &problems, histograms) : defaults).exits.empty();
  // A word for the time that makes no sense is no reason to end at once.
  const bool says_when = std::none_of(problems.begin(), problems.end(),
                                      [](const std::string& problem) { return problem.starts_with("after"); });
  if (ends && (!says_how || !says_when)) {
    Script presumed;
    presumed.exits = {0};
    presumed.after = std::chrono::seconds(1);
    defaults = rule >= 0 ? rules->apply(rule, std::move(presumed)) : std::move(presumed);
  }
  if (!annotated) return defaults;
  *told = true;
  problems.clear();
  Script script = parse_script(text->get_string(), std::move(defaults), &problems, histograms);
  const std::string instead =
      rule < 0 ? std::string("the default is used") : "what behaviorRules[" + std::to_string(rule) + "] says is used";
  add_problems(key, problems, instead, out);
  return script;
}

// The annotations that exec reads are checked when the pod comes: nobody may ever look at its files.
void check_declared(const Json& pod, const std::string& container, PodTemplate* out) {
  const Json* annotations = kube::find_path(pod, "metadata.annotations");
  if (annotations == nullptr) return;
  for (const std::string_view prefix : {kFilesPrefix, kExecPrefix}) {
    std::string key = std::string(prefix) + container;
    const Json* text = kube::find_key(*annotations, key);
    if (text == nullptr || !text->is_string()) continue;
    std::vector<std::string> problems;
    if (prefix == kFilesPrefix) {
      read_declared_files(text->get_string(), &problems);
    } else {
      read_declared_answers(text->get_string(), &problems);
    }
    add_problems(std::move(key), problems, "what is wrong is left out", out);
  }
}

bool tells_use(const Script& s) {
  const bool drawn = s.draws != nullptr && s.draws->memory;
  const bool disk = !s.storage.empty() || !s.logs.empty() || !s.inodes.empty() || !s.volumes.empty();
  return drawn || disk || !s.memory.empty() || !s.pids.empty();
}

void read_resize_policy(const Json& container, ContainerSpec* out) {
  for (const Json& policy : array_or_empty(container, "resizePolicy")) {
    if (get_string(policy, "restartPolicy") != "RestartContainer") continue;
    (get_string(policy, "resourceName") == "cpu" ? out->cpu_restarts : out->memory_restarts) = true;
  }
}

// Images are taken to run as root unless the pod says otherwise.
void read_not_root(const Json& pod, const Json& container, ContainerSpec* out) {
  const auto find = [&](std::string_view key) {
    const Json* own = kube::find_path(container, "securityContext." + std::string(key));
    return own != nullptr && !own->is_null() ? own : kube::find_path(pod, "spec.securityContext." + std::string(key));
  };
  const Json* wanted = find("runAsNonRoot");
  if (wanted == nullptr || !wanted->is_bool() || !wanted->get_bool()) return;
  const Json* user = find("runAsUser");
  out->root_by_spec = user != nullptr && user->is_int64() && user->get_int64() == 0;
  out->not_root = out->root_by_spec || user == nullptr || !user->is_int64();
}

// Resources with a domain that is not Kubernetes' own.
std::vector<std::pair<std::string, uint32_t>> read_devices(const Json& container) {
  std::vector<std::pair<std::string, uint32_t>> out;
  const JsonObject* limits = kube::get_object(container, "resources.limits");
  if (limits == nullptr) return out;
  for (const auto& [key, value] : *limits) {
    const std::string_view name = key;
    const std::string_view domain = name.substr(0, name.find('/'));
    if (domain == name || domain == "kubernetes.io" || domain.ends_with(".kubernetes.io")) continue;
    const Amount amount = read_amount(container, "resources.limits", name);
    if (amount.value > 0 && amount.value < 100000) out.emplace_back(name, static_cast<uint32_t>(amount.value));
  }
  return out;
}

ContainerSpec read_container(const Json& pod, const Json& json, bool init, RestartPolicy pod_policy,
                             std::string_view token_volume) {
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
  c.post_start = read_hook(json, "lifecycle.postStart");
  c.pre_stop = read_hook(json, "lifecycle.preStop");
  read_not_root(pod, json, &c);
  read_resize_policy(json, &c);
  read_variables(json, &c);
  c.config_error = read_config_error(pod, json);
  c.resources = render_resources(json);
  c.running_resources = render_running_resources(pod, json);
  c.allocated = render_requests(json);
  c.devices = read_devices(json);
  for (const Json& claim : array_or_empty(json, "resources.claims"))
    c.claims.emplace_back(get_string(claim, "name"), get_string(claim, "request"));
  c.memory_request = read_amount(json, "resources.requests", "memory");
  c.storage_request = read_amount(json, "resources.requests", "ephemeral-storage");
  c.storage_limit = read_amount(json, "resources.limits", "ephemeral-storage");
  c.mounts = render_mounts(json, token_volume);
  return c;
}

void read_object_volume(const Json* source, ObjectKind kind, std::string_view name_field, std::string_view volume,
                        bool projected, PodTemplate* out) {
  if (source == nullptr || get_string(*source, name_field).empty()) return;
  ObjectRef ref;
  ref.kind = kind;
  ref.optional = get_bool(*source, "optional");
  ref.projected = projected;
  ref.name = get_string(*source, name_field);
  for (const Json& item : array_or_empty(*source, "items")) ref.keys.emplace_back(get_string(item, "key"));
  ref.volume = volume;
  out->volumes.push_back(std::move(ref));
}

void read_volumes(const Json& pod, std::string_view token_volume, PodTemplate* out) {
  for (const Json& volume : array_or_empty(pod, "spec.volumes")) {
    std::string name(get_string(volume, "name"));
    if (!token_volume.empty() && name == token_volume) name = std::string(kTokenVolume) + kSuffixMark;
    read_object_volume(kube::find_key(volume, "configMap"), ObjectKind::kConfigMap, "name", name, false, out);
    read_object_volume(kube::find_key(volume, "secret"), ObjectKind::kSecret, "secretName", name, false, out);
    read_object_volume(kube::find_key(volume, "persistentVolumeClaim"), ObjectKind::kClaim, "claimName", name, false,
                       out);
    for (const Json& source : array_or_empty(volume, "projected.sources")) {
      read_object_volume(kube::find_key(source, "configMap"), ObjectKind::kConfigMap, "name", name, true, out);
      read_object_volume(kube::find_key(source, "secret"), ObjectKind::kSecret, "name", name, true, out);
      const Json* token = kube::find_key(source, "serviceAccountToken");
      if (token == nullptr || !token->is_object()) continue;
      out->tokens.push_back({name, std::string(get_string(*token, "audience")),
                             std::clamp<int64_t>(get_int(*token, "expirationSeconds", 3600), 600, 1LL << 32)});
    }
  }
}

void add_host_ports(const Json& container, PodTemplate* out) {
  for (const Json& port : array_or_empty(container, "ports")) {
    // In the node's network a container's ports are the node's.
    const int64_t other = out->host_network ? get_int(port, "containerPort") : 0;
    const int64_t number = get_int(port, "hostPort", other);
    if (number <= 0 || number > 65535) continue;
    const std::string_view protocol = get_string(port, "protocol");
    out->host_ports.push_back({static_cast<int>(number), std::string(protocol.empty() ? "TCP" : protocol),
                               std::string(get_string(port, "hostIP"))});
  }
}

// Those of init containers count only while they stay, as sidecars do.
void read_host_ports(const Json& pod, PodTemplate* out) {
  for (const Json& container : array_or_empty(pod, "spec.initContainers")) {
    if (get_string(container, "restartPolicy") == "Always") add_host_ports(container, out);
  }
  for (const Json& container : array_or_empty(pod, "spec.containers")) add_host_ports(container, out);
}

void read_empty_dirs(const Json& pod, PodTemplate* out) {
  for (const Json& volume : array_or_empty(pod, "spec.volumes")) {
    const Json* source = kube::find_key(volume, "emptyDir");
    if (source == nullptr || !source->is_object()) continue;
    out->empty_dirs.push_back({std::string(get_string(volume, "name")), read_amount(*source, "sizeLimit")});
  }
}

// Name servers count together with the cluster's; a pod without that one may have any that the API server lets it.
void read_nameservers(const Json& pod, PodTemplate* out) {
  const std::string_view policy = get_string(pod, "spec.dnsPolicy");
  const bool cluster =
      policy == "ClusterFirstWithHostNet" || (policy != "None" && policy != "Default" && !out->host_network);
  if (!cluster) return;
  for (const Json& server : array_or_empty(pod, "spec.dnsConfig.nameservers")) {
    if (server.is_string()) out->nameservers.emplace_back(server.get_string());
  }
}

std::vector<uint32_t> sorted_by_name(const PodTemplate& t, size_t from, size_t to) {
  std::vector<uint32_t> out;
  for (size_t i = from; i < to; ++i) out.push_back(static_cast<uint32_t>(i));
  std::stable_sort(out.begin(), out.end(),
                   [&](uint32_t a, uint32_t b) { return t.containers[a].name < t.containers[b].name; });
  return out;
}

constexpr size_t kLongestName = 63;  // a container's
constexpr size_t kShortestWord = 4;  // of which one can say that it is misspelt: d is not a slip for c

std::string without_digits(std::string_view text) {
  std::string out(text);
  std::erase_if(out, [](char c) { return c >= '0' && c <= '9'; });
  return out;
}

// debug-2 is another container than debug-1.
bool misspells(std::string_view name, std::string_view container) {
  return name.size() >= kShortestWord && name.size() <= kLongestName && looks_like(name, container) &&
         without_digits(name) != without_digits(container);
}

// An annotation may be for a debug container that comes later. It is told when the name looks like one of the pod's
// containers, or like what people take for its name.
bool may_mean(std::string_view name, const ContainerSpec& container, std::string_view pod_name) {
  const std::string_view image = std::string_view(container.image).substr(container.image.rfind('/') + 1);
  return misspells(name, container.name) || name == image.substr(0, image.find_first_of(":@")) || name == pod_name ||
         name == "CONTAINER";
}

void tell_strays(const Json& pod, PodTemplate* out) {
  const JsonObject* annotations = kube::get_object(pod, "metadata.annotations");
  if (annotations == nullptr) return;
  std::string names;
  for (const ContainerSpec& c : out->containers) names += (names.empty() ? "" : ", ") + c.name;
  for (const auto& [annotation, text] : *annotations) {
    const std::string_view key = annotation;
    for (const std::string_view prefix : {kBehaviorPrefix, kFilesPrefix, kExecPrefix}) {
      if (!key.starts_with(prefix) || out->problems.size() >= kMaxProblems) continue;
      const std::string_view name = key.substr(prefix.size());
      const auto& all = out->containers;
      if (std::any_of(all.begin(), all.end(), [&](const ContainerSpec& c) { return c.name == name; })) continue;
      const std::string_view pod_name = get_string(pod, "metadata.name");
      if (std::any_of(all.begin(), all.end(), [&](const ContainerSpec& c) { return may_mean(name, c, pod_name); }))
        out->problems.emplace_back(key,
                                   "the pod has no container of this name (there are: " + names.substr(0, 200) + ")");
    }
  }
}

void add_containers(const Json& pod, std::string_view path, std::string_view token_volume, bool commands,
                    const BehaviorRules* rules, PodTemplate* out) {
  const bool init = path == "spec.initContainers";
  const bool ephemeral = path == "spec.ephemeralContainers";
  const bool job = owned_by_job(pod);
  const RestartPolicy policy = ephemeral ? RestartPolicy::kNever : out->restart_policy;
  for (const Json& json : array_or_empty(pod, path)) {
    if (out->containers.size() == kMaxContainers || !json.is_object()) continue;
    out->containers.push_back(read_container(pod, json, init, policy, token_volume));
    ContainerSpec& container = out->containers.back();
    container.ephemeral = ephemeral;
    for (const RestartRule& rule : container.restart_rules) out->restarts_all |= rule.all;
    bool told = false;
    container.script = read_script(pod, json, container, job && !ephemeral, rules, &told, out);
    if (commands && !told) apply_command_model(pod, json, &container);
    check_declared(pod, container.name, out);
    out->uses |= tells_use(container.script);
  }
}

void read_containers(const Json& pod, std::string_view token_volume, bool commands, const BehaviorRules* rules,
                     PodTemplate* out) {
  add_containers(pod, "spec.initContainers", token_volume, commands, rules, out);
  out->init_count = out->containers.size();
  add_containers(pod, "spec.containers", token_volume, commands, rules, out);
  const size_t end = out->containers.size();
  add_containers(pod, "spec.ephemeralContainers", token_volume, commands, rules, out);
  out->ephemeral_count = out->containers.size() - end;
  out->by_name = sorted_by_name(*out, out->init_count, end);
  out->ephemeral = sorted_by_name(*out, end, out->containers.size());
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

std::shared_ptr<const PodTemplate> make_template(const Json& pod, bool commands, const BehaviorRules* rules) {
  auto out = std::make_shared<PodTemplate>();
  const std::string_view suffix = token_suffix(pod);
  const std::string token_volume = suffix.empty() ? std::string() : std::string(kTokenVolume) + std::string(suffix);
  out->restart_policy = parse_policy(get_string(pod, "spec.restartPolicy"));
  out->grace_seconds = std::clamp<int64_t>(get_int(pod, "spec.terminationGracePeriodSeconds", 30), 0, 1000000000);
  out->active_deadline_seconds = std::clamp<int64_t>(get_int(pod, "spec.activeDeadlineSeconds", 0), 0, 1000000000);
  out->priority = get_int(pod, "spec.priority");
  out->host_network = get_bool(pod, "spec.hostNetwork");
  if (get_bool(pod, "spec.setHostnameAsFQDN")) {
    out->full_hostname = {true, std::string(get_string(pod, "spec.hostname")),
                          std::string(get_string(pod, "spec.subdomain"))};
  }
  out->service_account = get_string(pod, "spec.serviceAccountName");
  if (out->service_account.empty()) out->service_account = "default";
  for (const Json& gate : array_or_empty(pod, "spec.readinessGates")) {
    if (out->readiness_gates.size() < 32) out->readiness_gates.emplace_back(get_string(gate, "conditionType"));
  }
  read_containers(pod, token_volume, commands, rules, out.get());
  tell_strays(pod, out.get());
  read_volumes(pod, token_volume, out.get());
  for (const Json& secret : array_or_empty(pod, "spec.imagePullSecrets")) {
    if (const std::string_view name = get_string(secret, "name"); !name.empty()) out->pull_secrets.emplace_back(name);
  }
  read_host_ports(pod, out.get());
  read_nameservers(pod, out.get());
  read_empty_dirs(pod, out.get());
  out->requests = pod_requests(pod);
  out->memory_request = read_amount(pod, "spec.resources.requests", "memory");
  out->storage_limit = pod_limit(pod, "ephemeral-storage");
  out->allocated = render_pod_allocated(pod);
  out->resources = render_pod_resources(pod);
  return out;
}

}  // namespace ghostfleet::agent
