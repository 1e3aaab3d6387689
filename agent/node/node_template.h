// NodeTemplate: what the nodes of one group share: labels, taints, capacity, images, versions. NodeIdentity: what one
// of them has for itself. Both are plain values; a NodeClass (node_class.h) turns a template into rendered bytes once.
//
// Every string value of labels, annotations, taints, provider_id and addresses may hold places that are filled for each
// node: {name} {index} {zone} {region} {instance_id} {internal_ip} {dashed_ip} {machine_id} {system_uuid} {boot_id}
// {kubelet_port} {second_ip}.
// ("ip-{dashed_ip}.{region}.compute.internal" is how EC2 names hosts.) Other braces are kept as they are.
//
// Units: quantities are the text the API shows ("192", "2097152000Ki"); sizes are bytes.
// Source: the Node of a kubelet 1.36.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace ghostfleet::agent {

using StringPairs = std::vector<std::pair<std::string, std::string>>;

struct NodeTaint {
  std::string key, value, effect;
};

struct NodeImage {
  std::vector<std::string> names;
  int64_t size_bytes = 0;
};

struct NodeAddress {
  std::string type;     // InternalIP, Hostname, InternalDNS, ExternalIP, ExternalDNS
  std::string address;  // with places
};

struct NodeTemplate {
  // Beside those every kubelet sets (hostname, os, arch and the beta ones), which these override on a clash.
  StringPairs labels;
  StringPairs annotations;
  std::vector<NodeTaint> taints;
  StringPairs capacity;     // resource name and quantity
  StringPairs allocatable;  // empty: the same as capacity
  std::string provider_id;  // with places; empty: none
  std::vector<NodeAddress> addresses = {{"InternalIP", "{internal_ip}"}, {"Hostname", "{name}"}};
  uint16_t kubelet_port = 10250;  // of daemonEndpoints; 0: that of the node's identity

  std::string kubelet_version = "v1.36.3";
  std::string os_image = "Amazon Linux 2023.8";
  std::string kernel_version = "6.12.40";
  std::string container_runtime_version = "containerd://2.1.4";
  std::string operating_system = "linux";
  std::string architecture = "amd64";
  // Texts with places; empty values stay empty.
  std::string machine_id = "{machine_id}";
  std::string system_uuid = "{system_uuid}";
  std::string boot_id = "{boot_id}";

  std::vector<NodeImage> images;                             // sorted by size, largest first, by whoever fills it
  std::vector<std::string> runtime_handlers = {"", "runc"};  // empty list: the field is left out
  bool supplemental_groups_policy = true;                    // status.features
  std::vector<std::string> declared_features = {"ExtendWebSocketsToKubelet", "InPlacePodLevelResourcesVerticalScaling",
                                                "InPlacePodVerticalScalingInitContainers",
                                                "RestartAllContainersOnContainerExits"};
  // A Warning event every real node emits once; left out when false.
  bool invalid_disk_capacity_event = true;
};

struct NodeIdentity {
  std::string name;
  uint32_t index = 0;  // within its group
  std::string zone;    // empty: no zone
  std::string region;
  std::string instance_id;  // "i-0123456789abcdef0"
  std::string internal_ip;
  std::string second_ip;    // InternalIP of the other address family; empty: none
  std::string machine_id;   // 32 hex digits
  std::string system_uuid;  // canonical UUID
  std::string boot_id;      // canonical UUID
  uint16_t kubelet_port = 10250;
};

// The names of all places, for messages.
const std::vector<std::string_view>& node_places();

// `pattern` with its places filled.
std::string fill_places(std::string_view pattern, const NodeIdentity& identity);

// What makes a template unusable (a resource without a name, an unknown taint effect, an address type that does not
// exist): the message names the field. Quantities and label syntax are checked by whoever reads a file.
Status check_template(const NodeTemplate& node_template);

// instance_id, machine_id, system_uuid and boot_id from a hash of `seed_text` and the name: the same after a restart.
void derive_ids(std::string_view seed_text, NodeIdentity* identity);

}  // namespace ghostfleet::agent
