// ShardDrivers: the plugin registry of a fleet's first node and the DRA drivers in it that are programs (docs/dra.md):
// `ghostfleet agent --kubelet-root`. Their ResourceSlices, which they publish themselves, are removed as by a kubelet:
// all of the node when it registers, and those of a driver that is gone for 30 s.
//
// Thread rule: the shard's loop. Ownership: what the parts point at outlives it, and so does it the node's pods.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "agent/actions.h"
#include "agent/dra/socket/driver_host.h"
#include "base/event_loop.h"
#include "base/random.h"

namespace ghostfleet::emulator {

struct ShardDriversParts {
  std::string root;                                // absolute; what /var/lib/kubelet is to a kubelet
  std::string node;                                // name
  std::string own_driver;                          // that the node models; empty: none
  agent::PluginHandler* device_plugins = nullptr;  // of type DevicePlugin
  EventLoop* loop = nullptr;
  Rng* rng = nullptr;
  std::function<void(const agent::ApiRequest& request)> send;  // tag kDriversTag
  std::function<void()> health_changed;
  std::function<std::optional<std::set<std::string, std::less<>>>()> active_pods;  // DriverHostOptions
  std::function<void(std::string_view text)> tell_user;
};

inline constexpr agent::Tag kDriversTag = agent::Tag{1} << 60;

class ShardDrivers {
 public:
  static Result<std::unique_ptr<ShardDrivers>> open(ShardDriversParts parts);
  ~ShardDrivers();

  agent::ClaimDrivers& drivers() { return *host_; }
  // The Node is there: slices can be removed. The first time all of them are, unless the node's own driver sees to
  // that.
  void registered();
  void answered(const agent::ApiResponse& response);

 private:
  struct Wipe {
    std::string driver;  // empty: all of the node
    int tries = 0;
  };
  explicit ShardDrivers(ShardDriversParts parts) : parts_(std::move(parts)) {}
  Status begin();
  void wipe(std::string_view driver);
  void send_next();

  ShardDriversParts parts_;
  bool registered_ = false, waiting_ = false, refusal_told_ = false;
  std::deque<Wipe> wipes_;  // the first one is on its way, or waits for its next try
  EventLoop::TimerId timer_ = 0;
  std::unique_ptr<agent::DriverHost> host_;
  std::unique_ptr<agent::PluginRegistry> registry_;
};

}  // namespace ghostfleet::emulator
