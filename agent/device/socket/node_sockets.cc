#include "agent/device/socket/node_sockets.h"

#include "agent/device/device_checkpoint.h"
#include "base/files.h"
#include "base/log.h"

namespace ghostfleet::agent {
namespace {

constexpr std::string_view kLog = "device-plugins";

}  // namespace

Result<std::unique_ptr<NodeSockets>> NodeSockets::open(EventLoop& loop, const NodeSocketOptions& options,
                                                       DeviceManager& manager, Pods pods) {
  std::unique_ptr<NodeSockets> sockets(new NodeSockets(loop, manager, options.taken_resource, std::move(pods)));
  GF_RETURN_IF_ERROR(sockets->begin(options));
  return sockets;
}

NodeSockets::~NodeSockets() {
  *alive_ = false;
  if (write_posted_) write_checkpoint();
}

Status NodeSockets::begin(const NodeSocketOptions& options) {
  checkpoint_path_ = join_path(options.plugin_directory, std::string(kCheckpoint));
  pod_resources_path_ = options.pod_resources_socket.empty()
                            ? parent_directory(options.plugin_directory) + "/pod-resources/kubelet.sock"
                            : options.pod_resources_socket;
  restore();
  auto directory = PluginDirectory::open(loop_, PluginDirectoryOptions{options.plugin_directory}, sink_);
  if (!directory.ok()) return directory.error();
  directory_ = std::move(*directory);
  auto server = PodResourcesServer::open(loop_, pod_resources_path_, *this);
  if (!server.ok()) return server.error().with_context("PodResources");
  pod_resources_ = std::move(*server);
  return Status();
}

void NodeSockets::restore() {
  const auto text = read_file(checkpoint_path_, DeviceCheckpoint::kMaxBytes);
  if (!text.ok()) {
    if (text.error().code() != Code::kNotFound) log_warn(kLog, text.error().message());
    return;
  }
  const auto checkpoint = parse_device_checkpoint(*text);
  if (!checkpoint.ok()) {
    log_warn(kLog, checkpoint_path_ + ": " + checkpoint.error().message() + "; it goes on without");
    return;
  }
  manager_.restore(*checkpoint, loop_.now());
  restored_ = true;
}

void NodeSockets::checkpoint_changed() {
  if (std::exchange(write_posted_, true)) return;
  loop_.post([this, alive = alive_] {
    if (*alive) write_checkpoint();
  });
}

void NodeSockets::write_checkpoint() {
  write_posted_ = false;
  const Status written = write_file(checkpoint_path_, render_checkpoint(manager_.checkpoint()), 0600);
  if (!written.ok()) log_warn(kLog, written.message());
}

std::optional<PodContainers> NodeSockets::find_pod(std::string_view ns, std::string_view name) const {
  for (PodContainers& pod : pods_()) {
    if (pod.ns == ns && pod.name == name) return std::move(pod);
  }
  return std::nullopt;
}

}  // namespace ghostfleet::agent
