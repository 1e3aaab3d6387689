#include "agent/device/socket/plugin_connection.h"

#include <algorithm>

#include "kube/grpc/rpc_status.h"

namespace ghostfleet::agent {
namespace {

using kube::grpc::RpcCallOptions;
using kube::grpc::RpcCode;
using kube::grpc::RpcStatus;

constexpr std::string_view kOptions = "/v1beta1.DevicePlugin/GetDevicePluginOptions";
constexpr std::string_view kListAndWatch = "/v1beta1.DevicePlugin/ListAndWatch";
constexpr std::string_view kPreferred = "/v1beta1.DevicePlugin/GetPreferredAllocation";
constexpr std::string_view kAllocate = "/v1beta1.DevicePlugin/Allocate";
constexpr std::string_view kPreStart = "/v1beta1.DevicePlugin/PreStartContainer";

// An answer that cannot be read, as grpc-go tells it.
RpcStatus unreadable(const Status& why) {
  return kube::grpc::rpc_error(RpcCode::kInternal,
                               "grpc: failed to unmarshal the received message: proto: " + why.message());
}

// What is told of a plugin that could not be asked for its options.
Status connect_error(const RpcStatus& status) {
  const bool never_connected =
      status.code == RpcCode::kDeadlineExceeded && status.message.rfind("latest balancer error", 0) == 0;
  if (never_connected) return unavailable("failed to dial device plugin: context deadline exceeded");
  return unavailable("failed to get device plugin options: " + status.text());
}

// What the sink holds: it may outlive the connection.
class ConnectedPlugin final : public DevicePlugin {
 public:
  ConnectedPlugin(std::weak_ptr<PluginConnection> connection, std::string resource)
      : connection_(std::move(connection)), resource_(std::move(resource)) {}

  void preferred_allocation(DeviceIds available, DeviceIds must_include, uint32_t size,
                            std::function<void(Result<DeviceIds>)> done) override {
    const auto connection = connection_.lock();
    if (!connection) return done(gone());
    connection->preferred_allocation(std::move(available), std::move(must_include), size, std::move(done));
  }
  void allocate(DeviceIds ids, std::function<void(Result<AllocateResponse>)> done) override {
    const auto connection = connection_.lock();
    connection ? connection->allocate(ids, std::move(done)) : done(gone());
  }
  void pre_start_container(DeviceIds ids, std::function<void(Status)> done) override {
    const auto connection = connection_.lock();
    connection ? connection->pre_start_container(ids, std::move(done)) : done(gone());
  }

 private:
  Status gone() const { return unavailable("endpoint " + resource_ + " has been stopped"); }

  std::weak_ptr<PluginConnection> connection_;
  std::string resource_;
};

kube::grpc::RpcClientOptions client_options(const std::string& socket) {
  kube::grpc::RpcClientOptions out;
  out.host = "unix:" + socket;
  return out;
}

std::vector<ListedDevice> listed_devices(std::vector<PluginDevice> devices) {
  std::vector<ListedDevice> out;
  out.reserve(devices.size());
  for (PluginDevice& device : devices) {
    const uint64_t numa = device.numa_bits();
    out.push_back({std::move(device.id), device.health == kHealthy, numa});
  }
  return out;
}

}  // namespace

PluginConnection::PluginConnection(EventLoop& loop, const PluginDirectoryOptions& options, std::string resource,
                                   std::string socket)
    : loop_(loop),
      options_(options),
      resource_(std::move(resource)),
      socket_(std::move(socket)),
      client_(kube::grpc::RpcClient::create(loop, client_options(socket_))) {}

void PluginConnection::connect(Ready ready) {
  RpcCallOptions call;
  call.timeout = options_.connect_timeout;
  call.wait_for_ready = true;  // its socket may come a moment later
  client_->call(kOptions, "", call, [ready = std::move(ready)](const RpcStatus& status, const std::string& reply) {
    if (!status.ok()) return ready(connect_error(status));
    auto options = decode_plugin_options(reply);
    options.ok() ? ready(*options) : ready(connect_error(unreadable(options.error())));
  });
}

void PluginConnection::watch(Listed listed, Ended ended) {
  const auto ended_once = std::make_shared<Ended>(std::move(ended));
  const auto stream = std::make_shared<kube::grpc::RpcCallId>(0);
  *stream = client_->stream(
      kListAndWatch, "", {},
      [this, listed = std::move(listed), ended_once, stream](std::string_view message) {
        auto devices = decode_device_list(message);
        if (devices.ok()) return listed(listed_devices(std::move(*devices)));
        client_->cancel(*stream);
        (*ended_once)(unreadable(devices.error()));
      },
      [ended_once](const RpcStatus& status) { (*ended_once)(status); });
}

std::shared_ptr<DevicePlugin> PluginConnection::plugin() {
  return std::make_shared<ConnectedPlugin>(weak_from_this(), resource_);
}

Status PluginConnection::stopped() const { return unavailable("endpoint " + resource_ + " has been stopped"); }

void PluginConnection::close() {
  if (std::exchange(closed_, true)) return;
  client_.reset();
  for (auto& [number, done] : std::exchange(open_, {})) {
    // Never from inside the call that closed it.
    loop_.post([done = std::move(done), why = stopped()] { done(why); });
  }
}

void PluginConnection::call(std::string_view method, std::string_view request, Duration timeout,
                            std::function<void(Result<std::string>)> done) {
  if (closed_) return done(stopped());
  const uint64_t number = ++last_call_;
  open_.emplace_back(number, std::move(done));
  RpcCallOptions options;
  options.timeout = timeout;
  client_->call(method, request, options, [this, number](const RpcStatus& status, std::string reply) {
    const auto at = std::find_if(open_.begin(), open_.end(), [&](const auto& item) { return item.first == number; });
    if (at == open_.end()) return;
    const auto done = std::move(at->second);
    open_.erase(at);
    status.ok() ? done(std::move(reply)) : done(status.to_status());
  });
}

void PluginConnection::preferred_allocation(DeviceIds available, DeviceIds must_include, uint32_t size,
                                            std::function<void(Result<DeviceIds>)> done) {
  const PreferredRequest request{std::move(available), std::move(must_include), static_cast<int32_t>(size)};
  call(kPreferred, encode_preferred_request({request}), Duration(0),
       [done = std::move(done)](Result<std::string> reply) {
         if (!reply.ok()) return done(reply.error());
         auto containers = decode_preferred_response(*reply);
         if (!containers.ok()) return done(unreadable(containers.error()).to_status());
         done(containers->empty() ? DeviceIds() : std::move(containers->front()));
       });
}

void PluginConnection::allocate(const DeviceIds& ids, std::function<void(Result<AllocateResponse>)> done) {
  call(kAllocate, encode_allocate_request({ids}), Duration(0), [done = std::move(done)](Result<std::string> reply) {
    if (!reply.ok()) return done(reply.error());
    const auto containers = decode_allocate_answers(*reply);
    if (!containers.ok()) return done(unreadable(containers.error()).to_status());
    if (containers->empty()) return done(internal_error("no containers return in allocation response "));
    auto response = decode_response(containers->front());
    response.ok() ? done(std::move(*response)) : done(unreadable(response.error()).to_status());
  });
}

void PluginConnection::pre_start_container(const DeviceIds& ids, std::function<void(Status)> done) {
  call(kPreStart, encode_pre_start_request(ids), options_.pre_start_timeout,
       [done = std::move(done)](const Result<std::string>& reply) { done(reply.ok() ? Status() : reply.error()); });
}

}  // namespace ghostfleet::agent
