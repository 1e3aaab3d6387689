// Drivers that are programs: how they are asked, and what becomes of those that lie, hang or die.
#include "agent/dra/socket/driver_host.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "kube/grpc/server.h"
#include "tests/support/temporary_folder.h"

namespace ghostfleet::agent {
namespace {

using kube::grpc::RpcServer;
using kube::grpc::RpcServices;
using kube::grpc::ServerCall;
using CallPtr = std::shared_ptr<ServerCall>;
using std::chrono::milliseconds;

const std::string kDriver = "gpu.example.com";

class DriverHostTest : public ::testing::Test {
 protected:
  DriverHostTest() { open(); }
  void open(Duration patience = std::chrono::seconds(30)) {
    DriverHostOptions o;
    o.state_file = path("dra_manager_state");
    o.own_driver = "own.example.com";
    o.wipe = [this](std::string_view driver) { wiped.emplace_back(driver); };
    o.health_changed = [this] { ++health_changes; };
    o.active_pods = [this] { return active; };
    o.call_timeout = milliseconds(500);
    o.patience = patience;
    o.watch_retry = milliseconds(100);
    o.reconcile_period = milliseconds(50);
    auto opened = DriverHost::open(loop, o);
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    host = std::move(*opened);
  }
  std::string path(const std::string& name) const { return folder.path() + "/" + name; }
  // A driver that prepares what it is asked for; `change` makes something else of its answer.
  std::unique_ptr<RpcServer> serve(const std::string& socket, std::function<void(ClaimAnswers*)> change = nullptr,
                                   const std::string& version = "v1") {
    RpcServices services;
    const std::vector<std::string> methods{"NodePrepareResources", "NodeUnprepareResources"};
    for (const std::string& method : methods) {
      services.unary("/k8s.io.kubelet.pkg.apis.dra." + version + ".DRAPlugin/" + method,
                     [this, socket, method, change](const CallPtr& call, const std::string& bytes) {
                       ClaimAnswers answers;
                       const std::vector<ClaimName> claims = decode_claim_names(bytes).value();
                       for (const ClaimName& claim : claims) {
                         asked.push_back(socket + " " + method + " " + claim.name);
                         answers[claim.uid].devices = {{{"r"}, "n1", "gpu-0", {"example.com/gpu=0"}, ""}};
                       }
                       if (change) change(&answers);
                       const bool prepares = method == "NodePrepareResources";
                       call->reply(prepares ? encode_prepare_answers(answers) : encode_unprepare_answers(answers));
                     });
    }
    services.unary("/v1alpha1.DRAResourceHealth/NodeWatchResources",
                   [this](const CallPtr& call, const std::string&) { health = call; });
    return listen(socket, std::move(services));
  }
  std::unique_ptr<RpcServer> listen(const std::string& socket, RpcServices services) {
    kube::grpc::RpcServerOptions options;
    options.address = "unix:" + path(socket);
    return std::move(RpcServer::listen(options, {&loop}, std::move(services)).value());
  }
  PluginInfo info(const std::string& socket, std::vector<std::string> versions = {"v1.DRAPlugin"}) const {
    return {"DRAPlugin", kDriver, path(socket), std::move(versions)};
  }
  std::string add(const PluginInfo& plugin) {
    if (Status bad = host->handler().validate(plugin); !bad.ok()) return bad.message();
    std::string text;
    host->handler().add(plugin, [&text](const Status& status) { text = status.message(); });
    return text;
  }
  // What is wrong with the answer; empty: nothing.
  std::string prepare(const std::vector<ClaimName>& claims = {{"ns", "u1", "one"}}) {
    std::optional<std::string> fault;
    host->prepare(kDriver, claims, [&](const Result<ClaimAnswers>& answers) {
      fault = answer_fault("NodePrepareResources", {kDriver, claims}, answers);
    });
    return run_until([&] { return fault.has_value(); }) ? *fault : "no answer";
  }
  bool run_until(const std::function<bool()>& condition) {
    const TimePoint end = loop.now() + std::chrono::seconds(20);
    while (!condition()) {
      if (loop.now() > end) return false;
      loop.run_for(milliseconds(1));
    }
    return true;
  }

  tests::TemporaryFolder folder;
  EventLoop loop;
  std::optional<std::set<std::string, std::less<>>> active;
  std::vector<std::string> wiped, asked;
  int health_changes = 0;
  CallPtr health;
  std::unique_ptr<DriverHost> host;
};

TEST_F(DriverHostTest, ADriverIsAskedForAllClaimsTogether) {
  const auto server = serve("a.sock");
  EXPECT_FALSE(host->has(kDriver));
  ASSERT_EQ(add(info("a.sock")), "");
  EXPECT_TRUE(host->has(kDriver));
  EXPECT_EQ(prepare({{"ns", "u1", "one"}, {"ns", "u2", "two"}}), "");
  EXPECT_EQ(asked, (std::vector<std::string>{"a.sock NodePrepareResources one", "a.sock NodePrepareResources two"}));
}

TEST_F(DriverHostTest, TheFirstVersionThatBothSpeak) {
  const auto server = serve("a.sock", nullptr, "v1beta1");
  ASSERT_EQ(add(info("a.sock", {"v1alpha4.Node", "v1beta1.DRAPlugin", "v1.DRAPlugin"})), "");
  EXPECT_EQ(prepare(), "");
}

TEST_F(DriverHostTest, WhoIsRefused) {
  EXPECT_EQ(add(info("a.sock", {})), "invalid supported gRPC versions of DRA driver plugin " + kDriver +
                                         " at endpoint " + path("a.sock") +
                                         ": empty list of supported gRPC services (aka supported versions)");
  EXPECT_EQ(add(info("a.sock", {"v9", "x"})),
            "invalid supported gRPC versions of DRA driver plugin " + kDriver + " at endpoint " + path("a.sock") +
                R"(: none of services supported by the plugin (["v9" "x"]) are supported by the kubelet )"
                R"((["v1.DRAPlugin" "v1beta1.DRAPlugin"]))");
  PluginInfo bad = info("a.sock");
  for (const char* name : {"", "Big", "a/b", "-x"}) {
    bad.name = name;
    EXPECT_NE(add(bad).find("a driver's name is a DNS subdomain"), std::string::npos) << name;
  }
  bad.name = std::string(64, 'a');
  EXPECT_NE(add(bad).find("at most 63 characters"), std::string::npos);
  bad.name = "own.example.com";
  EXPECT_EQ(add(bad), "own.example.com is the node's own DRA driver; end the plugin, or start the agent without --dra");
  ASSERT_EQ(add(info("a.sock")), "");
  EXPECT_EQ(add(info("a.sock")), "endpoint " + path("a.sock") + " already registered for DRA driver plugin " + kDriver);
}

TEST_F(DriverHostTest, DriversThatLie) {
  const struct {
    std::function<void(ClaimAnswers*)> change;
    std::string fault;
  } cases[] = {
      {[](ClaimAnswers* a) { (*a)["other"] = {}; }, "NodePrepareResources returned result for unknown claim UID other"},
      {[](ClaimAnswers* a) { a->clear(); }, "NodePrepareResources skipped 1 ResourceClaims"},
      {[](ClaimAnswers* a) { (*a)["u1"].error = "no power"; },
       "NodePrepareResources failed for ResourceClaim one: no power"},
      {[](ClaimAnswers* a) { (*a)["u1"].devices[0].pool = std::string(5000, 'x'); },
       "NodePrepareResources: rpc error: code = Internal desc = grpc: failed to unmarshal the received message: proto: "
       "field 2: a text of 5000 bytes; at most 4096 are taken"},
  };
  int n = 0;
  for (const auto& c : cases) {
    const std::string socket = std::to_string(n++) + ".sock";
    const auto server = serve(socket, c.change);
    ASSERT_EQ(add(info(socket)), "");
    EXPECT_EQ(prepare(), c.fault);
    host->handler().remove(info(socket));
  }
}

TEST_F(DriverHostTest, DriversThatHangOrDie) {
  EXPECT_EQ(prepare(), "NodePrepareResources: DRA driver " + kDriver + " is not registered");
  std::vector<CallPtr> kept;
  RpcServices services;
  services.unary("/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources",
                 [&kept](const CallPtr& call, const std::string&) { kept.push_back(call); });
  auto server = listen("a.sock", std::move(services));
  ASSERT_EQ(add(info("a.sock")), "");
  EXPECT_EQ(prepare(), "NodePrepareResources: rpc error: code = DeadlineExceeded desc = context deadline exceeded");
  ASSERT_EQ(kept.size(), 1u);
  std::string fault;
  const std::vector<ClaimName> claims{{"ns", "u1", "one"}};
  host->prepare(kDriver, claims, [&](const Result<ClaimAnswers>& a) {
    fault = answer_fault("P", {kDriver, claims}, a);
  });
  ASSERT_TRUE(run_until([&] { return kept.size() == 2; }));
  kept.clear();
  server.reset();
  ASSERT_TRUE(run_until([&] { return !fault.empty(); }));
  EXPECT_EQ(fault.rfind("P: rpc error: code = ", 0), 0u) << fault;
  EXPECT_EQ(prepare().rfind("NodePrepareResources: rpc error: code = Unavailable desc = connection error", 0), 0u);
  // One that is removed with a call open.
  fault.clear();
  const auto again = serve("b.sock");
  host->prepare(kDriver, claims, [&](const Result<ClaimAnswers>& a) {
    fault = answer_fault("P", {kDriver, claims}, a);
  });
  host->handler().remove(info("a.sock"));
  ASSERT_TRUE(run_until([&] { return !fault.empty(); }));
  EXPECT_EQ(fault, "P: rpc error: code = Canceled desc = grpc: the client connection is closing");
}

TEST_F(DriverHostTest, TheNewestPluginThatIsConnectedIsAsked) {
  auto first = serve("a.sock");
  ASSERT_EQ(add(info("a.sock")), "");
  auto second = serve("b.sock");
  ASSERT_EQ(add(info("b.sock")), "");
  EXPECT_EQ(prepare(), "");
  EXPECT_EQ(asked.back(), "b.sock NodePrepareResources one");
  second.reset();
  ASSERT_TRUE(run_until([&] { return prepare().empty(); }));
  EXPECT_EQ(asked.back(), "a.sock NodePrepareResources one");
  host->handler().remove(info("a.sock"));
  EXPECT_TRUE(host->has(kDriver)) << "one that is away";
}

TEST_F(DriverHostTest, SlicesGoWhenADriverStaysAway) {
  host.reset();
  open(milliseconds(1500));
  auto server = serve("a.sock");
  ASSERT_EQ(add(info("a.sock")), "");
  server.reset();  // as by a crash: its registration stays
  ASSERT_TRUE(run_until([&] { return wiped.size() == 1; }));
  EXPECT_EQ(wiped[0], kDriver);
  server = serve("a.sock");
  ASSERT_TRUE(run_until([&] { return prepare().empty(); }));
  host->handler().remove(info("a.sock"));
  ASSERT_EQ(add(info("a.sock")), "") << "back in time";
  loop.run_for(milliseconds(2500));
  EXPECT_EQ(wiped.size(), 1u);
  host->handler().remove(info("a.sock"));
  ASSERT_TRUE(run_until([&] { return wiped.size() == 2; }));
}

TEST_F(DriverHostTest, HealthCountsUntilItIsOldOrTheStreamEnds) {
  const auto server = serve("a.sock");
  ASSERT_EQ(add(info("a.sock")), "");
  ASSERT_TRUE(run_until([&] { return health != nullptr; }));
  EXPECT_EQ(host->health_of(kDriver, "n1", "gpu-0").health, DeviceHealth::kUnknown);
  health->send(encode_health({{"n1", "gpu-0", DeviceHealth::kUnhealthy, 0, "XID 79" + std::string(2000, '!')},
                              {"n1", "gpu-1", DeviceHealth::kHealthy, 1, ""}}));
  ASSERT_TRUE(run_until([&] { return health_changes == 1; }));
  const DeviceState state = host->health_of(kDriver, "n1", "gpu-0");
  EXPECT_EQ(state.health, DeviceHealth::kUnhealthy);
  EXPECT_EQ(state.message.size(), 1024u);
  EXPECT_EQ(host->health_of(kDriver, "n1", "gpu-1").health, DeviceHealth::kHealthy);
  ASSERT_TRUE(run_until([&] { return host->health_of(kDriver, "n1", "gpu-1").health == DeviceHealth::kUnknown; }));
  EXPECT_EQ(host->health_of(kDriver, "n1", "gpu-0").health, DeviceHealth::kUnhealthy);
  health->send("\x0a\xff\xff");  // no message: the stream is opened again
  ASSERT_TRUE(run_until([&] { return host->health_of(kDriver, "n1", "gpu-0").health == DeviceHealth::kUnknown; }));
}

TEST_F(DriverHostTest, ClaimsOfPodsThatAreGoneAreGivenBack) {
  const auto server = serve("a.sock");
  ClaimCache::Entry& entry = host->cache().add("ns", "one");
  entry = {"u1", {"p1", "p2"}, {kDriver, "own.example.com"}, {{kDriver, "n1", "gpu-0", {"r"}, {"x/y=1"}, "s"}}, true};
  ASSERT_TRUE(host->save().ok());
  host.reset();
  open();
  ASSERT_NE(host->cache().find("ns", "one"), nullptr);
  const ClaimCache::Entry expected{
      "u1", {"p1", "p2"}, {kDriver, "own.example.com"}, {{kDriver, "n1", "gpu-0", {"r"}, {"x/y=1"}, "s"}}, false};
  loop.run_for(milliseconds(200));
  EXPECT_EQ(*host->cache().find("ns", "one"), expected) << "nothing is known of pods yet";
  active = std::set<std::string, std::less<>>{"p2"};
  ASSERT_TRUE(run_until([&] { return host->cache().find("ns", "one")->pods.size() == 1; }));
  EXPECT_EQ(asked.size(), 0u) << "another pod has it";
  active->clear();
  loop.run_for(milliseconds(200));
  EXPECT_EQ(host->cache().size(), 1u) << "the driver is not there";
  ASSERT_EQ(add(info("a.sock")), "");
  ASSERT_TRUE(run_until([&] { return host->cache().size() == 0; }));
  EXPECT_EQ(asked, std::vector<std::string>{"a.sock NodeUnprepareResources one"});
}

TEST_F(DriverHostTest, AFileOfClaimsThatMakesNoSense) {
  host.reset();
  const auto fails = [this](const std::string& text) {
    std::ofstream(path("dra_manager_state")) << text;
    DriverHostOptions o;
    o.state_file = path("dra_manager_state");
    const auto opened = DriverHost::open(loop, o);
    return opened.ok() ? std::string() : opened.error().message();
  };
  const std::string file = path("dra_manager_state") + ": claim checkpoint: ";
  const std::string what_to_do = "; remove the file when no pod of the node has claims";
  EXPECT_EQ(fails(R"({"Data":"{}","Checksum":1})"), file + "Checksum: 1: 2745614147 is expected" + what_to_do);
  EXPECT_EQ(fails(R"({"Data":"{}","Checksum":2745614147})"),
            file + "apiVersion: \"\": checkpoint.dra.kubelet.k8s.io/v1 is expected" + what_to_do);
  EXPECT_NE(fails("{"), "");
}

}  // namespace
}  // namespace ghostfleet::agent
