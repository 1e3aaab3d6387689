#include "agent/device/socket/plugin_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <list>

#include "agent/device/plugin_messages.h"
#include "agent/device/socket/plugin_directory.h"
#include "base/files.h"
#include "base/folder_watch.h"
#include "base/text.h"
#include "kube/grpc/client.h"
#include "kube/grpc/server.h"

namespace ghostfleet::agent {
namespace {

using kube::grpc::RpcCallOptions;
using kube::grpc::RpcClient;
using kube::grpc::RpcServer;
using kube::grpc::RpcStatus;
using kube::grpc::ServerCall;
using CallPtr = std::shared_ptr<ServerCall>;

constexpr Duration kRegisterTimeout = std::chrono::seconds(30);  // the kubelet asks us meanwhile

void refuse_bytes(const CallPtr& call, const Status& why) {
  call->finish(kube::grpc::rpc_error(kube::grpc::RpcCode::kInternal,
                                     "grpc: error unmarshalling request: proto: " + why.message()));
}

class SocketService final : public PluginService {
 public:
  SocketService(EventLoop& loop, PluginServiceOptions options, std::shared_ptr<const PluginModel> model)
      : loop_(loop), options_(std::move(options)), model_(std::move(model)), unhealthy_(model_->count()) {}
  ~SocketService() override;

  Status begin();
  void set_faults(const std::vector<DeviceManager::Fault>& faults) override;
  bool registered() const override { return registered_; }
  size_t unhealthy() const override {
    return static_cast<size_t>(std::count(unhealthy_.begin(), unhealthy_.end(), true));
  }

 private:
  std::string path(std::string_view name) const { return fmt::format("{}/{}", options_.directory, name); }
  void say(const std::string& text) const {
    if (options_.say) options_.say(model_->resource() + ": " + text);
  }
  kube::grpc::RpcServices services();
  Status listen();
  void kubelet_appeared();
  void register_now();
  void registration_over(const RpcStatus& status);
  void retry_later();

  void list_and_watch(const CallPtr& call);
  void preferred(const CallPtr& call, const std::string& bytes);
  void allocate(const CallPtr& call, const std::string& bytes);
  Result<std::vector<uint32_t>> indexes_of(const TextList& ids) const;
  DeviceChoice choice_of(const PreferredRequest& request, const std::vector<uint32_t>& available,
                         std::vector<uint32_t> must_include) const;
  std::string device_list() const;

  EventLoop& loop_;
  const PluginServiceOptions options_;
  const std::shared_ptr<const PluginModel> model_;
  std::vector<bool> unhealthy_;
  std::list<CallPtr> watchers_;
  bool registered_ = false;
  EventLoop::TimerId retry_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::unique_ptr<FolderWatch> watch_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<RpcClient> kubelet_;
};

SocketService::~SocketService() {
  *alive_ = false;
  if (retry_ != 0) loop_.cancel(retry_);
}

Status SocketService::begin() {
  GF_RETURN_IF_ERROR(listen());
  // The watch first: a kubelet.sock that comes in between is seen by one of the two.
  auto watch =
      FolderWatch::open(loop_, options_.directory, [this](const std::string& name, FolderWatch::Change change) {
        if (name == PluginDirectory::kSocket && change == FolderWatch::Change::kAppeared) kubelet_appeared();
      });
  if (!watch.ok()) return watch.error().with_context("device plugin directory");
  watch_ = std::move(*watch);
  if (!file_exists(path(PluginDirectory::kSocket))) {
    say("waits for " + path(PluginDirectory::kSocket));
    return Status();
  }
  register_now();
  return Status();
}

kube::grpc::RpcServices SocketService::services() {
  kube::grpc::RpcServices out;
  out.unary("/v1beta1.DevicePlugin/GetDevicePluginOptions",
            [this](const CallPtr& call, const std::string&) { call->reply(encode_plugin_options(model_->options())); });
  out.unary("/v1beta1.DevicePlugin/ListAndWatch",
            [this](const CallPtr& call, const std::string&) { list_and_watch(call); });
  out.unary("/v1beta1.DevicePlugin/GetPreferredAllocation",
            [this](const CallPtr& call, const std::string& bytes) { preferred(call, bytes); });
  out.unary("/v1beta1.DevicePlugin/Allocate",
            [this](const CallPtr& call, const std::string& bytes) { allocate(call, bytes); });
  out.unary("/v1beta1.DevicePlugin/PreStartContainer", [](const CallPtr& call, const std::string& bytes) {
    const auto ids = decode_pre_start_request(bytes);
    ids.ok() ? call->reply("") : refuse_bytes(call, ids.error());
  });
  return out;
}

Status SocketService::listen() {
  kube::grpc::RpcServerOptions server;
  server.address = "unix:" + path(options_.socket_name);
  auto listening = RpcServer::listen(std::move(server), {&loop_}, services());
  if (!listening.ok()) return listening.error();
  server_ = std::move(*listening);
  return Status();
}

// A kubelet has started: our socket is gone, or is about to be. From the loop, since this is the watch's callback.
void SocketService::kubelet_appeared() {
  registered_ = false;
  loop_.post([this, alive = alive_] {
    if (!*alive) return;
    say("kubelet.sock is new");
    watchers_.clear();
    server_.reset();
    const Status listening = listen();
    if (listening.ok()) return register_now();
    say(listening.message());
    retry_later();
  });
}

void SocketService::register_now() {
  RegisterRequest request;
  request.version = kPluginVersion;
  request.endpoint = options_.socket_name;
  request.resource = model_->resource();
  request.options = model_->options();
  kube::grpc::RpcClientOptions client;
  client.host = "unix:" + path(PluginDirectory::kSocket);
  kubelet_ = RpcClient::create(loop_, client);
  RpcCallOptions call;
  call.timeout = kRegisterTimeout;
  call.wait_for_ready = true;  // a socket file is there a moment before somebody listens
  kubelet_->call("/v1beta1.Registration/Register", encode_register_request(request), call,
                 [this](const RpcStatus& status, const std::string&) { registration_over(status); });
}

void SocketService::registration_over(const RpcStatus& status) {
  registered_ = status.ok();
  // The connection has done its duty. Not from inside its callback.
  loop_.post([this, alive = alive_, client = kubelet_.get()] {
    if (*alive && kubelet_.get() == client) kubelet_.reset();
  });
  say(status.ok() ? fmt::format("registered with {} devices", model_->count()) : "not registered: " + status.text());
  if (!status.ok()) retry_later();
}

void SocketService::retry_later() {
  if (retry_ != 0) loop_.cancel(retry_);
  retry_ = loop_.run_after(kRetry, [this] {
    retry_ = 0;
    if (!file_exists(path(PluginDirectory::kSocket))) return;  // the watch tells when it is there
    // What failed may have been our own socket: there was none, or a kubelet has removed it.
    if (!file_exists(path(options_.socket_name))) server_.reset();
    if (!server_ && !listen().ok()) return retry_later();
    register_now();
  });
}

std::string SocketService::device_list() const {
  std::vector<PluginDevice> devices(model_->count());
  for (uint32_t i = 0; i < model_->count(); ++i) {
    devices[i].id = model_->id(options_.node, i);
    devices[i].health = unhealthy_[i] ? kUnhealthy : kHealthy;
    devices[i].numa_nodes = numa_nodes_of(model_->numa_nodes(i));
  }
  return encode_device_list(devices);
}

void SocketService::list_and_watch(const CallPtr& call) {
  if (!call->send(device_list())) return;
  watchers_.push_back(call);
  call->on_close([this, alive = alive_, weak = std::weak_ptr<ServerCall>(call)] {
    if (*alive) watchers_.remove(weak.lock());
  });
}

void SocketService::set_faults(const std::vector<DeviceManager::Fault>& faults) {
  std::vector<bool> now = model_->heals() ? std::vector<bool>(model_->count()) : unhealthy_;
  for (const DeviceManager::Fault& fault : faults) {
    for (const uint32_t index : model_->hit_by(fault.resource, fault.number, fault.code)) now[index] = true;
  }
  if (now == unhealthy_) return;
  unhealthy_ = std::move(now);
  say(fmt::format("{} of {} devices are unhealthy", unhealthy(), model_->count()));
  const SharedBytes list = kube::grpc::frame_message(device_list());
  for (const CallPtr& call : watchers_) call->send_framed(list);
}

Result<std::vector<uint32_t>> SocketService::indexes_of(const TextList& ids) const {
  std::vector<uint32_t> out;
  for (const std::string& id : ids) {
    const auto index = model_->find(options_.node, id);
    if (!index) {
      return invalid_argument(fmt::format("invalid allocation request for {}: unknown device: {}",
                                          go_quote(model_->resource()), go_quote(id)));
    }
    out.push_back(*index);
  }
  return out;
}

// What other resources of the hardware have given out is not known here: a kubelet does not tell.
DeviceChoice SocketService::choice_of(const PreferredRequest& request, const std::vector<uint32_t>& available,
                                      std::vector<uint32_t> must_include) const {
  DeviceChoice choice;
  choice.available.resize(model_->count());
  for (const uint32_t index : available) choice.available[index] = true;
  choice.must_include = std::move(must_include);
  choice.size = static_cast<uint32_t>(std::clamp<int64_t>(request.size, 0, model_->count()));
  return choice;
}

void SocketService::preferred(const CallPtr& call, const std::string& bytes) {
  const auto requests = decode_preferred_request(bytes);
  if (!requests.ok()) return refuse_bytes(call, requests.error());
  std::vector<TextList> answers;
  for (const PreferredRequest& request : *requests) {
    const auto available = indexes_of(request.available);
    const auto must_include = indexes_of(request.must_include);
    if (!available.ok()) return call->finish(kube::grpc::rpc_unknown(available.error().message()));
    if (!must_include.ok()) return call->finish(kube::grpc::rpc_unknown(must_include.error().message()));
    TextList ids;
    for (const uint32_t index : model_->prefer(choice_of(request, *available, *must_include)))
      ids.push_back(model_->id(options_.node, index));
    answers.push_back(std::move(ids));
  }
  call->reply(encode_preferred_response(answers));
}

void SocketService::allocate(const CallPtr& call, const std::string& bytes) {
  const auto requests = decode_allocate_request(bytes);
  if (!requests.ok()) return refuse_bytes(call, requests.error());
  std::vector<std::string> answers;
  for (const TextList& ids : *requests) {
    auto indexes = indexes_of(ids);
    if (!indexes.ok()) return call->finish(kube::grpc::rpc_unknown(indexes.error().message()));
    // A plugin is not told when devices become free: what other resources of the hardware gave out is not known here.
    const auto answer = model_->allocate(options_.node, *indexes, DeviceBits(model_->chips()));
    if (!answer.ok()) return call->finish(kube::grpc::rpc_unknown(answer.error().message()));
    answers.push_back(encode_response(*answer));
  }
  call->reply(encode_allocate_answers(answers));
}

}  // namespace

Result<std::unique_ptr<PluginService>> PluginService::start(EventLoop& loop, PluginServiceOptions options,
                                                            std::shared_ptr<const PluginModel> model) {
  auto service = std::make_unique<SocketService>(loop, std::move(options), std::move(model));
  GF_RETURN_IF_ERROR(service->begin());
  return std::unique_ptr<PluginService>(std::move(service));
}

}  // namespace ghostfleet::agent
