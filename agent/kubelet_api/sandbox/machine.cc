#include "agent/kubelet_api/sandbox/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "agent/device/plugin_model.h"
#include "agent/pod/pod_resources.h"

namespace ghostfleet::kubelet_api {

using kube::find_key;
using kube::get_string;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr size_t kMostMaps = 16;
constexpr int64_t kMostDevices = 1024;  // that a limit alone makes up
constexpr std::string_view kAccountPath = "/var/run/secrets/kubernetes.io/serviceaccount";

// The container's part of the spec; null when there is none.
const Json* container_spec(const Json& pod, std::string_view container) {
  for (const char* list : {"spec.containers", "spec.initContainers", "spec.ephemeralContainers"}) {
    const JsonArray* containers = kube::get_array(pod, list);
    for (size_t i = 0; containers != nullptr && i < containers->size(); ++i) {
      if (get_string((*containers)[i], "name") == container) return &(*containers)[i];
    }
  }
  return nullptr;
}

const JsonArray& array_or_empty(const Json* value, std::string_view path) {
  static const JsonArray empty;
  const JsonArray* found = value == nullptr ? nullptr : kube::get_array(*value, path);
  return found == nullptr ? empty : *found;
}

const Json* volume_of(const Json& pod, std::string_view name) {
  for (const Json& volume : array_or_empty(&pod, "spec.volumes")) {
    if (get_string(volume, "name") == name) return &volume;
  }
  return nullptr;
}

void add_map(std::string_view name, std::vector<std::string>* out) {
  if (name.empty() || out->size() >= kMostMaps || std::find(out->begin(), out->end(), name) != out->end()) return;
  out->emplace_back(name);
}

// ---- fields of the pod

// metadata.labels['a'] and the like.
std::string quoted_key(std::string_view path) {
  const size_t open = path.find('\'');
  const size_t close = path.rfind('\'');
  return open == std::string_view::npos || close <= open ? std::string()
                                                         : std::string(path.substr(open + 1, close - open - 1));
}

std::string map_value(const Json& pod, std::string_view where, std::string_view path) {
  const JsonObject* map = kube::get_object(pod, where);
  const auto it = map == nullptr ? JsonObject::const_iterator() : map->find(quoted_key(path));
  if (map == nullptr || it == map->end() || !it->value().is_string()) return {};
  return std::string(it->value().get_string());
}

std::string map_lines(const Json& pod, std::string_view where) {
  std::string out;
  const JsonObject* map = kube::get_object(pod, where);
  if (map == nullptr) return out;
  for (const auto& [key, value] : *map) {
    if (value.is_string())
      out +=
          fmt::format("{}{}=\"{}\"", out.empty() ? "" : "\n", std::string_view(key), std::string(value.get_string()));
  }
  return out;
}

std::string field_value(const Machine& m, const Json& pod, std::string_view path) {
  if (path.starts_with("metadata.labels['")) return map_value(pod, "metadata.labels", path);
  if (path.starts_with("metadata.annotations['")) return map_value(pod, "metadata.annotations", path);
  if (path == "metadata.labels" || path == "metadata.annotations") return map_lines(pod, path);
  if (path == "status.podIP" || path == "status.podIPs") return m.pod_ip;
  if (path == "status.hostIP" || path == "status.hostIPs") return m.node.identity.internal_ip;
  return std::string(get_string(pod, path));
}

std::string resource_value(const Json& pod, std::string_view container, const Json& ref) {
  const std::string_view named = get_string(ref, "containerName");
  const Json* spec = container_spec(pod, named.empty() ? container : named);
  const std::string_view resource = get_string(ref, "resource");  // "limits.cpu"
  const size_t dot = resource.find('.');
  if (spec == nullptr || dot == std::string_view::npos) return {};
  const JsonObject* amounts = kube::get_object(*spec, "resources." + std::string(resource.substr(0, dot)));
  const std::string_view name = resource.substr(dot + 1);
  const Json* amount = amounts == nullptr ? nullptr : amounts->if_contains(name);
  if (amount == nullptr || !amount->is_string()) return {};
  const int64_t value = agent::amount_of(name, std::string_view(amount->get_string()));
  return std::to_string(name == "cpu" ? (value + 999) / 1000 : value);
}

std::string map_entry(const ConfigMaps& maps, std::string_view name, std::string_view key) {
  const auto it = maps.find(std::string(name));
  const JsonObject* data = it == maps.end() ? nullptr : kube::get_object(it->second, "data");
  const Json* value = data == nullptr ? nullptr : data->if_contains(key);
  return value == nullptr || !value->is_string() ? std::string() : std::string(value->get_string());
}

// ---- variables

void add_variable(Machine& m, const Json& pod, const Json& env, const ConfigMaps& maps) {
  const std::string name(get_string(env, "name"));
  const Json* from = find_key(env, "valueFrom");
  if (from == nullptr) {
    m.variables[name] = get_string(env, "value");
    return;
  }
  if (const Json* ref = find_key(*from, "fieldRef"))
    m.variables[name] = field_value(m, pod, get_string(*ref, "fieldPath"));
  if (const Json* ref = find_key(*from, "resourceFieldRef")) m.variables[name] = resource_value(pod, m.container, *ref);
  if (const Json* ref = find_key(*from, "configMapKeyRef"))
    m.variables[name] = map_entry(maps, get_string(*ref, "name"), get_string(*ref, "key"));
}

void add_all_of_map(Machine& m, const Json& source, const ConfigMaps& maps) {
  const auto it = maps.find(std::string(get_string(source, "configMapRef.name")));
  const JsonObject* data = it == maps.end() ? nullptr : kube::get_object(it->second, "data");
  if (data == nullptr) return;
  for (const auto& [key, value] : *data) {
    if (value.is_string())
      m.variables[std::string(get_string(source, "prefix")) + std::string(key)] = value.get_string();
  }
}

int64_t amount_in(const agent::StringPairs& pairs, std::string_view resource) {
  for (const auto& [name, quantity] : pairs) {
    if (name == resource) return agent::amount_of(resource, quantity);
  }
  return 0;
}

int64_t limit_of(const agent::ContainerView& container, std::string_view resource) {
  const auto resources = kube::parse_json(container.resources);
  const JsonObject* limits = resources.ok() ? kube::get_object(*resources, "limits") : nullptr;
  const Json* amount = limits == nullptr ? nullptr : limits->if_contains(resource);
  if (amount == nullptr || !amount->is_string()) return 0;
  return agent::amount_of(resource, std::string_view(amount->get_string()));
}

void read_answers(Machine& m, const Json& pod) {
  const JsonObject* annotations = kube::get_object(pod, "metadata.annotations");
  const Json* text =
      annotations == nullptr ? nullptr : annotations->if_contains(std::string(kExecPrefix) + m.container);
  if (text == nullptr || !text->is_string()) return;
  for (agent::DeclaredAnswer& answer : agent::read_declared_answers(text->get_string(), nullptr)) {
    m.answers[answer.command] = {std::move(answer.out), std::move(answer.err), answer.exit_code};
  }
}

// ---- files

void provide_text(FileSystem* files, const std::string& root, std::string_view path, std::string content,
                  WallTime when) {
  files->provide(FileSystem::resolve(root, path), std::move(content), when, true);
}

void provide_map(FileSystem* files, const std::string& root, const Json& source, const ConfigMaps& maps,
                 WallTime when) {
  const auto it = maps.find(std::string(get_string(source, "name")));
  const JsonObject* data = it == maps.end() ? nullptr : kube::get_object(it->second, "data");
  if (data == nullptr) return;
  const JsonArray* items = kube::get_array(source, "items");
  if (items == nullptr) {
    for (const auto& [key, value] : *data) {
      if (value.is_string()) provide_text(files, root, std::string_view(key), std::string(value.get_string()), when);
    }
    return;
  }
  for (const Json& item : *items) {
    const Json* value = data->if_contains(get_string(item, "key"));
    if (value != nullptr && value->is_string())
      provide_text(files, root, get_string(item, "path"), std::string(value->get_string()), when);
  }
}

void provide_fields(FileSystem* files, const std::string& root, const Json& source, const Machine& m, const Json& pod) {
  for (const Json& item : array_or_empty(&source, "items")) {
    const Json* field = find_key(item, "fieldRef");
    const Json* resource = find_key(item, "resourceFieldRef");
    std::string value = field != nullptr      ? field_value(m, pod, get_string(*field, "fieldPath"))
                        : resource != nullptr ? resource_value(pod, m.container, *resource)
                                              : std::string();
    provide_text(files, root, get_string(item, "path"), std::move(value), m.started);
  }
}

void provide_projected(FileSystem* files, const std::string& root, const Json& volume, const Machine& m,
                       const Json& pod, const ConfigMaps& maps) {
  for (const Json& source : array_or_empty(&volume, "projected.sources")) {
    if (const Json* map = find_key(source, "configMap")) provide_map(files, root, *map, maps, m.started);
    if (const Json* fields = find_key(source, "downwardAPI")) provide_fields(files, root, *fields, m, pod);
    if (const Json* token = find_key(source, "serviceAccountToken"))
      files->provide_hidden(FileSystem::resolve(root, get_string(*token, "path")), m.started);
  }
}

void provide_mount(FileSystem* files, const Json& mount, const Machine& m, const Json& pod, const ConfigMaps& maps) {
  const std::string root = FileSystem::resolve("/", get_string(mount, "mountPath"));
  const Json* volume = volume_of(pod, get_string(mount, "name"));
  files->provide_directory(root, m.started);
  if (volume == nullptr || find_key(mount, "subPath") != nullptr) return;
  if (const Json* map = find_key(*volume, "configMap")) provide_map(files, root, *map, maps, m.started);
  if (const Json* fields = find_key(*volume, "downwardAPI")) provide_fields(files, root, *fields, m, pod);
  if (find_key(*volume, "projected") != nullptr) provide_projected(files, root, *volume, m, pod, maps);
  const bool fixed = find_key(*volume, "configMap") != nullptr || find_key(*volume, "projected") != nullptr ||
                     find_key(*volume, "secret") != nullptr || find_key(*volume, "downwardAPI") != nullptr ||
                     kube::get_bool(mount, "readOnly");
  if (fixed) files->provide_directory(root, m.started, true);
}

void provide_system(const Machine& m, FileSystem* files) {
  static constexpr std::string_view kDirectories[] = {"/bin",  "/dev", "/etc",     "/home",    "/lib", "/proc", "/root",
                                                      "/sbin", "/sys", "/usr/bin", "/usr/lib", "/var", "/run",  "/tmp"};
  for (const std::string_view path : kDirectories) files->provide_directory(std::string(path), m.started);
  files->provide("/etc/hostname", m.host_name + "\n", m.started);
  files->provide("/etc/hosts",
                 fmt::format("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost "
                             "ip6-loopback\n{}\t{}\n",
                             m.pod_ip, m.host_name),
                 m.started);
  files->provide("/etc/resolv.conf",
                 fmt::format("search {}.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\n"
                             "options ndots:5\n",
                             m.ns),
                 m.started);
  files->provide("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n", m.started);
  files->provide("/etc/os-release",
                 "NAME=\"Ghostfleet container\"\nID=ghostfleet\nPRETTY_NAME=\"Ghostfleet container\"\n", m.started);
  files->provide("/proc/meminfo", fmt::format("MemTotal:       {} kB\n", m.memory_bytes / 1024), m.started, true);
  files->provide("/proc/version", fmt::format("Linux version {}\n", m.node.node->kernel_version), m.started, true);
}

void provide_declared(const Machine& m, const Json& pod, FileSystem* files) {
  const JsonObject* annotations = kube::get_object(pod, "metadata.annotations");
  const Json* text =
      annotations == nullptr ? nullptr : annotations->if_contains(std::string(kFilesPrefix) + m.container);
  if (text == nullptr || !text->is_string()) return;
  for (auto& [path, content] : agent::read_declared_files(text->get_string(), nullptr)) {
    files->provide(FileSystem::resolve("/", path), std::move(content), m.started);
  }
}

// Time-slices of a GPU are that GPU.
void add_gpu(std::string_view resource, std::string id, Machine* m) {
  constexpr std::string_view kMig = "nvidia.com/mig-";
  id = id.substr(0, id.find("::"));
  if (id.starts_with("MIG-")) {
    m->migs.emplace_back(resource.starts_with(kMig) ? resource.substr(kMig.size()) : "", id);
  } else if (std::find(m->gpus.begin(), m->gpus.end(), id) == m->gpus.end()) {
    m->gpus.push_back(std::move(id));
  }
}

void find_devices(const agent::ContainerView& container, Machine* m) {
  for (const agent::ContainerDevices& held : container.devices) {
    if (!held.resource.starts_with("nvidia.com/")) continue;
    for (const agent::HeldDevice& device : held.devices) add_gpu(held.resource, device.id, m);
  }
  constexpr std::string_view kNeuronNode = "/dev/neuron";
  for (const agent::AllocateResponse::DeviceNode& node : container.given.nodes) {
    if (node.container_path.starts_with(kNeuronNode))
      m->neurons.push_back(std::atoll(node.container_path.c_str() + kNeuronNode.size()));
  }
  if (!container.devices.empty()) return;
  for (int64_t i = 0; i < limit_of(container, "nvidia.com/gpu") && i < kMostDevices; ++i)
    m->gpus.push_back(agent::device_uuid("GPU-", m->node.identity.name, "nvidia.com/gpu", static_cast<uint32_t>(i)));
  for (int64_t i = 0; i < limit_of(container, "aws.amazon.com/neuron") && i < kMostDevices; ++i)
    m->neurons.push_back(i);
}

}  // namespace

std::vector<std::string> config_maps_of(const Json& pod, std::string_view container) {
  std::vector<std::string> names;
  const Json* spec = container_spec(pod, container);
  for (const Json& mount : array_or_empty(spec, "volumeMounts")) {
    const Json* volume = volume_of(pod, get_string(mount, "name"));
    if (volume == nullptr) continue;
    add_map(get_string(*volume, "configMap.name"), &names);
    for (const Json& source : array_or_empty(volume, "projected.sources"))
      add_map(get_string(source, "configMap.name"), &names);
  }
  for (const Json& env : array_or_empty(spec, "env"))
    add_map(get_string(env, "valueFrom.configMapKeyRef.name"), &names);
  for (const Json& source : array_or_empty(spec, "envFrom")) add_map(get_string(source, "configMapRef.name"), &names);
  return names;
}

Machine make_machine(const NodeInfo& node, const agent::PodView& view, const agent::ContainerView& container,
                     const Json& pod, const ConfigMaps& maps) {
  Machine m;
  m.node = node;
  m.ns = view.ns;
  m.pod = view.name;
  m.container = container.name;
  m.pod_ip = view.ip;
  m.started = container.current.started;
  const std::string_view host = get_string(pod, "spec.hostname");
  m.host_name = view.host_network ? node.identity.name : host.empty() ? view.name.substr(0, 63) : std::string(host);
  const Json* spec = container_spec(pod, container.name);
  if (spec != nullptr && !get_string(*spec, "workingDir").empty())
    m.working_directory = FileSystem::resolve("/", get_string(*spec, "workingDir"));
  int64_t user = kube::get_int(pod, "spec.securityContext.runAsUser", 0);
  if (spec != nullptr) user = kube::get_int(*spec, "securityContext.runAsUser", user);
  m.user_id = std::to_string(user);
  if (user != 0) m.user = m.user_id;
  const agent::StringPairs& capacity = node.node->capacity;
  m.cpu_millis = limit_of(container, "cpu");
  if (m.cpu_millis == 0) m.cpu_millis = amount_in(capacity, "cpu");
  m.memory_bytes = limit_of(container, "memory");
  if (m.memory_bytes == 0) m.memory_bytes = amount_in(capacity, "memory");
  find_devices(container, &m);
  m.variables = {{"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
                 {"HOSTNAME", m.host_name},
                 {"HOME", user == 0 ? "/root" : "/"}};
  for (const auto& [name, value] : container.given.envs) m.variables[name] = value;
  for (const Json& source : array_or_empty(spec, "envFrom")) add_all_of_map(m, source, maps);
  for (const Json& env : array_or_empty(spec, "env")) add_variable(m, pod, env, maps);
  read_answers(m, pod);
  return m;
}

void provide_files(const Machine& m, const Json& pod, const ConfigMaps& maps, FileSystem* files) {
  provide_system(m, files);
  provide_declared(m, pod, files);
  files->provide_directory(m.working_directory, m.started);
  for (const Json& mount : array_or_empty(container_spec(pod, m.container), "volumeMounts"))
    provide_mount(files, mount, m, pod, maps);
  const std::string account(kAccountPath);
  if (files->find(account) == nullptr || files->find(account + "/namespace") != nullptr) return;
  if (files->find(account + "/token") != nullptr) files->provide(account + "/namespace", m.ns, m.started, true);
}

}  // namespace ghostfleet::kubelet_api
