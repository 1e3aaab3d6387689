#include "agent/node/node_class.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "agent/node/lease_message.h"
#include "kube/api/json.h"

namespace ghostfleet::agent {
namespace {

// Places that only the renderer fills, beside those of node_template.h.
constexpr std::string_view kNow = "@now";
constexpr std::string_view kMessage = "@message";

constexpr std::string_view kMigratedPlugins =
    "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder,"
    "kubernetes.io/gce-pd,kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume";

using SortedPairs = std::map<std::string, std::string>;

void put_key(std::string_view key, std::string* out) {
  if (out->back() != '{' && out->back() != '[') out->push_back(',');
  kube::append_json_string(key, out);
  out->push_back(':');
}

void put(std::string_view key, std::string_view value, std::string* out) {
  put_key(key, out);
  kube::append_json_string(value, out);
}

void put_map(std::string_view key, const SortedPairs& pairs, std::string* out) {
  if (pairs.empty()) return;
  put_key(key, out);
  out->push_back('{');
  for (const auto& [k, v] : pairs) put(k, v, out);
  out->push_back('}');
}

void open_element(std::string* out) {
  if (out->back() != '[') out->push_back(',');
  out->push_back('{');
}

SortedPairs sorted(const StringPairs& pairs) {
  SortedPairs map;
  for (const auto& [k, v] : pairs) map[k] = v;
  return map;
}

SortedPairs labels_of(const NodeTemplate& t, const NodeOptions& options) {
  SortedPairs labels = sorted(default_labels(t));
  for (const auto& [k, v] : t.labels) labels[k] = v;
  if (!options.fleet.empty()) labels[std::string(kFleetLabel)] = options.fleet;
  return labels;
}

void put_metadata(const NodeTemplate& t, const SortedPairs& labels, std::string* out) {
  SortedPairs annotations = sorted(t.annotations);
  annotations["volumes.kubernetes.io/controller-managed-attach-detach"] = "true";
  put_key("metadata", out);
  out->push_back('{');
  put("name", "{name}", out);
  put_map("labels", labels, out);
  put_map("annotations", annotations, out);
  out->push_back('}');
}

void put_spec(const NodeTemplate& t, std::string* out) {
  put_key("spec", out);
  out->push_back('{');
  if (!t.provider_id.empty()) put("providerID", t.provider_id, out);
  if (!t.taints.empty()) {
    put_key("taints", out);
    out->push_back('[');
    for (const NodeTaint& taint : t.taints) {
      open_element(out);
      put("key", taint.key, out);
      if (!taint.value.empty()) put("value", taint.value, out);
      put("effect", taint.effect, out);
      out->push_back('}');
    }
    out->push_back(']');
  }
  out->push_back('}');
}

void put_conditions(std::string* out) {
  put_key("conditions", out);
  out->push_back('[');
  for (int i = 0; i < kNodeConditions; ++i) {
    const auto condition = static_cast<NodeCondition>(i);
    const ConditionText text = condition_text(condition, condition != NodeCondition::kReady);
    open_element(out);
    put("type", text.type, out);
    put("status", text.status, out);
    *out += R"(,"lastHeartbeatTime":"{@now}","lastTransitionTime":"{@now}")";
    put("reason", text.reason, out);
    put("message", condition == NodeCondition::kReady ? "{@message}" : text.message, out);
    out->push_back('}');
  }
  out->push_back(']');
}

void put_node_info(const NodeTemplate& t, std::string* out) {
  put_key("nodeInfo", out);
  out->push_back('{');
  put("machineID", t.machine_id, out);
  put("systemUUID", t.system_uuid, out);
  put("bootID", t.boot_id, out);
  put("kernelVersion", t.kernel_version, out);
  put("osImage", t.os_image, out);
  put("containerRuntimeVersion", t.container_runtime_version, out);
  put("kubeletVersion", t.kubelet_version, out);
  put("kubeProxyVersion", "", out);
  put("operatingSystem", t.operating_system, out);
  put("architecture", t.architecture, out);
  out->push_back('}');
}

void put_strings(std::string_view key, const std::vector<std::string>& values, std::string* out) {
  put_key(key, out);
  out->push_back('[');
  for (const std::string& value : values) {
    if (out->back() != '[') out->push_back(',');
    kube::append_json_string(value, out);
  }
  out->push_back(']');
}

void put_images(const NodeTemplate& t, std::string* out) {
  if (t.images.empty()) return;
  put_key("images", out);
  out->push_back('[');
  for (const NodeImage& image : t.images) {
    open_element(out);
    put_strings("names", image.names, out);
    put_key("sizeBytes", out);
    *out += std::to_string(image.size_bytes);
    out->push_back('}');
  }
  out->push_back(']');
}

void put_runtime(const NodeTemplate& t, std::string* out) {
  if (!t.runtime_handlers.empty()) {
    put_key("runtimeHandlers", out);
    out->push_back('[');
    for (const std::string& name : t.runtime_handlers) {
      open_element(out);
      put("name", name, out);
      *out += R"(,"features":{"recursiveReadOnlyMounts":true,"userNamespaces":true}})";
    }
    out->push_back(']');
  }
  if (t.supplemental_groups_policy) *out += R"(,"features":{"supplementalGroupsPolicy":true})";
  if (!t.declared_features.empty()) put_strings("declaredFeatures", t.declared_features, out);
}

void put_status(const NodeTemplate& t, std::string* out) {
  put_key("status", out);
  out->push_back('{');
  put_map("capacity", sorted(t.capacity), out);
  put_map("allocatable", sorted(t.allocatable.empty() ? t.capacity : t.allocatable), out);
  put_conditions(out);
  put_key("addresses", out);
  out->push_back('[');
  for (const NodeAddress& a : t.addresses) {
    open_element(out);
    put("type", a.type, out);
    put("address", a.address, out);
    out->push_back('}');
  }
  *out += fmt::format(R"(],"daemonEndpoints":{{"kubeletEndpoint":{{"Port":{}}}}})",
                      t.kubelet_port == 0 ? "{kubelet_port}" : std::to_string(t.kubelet_port));
  put_node_info(t, out);
  put_images(t, out);
  put_runtime(t, out);
  out->push_back('}');
}

// The index of a place in node_places(), or one past it for @now and @message; -1: no place.
int place_index(std::string_view name) {
  const auto& places = node_places();
  const auto it = std::find(places.begin(), places.end(), name);
  if (it != places.end()) return static_cast<int>(it - places.begin());
  if (name == kNow) return static_cast<int>(places.size());
  return name == kMessage ? static_cast<int>(places.size()) + 1 : -1;
}

constexpr std::string_view kConditionTypes[] = {"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"};

}  // namespace

ConditionText condition_text(NodeCondition condition, bool healthy) {
  switch (condition) {
    case NodeCondition::kMemoryPressure:
      return healthy ? ConditionText{"MemoryPressure", "False", "KubeletHasSufficientMemory",
                                     "kubelet has sufficient memory available"}
                     : ConditionText{"MemoryPressure", "True", "KubeletHasInsufficientMemory",
                                     "kubelet has insufficient memory available"};
    case NodeCondition::kDiskPressure:
      return healthy
                 ? ConditionText{"DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"}
                 : ConditionText{"DiskPressure", "True", "KubeletHasDiskPressure", "kubelet has disk pressure"};
    case NodeCondition::kPidPressure:
      return healthy ? ConditionText{"PIDPressure", "False", "KubeletHasSufficientPID",
                                     "kubelet has sufficient PID available"}
                     : ConditionText{"PIDPressure", "True", "KubeletHasInsufficientPID",
                                     "kubelet has insufficient PID available"};
    case NodeCondition::kReady: break;
  }
  return healthy ? ConditionText{"Ready", "True", "KubeletReady", "kubelet is posting ready status"}
                 : ConditionText{"Ready", "False", "KubeletNotReady", "CSINode is not yet initialized"};
}

std::string_view pressure_event(NodeCondition condition, bool healthy) {
  switch (condition) {
    case NodeCondition::kMemoryPressure: return healthy ? "NodeHasSufficientMemory" : "NodeHasInsufficientMemory";
    case NodeCondition::kDiskPressure: return healthy ? "NodeHasNoDiskPressure" : "NodeHasDiskPressure";
    case NodeCondition::kPidPressure: return healthy ? "NodeHasSufficientPID" : "NodeHasInsufficientPID";
    case NodeCondition::kReady: break;
  }
  return healthy ? "NodeReady" : "NodeNotReady";
}

StringPairs default_labels(const NodeTemplate& t) {
  return {{"beta.kubernetes.io/arch", t.architecture},
          {"beta.kubernetes.io/os", t.operating_system},
          {"kubernetes.io/arch", t.architecture},
          {"kubernetes.io/hostname", "{name}"},
          {"kubernetes.io/os", t.operating_system}};
}

bool is_extended_resource(std::string_view name) {
  const size_t slash = name.find('/');
  if (slash == std::string_view::npos || name.starts_with("requests.")) return false;
  const std::string_view domain = name.substr(0, slash);
  return domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io");
}

std::string device_patch(const std::vector<DeviceCount>& counts) {
  std::string capacity;
  std::string allocatable;
  for (const DeviceCount& c : counts) {
    capacity += fmt::format(R"({}"{}":"{}")", capacity.empty() ? "" : ",", c.resource, c.capacity);
    allocatable += fmt::format(R"({}"{}":"{}")", allocatable.empty() ? "" : ",", c.resource, c.allocatable);
  }
  if (counts.empty()) return {};
  return fmt::format(R"({{"status":{{"allocatable":{{{}}},"capacity":{{{}}}}}}})", allocatable, capacity);
}

std::string NodeClass::device_patch() const {
  const auto devices = [](const StringPairs& from) {
    std::string out;
    for (const auto& [name, quantity] : from) {
      if (is_extended_resource(name)) out += fmt::format(R"({}"{}":"{}")", out.empty() ? "" : ",", name, quantity);
    }
    return out;
  };
  const std::string capacity = devices(template_.capacity);
  if (capacity.empty()) return {};
  return fmt::format(R"({{"status":{{"allocatable":{{{}}},"capacity":{{{}}}}}}})", devices(allocatable()), capacity);
}

std::string event_name(std::string_view object, WallTime now) { return fmt::format("{}.{:x}", object, now.ns); }

Result<std::shared_ptr<const NodeClass>> NodeClass::create(NodeTemplate node_template, NodeOptions options) {
  Status status = check_template(node_template);
  if (status.ok() && options.lease_duration < std::chrono::seconds(1)) {
    status = invalid_argument("lease_duration: at least 1s");
  }
  if (!status.ok()) return status;
  return std::shared_ptr<const NodeClass>(new NodeClass(std::move(node_template), std::move(options)));
}

NodeClass::NodeClass(NodeTemplate node_template, NodeOptions options)
    : template_(std::move(node_template)), options_(std::move(options)) {
  render_node();
}

void NodeClass::render_node() {
  std::string text = R"({"kind":"Node","apiVersion":"v1")";
  const SortedPairs labels = labels_of(template_, options_);
  label_count_ = labels.size();
  put_metadata(template_, labels, &text);
  put_spec(template_, &text);
  put_status(template_, &text);
  text += '}';
  node_size_ = text.size() + 256;
  std::string_view rest = text;
  std::string piece;
  while (!rest.empty()) {
    const size_t open = rest.find('{');
    if (open == std::string_view::npos) break;
    const size_t close = rest.find_first_of("}\"{", open + 1);
    const int place = close != std::string_view::npos && rest[close] == '}'
                          ? place_index(rest.substr(open + 1, close - open - 1))
                          : -1;
    piece += rest.substr(0, place < 0 ? open + 1 : open);
    rest.remove_prefix(place < 0 ? open + 1 : close + 1);
    if (place < 0) continue;
    node_.push_back({std::move(piece), place});
    piece.clear();
  }
  piece += rest;
  node_.push_back({std::move(piece), -1});
}

std::string NodeClass::node_body(const NodeIdentity& identity, WallTime now, std::string_view message) const {
  const int places = static_cast<int>(node_places().size());
  const std::string time = format_time(now);
  std::string out;
  out.reserve(node_size_);
  for (const Piece& piece : node_) {
    out += piece.text;
    if (piece.place < 0) continue;
    if (piece.place == places) {
      out += time;
    } else if (piece.place == places + 1) {
      std::string quoted;
      kube::append_json_string(message, &quoted);
      out.append(quoted, 1, quoted.size() - 2);
    } else {
      out += fill_places(fmt::format("{{{}}}", node_places()[static_cast<size_t>(piece.place)]), identity);
    }
  }
  return out;
}

std::string NodeClass::csi_node_body(std::string_view name, const NodeUid& uid) const {
  return fmt::format(
      R"({{"kind":"CSINode","apiVersion":"storage.k8s.io/v1","metadata":{{"name":"{0}","annotations":{{)"
      R"("storage.alpha.kubernetes.io/migrated-plugins":"{1}"}},"ownerReferences":[{{"apiVersion":"v1","kind":"Node",)"
      R"("name":"{0}","uid":"{2}"}}]}},"spec":{{"drivers":null}}}})",
      name, kMigratedPlugins, uid.to_string());
}

std::string NodeClass::lease_body(std::string_view name, const NodeUid& uid, uint64_t version, WallTime now,
                                  bool protobuf) const {
  const auto seconds =
      std::max<int64_t>(std::chrono::duration_cast<std::chrono::seconds>(options_.lease_duration).count(), 1);
  if (protobuf) return lease_message(name, uid, version, seconds, now);
  std::string out;
  out.reserve(384 + 3 * name.size());
  out += R"({"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":")";
  out += name;
  out += R"(","namespace":"kube-node-lease")";
  if (version != 0) {
    out += R"(,"resourceVersion":")";
    out += std::to_string(version);
    out += '"';
  }
  out += R"(,"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":")";
  out += name;
  out += R"(","uid":")";
  uid.append_to(&out);
  out += R"("}]},"spec":{"holderIdentity":")";
  out += name;
  out += R"(","leaseDurationSeconds":)";
  out += std::to_string(seconds);
  out += R"(,"renewTime":")";
  char time[27];
  format_micro_time_to(now, time);
  out.append(time, sizeof time);
  out += R"("}})";
  return out;
}

std::string NodeClass::status_patch(WallTime now, unsigned full, unsigned pressure, std::string_view images) const {
  const std::string time = format_time(now);
  std::string out = R"({"status":{"$setElementOrder/conditions":[)";
  for (const std::string_view type : kConditionTypes) {
    out += out.back() == '[' ? R"({"type":")" : R"(,{"type":")";
    out += type;
    out += R"("})";
  }
  out += R"(],"conditions":[)";
  for (int i = 0; i < kNodeConditions; ++i) {
    const ConditionText text = condition_text(static_cast<NodeCondition>(i), (pressure >> i & 1) == 0);
    open_element(&out);
    put("lastHeartbeatTime", time, &out);
    if ((full >> i & 1) != 0) {
      put("lastTransitionTime", time, &out);
      put("message", text.message, &out);
      put("reason", text.reason, &out);
      put("status", text.status, &out);
    }
    put("type", text.type, &out);
    out += '}';
  }
  out += ']';
  if (!images.empty()) out.append(R"(,"images":)").append(images);
  return out += "}}";
}

std::string NodeClass::event_body(std::string_view node, const NodeEventText& event, std::string_view event_name,
                                  WallTime now) const {
  const std::string time = format_time(now);
  return fmt::format(
      R"({{"kind":"Event","apiVersion":"v1","metadata":{{"name":"{0}","namespace":"default"}},"involvedObject":)"
      R"({{"kind":"Node","name":"{1}","apiVersion":"v1"}},"reason":"{2}","message":"{3}","source":)"
      R"({{"component":"kubelet","host":"{1}"}},"firstTimestamp":"{4}","lastTimestamp":"{4}","count":1,"type":"{5}",)"
      R"("eventTime":null,"reportingComponent":"kubelet","reportingInstance":"{1}"}})",
      event_name, node, event.reason, event.message, time, event.type);
}

std::string NodeClass::lease_path(std::string_view name) {
  return fmt::format("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{}?timeout=10s", name);
}

std::string NodeClass::node_path(std::string_view name) { return fmt::format("/api/v1/nodes/{}", name); }

}  // namespace ghostfleet::agent
