// PluginService: a device plugin as a program of its own: it serves v1beta1.DevicePlugin for ONE resource on a socket
// in a kubelet's device plugin directory, answers by a PluginModel, and registers. Any kubelet can use it.
//
// It registers as soon as kubelet.sock is there, and again whenever that is made anew: a kubelet that starts removes
// the plugins' sockets, so the service makes its own anew too. A registration that fails is tried again (kRetry). A
// model that does not heal (NVIDIA's GPUs) keeps a device Unhealthy until the program restarts.
//
// Thread rule: one EventLoop; everything on its thread. Ownership: what the callback captures outlives the service; not
// to be destroyed from inside it.
// Errors: start() fails when the socket's path is too long or in use, or the folder cannot be watched. Answers of the
// service are gRPC errors (code Unknown) with the model's words.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/device/device_manager.h"
#include "agent/device/plugin_model.h"
#include "base/event_loop.h"
#include "base/status.h"

namespace ghostfleet::agent {

struct PluginServiceOptions {
  std::string directory;    // absolute, and there
  std::string socket_name;  // "nvidia-gpu.sock"
  std::string node;         // which ids of devices come from
  // What happens, a line each: registered, refused, devices that change.
  std::function<void(const std::string&)> say;
};

class PluginService {
 public:
  static constexpr Duration kRetry = std::chrono::seconds(5);

  static Result<std::unique_ptr<PluginService>> start(EventLoop& loop, PluginServiceOptions options,
                                                      std::shared_ptr<const PluginModel> model);
  virtual ~PluginService() = default;

  // What is wrong with the hardware now; the kubelet is told when devices change their health.
  virtual void set_faults(const std::vector<DeviceManager::Fault>& faults) = 0;
  virtual bool registered() const = 0;
  virtual size_t unhealthy() const = 0;
};

}  // namespace ghostfleet::agent
