// PluginDirectory: the folder where device plugins register with ONE node, as a kubelet's
// /var/lib/kubelet/device-plugins: it serves v1beta1.Registration on kubelet.sock, connects to the plugins that
// register, keeps their ListAndWatch open and tells what they say to a PluginSink (the node's DeviceManager).
//
// At the start the folder is made if need be, and sockets of an earlier kubelet and its plugins are removed: plugins
// see that kubelet.sock is new and register again. Other files stay. A kubelet.sock that somebody listens on is an
// error: a real kubelet would take it over, and two of them would then fight for the plugins. A registration is
// answered when the plugin could be reached and has told its options, as by a kubelet 1.36; a plugin that registers
// again takes the place of the earlier one, whose connection is closed. A plugin that answers Allocate or
// GetPreferredAllocation never holds up the pods that want its devices until its connection ends: a kubelet sets no
// deadline either. PreStartContainer has 30 s.
//
// Plugins of type DevicePlugin in the node's plugin registry (plugin_registry.h) come in by handler().
//
// Thread rule: one EventLoop; everything on its thread, also the sink's calls and the answers of plugins. Ownership:
// the sink outlives the directory; not to be destroyed from inside a call of the sink. Plugins (DevicePlugin) given to
// the sink may outlive it: they answer with errors then. Limits: kMaxPending registrations at a time; messages of 4
// MiB. Endpoints are names of sockets in the folder. Errors: those of Registration are a kubelet's texts (code
// Unknown).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/device/device_manager.h"
#include "agent/device/socket/plugin_registry.h"
#include "base/event_loop.h"
#include "base/status.h"

namespace ghostfleet::agent {

class PluginSink {
 public:
  using PluginId = DeviceManager::PluginId;
  virtual ~PluginSink() = default;
  // An error is the answer of the registration.
  virtual Result<PluginId> plugin_registered(std::string_view resource, std::shared_ptr<DevicePlugin> plugin,
                                             PluginOptions options) = 0;
  // An error is logged; the plugin stays connected.
  virtual Status plugin_listed(PluginId plugin, std::vector<ListedDevice> devices) = 0;
  // The connection of a plugin that was not replaced has ended.
  virtual void plugin_gone(PluginId plugin) = 0;
};

// The sink that a DeviceManager is. `taken` is a resource that a DRA driver gives on this node; its devices would be
// there twice if a plugin gave them too. Empty: none.
class ManagerSink final : public PluginSink {
 public:
  ManagerSink(DeviceManager& manager, EventLoop& loop, std::string taken)
      : manager_(manager), loop_(loop), taken_(std::move(taken)) {}
  Result<PluginId> plugin_registered(std::string_view resource, std::shared_ptr<DevicePlugin> plugin,
                                     PluginOptions options) override {
    if (!taken_.empty() && resource == taken_)
      return invalid_argument(std::string(resource) +
                              " comes from the node's DRA driver; end the plugin, or the agent's --dra");
    return manager_.register_plugin(resource, std::move(plugin), options, loop_.now());
  }
  Status plugin_listed(PluginId plugin, std::vector<ListedDevice> devices) override {
    return manager_.list_devices(plugin, std::move(devices), loop_.now());
  }
  void plugin_gone(PluginId plugin) override { manager_.plugin_gone(plugin, loop_.now()); }

 private:
  DeviceManager& manager_;
  EventLoop& loop_;
  const std::string taken_;
};

struct PluginDirectoryOptions {
  std::string directory;                                // absolute
  Duration connect_timeout = std::chrono::seconds(10);  // until a plugin that registers has told its options
  Duration pre_start_timeout = std::chrono::seconds(30);
};

class PluginDirectory {
 public:
  static constexpr std::string_view kSocket = "kubelet.sock";
  static constexpr size_t kMaxPending = 64;

  static Result<std::unique_ptr<PluginDirectory>> open(EventLoop& loop, PluginDirectoryOptions options,
                                                       PluginSink& sink);
  virtual ~PluginDirectory() = default;  // connections end without a word to the sink
  virtual size_t connected() const = 0;
  // Of type DevicePlugin; lives as long as the directory.
  virtual PluginHandler& handler() = 0;
};

}  // namespace ghostfleet::agent
