// Machine: what a container looks like from inside: its variables, host name, working directory, files of image and
// mounts, and the devices its node's profile has. Everything is made up from the pod's spec and the node; nothing of
// the real machine is in it.
//
// Thread rule: plain values.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "agent/behavior/behavior_declared.h"
#include "agent/kubelet_api/backend.h"
#include "agent/kubelet_api/sandbox/file_system.h"
#include "kube/api/json.h"

namespace ghostfleet::kubelet_api {

// An answer that a pod's annotation scripts for one command line.
struct ScriptedAnswer {
  std::string out, err;
  int exit_code = 0;
};

struct Machine {
  NodeInfo node;
  std::string ns, pod, container, host_name, working_directory = "/", user = "root", user_id = "0", pod_ip;
  WallTime started;  // of the container
  std::map<std::string, std::string> variables;
  std::map<std::string, ScriptedAnswer> answers;  // by command line
  int64_t cpu_millis = 0;                         // limit, else of the node
  int64_t memory_bytes = 0;
  // What its device plugins gave it: "GPU-..." or "MIG-..." with the profile, and numbers of Neuron devices. Without
  // device plugins its limits say how many there are, and they are the first of the node.
  std::vector<std::string> gpus;
  std::vector<std::pair<std::string, std::string>> migs;  // profile, id
  std::vector<int64_t> neurons;
};

// The annotations of a pod that exec reads (agent/behavior/behavior_declared.h).
using agent::kExecPrefix;
using agent::kFilesPrefix;

// ConfigMaps of a pod that a container's files and variables come from: namespace/name is asked for once each, 16 at
// most.
std::vector<std::string> config_maps_of(const kube::Json& pod, std::string_view container);
using ConfigMaps = std::map<std::string, kube::Json>;  // by name

Machine make_machine(const NodeInfo& node, const agent::PodView& view, const agent::ContainerView& container,
                     const kube::Json& pod, const ConfigMaps& maps);
void provide_files(const Machine& machine, const kube::Json& pod, const ConfigMaps& maps, FileSystem* files);

// nvidia-smi and neuron-ls as the node's devices would print them. False: the program is not there.
bool nvidia_smi(const Machine& machine, const std::vector<std::string>& argv, WallTime now, std::string* out,
                int* exit_code);
bool neuron_ls(const Machine& machine, const std::vector<std::string>& argv, std::string* out, int* exit_code);

}  // namespace ghostfleet::kubelet_api
