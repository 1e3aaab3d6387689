// A kubelet's side against plugins of ours and against plugins that do not behave.
#include "agent/device/socket/plugin_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "agent/device/socket/socket_harness.h"

namespace ghostfleet::agent {
namespace {

using kube::grpc::RpcServices;
using kube::grpc::RpcStatus;
using kube::grpc::ServerCall;
using CallPtr = std::shared_ptr<ServerCall>;

class PluginDirectoryTest : public ::testing::Test, public SocketHarness {
 protected:
  void TearDown() override {
    held.clear();
    client.reset();
    close_directory();
  }
  // A plugin that lists what `list` says and keeps the stream.
  RpcServices plugin(std::string list) {
    RpcServices out;
    out.unary("/v1beta1.DevicePlugin/GetDevicePluginOptions",
              [](const CallPtr& call, const std::string&) { call->reply(""); });
    out.unary("/v1beta1.DevicePlugin/ListAndWatch",
              [this, list = std::move(list)](const CallPtr& call, const std::string&) {
                call->send(list);
                held.push_back(call);
              });
    return out;
  }
  static RegisterRequest request(const std::string& endpoint, const std::string& resource = "example.com/gpu") {
    return {"v1beta1", endpoint, resource, {}};
  }
  std::vector<CallPtr> held;
};

TEST_F(PluginDirectoryTest, APluginRegistersListsAndAllocates) {
  ASSERT_TRUE(open_directory().ok());
  const auto plugin = start_plugin("gpu.sock", std::make_shared<TestModel>("example.com/gpu", 4));
  ASSERT_TRUE(run_until([&] { return sink.plugins["example.com/gpu"].lists == 1; }));
  EXPECT_TRUE(run_until([&] { return plugin->registered(); }));
  RecordingSink::Plugin& known = sink.plugins["example.com/gpu"];
  EXPECT_TRUE(known.options.pre_start && known.options.preferred_allocation);
  ASSERT_EQ(known.devices.size(), 4u);
  EXPECT_EQ(known.devices[3].id, "n1-3");
  EXPECT_TRUE(known.devices[3].healthy);
  EXPECT_EQ(known.devices[3].numa_nodes, 2u);

  Result<DeviceIds> preferred = internal_error("none");
  known.plugin->preferred_allocation({"n1-0", "n1-1", "n1-2"}, {"n1-0"}, 2,
                                     [&](Result<DeviceIds> r) { preferred = std::move(r); });
  ASSERT_TRUE(run_until([&] { return preferred.ok(); }));
  EXPECT_EQ(*preferred, (DeviceIds{"n1-2", "n1-1"}));

  Result<AllocateResponse> allocated = internal_error("none");
  known.plugin->allocate({"n1-1", "n1-2"}, [&](Result<AllocateResponse> r) { allocated = std::move(r); });
  ASSERT_TRUE(run_until([&] { return allocated.ok(); }));
  EXPECT_EQ(allocated->envs,
            (std::vector<std::pair<std::string, std::string>>{{"DEVICE_1", "n1-1"}, {"DEVICE_2", "n1-2"}}));

  bool started = false;
  known.plugin->pre_start_container({"n1-1"}, [&](const Status& s) { started = s.ok(); });
  EXPECT_TRUE(run_until([&] { return started; }));
}

TEST_F(PluginDirectoryTest, ErrorsOfAPluginComeInTheWordsOfGo) {
  ASSERT_TRUE(open_directory().ok());
  const auto plugin = start_plugin("gpu.sock", std::make_shared<TestModel>("example.com/gpu", 8));
  ASSERT_TRUE(run_until([&] { return sink.plugins["example.com/gpu"].lists == 1; }));
  std::string error;
  const auto take = [&](const Result<AllocateResponse>& r) { error = r.ok() ? "it was given" : r.error().message(); };
  sink.plugins["example.com/gpu"].plugin->allocate({"n1-0", "n1-1", "n1-2", "n1-3"}, take);
  ASSERT_TRUE(run_until([&] { return !error.empty(); }));
  EXPECT_EQ(error, "rpc error: code = Unknown desc = at most 3 devices go together");
  error.clear();
  sink.plugins["example.com/gpu"].plugin->allocate({"n2-0"}, take);
  ASSERT_TRUE(run_until([&] { return !error.empty(); }));
  EXPECT_EQ(
      error,
      "rpc error: code = Unknown desc = invalid allocation request for \"example.com/gpu\": unknown device: \"n2-0\"");
}

TEST_F(PluginDirectoryTest, HealthChangesAreListed) {
  ASSERT_TRUE(open_directory().ok());
  const auto healing = start_plugin("a.sock", std::make_shared<TestModel>("example.com/a", 4));
  const auto lasting = start_plugin("b.sock", std::make_shared<TestModel>("example.com/b", 4, false));
  ASSERT_TRUE(run_until([&] { return sink.healthy("example.com/a") == 4 && sink.healthy("example.com/b") == 4; }));
  healing->set_faults({{"example.com/a", 1, -1}, {"example.com/other", 2, -1}});
  lasting->set_faults({{"example.com/b", 1, -1}});
  ASSERT_TRUE(run_until([&] { return sink.healthy("example.com/a") == 3 && sink.healthy("example.com/b") == 3; }));
  EXPECT_FALSE(sink.plugins["example.com/a"].devices[1].healthy);
  healing->set_faults({});
  lasting->set_faults({});
  ASSERT_TRUE(run_until([&] { return sink.healthy("example.com/a") == 4; }));
  EXPECT_EQ(lasting->unhealthy(), 1u) << "a model that does not heal";
  EXPECT_EQ(sink.healthy("example.com/b"), 3u);
}

TEST_F(PluginDirectoryTest, RegistrationsThatAreRefused) {
  ASSERT_TRUE(open_directory().ok());
  const std::string unknown = "rpc error: code = Unknown desc = ";
  EXPECT_EQ(
      register_plugin({"v1alpha1", "a.sock", "example.com/gpu", {}}),
      unknown + "requested API version \"v1alpha1\" is not supported by kubelet. Supported version is [\"v1beta1\"]");
  for (const char* name :
       {"", "gpu", "kubernetes.io/gpu", "requests.example.com/gpu", "example.com/", "exa mple.com/gpu"}) {
    EXPECT_EQ(register_plugin(request("a.sock", name)), unknown + "the ResourceName \"" + name + "\" is invalid");
  }
  for (const std::string endpoint : {"", ".", "..", "../a.sock", "/run/a.sock", "x/a.sock", "kubelet.sock"}) {
    EXPECT_EQ(register_plugin(request(endpoint)),
              unknown + "the endpoint \"" + endpoint +
                  "\" is not the name of a plugin's socket in the device plugin directory");
  }
  EXPECT_EQ(
      register_bytes("\x0a\x7f"),
      "rpc error: code = Internal desc = grpc: error unmarshalling request: proto: cannot parse invalid wire-format "
      "data: " +
          decode_register_request("\x0a\x7f").error().message().substr(39));
  EXPECT_EQ(sink.registrations, 0);
  sink.refuse = invalid_argument("no room");
  const auto server = serve("a.sock", plugin(""));
  EXPECT_EQ(register_plugin(request("a.sock")), unknown + "no room");
  EXPECT_EQ(directory->connected(), 0u);
}

TEST_F(PluginDirectoryTest, APluginThatIsNotThere) {
  ASSERT_TRUE(open_directory(std::chrono::milliseconds(150)).ok());
  EXPECT_EQ(register_plugin(request("none.sock")),
            "rpc error: code = Unknown desc = failed to dial device plugin: context deadline exceeded");
}

TEST_F(PluginDirectoryTest, APluginThatServesOnlyAfterItRegistered) {
  ASSERT_TRUE(open_directory().ok());
  std::string answer = "none";
  begin_register(encode_register_request(request("late.sock")),
                 [&](const RpcStatus& status) { answer = status.text(); });
  bool later = false;
  loop.run_after(std::chrono::milliseconds(100), [&] { later = true; });
  ASSERT_TRUE(run_until([&] { return later; }));
  const auto server = serve("late.sock", plugin(encode_device_list({{"d", "Healthy", {}}})));
  ASSERT_TRUE(run_until([&] { return answer.empty(); })) << answer;
  EXPECT_TRUE(run_until([&] { return sink.healthy("example.com/gpu") == 1; }));
}

TEST_F(PluginDirectoryTest, APluginThatHangs) {
  ASSERT_TRUE(open_directory(std::chrono::milliseconds(150)).ok());
  RpcServices hanging;
  hanging.unary("/v1beta1.DevicePlugin/GetDevicePluginOptions",
                [this](const CallPtr& call, const std::string&) { held.push_back(call); });
  const auto server = serve("hang.sock", std::move(hanging));
  EXPECT_EQ(
      register_plugin(request("hang.sock")),
      "rpc error: code = Unknown desc = failed to get device plugin options: rpc error: code = DeadlineExceeded desc = "
      "context deadline exceeded");
  EXPECT_EQ(sink.registrations, 0);
}

TEST_F(PluginDirectoryTest, APluginThatHasNoOptions) {
  ASSERT_TRUE(open_directory().ok());
  const auto server = serve("bare.sock", RpcServices());
  EXPECT_EQ(
      register_plugin(request("bare.sock")),
      "rpc error: code = Unknown desc = failed to get device plugin options: rpc error: code = Unimplemented desc = "
      "unknown service v1beta1.DevicePlugin");
}

TEST_F(PluginDirectoryTest, WhoRegistersAndGoesAwayIsForgotten) {
  ASSERT_TRUE(open_directory().ok());
  RpcServices slow = plugin("");
  slow.unary("/v1beta1.DevicePlugin/GetDevicePluginOptions",
             [this](const CallPtr& call, const std::string&) { held.push_back(call); });
  const auto server = serve("slow.sock", std::move(slow));
  begin_register(encode_register_request(request("slow.sock")), [](const RpcStatus&) {});
  ASSERT_TRUE(run_until([&] { return held.size() == 1; }));
  client->cancel(last_call);
  ASSERT_TRUE(run_until([&] { return held[0]->closed(); })) << "the plugin is not asked any longer";
  EXPECT_EQ(sink.registrations, 0);
}

TEST_F(PluginDirectoryTest, APluginThatDiesInMidStream) {
  ASSERT_TRUE(open_directory().ok());
  auto server = serve("a.sock", plugin(encode_device_list({{"d", "Healthy", {}}})));
  ASSERT_EQ(register_plugin(request("a.sock")), "");
  ASSERT_TRUE(run_until([&] { return sink.healthy("example.com/gpu") == 1; }));
  const auto plugin_object = sink.plugins["example.com/gpu"].plugin;
  held.clear();
  server.reset();
  ASSERT_TRUE(run_until([&] { return sink.plugins["example.com/gpu"].gone; }));
  EXPECT_EQ(sink.ends, 1);
  EXPECT_TRUE(run_until([&] { return directory->connected() == 0; }));
  std::string error;
  ASSERT_TRUE(run_until([&] {
    plugin_object->allocate({"d"}, [&](const Result<AllocateResponse>& r) { error = r.error().message(); });
    return error == "endpoint example.com/gpu has been stopped";
  })) << error;
}

TEST_F(PluginDirectoryTest, AnAllocationThatItsPluginDoesNotSurvive) {
  ASSERT_TRUE(open_directory().ok());
  RpcServices dying = plugin(encode_device_list({{"d", "Healthy", {}}}));
  dying.unary("/v1beta1.DevicePlugin/Allocate",
              [this](const CallPtr& call, const std::string&) { held.push_back(call); });
  auto server = serve("a.sock", std::move(dying));
  ASSERT_EQ(register_plugin(request("a.sock")), "");
  ASSERT_TRUE(run_until([&] { return sink.healthy("example.com/gpu") == 1; }));
  std::string error;
  int answers = 0;
  sink.plugins["example.com/gpu"].plugin->allocate({"d"}, [&](const Result<AllocateResponse>& r) {
    error = r.error().message();
    ++answers;
  });
  ASSERT_TRUE(run_until([&] { return held.size() == 2; }));
  server.reset();
  ASSERT_TRUE(run_until([&] { return answers == 1; }));
  EXPECT_EQ(error, "rpc error: code = Unavailable desc = error reading from server: EOF");
  ASSERT_TRUE(run_until([&] { return sink.plugins["example.com/gpu"].gone; }));
  EXPECT_EQ(answers, 1);
}

TEST_F(PluginDirectoryTest, ListsThatAreNoProtobuf) {
  ASSERT_TRUE(open_directory().ok());
  const auto server = serve("a.sock", plugin("\x0a\x7f"));
  ASSERT_EQ(register_plugin(request("a.sock")), "");
  ASSERT_TRUE(run_until([&] { return sink.plugins["example.com/gpu"].gone; }));
  EXPECT_EQ(sink.plugins["example.com/gpu"].lists, 0);
  ASSERT_TRUE(run_until([&] { return held[0]->closed(); })) << "its connection is closed";
}

TEST_F(PluginDirectoryTest, AnswersOfAllocateThatMakeNoSense) {
  ASSERT_TRUE(open_directory().ok());
  std::string answer = encode_allocate_answers({});
  RpcServices lying = plugin(encode_device_list({{"d", "Healthy", {}}}));
  lying.unary("/v1beta1.DevicePlugin/Allocate",
              [&answer](const CallPtr& call, const std::string&) { call->reply(answer); });
  const auto server = serve("a.sock", std::move(lying));
  ASSERT_EQ(register_plugin(request("a.sock")), "");
  ASSERT_TRUE(run_until([&] { return sink.healthy("example.com/gpu") == 1; }));
  const auto error_of = [&] {
    std::string error;
    sink.plugins["example.com/gpu"].plugin->allocate(
        {"d"}, [&](const Result<AllocateResponse>& r) { error = r.error().message(); });
    run_until([&] { return !error.empty(); });
    return error;
  };
  EXPECT_EQ(error_of(), "no containers return in allocation response ");
  answer = encode_allocate_answers({"\x0a\x7f"});
  EXPECT_EQ(error_of().rfind("rpc error: code = Internal desc = grpc: failed to unmarshal the received message", 0),
            0u);
}

TEST_F(PluginDirectoryTest, RegisteringAgainWhileTheEarlierPluginLives) {
  ASSERT_TRUE(open_directory().ok());
  const auto first = serve("a.sock", plugin(encode_device_list({{"old", "Healthy", {}}})));
  const auto second = serve("b.sock", plugin(encode_device_list({{"new", "Healthy", {}}, {"sick", "unwell", {}}})));
  ASSERT_EQ(register_plugin(request("a.sock")), "");
  ASSERT_TRUE(run_until([&] { return sink.healthy("example.com/gpu") == 1; }));
  ASSERT_EQ(register_plugin(request("b.sock")), "");
  ASSERT_TRUE(run_until([&] { return sink.plugins["example.com/gpu"].lists == 1; }));
  EXPECT_EQ(sink.plugins["example.com/gpu"].devices[0].id, "new");
  EXPECT_FALSE(sink.plugins["example.com/gpu"].devices[1].healthy) << "any word but Healthy";
  ASSERT_TRUE(run_until([&] { return held[0]->closed(); })) << "the earlier one is let go of";
  EXPECT_EQ(sink.ends, 0);
  EXPECT_EQ(directory->connected(), 1u);
  ASSERT_EQ(register_plugin(request("b.sock")), "") << "the same plugin twice";
  EXPECT_TRUE(run_until([&] { return sink.registrations == 3 && sink.plugins["example.com/gpu"].lists == 1; }));
  EXPECT_EQ(sink.ends, 0);
}

TEST_F(PluginDirectoryTest, AKubeletThatStartsAgain) {
  ASSERT_TRUE(open_directory().ok());
  const auto plugin = start_plugin("gpu.sock", std::make_shared<TestModel>("example.com/gpu", 4));
  ASSERT_TRUE(run_until([&] { return sink.healthy("example.com/gpu") == 4; }));
  std::ofstream(path("kubelet_internal_checkpoint")) << "{}";
  close_directory();
  sink = RecordingSink();
  ASSERT_TRUE(open_directory().ok());
  EXPECT_FALSE(std::filesystem::exists(path("gpu.sock"))) << "sockets of plugins are removed";
  EXPECT_TRUE(std::filesystem::exists(path("kubelet_internal_checkpoint")));
  ASSERT_TRUE(run_until([&] { return sink.healthy("example.com/gpu") == 4; })) << "the plugin has noticed";
}

TEST_F(PluginDirectoryTest, APluginThatStartsBeforeTheKubelet) {
  const auto plugin = start_plugin("gpu.sock", std::make_shared<TestModel>("example.com/gpu", 2));
  ASSERT_FALSE(said.empty());
  EXPECT_EQ(said[0], "example.com/gpu: waits for " + path("kubelet.sock"));
  ASSERT_TRUE(open_directory().ok());
  ASSERT_TRUE(run_until([&] { return sink.healthy("example.com/gpu") == 2; }));
}

TEST_F(PluginDirectoryTest, APluginProgramThatIsStartedAgain) {
  ASSERT_TRUE(open_directory().ok());
  auto plugin = start_plugin("gpu.sock", std::make_shared<TestModel>("example.com/gpu", 2));
  ASSERT_TRUE(run_until([&] { return sink.healthy("example.com/gpu") == 2; }));
  plugin.reset();
  ASSERT_TRUE(run_until([&] { return sink.plugins["example.com/gpu"].gone; }));
  plugin = start_plugin("gpu.sock", std::make_shared<TestModel>("example.com/gpu", 3));
  ASSERT_TRUE(run_until([&] { return sink.healthy("example.com/gpu") == 3; }));
}

TEST_F(PluginDirectoryTest, TheFolder) {
  ASSERT_TRUE(open_directory().ok());
  PluginDirectoryOptions options;
  options.directory = dir();
  const auto second = PluginDirectory::open(loop, options, sink);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().message(),
            "listen on unix:" + path("kubelet.sock") + ": another process listens on this socket");
  options.directory = "plugins";
  EXPECT_EQ(PluginDirectory::open(loop, options, sink).error().message(),
            "device plugin directory \"plugins\": an absolute path is needed");
  options.directory = path("new/folder");
  EXPECT_TRUE(PluginDirectory::open(loop, options, sink).ok());
  struct stat info {};
  ASSERT_EQ(::stat(options.directory.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0750u);
  options.directory = path(std::string(110, 'd'));
  EXPECT_FALSE(PluginDirectory::open(loop, options, sink).ok());
  EXPECT_FALSE(std::filesystem::exists(options.directory)) << "nothing is made for nothing";
}

}  // namespace
}  // namespace ghostfleet::agent
