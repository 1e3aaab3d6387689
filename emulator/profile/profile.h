// Profile: what an instance type gives a node. One YAML file a type (manifests/profiles/, embedded in the program); a
// user adds one by adding a file to ~/.ghostfleet/profiles or by naming it (--profile ./mine.yaml).
//
// Capacity and allocatable follow the node bootstrap of Amazon EKS (AL2023): kube-reserved by cores and max-pods, 100
// MiB hard eviction, ephemeral storage less 1 GiB and 10 %; memory less the hypervisor's share (7.5 % by default).
// Units: memory in MiB, storage in GB (10^9) where the cloud says GB.
// Source: AWS docs, instance types; awslabs/amazon-eks-ami (reservations). Thread rule: plain values; the catalogue is
// immutable after loading.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/node/node_template.h"
#include "base/status.h"
#include "emulator/images/image_model.h"
#include "emulator/profile/object_reader.h"

namespace ghostfleet::emulator {

struct ProfileAccelerator {
  std::string manufacturer;  // nvidia, aws; empty: none
  std::string name;          // h100, trainium2
  int64_t count = 0;
  int64_t memory_mib = 0;        // of one GPU
  int64_t cores_per_device = 0;  // NeuronCores the runtime shows
};

struct Profile {
  std::string name;
  std::string architecture = "amd64";
  int64_t cpu = 0;
  int64_t memory_mib = 0;
  double memory_overhead = 0.075;
  int64_t root_volume_gib = 20;
  int64_t local_nvme_gb = 0;
  bool raid0 = false;  // pods use the local NVMe instead of the root volume
  int64_t network_cards = 1, interfaces_per_card = 0, ipv4_per_interface = 0, efa_interfaces = 0, branch_interfaces = 0;
  int64_t bandwidth_mbps = 0, ebs_bandwidth_mbps = 0;
  int64_t max_pods = 110;
  ProfileAccelerator accelerator;
  StringPairs extended_resources;
  StringPairs labels;
  std::vector<agent::NodeTaint> taints;
  std::vector<agent::NodeImage> images;
};

// What a fleet file (or a flag) changes on a profile for a group of nodes.
struct ProfileOverrides {
  StringPairs labels, annotations;
  std::vector<agent::NodeTaint> taints;
  StringPairs capacity, allocatable;  // replace or add single resources
  int64_t max_pods = 0;               // 0: the profile's
  std::string kubelet_version;
};

// Strict: an unknown field, a wrong type or an impossible value is an error that names the line.
Result<Profile> parse_profile(std::string_view text, std::string file);

class ProfileCatalogue {
 public:
  // The embedded profiles, then every *.yaml of `user_dir` (may be empty or missing), which win. A file of the user's
  // that cannot be read takes nothing else with it: see broken().
  static Result<ProfileCatalogue> load(const std::string& user_dir);
  // By name, or a path when `name` holds a slash or ends in .yaml. NotFound lists what is near or there.
  Result<Profile> find(const std::string& name) const;
  std::vector<std::string> names() const;
  // What was wrong with the files that were left out.
  const std::vector<Status>& broken() const { return broken_; }

 private:
  std::map<std::string, Profile> profiles_;
  std::vector<Status> broken_;
};

// kube-reserved of the bootstrap's formulas.
int64_t kube_reserved_milli_cpu(int64_t cpu);
int64_t kube_reserved_memory_mib(int64_t max_pods);

// The node template of a profile. `max_pods` bounds pods and, as on a real node, the reserved memory follows the
// profile's own figure.
agent::NodeTemplate make_node_template(const Profile& profile, const ProfileOverrides& overrides);
// From --capacity cpu=16,memory=64Gi,pods=110,nvidia.com/gpu=8: a plain node without instance labels; allocatable =
// capacity.
Result<agent::NodeTemplate> node_template_from_capacity(std::string_view text);

// What image pulls can use of such a node: its cores, the disk that pods use, and the network of its profile (0: not
// told).
PullMachine pull_machine(const agent::NodeTemplate& node, int64_t bandwidth_mbps);

// Reads taints of a profile or fleet file.
std::vector<agent::NodeTaint> read_taints(ObjectReader* reader, std::string_view key);

}  // namespace ghostfleet::emulator
