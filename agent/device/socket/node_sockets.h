// NodeSockets: what a kubelet has on disk and on sockets for its device manager, for ONE node: the device plugin
// directory with kubelet.sock and the checkpoint, and the PodResources socket. The DeviceManager behind it knows of no
// file or socket.
//
// open() reads the checkpoint of an earlier agent (or kubelet: it is the same file) into the manager before plugins can
// register. The owner passes device_checkpoint_changed() of its DeviceListener on; the file is written once the loop
// comes round, atomically. A file that cannot be read is reported and left out, as by a kubelet; one that cannot be
// written is reported.
// Thread rule: one EventLoop, the node's; everything on its thread. Ownership: manager and `pods` outlive it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/device/device_manager.h"
#include "agent/device/socket/plugin_directory.h"
#include "agent/device/socket/pod_resources_server.h"
#include "base/event_loop.h"
#include "base/status.h"

namespace ghostfleet::agent {

struct NodeSocketOptions {
  std::string plugin_directory;      // absolute
  std::string pod_resources_socket;  // absolute; empty: ../pod-resources/kubelet.sock of the directory, as a kubelet's
  std::string taken_resource;        // that the node's DRA driver gives: a plugin of it is refused; empty: none
  std::string kubelet_root;          // absolute; plugins register in its plugins_registry too; empty: they do not
};

class NodeSockets final : private PodResourcesSource {
 public:
  static constexpr std::string_view kCheckpoint = "kubelet_internal_checkpoint";
  // The pods that have not ended, with their sidecars and containers.
  using Pods = std::function<std::vector<PodContainers>()>;

  static Result<std::unique_ptr<NodeSockets>> open(EventLoop& loop, const NodeSocketOptions& options,
                                                   DeviceManager& manager, Pods pods);
  ~NodeSockets() override;

  void checkpoint_changed();
  // There was a checkpoint of an earlier agent: what its containers hold is known.
  bool restored() const { return restored_; }
  const std::string& pod_resources_path() const { return pod_resources_path_; }
  size_t connected() const { return directory_->connected(); }
  PluginHandler& plugin_handler() { return directory_->handler(); }  // of type DevicePlugin

 private:
  NodeSockets(EventLoop& loop, DeviceManager& manager, std::string taken, Pods pods)
      : loop_(loop), manager_(manager), sink_(manager, loop, std::move(taken)), pods_(std::move(pods)) {}
  Status begin(const NodeSocketOptions& options);
  void restore();
  void write_checkpoint();

  std::vector<PodContainers> active_pods() const override { return pods_(); }
  std::optional<PodContainers> find_pod(std::string_view ns, std::string_view name) const override;
  std::vector<ContainerDevices> held(std::string_view uid, std::string_view container) const override {
    return manager_.held(uid, container);
  }
  std::vector<ContainerDevices> all_devices() const override { return manager_.devices(); }

  EventLoop& loop_;
  DeviceManager& manager_;
  ManagerSink sink_;
  Pods pods_;
  std::string checkpoint_path_, pod_resources_path_;
  bool restored_ = false, write_posted_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::unique_ptr<PodResourcesServer> pod_resources_;
  std::unique_ptr<PluginDirectory> directory_;
};

}  // namespace ghostfleet::agent
