// PluginRegistry: the folder where plugins of all sorts tell ONE node that they are there, as a kubelet's
// /var/lib/kubelet/plugins_registry: each socket in it, or in folders below, is asked what it is (GetInfo), handed to
// the handler of its type, and told what became of it (NotifyRegistrationStatus). A socket that goes away ends its
// plugin; one that comes anew is asked anew.
//
// Nothing in the folder is removed, and what is no socket, or begins with a dot, is left alone. A plugin that cannot be
// asked or is refused is asked again after kFirstRetry, then after twice the time, at most kLongestRetry. Times of a
// kubelet 1.36: 1 s for GetInfo, 5 s for NotifyRegistrationStatus. A type without a handler is told so.
//
// Thread rule: one EventLoop; everything on its thread, also the handlers' calls. Ownership: handlers outlive the
// registry. Limits: kMostAtOnce sockets are asked at a time, in the order in which they were seen; kMostSockets are
// known, and further ones left alone until some are gone (that is logged); folders kMostFolders, kDeepest below each
// other. Errors: open() fails when the folder cannot be made or watched. All that is refused is logged once for each
// text.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/device/registration_messages.h"
#include "base/event_loop.h"
#include "base/status.h"

namespace ghostfleet::agent {

// Who takes the plugins of one type.
class PluginHandler {
 public:
  using Done = std::function<void(const Status&)>;
  virtual ~PluginHandler() = default;
  // An error is told to the plugin. `info` has an endpoint.
  virtual Status validate(const PluginInfo& info) = 0;
  // `done` once, from the loop or from inside the call; an error is told to the plugin.
  virtual void add(const PluginInfo& info, Done done) = 0;
  // One that was added, or is being added.
  virtual void remove(const PluginInfo& info) = 0;
};

struct PluginRegistryOptions {
  std::string directory;                                        // absolute
  std::map<std::string, PluginHandler*, std::less<>> handlers;  // by type: "DRAPlugin"
  Duration info_timeout = std::chrono::seconds(1);
  Duration notify_timeout = std::chrono::seconds(5);
};

class PluginRegistry {
 public:
  static constexpr Duration kFirstRetry = std::chrono::milliseconds(500);
  static constexpr Duration kLongestRetry = std::chrono::seconds(122);
  static constexpr size_t kMostAtOnce = 64, kMostSockets = 4096, kMostFolders = 64;
  static constexpr int kDeepest = 4;

  static Result<std::unique_ptr<PluginRegistry>> open(EventLoop& loop, PluginRegistryOptions options);
  virtual ~PluginRegistry() = default;    // without a word to the handlers
  virtual size_t sockets() const = 0;     // that are known
  virtual size_t registered() const = 0;  // that were taken
};

}  // namespace ghostfleet::agent
