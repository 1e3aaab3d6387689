// Printers of the core group.
#include <fmt/format.h>

#include <algorithm>

#include "kube/api/table_cells.h"

namespace ghostfleet::kube::table {
namespace {

// What the loops over container statuses find out for the columns of a pod.
struct PodSummary {
  std::string reason;
  int64_t restarts = 0;
  int64_t sidecar_restarts = 0;
  int64_t ready = 0;
  int64_t total = 0;
  std::string_view last_restart;
  std::string_view last_sidecar_restart;
};

const Json* spec_of_init(const Json& pod, std::string_view name) {
  const JsonArray* inits = get_array(pod, "spec.initContainers");
  if (inits == nullptr) return nullptr;
  for (const Json& c : *inits) {
    if (get_string(c, "name") == name) return &c;
  }
  return nullptr;
}

bool is_sidecar(const Json* container) {
  return container != nullptr && get_string(*container, "restartPolicy") == "Always";
}

std::string exit_text(const Json& terminated) {
  const std::string_view reason = get_string(terminated, "reason");
  if (!reason.empty()) return std::string(reason);
  const int64_t signal = get_int(terminated, "signal");
  return signal != 0 ? fmt::format("Signal:{}", signal) : fmt::format("ExitCode:{}", get_int(terminated, "exitCode"));
}

void later(std::string_view candidate, std::string_view* latest) {
  if (candidate > *latest) *latest = candidate;  // RFC 3339 in UTC sorts as text
}

// True while an init container is not through; s->reason then says which.
bool summarize_init(const Json& pod, PodSummary* s) {
  const JsonArray* statuses = get_array(pod, "status.initContainerStatuses");
  if (statuses == nullptr) return false;
  int64_t index = -1;
  for (const Json& c : *statuses) {
    ++index;
    const bool sidecar = is_sidecar(spec_of_init(pod, get_string(c, "name")));
    s->restarts += get_int(c, "restartCount");
    later(get_string(c, "lastState.terminated.finishedAt"), &s->last_restart);
    if (sidecar) {
      s->sidecar_restarts += get_int(c, "restartCount");
      later(get_string(c, "lastState.terminated.finishedAt"), &s->last_sidecar_restart);
    }
    const Json* terminated = find_path(c, "state.terminated");
    if (terminated != nullptr && get_int(*terminated, "exitCode") == 0) continue;
    if (sidecar && get_bool(c, "started")) {
      if (get_bool(c, "ready")) ++s->ready;
      continue;
    }
    const std::string_view waiting = get_string(c, "state.waiting.reason");
    if (terminated != nullptr) {
      s->reason = "Init:" + exit_text(*terminated);
    } else if (!waiting.empty() && waiting != "PodInitializing") {
      s->reason = fmt::format("Init:{}", waiting);
    } else {
      s->reason = fmt::format("Init:{}/{}", index, size_at(pod, "spec.initContainers"));
    }
    return true;
  }
  return false;
}

void summarize_containers(const Json& pod, PodSummary* s) {
  s->restarts = s->sidecar_restarts;
  s->last_restart = s->last_sidecar_restart;
  bool running = false;
  if (const JsonArray* statuses = get_array(pod, "status.containerStatuses")) {
    for (auto it = statuses->rbegin(); it != statuses->rend(); ++it) {
      const Json& c = *it;
      s->restarts += get_int(c, "restartCount");
      later(get_string(c, "lastState.terminated.finishedAt"), &s->last_restart);
      const std::string_view waiting = get_string(c, "state.waiting.reason");
      const Json* terminated = find_path(c, "state.terminated");
      if (!waiting.empty()) {
        s->reason = waiting;
      } else if (terminated != nullptr) {
        s->reason = exit_text(*terminated);
      } else if (get_bool(c, "ready") && find_path(c, "state.running") != nullptr) {
        running = true;
        ++s->ready;
      }
    }
  }
  if (s->reason == "Completed" && running) s->reason = has_condition(pod, "Ready") ? "Running" : "NotReady";
}

PodSummary summarize(const Json& pod) {
  PodSummary s;
  const std::string_view own = get_string(pod, "status.reason");
  s.reason = own.empty() ? get_string(pod, "status.phase") : own;
  const Json* scheduled = find_condition(pod, "PodScheduled");
  if (scheduled != nullptr && get_string(*scheduled, "reason") == "SchedulingGated") s.reason = "SchedulingGated";
  s.total = size_at(pod, "spec.containers");
  if (const JsonArray* inits = get_array(pod, "spec.initContainers")) {
    s.total += std::count_if(inits->begin(), inits->end(), [](const Json& c) { return is_sidecar(&c); });
  }
  if (!summarize_init(pod, &s) || has_condition(pod, "Initialized")) summarize_containers(pod, &s);
  if (!get_string(pod, "metadata.deletionTimestamp").empty()) {
    const std::string_view phase = get_string(pod, "status.phase");
    if (own == "NodeLost") {
      s.reason = "Unknown";
    } else if (phase != "Succeeded" && phase != "Failed") {
      s.reason = "Terminating";
    }
  }
  return s;
}

std::string readiness_gates(const Json& pod) {
  const JsonArray* gates = get_array(pod, "spec.readinessGates");
  if (gates == nullptr || gates->empty()) return "<none>";
  const auto met = std::count_if(gates->begin(), gates->end(),
                                 [&](const Json& g) { return has_condition(pod, get_string(g, "conditionType")); });
  return fmt::format("{}/{}", met, gates->size());
}

JsonArray pod_cells(const Json& pod, WallTime now) {
  const PodSummary s = summarize(pod);
  std::string restarts = std::to_string(s.restarts);
  if (s.restarts != 0 && !s.last_restart.empty()) restarts += fmt::format(" ({} ago)", since(s.last_restart, now));
  const JsonArray* ips = get_array(pod, "status.podIPs");
  const std::string_view ip = ips == nullptr || ips->empty() ? std::string_view() : get_string(ips->front(), "ip");
  return {name_of(pod),
          fmt::format("{}/{}", s.ready, s.total),
          s.reason,
          restarts,
          age(pod, now),
          text_or(ip, "<none>"),
          text_or(get_string(pod, "spec.nodeName"), "<none>"),
          text_or(get_string(pod, "status.nominatedNodeName"), "<none>"),
          readiness_gates(pod)};
}

std::string node_roles(const Json& node) {
  std::vector<std::string> roles;
  if (const JsonObject* labels = get_object(node, "metadata.labels")) {
    for (const auto& [key, value] : *labels) {
      constexpr std::string_view kPrefix = "node-role.kubernetes.io/";
      const std::string_view k = key;
      if (k.size() > kPrefix.size() && k.substr(0, kPrefix.size()) == kPrefix)
        roles.emplace_back(k.substr(kPrefix.size()));
      if (k == "kubernetes.io/role" && value.is_string() && !value.get_string().empty())
        roles.emplace_back(std::string_view(value.get_string()));
    }
  }
  std::sort(roles.begin(), roles.end());
  roles.erase(std::unique(roles.begin(), roles.end()), roles.end());
  return roles.empty() ? "<none>" : fmt::format("{}", fmt::join(roles, ","));
}

std::string_view node_address(const Json& node, std::string_view type) {
  if (const JsonArray* addresses = get_array(node, "status.addresses")) {
    for (const Json& a : *addresses) {
      if (get_string(a, "type") == type) return get_string(a, "address");
    }
  }
  return {};
}

JsonArray node_cells(const Json& node, WallTime now) {
  const Json* ready = find_condition(node, "Ready");
  std::string status = ready == nullptr ? "Unknown" : get_string(*ready, "status") == "True" ? "Ready" : "NotReady";
  if (get_bool(node, "spec.unschedulable")) status += ",SchedulingDisabled";
  return {name_of(node),
          status,
          node_roles(node),
          age(node, now),
          get_string(node, "status.nodeInfo.kubeletVersion"),
          text_or(node_address(node, "InternalIP"), "<none>"),
          text_or(node_address(node, "ExternalIP"), "<none>"),
          text_or(get_string(node, "status.nodeInfo.osImage"), "<unknown>"),
          text_or(get_string(node, "status.nodeInfo.kernelVersion"), "<unknown>"),
          text_or(get_string(node, "status.nodeInfo.containerRuntimeVersion"), "<unknown>")};
}

std::string external_ip(const Json& svc) {
  const std::string_view type = get_string(svc, "spec.type");
  if (type == "ExternalName") return std::string(get_string(svc, "spec.externalName"));
  const std::string given = join_strings(get_array(svc, "spec.externalIPs"), "", ",");
  if (type != "LoadBalancer") return given.empty() ? "<none>" : given;
  std::vector<std::string> found;
  if (const JsonArray* ingress = get_array(svc, "status.loadBalancer.ingress")) {
    for (const Json& i : *ingress) {
      const std::string_view ip = get_string(i, "ip");
      found.emplace_back(ip.empty() ? get_string(i, "hostname") : ip);
    }
  }
  if (!given.empty()) found.push_back(given);
  return found.empty() ? "<pending>" : fmt::format("{}", fmt::join(found, ","));
}

std::string service_ports(const Json& svc) {
  std::string out;
  if (const JsonArray* ports = get_array(svc, "spec.ports")) {
    for (const Json& p : *ports) {
      const int64_t node_port = get_int(p, "nodePort");
      const std::string number =
          node_port > 0 ? fmt::format("{}:{}", get_int(p, "port"), node_port) : std::to_string(get_int(p, "port"));
      out += fmt::format("{}{}/{}", out.empty() ? "" : ",", number, get_string(p, "protocol"));
    }
  }
  return out.empty() ? "<none>" : out;
}

JsonArray service_cells(const Json& svc, WallTime now) {
  const JsonArray* ips = get_array(svc, "spec.clusterIPs");
  const std::string_view ip = ips == nullptr || ips->empty() || !ips->front().is_string()
                                  ? get_string(svc, "spec.clusterIP")
                                  : std::string_view(ips->front().get_string());
  return {name_of(svc),
          get_string(svc, "spec.type"),
          text_or(ip, "<none>"),
          external_ip(svc),
          service_ports(svc),
          age(svc, now),
          format_labels(get_object(svc, "spec.selector"))};
}

// The first three of "ip:port", then how many more.
std::string endpoint_list(const Json& o) {
  std::vector<std::string> list;
  if (const JsonArray* subsets = get_array(o, "subsets")) {
    for (const Json& subset : *subsets) {
      const JsonArray* addresses = get_array(subset, "addresses");
      const JsonArray* ports = get_array(subset, "ports");
      if (addresses == nullptr) continue;
      for (const Json& a : *addresses) {
        const std::string ip(get_string(a, "ip"));
        if (ports == nullptr || ports->empty()) list.push_back(ip);
        if (ports == nullptr) continue;
        for (const Json& p : *ports) list.push_back(fmt::format("{}:{}", ip, get_int(p, "port")));
      }
    }
  }
  if (list.empty()) return "<none>";
  const size_t shown = std::min<size_t>(3, list.size());
  std::string out = fmt::format("{}", fmt::join(list.begin(), list.begin() + static_cast<long>(shown), ","));
  if (list.size() > shown) out += fmt::format(" + {} more...", list.size() - shown);
  return out;
}

std::string event_source(const Json& e) {
  std::string component(get_string(e, "source.component"));
  if (component.empty()) component = get_string(e, "reportingComponent");
  if (component.empty()) component = get_string(e, "reportingController");
  std::string host(get_string(e, "source.host"));
  return host.empty() ? component : component + ", " + host;
}

JsonArray event_cells(const Json& e, WallTime now) {
  // events.k8s.io names some fields otherwise.
  const bool old_names = get_object(e, "involvedObject") != nullptr;
  const Json* object = find_key(e, old_names ? "involvedObject" : "regarding");
  auto pick = [&](std::string_view a, std::string_view b) { return get_string(e, old_names ? a : b); };
  std::string_view first = pick("firstTimestamp", "deprecatedFirstTimestamp");
  if (first.empty()) first = get_string(e, "eventTime");
  std::string_view last = pick("lastTimestamp", "deprecatedLastTimestamp");
  int64_t count = get_int(e, old_names ? "count" : "deprecatedCount");
  if (find_key(e, "series") != nullptr) {
    count = get_int(e, "series.count");
    last = get_string(e, "series.lastObservedTime");
  }
  if (count == 0) count = 1;
  const std::string first_seen = since(first, now);
  std::string last_seen = last.empty() ? first_seen : since(last, now);
  if (count > 1) last_seen = fmt::format("{} (x{} over {})", last_seen, count, first_seen);
  std::string kind(object == nullptr ? std::string_view() : get_string(*object, "kind"));
  std::transform(kind.begin(), kind.end(), kind.begin(), [](unsigned char c) { return std::tolower(c); });
  std::string_view message = pick("message", "note");
  while (!message.empty() && (message.back() == ' ' || message.back() == '\n')) message.remove_suffix(1);
  return {last_seen,
          get_string(e, "type"),
          get_string(e, "reason"),
          fmt::format("{}/{}", kind, object == nullptr ? std::string_view() : get_string(*object, "name")),
          object == nullptr ? std::string_view() : get_string(*object, "fieldPath"),
          event_source(e),
          message,
          first_seen,
          count,
          name_of(e)};
}

JsonArray volume_claim_cells(const Json& o, WallTime now) {
  const bool deleting = !get_string(o, "metadata.deletionTimestamp").empty();
  const bool bound = !get_string(o, "spec.volumeName").empty();
  return {name_of(o),
          deleting ? "Terminating" : get_string(o, "status.phase"),
          get_string(o, "spec.volumeName"),
          bound ? get_string(o, "status.capacity.storage") : std::string_view(),
          bound ? access_modes(get_array(o, "status.accessModes")) : std::string(),
          get_string(o, "spec.storageClassName"),
          text_or(get_string(o, "spec.volumeAttributesClassName"), "<unset>"),
          age(o, now),
          text_or(get_string(o, "spec.volumeMode"), "<unset>")};
}

JsonArray volume_cells(const Json& o, WallTime now) {
  const bool deleting = !get_string(o, "metadata.deletionTimestamp").empty();
  std::string claim;
  if (get_object(o, "spec.claimRef") != nullptr)
    claim = fmt::format("{}/{}", get_string(o, "spec.claimRef.namespace"), get_string(o, "spec.claimRef.name"));
  return {name_of(o),
          get_string(o, "spec.capacity.storage"),
          access_modes(get_array(o, "spec.accessModes")),
          get_string(o, "spec.persistentVolumeReclaimPolicy"),
          deleting ? "Terminating" : get_string(o, "status.phase"),
          claim,
          get_string(o, "spec.storageClassName"),
          text_or(get_string(o, "spec.volumeAttributesClassName"), "<unset>"),
          get_string(o, "status.reason"),
          age(o, now),
          text_or(get_string(o, "spec.volumeMode"), "<unset>")};
}

// "cpu: 1/2, memory: 1Gi/4Gi" over the keys of a quota that are (or are not) limits.
std::string quota_text(const Json& o, bool limits) {
  std::string out;
  const JsonObject* hard = get_object(o, "status.hard");
  if (hard == nullptr) return out;
  std::vector<std::string> keys;
  for (const auto& [key, value] : *hard) keys.emplace_back(std::string_view(key));
  std::sort(keys.begin(), keys.end());
  for (const std::string& key : keys) {
    if ((key.rfind("limits.", 0) == 0) != limits) continue;
    const JsonObject* used = get_object(o, "status.used");
    const Json* u = used == nullptr ? nullptr : used->if_contains(key);
    out += fmt::format("{}{}: {}/{}", out.empty() ? "" : ", ", key,
                       u != nullptr && u->is_string() ? std::string_view(u->get_string()) : "0",
                       std::string_view(hard->at(key).is_string() ? std::string_view(hard->at(key).get_string()) : ""));
  }
  return out;
}

}  // namespace

SpecList core_printers() {
  return {
      {"Pod", "Name/name, Ready, Status, Restarts, Age, IP[w], Node[w], Nominated Node[w], Readiness Gates[w]",
       pod_cells},
      {"Node",
       "Name/name, Status, Roles, Age, Version, Internal-IP[w], External-IP[w], OS-Image[w], Kernel-Version[w], "
       "Container-Runtime[w]",
       node_cells},
      {"Namespace", "Name/name, Status, Age",
       [](const Json& o, WallTime now) {
         return JsonArray{name_of(o), get_string(o, "status.phase"), age(o, now)};
       }},
      {"Service", "Name/name, Type, Cluster-IP, External-IP, Port(s), Age, Selector[w]", service_cells},
      {"Endpoints", "Name/name, Endpoints, Age",
       [](const Json& o, WallTime now) {
         return JsonArray{name_of(o), endpoint_list(o), age(o, now)};
       }},
      {"ConfigMap", "Name/name, Data, Age",
       [](const Json& o, WallTime now) {
         return JsonArray{name_of(o), size_at(o, "data") + size_at(o, "binaryData"), age(o, now)};
       }},
      {"Secret", "Name/name, Type, Data, Age",
       [](const Json& o, WallTime now) {
         return JsonArray{name_of(o), get_string(o, "type"), size_at(o, "data"), age(o, now)};
       }},
      {"ServiceAccount", "Name/name, Age",
       [](const Json& o, WallTime now) {
         return JsonArray{name_of(o), age(o, now)};
       }},
      {"Event",
       "Last Seen, Type, Reason, Object, Subobject[w], Source[w], Message, First Seen[w], Count[w], Name/name[w]",
       event_cells},
      {"PersistentVolumeClaim",
       "Name/name, Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, VolumeMode[w]",
       volume_claim_cells},
      {"PersistentVolume",
       "Name/name, Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, VolumeAttributesClass, Reason, "
       "Age, VolumeMode[w]",
       volume_cells},
      {"ResourceQuota", "Name/name, Request, Limit, Age",
       [](const Json& o, WallTime now) {
         return JsonArray{name_of(o), quota_text(o, false), quota_text(o, true), age(o, now)};
       }},
      {"PodTemplate", "Name/name, Containers, Images, Pod Labels",
       [](const Json& o, WallTime) {
         return JsonArray{name_of(o), container_names(o, "template.spec.containers"),
                          container_images(o, "template.spec.containers"),
                          format_labels(get_object(o, "template.metadata.labels"))};
       }},
      {"ComponentStatus", "Name/name, Status, Message, Error",
       [](const Json& o, WallTime) {
         const JsonArray* c = get_array(o, "conditions");
         const Json first = c == nullptr || c->empty() ? Json(JsonObject{}) : c->front();
         return JsonArray{name_of(o), get_string(first, "status") == "True" ? "Healthy" : "Unhealthy",
                          get_string(first, "message"), get_string(first, "error")};
       }},
  };
}

}  // namespace ghostfleet::kube::table
