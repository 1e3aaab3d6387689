// PodResourcesServer: which pod has which devices, for monitoring agents of the node: v1.PodResourcesLister on a unix
// socket, as a kubelet's /var/lib/kubelet/pod-resources/kubelet.sock.
//
// List names all pods that have not ended, each with its sidecars and containers; containers without devices are there
// too. GetAllocatableResources has the healthy devices. CPUs and memory are not told, as by a kubelet whose managers
// have policy none. v1alpha1 has List only: containers without sidecars, devices without NUMA nodes and claims.
// Thread rule: one EventLoop; everything on its thread, also the source's calls. Ownership: the source outlives the
// server. Limits: 100 requests a second, 10 at once, as a kubelet; more are refused (ResourceExhausted "rejected by
// rate limit").
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/device/device_manager.h"
#include "agent/device/plugin_messages.h"
#include "base/event_loop.h"
#include "base/status.h"

namespace ghostfleet::agent {

// A pod as the server asks for it: its sidecars, then its containers.
struct PodContainers {
  struct Container {
    std::string name;
    bool sidecar = false;
    std::vector<DynamicResource> claims;
  };
  std::string ns, name, uid;
  std::vector<Container> containers;
};

class PodResourcesSource {
 public:
  virtual ~PodResourcesSource() = default;
  virtual std::vector<PodContainers> active_pods() const = 0;
  virtual std::optional<PodContainers> find_pod(std::string_view ns, std::string_view name) const = 0;
  // What the container holds, and all that plugins list.
  virtual std::vector<ContainerDevices> held(std::string_view uid, std::string_view container) const = 0;
  virtual std::vector<ContainerDevices> all_devices() const = 0;
};

class PodResourcesServer {
 public:
  static constexpr double kPerSecond = 100, kBurst = 10;

  // `path` is absolute; its folder is made if need be.
  static Result<std::unique_ptr<PodResourcesServer>> open(EventLoop& loop, const std::string& path,
                                                          const PodResourcesSource& source);
  virtual ~PodResourcesServer() = default;
};

// One entry for each device and each of its NUMA nodes, as a kubelet tells them; `healthy_only` leaves the others out.
std::vector<ResourceDevices> device_entries(const std::vector<ContainerDevices>& held, bool healthy_only);

}  // namespace ghostfleet::agent
