// DriverHost: the DRA drivers of ONE node that are programs: plugins of type DRAPlugin in its plugin registry, asked as
// a kubelet asks them (NodePrepareResources, NodeUnprepareResources of v1, or v1beta1 when a driver names that first;
// NodeWatchResources of v1alpha1 for the health of devices), and what they have prepared, kept in the file
// dra_manager_state.
//
// A driver may have several plugins (while it is replaced by a newer one): the newest that is connected is asked. A
// call has 45 s. Health counts until its time-out (30 s unless the driver says otherwise) or until the stream ends,
// which is opened again each 5 s. When no plugin of a driver is connected any more, for 30 s, `wipe` is called: its
// ResourceSlices are to go. Claims of pods that are not there any more are given back once a minute.
// One thing is not as with a kubelet: whether a driver is connected is seen by its health stream; the end of a driver
// without that service is seen after 5 s at most.
//
// Thread rule: one EventLoop; everything on its thread, also the functions of the options. Ownership: what those reach
// outlives the host. Limits: kMostPlugins; health of kMostDevices devices of a driver. Errors: open(): the file of
// claims cannot be read or makes no sense (a kubelet does not start then either). A plugin is refused that serves
// neither version, whose name no driver can have, that is the node's own driver, or whose endpoint is taken.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "agent/device/socket/plugin_registry.h"
#include "agent/dra/claim_drivers.h"
#include "base/event_loop.h"
#include "base/status.h"

namespace ghostfleet::agent {

struct DriverHostOptions {
  std::string state_file;  // absolute
  std::string own_driver;  // name of the node's modelled driver; empty: none
  std::function<void(std::string_view driver)> wipe;
  std::function<void()> health_changed;
  // The uids of pods that have not ended; nothing while not all pods are known yet.
  std::function<std::optional<std::set<std::string, std::less<>>>()> active_pods;
  Duration call_timeout = std::chrono::seconds(45);
  Duration patience = std::chrono::seconds(30);
  Duration watch_retry = std::chrono::seconds(5);
  Duration reconcile_period = std::chrono::minutes(1);
};

class DriverHost : public ClaimDrivers {
 public:
  static constexpr std::string_view kStateFile = "dra_manager_state";
  static constexpr size_t kMostPlugins = 256, kMostDevices = 16384;

  static Result<std::unique_ptr<DriverHost>> open(EventLoop& loop, DriverHostOptions options);

  // Of type DRAPlugin; lives as long as the host.
  virtual PluginHandler& handler() = 0;
  virtual size_t plugins() const = 0;
};

}  // namespace ghostfleet::agent
