// For tests: a sink that remembers, a model of a plugin, and a folder with a loop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/device/plugin_messages.h"
#include "agent/device/socket/plugin_directory.h"
#include "agent/device/socket/plugin_service.h"
#include "kube/grpc/client.h"
#include "kube/grpc/server.h"
#include "tests/support/temporary_folder.h"

namespace ghostfleet::agent {

// What a node's device manager would know.
class RecordingSink final : public PluginSink {
 public:
  struct Plugin {
    PluginId id = 0;
    std::shared_ptr<DevicePlugin> plugin;
    PluginOptions options;
    std::vector<ListedDevice> devices;
    int lists = 0;
    bool gone = false;
  };

  Result<PluginId> plugin_registered(std::string_view resource, std::shared_ptr<DevicePlugin> plugin,
                                     PluginOptions options) override {
    if (!refuse.ok()) return refuse;
    Plugin& p = plugins[std::string(resource)];
    p = Plugin();
    p.id = ++last;
    p.plugin = std::move(plugin);
    p.options = options;
    ++registrations;
    return p.id;
  }
  Status plugin_listed(PluginId id, std::vector<ListedDevice> devices) override {
    for (auto& [resource, p] : plugins) {
      if (p.id != id) continue;
      p.devices = std::move(devices);
      ++p.lists;
    }
    return Status();
  }
  void plugin_gone(PluginId id) override {
    ++ends;
    for (auto& [resource, p] : plugins) p.gone = p.gone || p.id == id;
  }
  size_t healthy(const std::string& resource) {
    size_t n = 0;
    for (const ListedDevice& d : plugins[resource].devices) n += d.healthy;
    return n;
  }

  std::map<std::string, Plugin> plugins;
  PluginId last = 0;
  int registrations = 0, ends = 0;
  Status refuse;
};

class TestModel final : public PluginModel {
 public:
  TestModel(std::string resource, uint32_t count, bool heals = true)
      : PluginModel(std::move(resource), count), heals_(heals) {}
  PluginOptions options() const override { return {true, true}; }
  std::string id(std::string_view node, uint32_t index) const override {
    return std::string(node) + "-" + std::to_string(index);
  }
  uint64_t numa_nodes(uint32_t index) const override { return uint64_t{1} << (index % 2); }
  std::vector<uint32_t> prefer(const DeviceChoice& choice) const override {
    std::vector<uint32_t> out;  // the last ones
    for (uint32_t i = count(); i-- > 0 && out.size() < choice.size;) {
      if (choice.available[i]) out.push_back(i);
    }
    return out;
  }
  Result<AllocateResponse> allocate(std::string_view node, const std::vector<uint32_t>& indexes,
                                    const DeviceBits&) const override {
    if (indexes.size() > 3) return invalid_argument("at most 3 devices go together");
    AllocateResponse out;
    for (const uint32_t i : indexes) out.envs.emplace_back("DEVICE_" + std::to_string(i), id(node, i));
    return out;
  }
  std::vector<uint32_t> hit_by(std::string_view resource, uint32_t number, int) const override {
    return resource == this->resource() && number < count() ? std::vector<uint32_t>{number} : std::vector<uint32_t>{};
  }
  bool heals() const override { return heals_; }

 private:
  bool heals_;
};

class SocketHarness {
 public:
  std::string dir() const { return folder.path(); }
  std::string path(const std::string& name) const { return dir() + "/" + name; }
  Status open_directory(Duration connect_timeout = std::chrono::seconds(10)) {
    PluginDirectoryOptions options;
    options.directory = dir();
    options.connect_timeout = connect_timeout;
    auto opened = PluginDirectory::open(loop, options, sink);
    if (!opened.ok()) return opened.error();
    directory = std::move(*opened);
    return Status();
  }
  // The kubelet ends, as by a crash.
  void close_directory() {
    directory.reset();
    loop.run_for(std::chrono::milliseconds(1));
  }
  std::unique_ptr<PluginService> start_plugin(const std::string& socket, std::shared_ptr<const PluginModel> model) {
    PluginServiceOptions options;
    options.directory = dir();
    options.socket_name = socket;
    options.node = "n1";
    options.say = [this](const std::string& line) { said.push_back(line); };
    return std::move(PluginService::start(loop, options, std::move(model)).value());
  }
  // What a plugin of any sort answers.
  std::unique_ptr<kube::grpc::RpcServer> serve(const std::string& socket, kube::grpc::RpcServices services) {
    kube::grpc::RpcServerOptions options;
    options.address = "unix:" + path(socket);
    return std::move(kube::grpc::RpcServer::listen(options, {&loop}, std::move(services)).value());
  }
  // The answer of Register; empty: OK.
  std::string register_plugin(const RegisterRequest& request) {
    return register_bytes(encode_register_request(request));
  }
  std::string register_bytes(const std::string& bytes) {
    std::string text;
    bool done = false;
    begin_register(bytes, [&](const kube::grpc::RpcStatus& status) {
      done = true;
      text = status.text();
    });
    return run_until([&] { return done; }) ? text : "no answer";
  }
  void begin_register(const std::string& bytes, std::function<void(const kube::grpc::RpcStatus&)> done) {
    if (!client) {
      kube::grpc::RpcClientOptions options;
      options.host = "unix:" + path("kubelet.sock");
      client = kube::grpc::RpcClient::create(loop, options);
    }
    last_call = client->call("/v1beta1.Registration/Register", bytes, {},
                             [done = std::move(done)](const kube::grpc::RpcStatus& s, const std::string&) { done(s); });
  }
  bool run_until(const std::function<bool()>& condition, Duration limit = std::chrono::seconds(20)) {
    const TimePoint end = loop.now() + limit;
    while (!condition()) {
      if (loop.now() > end) return false;
      loop.run_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  tests::TemporaryFolder folder;
  EventLoop loop;
  RecordingSink sink;
  std::unique_ptr<PluginDirectory> directory;
  std::unique_ptr<kube::grpc::RpcClient> client;
  kube::grpc::RpcCallId last_call = 0;
  std::vector<std::string> said;
};

}  // namespace ghostfleet::agent
