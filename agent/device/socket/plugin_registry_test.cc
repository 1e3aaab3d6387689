// Plugins that register by a socket in the folder: good ones, and those that lie, hang or are no plugins.
#include "agent/device/socket/plugin_registry.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "agent/device/socket/socket_harness.h"
#include "kube/http/unix_address.h"

namespace ghostfleet::agent {
namespace {

namespace fs = std::filesystem;
using kube::grpc::RpcServer;
using kube::grpc::RpcServices;
using kube::grpc::ServerCall;
using CallPtr = std::shared_ptr<ServerCall>;
using std::chrono::milliseconds;

// Takes every plugin, or none.
class RecordingHandler final : public PluginHandler {
 public:
  Status validate(const PluginInfo&) override { return invalid; }
  void add(const PluginInfo& info, Done done) override {
    if (refuse.ok()) added.push_back(info.name + "@" + fs::path(info.endpoint).filename().string());
    done(refuse);
  }
  void remove(const PluginInfo& info) override { removed.push_back(info.name); }
  Status invalid, refuse;
  std::vector<std::string> added, removed;
};

class PluginRegistryTest : public ::testing::Test {
 protected:
  PluginRegistryTest() { EXPECT_TRUE(fs::create_directory(folder())); }
  std::string folder() const { return h.path("reg"); }
  void open(PluginHandler* devices = nullptr) {
    PluginRegistryOptions o;
    o.directory = folder();
    o.handlers["DRAPlugin"] = &handler;
    if (devices != nullptr) o.handlers["DevicePlugin"] = devices;
    o.info_timeout = milliseconds(300);
    registry = std::move(PluginRegistry::open(h.loop, o).value());
  }
  // A plugin at reg/NAME that says so of itself; what it is told goes to `told`.
  std::unique_ptr<RpcServer> plugin(const std::string& socket, const PluginInfo& info) {
    RpcServices services;
    services.unary("/pluginregistration.Registration/GetInfo", [this, info](const CallPtr& call, const std::string&) {
      ++asked;
      call->reply(encode_plugin_info(info));
    });
    services.unary("/pluginregistration.Registration/NotifyRegistrationStatus",
                   [this](const CallPtr& call, const std::string& bytes) {
                     const auto status = decode_registration_status(bytes).value();
                     told.push_back(status.registered ? "registered" : status.error);
                     call->reply("");
                   });
    return h.serve("reg/" + socket, std::move(services));
  }
  bool was_told(const std::string& text) const { return std::find(told.begin(), told.end(), text) != told.end(); }
  bool registered(size_t count) {
    return h.run_until([&] { return registry->registered() == count; });
  }

  SocketHarness h;
  RecordingHandler handler;
  std::unique_ptr<PluginRegistry> registry;
  std::vector<std::string> told;
  int asked = 0;
};

TEST_F(PluginRegistryTest, SocketsThatAreThereAndThatCome) {
  const auto early = plugin("early.sock", {"DRAPlugin", "a.example", "/run/a.sock", {"v1"}});
  open();
  auto late = plugin("late.sock", {"DRAPlugin", "b.example", "", {"v1"}});
  ASSERT_TRUE(registered(2));
  EXPECT_EQ(handler.added, (std::vector<std::string>{"a.example@a.sock", "b.example@late.sock"}));
  EXPECT_EQ(told, (std::vector<std::string>{"registered", "registered"}));
  late.reset();  // its socket goes with it
  fs::remove(folder() + "/late.sock");
  ASSERT_TRUE(h.run_until([&] { return handler.removed.size() == 1; }));
  EXPECT_EQ(handler.removed[0], "b.example");
  late = plugin("late.sock", {"DRAPlugin", "b.example", "", {"v1"}});
  ASSERT_TRUE(registered(2));
  EXPECT_EQ(asked, 3) << "what is registered is not asked again";
}

TEST_F(PluginRegistryTest, FoldersBelowAreLookedAtToo) {
  open();
  ASSERT_TRUE(fs::create_directory(folder() + "/vendor"));
  auto inside = plugin("vendor/x.sock", {"DRAPlugin", "x.example", "", {"v1"}});
  ASSERT_TRUE(registered(1));
  fs::rename(folder() + "/vendor", h.path("elsewhere"));
  ASSERT_TRUE(h.run_until([&] { return handler.removed.size() == 1; }));
  EXPECT_EQ(registry->sockets(), 0u);
}

TEST_F(PluginRegistryTest, ARegistryThatIsRemovedIsMadeAnew) {
  open();
  fs::remove_all(folder());
  ASSERT_TRUE(h.run_until([&] { return fs::exists(folder()); }));
  const auto server = plugin("a.sock", {"DRAPlugin", "a.example", "", {"v1"}});
  EXPECT_TRUE(registered(1));
}

TEST_F(PluginRegistryTest, WhoIsRefusedIsToldWhyAndAskedAgain) {
  handler.invalid = invalid_argument("no such version");
  open();
  const auto server = plugin("a.sock", {"DRAPlugin", "a.example", "", {"v9"}});
  const auto csi = plugin("csi.sock", {"CSIPlugin", "ebs.csi.aws.com", "", {"1.0.0"}});
  ASSERT_TRUE(h.run_until([&] { return told.size() >= 2; }));
  std::sort(told.begin(), told.begin() + 2);
  EXPECT_EQ(told[0], "RegisterPlugin error -- no handler registered for plugin type: CSIPlugin at socket " + folder() +
                         "/csi.sock: this node takes plugins of type DRAPlugin");
  EXPECT_EQ(told[1], "RegisterPlugin error -- plugin validation failed with err: no such version");
  handler.invalid = Status();
  handler.refuse = invalid_argument("taken");
  ASSERT_TRUE(
      h.run_until([&] { return was_told("RegisterPlugin error -- plugin registration failed with err: taken"); }));
  handler.refuse = Status();
  ASSERT_TRUE(registered(1)) << "tried on";
  EXPECT_EQ(handler.removed.size(), 0u);
}

TEST_F(PluginRegistryTest, WhatIsNoPluginDoesNoHarm) {
  std::ofstream(folder() + "/notes.txt") << "text";
  fs::create_symlink("/dev/null", folder() + "/link.sock");
  auto dead = plugin("dead.sock", {});
  fs::rename(folder() + "/dead.sock", folder() + "/stale.sock");
  dead.reset();  // nobody listens on the socket that is left
  const auto hidden = plugin(".hidden.sock", {"DRAPlugin", "h.example", "", {"v1"}});
  std::vector<CallPtr> kept;
  RpcServices hangs;
  hangs.unary("/pluginregistration.Registration/GetInfo",
              [&kept](const CallPtr& call, const std::string&) { kept.push_back(call); });
  const auto hanging = h.serve("reg/hangs.sock", std::move(hangs));
  RpcServices rubbish;
  rubbish.unary("/pluginregistration.Registration/GetInfo",
                [](const CallPtr& call, const std::string&) { call->reply("\x0a\xff\xff"); });
  const auto liar = h.serve("reg/liar.sock", std::move(rubbish));
  const auto long_path = plugin("far.sock", {"DRAPlugin", "f.example", "/" + std::string(200, 'x'), {"v1"}});
  open();
  const auto good = plugin("good.sock", {"DRAPlugin", "g.example", "", {"v1"}});
  ASSERT_TRUE(registered(1));
  EXPECT_EQ(handler.added, std::vector<std::string>{"g.example@good.sock"});
  EXPECT_EQ(registry->sockets(), 5u) << "stale, hangs, liar, far and good";
  ASSERT_TRUE(h.run_until([&] { return kept.size() >= 2; })) << "a plugin that hangs is asked again";
  registry.reset();
}

TEST_F(PluginRegistryTest, AThousandSockets) {
  std::vector<std::unique_ptr<RpcServer>> servers;
  for (int i = 0; i < 200; ++i)
    servers.push_back(plugin("p" + std::to_string(i), {"DRAPlugin", "d" + std::to_string(i), "", {"v1"}}));
  const int one = ::socket(AF_UNIX, SOCK_STREAM, 0);  // bound, and nobody listens: its links are sockets too
  sockaddr_storage storage = kube::http::parse_unix_address("unix:" + folder() + "/q").value().storage;
  ASSERT_EQ(::bind(one, reinterpret_cast<sockaddr*>(&storage),
                   kube::http::parse_unix_address("unix:" + folder() + "/q").value().size),
            0);
  for (int i = 0; i < 799; ++i) fs::create_hard_link(folder() + "/q", folder() + "/q" + std::to_string(i));
  open();
  ASSERT_TRUE(registered(200));
  EXPECT_EQ(registry->sockets(), 1000u);
  ::close(one);
}

TEST_F(PluginRegistryTest, DevicePluginsComeThisWayToo) {
  ASSERT_TRUE(h.open_directory().ok());
  RpcServices services;
  services.unary("/v1beta1.DevicePlugin/GetDevicePluginOptions",
                 [](const CallPtr& call, const std::string&) { call->reply(""); });
  std::vector<CallPtr> streams;
  services.unary("/v1beta1.DevicePlugin/ListAndWatch", [&streams](const CallPtr& call, const std::string&) {
    streams.push_back(call);
    call->send(encode_device_list({{"d0", "Healthy", {}}, {"d1", "Healthy", {}}}));
  });
  const auto device_plugin = h.serve("radio.sock", std::move(services));
  open(&h.directory->handler());
  const auto bad = plugin("bad.sock", {"DevicePlugin", "radio", "", {"v1beta1"}});
  ASSERT_TRUE(h.run_until([&] { return told.size() == 1; }));
  EXPECT_EQ(told[0],
            "RegisterPlugin error -- plugin validation failed with err: invalid name of device plugin socket: "
            "the ResourceName \"radio\" is invalid");
  const auto old = plugin("old.sock", {"DevicePlugin", "example.com/old", "", {"v1alpha1"}});
  ASSERT_TRUE(h.run_until([&] {
    return was_told(
        "RegisterPlugin error -- plugin validation failed with err: manager version, v1beta1, is not among plugin "
        "supported versions [v1alpha1]");
  }));
  auto good = plugin("radio-reg.sock", {"DevicePlugin", "example.com/radio", h.path("radio.sock"), {"v1beta1"}});
  ASSERT_TRUE(h.run_until([&] { return h.sink.healthy("example.com/radio") == 2; }));
  EXPECT_TRUE(registered(1));
  good.reset();
  fs::remove(folder() + "/radio-reg.sock");
  ASSERT_TRUE(h.run_until([&] { return h.sink.ends == 1; }));
  EXPECT_EQ(h.directory->connected(), 0u);
}

}  // namespace
}  // namespace ghostfleet::agent
