// PluginConnection: the connection to ONE device plugin, from its registration to its end.
//
// Thread rule: the directory's loop. Ownership: shared by the directory and, weakly, by the DevicePlugin that the sink
// holds. The directory lets go of it from the loop, never from inside one of its calls.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/device/device_manager.h"
#include "agent/device/plugin_messages.h"
#include "agent/device/socket/plugin_directory.h"
#include "kube/grpc/client.h"

namespace ghostfleet::agent {

class PluginConnection final : public std::enable_shared_from_this<PluginConnection> {
 public:
  using Ready = std::function<void(Result<PluginOptions>)>;
  using Ended = std::function<void(const kube::grpc::RpcStatus&)>;
  using Listed = std::function<void(std::vector<ListedDevice>)>;

  // `socket`: absolute path.
  PluginConnection(EventLoop& loop, const PluginDirectoryOptions& options, std::string resource, std::string socket);

  const std::string& resource() const { return resource_; }
  const std::string& socket() const { return socket_; }
  PluginSink::PluginId id = 0;  // once the sink knows it

  // Connects and asks for the options; `ready` once, with a kubelet's text as an error.
  void connect(Ready ready);
  // Opens ListAndWatch: `listed` for each list, `ended` once.
  void watch(Listed listed, Ended ended);
  // The plugin as the sink sees it.
  std::shared_ptr<DevicePlugin> plugin();
  // No further callback; calls that are open fail.
  void close();

  void preferred_allocation(DeviceIds available, DeviceIds must_include, uint32_t size,
                            std::function<void(Result<DeviceIds>)> done);
  void allocate(const DeviceIds& ids, std::function<void(Result<AllocateResponse>)> done);
  void pre_start_container(const DeviceIds& ids, std::function<void(Status)> done);

 private:
  // One call; its answer or `stopped` when the connection is closed first.
  void call(std::string_view method, std::string_view request, Duration timeout,
            std::function<void(Result<std::string>)> done);
  Status stopped() const;

  EventLoop& loop_;
  const PluginDirectoryOptions options_;
  std::string resource_, socket_;
  bool closed_ = false;
  uint64_t last_call_ = 0;
  std::vector<std::pair<uint64_t, std::function<void(Result<std::string>)>>> open_;
  std::unique_ptr<kube::grpc::RpcClient> client_;
};

}  // namespace ghostfleet::agent
