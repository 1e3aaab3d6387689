#include "agent/device/device_manager.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/device/device_test_support.h"
#include "agent/device/neuron_model.h"
#include "agent/device/nvidia_model.h"

namespace ghostfleet::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr std::string_view kRadio = "example.test/radio";

class DeviceManagerTest : public ::testing::Test {
 protected:
  static std::vector<ListedDevice> listed(std::vector<std::string> ids, size_t unhealthy = 0) {
    std::vector<ListedDevice> out;
    for (std::string& id : ids) out.push_back({std::move(id), out.size() >= unhealthy, 0});
    return out;
  }
  DeviceManager::PluginId add(const std::shared_ptr<ScriptedPlugin>& plugin, std::vector<std::string> ids,
                              PluginOptions options = {}) {
    const auto id = m_.register_plugin(kRadio, plugin, options, now_);
    EXPECT_TRUE(id.ok());
    EXPECT_TRUE(m_.list_devices(*id, listed(std::move(ids)), now_).ok());
    return *id;
  }
  // "": admitted; "-": not answered yet; else the error.
  std::string admit(PodDemand d) {
    auto answer = std::make_shared<std::string>("-");
    m_.admit(std::move(d), [answer](const Status& s) { *answer = s.message(); });
    last_ = answer;
    return *answer;
  }
  std::vector<std::string> ids(std::string_view uid, std::string_view container = "c") const {
    std::vector<std::string> out;
    for (const ContainerDevices& one : m_.held(uid, container)) {
      for (const HeldDevice& d : one.devices) out.push_back(d.id);
    }
    return out;
  }
  std::string count(std::string_view resource = kRadio) const {
    for (const DeviceCount& c : m_.counts()) {
      if (c.resource == resource) return fmt::format("{}/{}", c.capacity, c.allocatable);
    }
    return "absent";
  }
  void gpus(uint32_t n) {
    const auto models = nvidia_plugins({.gpus = n});
    for (const auto& model : *models) m_.register_model(model, now_);
  }

  CountingListener listener_;
  DeviceManager m_{"n", listener_};
  TimePoint now_{1000};
  std::shared_ptr<std::string> last_;
};

// The contract's table: what a Node shows after each event of a plugin's life.
struct LifeRow {
  std::string_view name;
  std::string_view events;  // r registered, l list of 4, u one of them unhealthy, x stream breaks, 5 minutes pass, 4 ..
                            // of them nearly, k kubelet restart with checkpoint, K without
  std::string_view count;
};
class DeviceLifeTest : public ::testing::TestWithParam<LifeRow> {};

TEST_P(DeviceLifeTest, TheNodeShows) {
  CountingListener listener;
  auto m = std::make_unique<DeviceManager>("n", listener);
  DeviceManager::PluginId id = 0;
  TimePoint now{1000};
  const auto list = [&](bool sick) {
    std::vector<ListedDevice> devices;
    for (int i = 0; i < 4; ++i) devices.push_back({fmt::format("d{}", i), i > 0 || !sick, 0});
    ASSERT_TRUE(m->list_devices(id, devices, now).ok());
  };
  for (const char event : GetParam().events) {
    switch (event) {
      case 'r': id = m->register_plugin(kRadio, std::make_shared<ScriptedPlugin>(), {}, now).value(); break;
      case 'l': list(false); break;
      case 'u': list(true); break;
      case 'x': m->plugin_gone(id, now); break;
      case '4': now = now + DeviceManager::kGrace - Duration(1); break;
      case '5': now = now + DeviceManager::kGrace; break;
      case 'k': {
        const DeviceCheckpoint kept = m->checkpoint();
        m = std::make_unique<DeviceManager>("n", listener);
        m->restore(kept, now);
        break;
      }
      default: m = std::make_unique<DeviceManager>("n", listener); break;
    }
    m->on_time(now);
  }
  std::string shown = "absent";
  for (const DeviceCount& c : m->counts()) shown = fmt::format("{}/{}", c.capacity, c.allocatable);
  EXPECT_EQ(shown, GetParam().count);
}

INSTANTIATE_TEST_SUITE_P(
    Table, DeviceLifeTest,
    ::testing::Values(LifeRow{"NeverStarted", "", "absent"}, LifeRow{"RegisteredWithoutAList", "r", "absent"},
                      LifeRow{"Listed", "rl", "4/4"}, LifeRow{"OneUnhealthy", "rlu", "4/3"},
                      LifeRow{"WellAgain", "rlul", "4/4"}, LifeRow{"StreamBreaks", "rlx", "4/0"},
                      LifeRow{"NotBackYet", "rlx4", "4/0"}, LifeRow{"NotBackInTime", "rlx5", "0/0"},
                      LifeRow{"BackInTime", "rlx4rl", "4/4"}, LifeRow{"BackLater", "rlx5ru", "4/3"},
                      LifeRow{"BackWithoutAListYet", "rlxr", "4/0"}, LifeRow{"Replaced", "rlrl", "4/4"},
                      LifeRow{"KubeletRestart", "rlk", "0/0"}, LifeRow{"AfterIt", "rlkrl", "4/4"},
                      LifeRow{"KubeletRestartAndNeverAgain", "rlk5", "0/0"},
                      LifeRow{"RestartWithoutCheckpoint", "rlK", "absent"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(DeviceManagerTest, NamesOfResourcesAreChecked) {
  for (const char* name :
       {"gpu", "kubernetes.io/gpu", "a.kubernetes.io/gpu", "example.test/", "example.test/a b", "/a"}) {
    const auto id = m_.register_plugin(name, std::make_shared<ScriptedPlugin>(), {}, now_);
    EXPECT_FALSE(id.ok()) << name;
  }
  for (uint32_t i = 0; i < DeviceManager::kMaxResources; ++i)
    EXPECT_TRUE(m_.register_plugin(fmt::format("a.b/r{}", i), std::make_shared<ScriptedPlugin>(), {}, now_).ok());
  EXPECT_FALSE(m_.register_plugin("a.b/more", std::make_shared<ScriptedPlugin>(), {}, now_).ok());
  EXPECT_TRUE(m_.register_plugin("a.b/r0", std::make_shared<ScriptedPlugin>(), {}, now_).ok());
}

TEST_F(DeviceManagerTest, StrangeListsAreTakenAsFarAsTheyMakeSense) {
  const auto plugin = std::make_shared<ScriptedPlugin>();
  const auto id = add(plugin, {"a", "", "b", "a", ""});
  EXPECT_EQ(count(), "2/2");
  EXPECT_THAT(listener_.problems, ElementsAre(HasSubstr("2 devices without an id and 1 twice")));
  std::vector<ListedDevice> many(100000);
  for (size_t i = 0; i < many.size(); ++i) many[i].id = std::to_string(i);
  const Status bad = m_.list_devices(id, many, now_);
  EXPECT_EQ(bad.code(), Code::kResourceExhausted);
  EXPECT_THAT(bad.message(), HasSubstr("lists 100000 devices: at most 16384 are taken"));
  EXPECT_EQ(count(), "2/2");
  many.resize(DeviceManager::kMaxDevices);
  EXPECT_TRUE(m_.list_devices(id, many, now_).ok());
  EXPECT_EQ(count(), "16384/16384");
}

TEST_F(DeviceManagerTest, AdmissionFailsInAKubeletsWords) {
  EXPECT_EQ(admit(demand("p0", kRadio, 1)), "");  // nobody's resource
  const auto plugin = std::make_shared<ScriptedPlugin>();
  const auto id = add(plugin, {"a", "b", "c"});
  EXPECT_EQ(admit(demand("runs", kRadio, 1)), "");
  EXPECT_EQ(admit(demand("p1", kRadio, 1)), "");
  EXPECT_EQ(admit(demand("p2", kRadio, 2)),
            "requested number of devices unavailable for example.test/radio. Requested: 2, Available: 1");
  EXPECT_EQ(admit(demand("p1", kRadio, 2)),
            "pod \"p1\" container \"c\" changed request for resource \"example.test/radio\" from 1 to 2");
  EXPECT_EQ(admit(demand("p1", kRadio, 1)), "");
  ASSERT_TRUE(m_.list_devices(id, listed({"a", "b", "c"}, 2), now_).ok());
  EXPECT_EQ(admit(demand("p1", kRadio, 1)),
            "previously allocated devices are no longer healthy; cannot allocate unhealthy devices example.test/radio");
  m_.plugin_gone(id, now_);
  EXPECT_EQ(admit(demand("p3", kRadio, 1)),
            "no healthy devices present; cannot allocate unhealthy devices example.test/radio");
  m_.on_time(now_ + DeviceManager::kGrace);
  EXPECT_EQ(admit(demand("p3", kRadio, 1)), "cannot allocate unregistered device example.test/radio");
  m_.forget("runs");
  m_.forget("p1");
  EXPECT_EQ(admit(demand("p3", kRadio, 1)), "");  // forgotten: the Node's 0 is what refuses it
}

TEST_F(DeviceManagerTest, ErrorsOfThePluginAreShownAndNothingIsHeld) {
  const auto plugin = std::make_shared<ScriptedPlugin>();
  add(plugin, {"a"});
  plugin->allocate_error = "rpc error: code = Unknown desc = the radio is off";
  EXPECT_EQ(admit(demand("p", kRadio, 1)), "rpc error: code = Unknown desc = the radio is off");
  EXPECT_EQ(m_.allocated(kRadio), 0u);
  plugin->allocate_error.clear();
  EXPECT_EQ(admit(demand("p", kRadio, 1)), "");
  EXPECT_THAT(m_.response_of("p", "c").envs, ElementsAre(Pair("DEVICE_a", "1")));
}

TEST_F(DeviceManagerTest, InitContainersHandTheirDevicesOnAndSidecarsDoNot) {
  const auto plugin = std::make_shared<ScriptedPlugin>();
  add(plugin, {"a", "b", "c", "d", "e"});
  PodDemand pod{"p",
                {{"init1", true, false, false, {{std::string(kRadio), 2}}},
                 {"side", true, true, false, {{std::string(kRadio), 1}}},
                 {"init2", true, false, false, {{std::string(kRadio), 1}}},
                 {"app1", false, false, false, {{std::string(kRadio), 1}}},
                 {"app2", false, false, false, {{std::string(kRadio), 2}}}}};
  EXPECT_EQ(admit(pod), "");
  EXPECT_THAT(ids("p", "init1"), ElementsAre("a", "b"));
  EXPECT_THAT(ids("p", "side"), ElementsAre("a"));  // of init1, which has ended by then; kept
  EXPECT_THAT(ids("p", "init2"), ElementsAre("b"));
  EXPECT_THAT(ids("p", "app1"), ElementsAre("b"));  // of the init containers
  EXPECT_THAT(ids("p", "app2"), ElementsAre("c", "d"));
  EXPECT_EQ(m_.allocated(kRadio), 4u);
}

TEST_F(DeviceManagerTest, DevicesOfEndedPodsAreFreeAtTheNextAdmission) {
  const auto plugin = std::make_shared<ScriptedPlugin>();
  add(plugin, {"a"});
  EXPECT_EQ(admit(demand("p", kRadio, 1)), "");
  m_.ended("p");
  EXPECT_EQ(m_.allocated(kRadio), 1u);
  EXPECT_THAT(m_.held(), IsEmpty());
  EXPECT_EQ(m_.checkpoint().entries.size(), 1u);
  EXPECT_EQ(admit(demand("q", kRadio, 1)), "");
  EXPECT_THAT(ids("p"), ElementsAre("a"));  // as its last status says
  EXPECT_EQ(m_.checkpoint().entries.size(), 1u);
  EXPECT_EQ(m_.checkpoint().entries[0].pod_uid, "q");
}

TEST_F(DeviceManagerTest, PreferredDevicesAreTakenAsFarAsTheyWereOffered) {
  const auto plugin = std::make_shared<ScriptedPlugin>();
  add(plugin, {"a", "b", "c", "d"}, {.preferred_allocation = true});
  plugin->prefers = {"zzz", "d", "d", "", "b"};
  EXPECT_EQ(admit(demand("p", kRadio, 2)), "");
  EXPECT_THAT(ids("p"), ElementsAre("b", "d"));
  plugin->prefers = {"d", "b"};  // held by another
  EXPECT_EQ(admit(demand("q", kRadio, 2)), "");
  EXPECT_THAT(ids("q"), ElementsAre("a", "c"));
  EXPECT_THAT(plugin->asked_available[1], ElementsAre("a", "c"));
  EXPECT_THAT(plugin->allocated[1], UnorderedElementsAre("a", "c"));
}

TEST_F(DeviceManagerTest, ANumaNodeThatHasEnoughIsPreferred) {
  m_.set_topology(TopologyPolicy::kBestEffort, TopologyScope::kContainer);
  const auto plugin = std::make_shared<ScriptedPlugin>();
  const auto id = m_.register_plugin(kRadio, plugin, {.preferred_allocation = true}, now_).value();
  ASSERT_TRUE(
      m_.list_devices(id, {{"a", true, 1}, {"b", true, 2}, {"c", true, 2}, {"d", true, 2}, {"e", true, 1}}, now_).ok());
  plugin->prefers = {"a", "d"};  // a is on the wrong node
  EXPECT_EQ(admit(demand("p", kRadio, 1)), "");
  EXPECT_THAT(ids("p"), ElementsAre("a"));
  plugin->prefers = {"e", "d"};
  EXPECT_EQ(admit(demand("q", kRadio, 2)), "");
  EXPECT_THAT(plugin->asked_available.back(), ElementsAre("b", "c", "d"));
  EXPECT_THAT(ids("q"), ElementsAre("b", "d"));
  plugin->prefers = {};
  EXPECT_EQ(admit(demand("r", kRadio, 2)), "");  // no node has two
  EXPECT_THAT(ids("r"), ElementsAre("c", "e"));
}

// GPUs 0 to 3 are on NUMA node 0, 4 to 7 on node 1.
TEST_F(DeviceManagerTest, ATopologyPolicyRefusesWhatSpansNodesWithoutNeed) {
  gpus(8);
  m_.set_topology(TopologyPolicy::kRestricted, TopologyScope::kContainer);
  EXPECT_EQ(admit(demand("a", kGpuResource, 1)), "");
  EXPECT_EQ(admit(demand("b", kGpuResource, 4)), "") << "node 1";
  EXPECT_EQ(admit(demand("c", kGpuResource, 2)), "");
  EXPECT_EQ(admit(demand("d", kGpuResource, 2)), kTopologyRefusal);
  EXPECT_TRUE(ids("d").empty());
  EXPECT_EQ(admit(demand("e", kGpuResource, 1)), "") << "who was refused holds nothing";
  for (const char* uid : {"a", "b", "c", "e"}) m_.ended(uid);
  EXPECT_EQ(admit(demand("f", kGpuResource, 5)), "") << "no node could hold five";
  m_.ended("f");
  m_.set_topology(TopologyPolicy::kSingleNumaNode, TopologyScope::kContainer);
  EXPECT_EQ(admit(demand("g", kGpuResource, 5)), kTopologyRefusal);
  EXPECT_EQ(admit(demand("h", kGpuResource, 4)), "");
}

TEST_F(DeviceManagerTest, TheScopeOfATopologyPolicy) {
  const std::string gpu(kGpuResource);
  const auto two = [&](const char* uid, uint32_t each) {
    return PodDemand{uid, {{"c", false, false, false, {{gpu, each}}}, {"d", false, false, false, {{gpu, each}}}}};
  };
  gpus(8);
  m_.set_topology(TopologyPolicy::kSingleNumaNode, TopologyScope::kPod);
  EXPECT_EQ(admit(two("a", 3)), kTopologyRefusal) << "six are on no node";
  m_.set_topology(TopologyPolicy::kSingleNumaNode, TopologyScope::kContainer);
  EXPECT_EQ(admit(two("b", 3)), "");
  m_.ended("b");
  m_.set_topology(TopologyPolicy::kSingleNumaNode, TopologyScope::kPod);
  EXPECT_EQ(admit(demand("x", kGpuResource, 1)), "");
  EXPECT_EQ(admit(two("e", 2)), "");
  for (const char* container : {"c", "d"}) {
    for (const ContainerDevices& one : m_.held("e", container)) {
      for (const HeldDevice& device : one.devices) EXPECT_EQ(device.numa_nodes, 2u) << "the node that has four";
    }
  }
}

TEST_F(DeviceManagerTest, AnInitContainersDevicesDecideTheNode) {
  const std::string gpu(kGpuResource);
  gpus(8);
  m_.set_topology(TopologyPolicy::kRestricted, TopologyScope::kContainer);
  EXPECT_EQ(admit({"a", {{"i", true, false, false, {{gpu, 1}}}, {"c", false, false, false, {{gpu, 4}}}}}), "");
  const std::vector<ContainerDevices> held = m_.held("a", "c");
  ASSERT_EQ(held.size(), 1u);
  for (const HeldDevice& device : held[0].devices) EXPECT_EQ(device.numa_nodes, 1u);
}

TEST_F(DeviceManagerTest, AnAdmissionWaitsForItsPluginAndThoseBehindItWait) {
  const auto plugin = std::make_shared<ScriptedPlugin>();
  add(plugin, {"a", "b"}, {.preferred_allocation = true});
  plugin->later = true;
  EXPECT_EQ(admit(demand("p", kRadio, 1)), "-");
  const auto first = last_;
  EXPECT_EQ(admit(demand("q", kRadio, 1)), "-");
  const auto second = last_;
  EXPECT_EQ(admit({"r", {{"c", false, false, false, {}}}}), "");  // wants none
  plugin->answer_one();
  plugin->answer_one();
  EXPECT_EQ(*first, "");
  EXPECT_EQ(*second, "-");
  plugin->answer_one();
  plugin->answer_one();
  EXPECT_EQ(*second, "");
  EXPECT_THAT(ids("p"), ElementsAre("a"));
  EXPECT_THAT(ids("q"), ElementsAre("b"));
}

TEST_F(DeviceManagerTest, LateAnswersOfAReplacedPluginArePassedOver) {
  const auto old = std::make_shared<ScriptedPlugin>();
  const auto old_id = add(old, {"a", "b"});
  old->later = true;
  EXPECT_EQ(admit(demand("p", kRadio, 1)), "-");
  const auto answer = last_;
  const auto fresh = std::make_shared<ScriptedPlugin>();
  add(fresh, {"b", "c", "d"});
  EXPECT_EQ(*answer, "rpc error: code = Canceled desc = grpc: the client connection is closing");
  EXPECT_EQ(admit(demand("q", kRadio, 1)), "");
  EXPECT_THAT(ids("q"), ElementsAre("b"));
  old->answer_one();
  EXPECT_THAT(ids("p"), IsEmpty());
  EXPECT_TRUE(m_.list_devices(old_id, listed({"x"}), now_).ok());
  m_.plugin_gone(old_id, now_);
  EXPECT_EQ(count(), "3/3");
}

TEST_F(DeviceManagerTest, APluginThatDiesBeforeItAnswersFailsTheAdmission) {
  const auto plugin = std::make_shared<ScriptedPlugin>();
  const auto id = add(plugin, {"a"});
  plugin->later = true;
  EXPECT_EQ(admit(demand("p", kRadio, 1)), "-");
  m_.plugin_gone(id, now_);
  EXPECT_EQ(*last_, "endpoint example.test/radio has been stopped");
  plugin->answer_one();
  EXPECT_EQ(m_.allocated(kRadio), 0u);
}

TEST_F(DeviceManagerTest, APodThatEndsWhileItWaitsIsAnswered) {
  const auto plugin = std::make_shared<ScriptedPlugin>();
  add(plugin, {"a"});
  plugin->later = true;
  EXPECT_EQ(admit(demand("p", kRadio, 1)), "-");
  const auto first = last_;
  EXPECT_EQ(admit(demand("q", kRadio, 1)), "-");
  m_.forget("p");
  EXPECT_EQ(*first, "the pod has ended");
  plugin->answer_one();  // of p
  EXPECT_EQ(*last_, "-");
  plugin->answer_one();
  EXPECT_EQ(*last_, "");
}

TEST_F(DeviceManagerTest, AnswersAfterTheManagerIsGoneArePassedOver) {
  const auto plugin = std::make_shared<ScriptedPlugin>();
  auto m = std::make_unique<DeviceManager>("n", listener_);
  const auto id = m->register_plugin(kRadio, plugin, {}, now_).value();
  ASSERT_TRUE(m->list_devices(id, listed({"a"}), now_).ok());
  plugin->later = true;
  m->admit(demand("p", kRadio, 1), [](const Status&) { FAIL(); });
  m.reset();
  plugin->answer_one();
}

TEST_F(DeviceManagerTest, HeldDevicesKeepTheirIdsWhenTheListChanges) {
  const auto plugin = std::make_shared<ScriptedPlugin>();
  const auto id = add(plugin, {"a", "b", "c"});
  EXPECT_EQ(admit(demand("p", kRadio, 2)), "");
  EXPECT_EQ(listener_.health, 1);
  ASSERT_TRUE(m_.list_devices(id, listed({"z", "b"}), now_).ok());
  EXPECT_THAT(ids("p"), ElementsAre("a", "b"));
  EXPECT_FALSE(m_.held("p", "c")[0].devices[0].healthy);
  EXPECT_TRUE(m_.held("p", "c")[0].devices[1].healthy);
  EXPECT_EQ(admit(demand("q", kRadio, 2)),
            "requested number of devices unavailable for example.test/radio. Requested: 2, Available: 1");
  ASSERT_TRUE(m_.list_devices(id, listed({"a", "b", "c"}), now_).ok());
  EXPECT_TRUE(m_.held("p", "c")[0].devices[0].healthy);
}

TEST_F(DeviceManagerTest, PreStartContainerIsCalledWhereItIsAskedFor) {
  const auto plugin = std::make_shared<ScriptedPlugin>();
  add(plugin, {"a"}, {.pre_start = true});
  EXPECT_EQ(admit(demand("p", kRadio, 1)), "");
  plugin->later = true;
  int answers = 0;
  m_.pre_start("p", "c", [&](const Status& s) { answers += s.ok() ? 1 : 100; });
  EXPECT_THAT(plugin->pre_started, ElementsAre(ElementsAre("a")));
  EXPECT_EQ(answers, 0);
  plugin->answer_one();
  EXPECT_EQ(answers, 1);
  m_.pre_start("p", "other", [&](const Status& s) { answers += s.ok() ? 1 : 100; });
  EXPECT_EQ(answers, 2);
}

TEST_F(DeviceManagerTest, ACheckpointBringsDevicesBackBeforeThePluginDoes) {
  const auto plugin = std::make_shared<ScriptedPlugin>();
  add(plugin, {"a", "b"});
  EXPECT_EQ(admit(demand("p", kRadio, 1)), "");
  EXPECT_EQ(admit(demand("gone", kRadio, 1)), "");
  const auto kept = parse_device_checkpoint(render_checkpoint(m_.checkpoint()));
  ASSERT_TRUE(kept.ok()) << kept.error().message();
  DeviceManager next("n", listener_);
  next.await_pods(false);
  next.restore(*kept, now_);
  next.adopt("p", {"c", false, false, true, {{std::string(kRadio), 1}}}, kRadio, {});
  EXPECT_EQ(next.allocated(kRadio), 2u);  // the Node is taken to have at least these
  EXPECT_EQ(next.held("p", "c")[0].devices[0].id, "a");
  EXPECT_FALSE(next.held("p", "c")[0].devices[0].healthy);
  EXPECT_THAT(next.response_of("p", "c").envs, ElementsAre(Pair("DEVICE_a", "1")));
  const auto id = next.register_plugin(kRadio, plugin, {}, now_).value();
  ASSERT_TRUE(next.list_devices(id, listed({"b", "a"}), now_).ok());
  EXPECT_TRUE(next.held("p", "c")[0].devices[0].healthy);
  std::string answer = "-";
  next.admit(demand("q", kRadio, 1), [&](const Status& s) { answer = s.message(); });
  EXPECT_EQ(answer, "requested number of devices unavailable for example.test/radio. Requested: 1, Available: 0");
  next.pods_known();  // "gone" did not come
  next.admit(demand("q", kRadio, 1), [&](const Status& s) { answer = s.message(); });
  EXPECT_EQ(answer, "");
  EXPECT_EQ(next.held("q", "c")[0].devices[0].id, "b");
}

TEST_F(DeviceManagerTest, AReadmittedPodKeepsItsDevicesOrFails) {
  gpus(4);
  const auto id = [](uint32_t i) { return device_uuid("GPU-", "n", kGpuResource, i); };
  m_.adopt("p", {"c", false, false, false, {{std::string(kGpuResource), 1}}}, kGpuResource, {id(2)});
  EXPECT_EQ(admit(demand("p", kGpuResource, 1)), "");
  EXPECT_THAT(ids("p"), ElementsAre(id(2)));
  m_.model_gone(kGpuResource, true, now_);
  EXPECT_EQ(count(kGpuResource), "0/0");
  EXPECT_EQ(admit(demand("p", kGpuResource, 1)),
            "no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu");
}

TEST_F(DeviceManagerTest, WithoutACheckpointNewPodsWaitForThoseThatRun) {
  m_.await_pods(true);
  gpus(2);
  const ContainerDemand running{"c", false, false, true, {{std::string(kGpuResource), 1}}};
  EXPECT_EQ(admit(demand("new", kGpuResource, 1)), "-");
  const auto answer = last_;
  m_.adopt("unknown", running, kGpuResource, {});  // its status does not say
  m_.adopt("known", running, kGpuResource, {device_uuid("GPU-", "n", kGpuResource, 0)});
  m_.pods_known();
  EXPECT_EQ(*answer, "requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0");
  EXPECT_THAT(ids("unknown"), ElementsAre(device_uuid("GPU-", "n", kGpuResource, 1)));
}

TEST_F(DeviceManagerTest, FaultsOfGpusStayUntilThePluginRestarts) {
  gpus(4);
  EXPECT_EQ(admit(demand("p", kGpuResource, 1)), "");
  m_.set_faults(
      {{std::string(kGpuResource), 0, -1}, {std::string(kGpuResource), 3, 79}, {std::string(kGpuResource), 2, 43}},
      now_);
  EXPECT_EQ(count(kGpuResource), "4/2");
  EXPECT_EQ(listener_.health, 1);
  EXPECT_FALSE(m_.held("p", "c")[0].devices[0].healthy);
  m_.set_faults({}, now_);
  EXPECT_EQ(count(kGpuResource), "4/2");
  m_.model_gone(kGpuResource, false, now_);
  EXPECT_EQ(count(kGpuResource), "4/0");
  gpus(4);
  EXPECT_EQ(count(kGpuResource), "4/4");
  EXPECT_TRUE(m_.held("p", "c")[0].devices[0].healthy);
}

TEST_F(DeviceManagerTest, NeuronPodsWaitForContiguousChipsWhereTheExtensionIsThere) {
  m_.register_model(neuron_plugin(kNeuronResource, {.chips = 4, .contiguity = Contiguity::kExtension}), now_);
  for (const char* name : {"a", "b", "c", "d"}) EXPECT_EQ(admit(demand(name, kNeuronResource, 1)), "");
  m_.ended("a");
  m_.ended("c");
  EXPECT_EQ(admit(demand("e", kNeuronResource, 2)), "-");
  const auto answer = last_;
  EXPECT_EQ(admit(demand("f", kNeuronResource, 1)), "");  // others pass it by
  EXPECT_EQ(*answer, "-");
  m_.ended("f");
  EXPECT_EQ(*answer, "-");
  m_.ended("d");
  EXPECT_EQ(*answer, "");
  EXPECT_THAT(ids("e"), ElementsAre("neuron-2", "neuron-3"));
}

TEST_F(DeviceManagerTest, ChipsAreNotGivenOutTwiceThroughTheOtherResource) {
  const NeuronConfig config{.chips = 2, .cores_per_chip = 2};
  m_.register_model(neuron_plugin(kNeuronResource, config), now_);
  m_.register_model(neuron_plugin(kNeuronCoreResource, config), now_);
  EXPECT_EQ(admit(demand("core", kNeuronCoreResource, 1)), "");
  EXPECT_EQ(admit(demand("chip", kNeuronResource, 1)), "");
  EXPECT_THAT(ids("chip"), ElementsAre("neuron-1"));
  EXPECT_EQ(admit(demand("core2", kNeuronCoreResource, 1)), "");
  EXPECT_THAT(ids("core2"), ElementsAre("neuroncore-1"));
  // The Node still promises two more cores, and a chip.
  EXPECT_EQ(admit(demand("chip2", kNeuronResource, 1)),
            "rpc error: code = Unknown desc = neuron device 0 is in use as aws.amazon.com/neuroncore");
  EXPECT_EQ(admit(demand("core3", kNeuronCoreResource, 1)),
            "rpc error: code = Unknown desc = neuron device 1 is in use as aws.amazon.com/neuron");
}

}  // namespace
}  // namespace ghostfleet::agent
