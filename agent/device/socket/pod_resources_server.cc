#include "agent/device/socket/pod_resources_server.h"

#include <fmt/format.h>

#include "base/files.h"
#include "base/token_bucket.h"
#include "kube/grpc/server.h"

namespace ghostfleet::agent {
namespace {

using kube::grpc::RpcServer;
using kube::grpc::ServerCall;
using CallPtr = std::shared_ptr<ServerCall>;

void append_entries(const std::string& resource, const HeldDevice& device, std::vector<ResourceDevices>* out) {
  if (device.numa_nodes == 0) return out->push_back({resource, {device.id}, 0});
  for (uint64_t rest = device.numa_nodes; rest != 0; rest &= rest - 1) {
    out->push_back({resource, {device.id}, rest & ~(rest - 1)});
  }
}

class SocketPodResources final : public PodResourcesServer {
 public:
  SocketPodResources(EventLoop& loop, const PodResourcesSource& source) : loop_(loop), source_(source) {}

  Status begin(const std::string& path) {
    GF_RETURN_IF_ERROR(make_directories(parent_directory(path)));
    kube::grpc::RpcServices services;
    add(&services, "v1alpha1", "List", [this](const CallPtr& call, const std::string&) { list_devices(call); });
    add(&services, "v1", "List", [this](const CallPtr& call, const std::string&) { list(call); });
    add(&services, "v1", "GetAllocatableResources", [this](const CallPtr& call, const std::string&) {
      call->reply(encode_allocatable(device_entries(source_.all_devices(), true)));
    });
    add(&services, "v1", "Get", [this](const CallPtr& call, const std::string& bytes) { get(call, bytes); });
    kube::grpc::RpcServerOptions options;
    options.address = "unix:" + path;
    auto server = RpcServer::listen(std::move(options), {&loop_}, std::move(services));
    if (!server.ok()) return server.error();
    server_ = std::move(*server);
    return Status();
  }

 private:
  void add(kube::grpc::RpcServices* services, std::string_view version, std::string_view method,
           kube::grpc::RpcServices::UnaryHandler handler) {
    services->unary(
        fmt::format("/{}.PodResourcesLister/{}", version, method),
        [this, handler = std::move(handler)](const CallPtr& call, const std::string& bytes) {
          if (bucket_.take(loop_.now())) return handler(call, bytes);
          call->finish(kube::grpc::rpc_error(kube::grpc::RpcCode::kResourceExhausted, "rejected by rate limit"));
        });
  }

  PodResources resources_of(const PodContainers& pod) const {
    PodResources out{pod.name, pod.ns, {}};
    for (const PodContainers::Container& one : pod.containers)
      out.containers.push_back({one.name, device_entries(source_.held(pod.uid, one.name), false), one.claims});
    return out;
  }

  void list_devices(const CallPtr& call) {
    std::vector<PodResources> pods;
    for (const PodContainers& pod : source_.active_pods()) {
      PodResources& out = pods.emplace_back(PodResources{pod.name, pod.ns, {}});
      for (const PodContainers::Container& one : pod.containers) {
        if (one.sidecar) continue;
        std::vector<ResourceDevices> devices = device_entries(source_.held(pod.uid, one.name), false);
        for (ResourceDevices& device : devices) device.numa_nodes = 0;
        out.containers.push_back({one.name, std::move(devices), {}});
      }
    }
    call->reply(encode_pod_resources_list(pods));
  }

  void list(const CallPtr& call) {
    std::vector<PodResources> pods;
    for (const PodContainers& pod : source_.active_pods()) pods.push_back(resources_of(pod));
    call->reply(encode_pod_resources_list(pods));
  }

  void get(const CallPtr& call, const std::string& bytes) {
    const auto request = decode_pod_resources_request(bytes);
    if (!request.ok()) {
      return call->finish(kube::grpc::rpc_error(
          kube::grpc::RpcCode::kInternal, "grpc: error unmarshalling request: proto: " + request.error().message()));
    }
    const auto& [name, ns] = *request;
    const auto pod = source_.find_pod(ns, name);
    if (pod) return call->reply(encode_pod_resources(resources_of(*pod)));
    call->finish(kube::grpc::rpc_unknown(fmt::format("pod {} in namespace {} not found", name, ns)));
  }

  EventLoop& loop_;
  const PodResourcesSource& source_;
  TokenBucket bucket_{kPerSecond, kBurst};
  std::unique_ptr<RpcServer> server_;
};

}  // namespace

Result<std::unique_ptr<PodResourcesServer>> PodResourcesServer::open(EventLoop& loop, const std::string& path,
                                                                     const PodResourcesSource& source) {
  auto server = std::make_unique<SocketPodResources>(loop, source);
  GF_RETURN_IF_ERROR(server->begin(path));
  return std::unique_ptr<PodResourcesServer>(std::move(server));
}

std::vector<ResourceDevices> device_entries(const std::vector<ContainerDevices>& held, bool healthy_only) {
  std::vector<ResourceDevices> out;
  for (const ContainerDevices& one : held) {
    for (const HeldDevice& device : one.devices) {
      if (device.healthy || !healthy_only) append_entries(one.resource, device, &out);
    }
  }
  return out;
}

}  // namespace ghostfleet::agent
