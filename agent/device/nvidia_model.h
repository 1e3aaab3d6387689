// Models of NVIDIA's device plugin: whole GPUs, MIG (strategy single or mixed), time-slicing, and which XID errors make
// a GPU Unhealthy for good.
//
// Thread rule: plain values and pure functions. Errors: InvalidArgument names what the GPU cannot do and what it can.
// Source: NVIDIA/k8s-device-plugin 0.18; NVIDIA MIG user guide (profiles); its README (health checks, sharing).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/device/plugin_model.h"
#include "base/status.h"

namespace ghostfleet::agent {

// Part of a GPU: "1g.10gb".
struct MigProfile {
  std::string name;
  uint32_t compute = 0;  // of a GPU's 7 compute slices
  uint32_t memory = 0;   // of its 8 memory slices
  uint32_t most = 0;     // of them on one GPU
};
// The GPUs that can be cut: "a100", "h100".
std::vector<std::string> mig_gpus();
// Profiles of a GPU ("a100", "h100") with that much memory; empty: it has no MIG.
std::vector<MigProfile> mig_profiles(std::string_view gpu, int64_t memory_mib);

enum class MigStrategy : unsigned char { kNone, kSingle, kMixed };

// DP_DISABLE_HEALTHCHECKS and DP_ENABLE_HEALTHCHECKS of the plugin.
class XidRules {
 public:
  // "all", "xids", or numbers with commas; empty: the plugin's defaults. InvalidArgument names the word.
  static Result<XidRules> parse(std::string_view disabled, std::string_view enabled);
  // Whether a GPU that reports this error becomes Unhealthy.
  bool is_fatal(int xid) const;

 private:
  bool none_ = false;  // no error counts
  std::vector<int> ignored_ = {13, 31, 43, 45, 68, 109};
};

struct NvidiaConfig {
  uint32_t gpus = 0;
  std::string gpu;         // "h100"; only MIG needs it
  int64_t memory_mib = 0;  // of one GPU
  uint32_t numa_nodes = 2;
  MigStrategy mig = MigStrategy::kNone;
  // How each GPU is cut, in order; single: all of one profile.
  std::vector<std::pair<std::string, uint32_t>> mig_layout;
  uint32_t replicas = 1;              // time-slicing
  bool rename_shared = false;         // the resource becomes nvidia.com/gpu.shared
  bool refuse_more_than_one = false;  // failRequestsGreaterThanOne
  XidRules xids;
};

inline constexpr std::string_view kGpuResource = "nvidia.com/gpu";
inline constexpr uint32_t kMaxReplicas = 128;

// One model for each resource that the plugin registers.
Result<std::vector<std::shared_ptr<const PluginModel>>> nvidia_plugins(const NvidiaConfig& config);

}  // namespace ghostfleet::agent
