// What drivers publish, and how it gets there.
#include "agent/dra/slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "agent/dra/slice_publisher.h"
#include "kube/api/codec.h"
#include "kube/api/kinds.h"

namespace ghostfleet::agent {
namespace {

using kube::get_array;
using kube::get_int;
using kube::get_string;
using kube::Json;
using Verb = SliceRequest::Verb;

DraDevices gpus(uint32_t count) {
  DraDevices d;
  d.count = count;
  d.product = "NVIDIA H100 80GB HBM3";
  d.brand = "Nvidia";
  d.architecture = "Hopper";
  d.compute_capability = "9.0.0";
  d.cuda_version = "13.0.0";
  d.driver_version = "580.95.5";
  d.addressing_mode = "HMM";
  d.memory_mib = 81920;
  return d;
}

DraDevices neurons() {
  DraDevices d;
  d.kind = DriverKind::kNeuron;
  d.count = 16;
  d.driver_version = "2.24.7";
  d.dra_version = "1.0.0";
  d.instance_type = "trn2.48xlarge";
  return d;
}

SliceNode node_named(std::string name) {
  SliceNode node;
  node.name = std::move(name);
  node.uid = "11111111-2222-3333-4444-555555555555";
  node.zone = "us-west-2a";
  node.fleet = "f1";
  node.uuid = [](uint32_t i) { return "GPU-" + std::to_string(i); };
  return node;
}

// Decoded as the API server does: an unknown field is an error.
Json slice(const DraDevices& d, const DriverFaults& faults, uint32_t n = 0, int64_t generation = 1) {
  const std::string text = render_slice(d, node_named("n-1"), faults, generation, n);
  kube::DecodeOptions options;
  std::vector<std::string> warnings;
  options.warnings = &warnings;
  const kube::KindInfo* kind = kube::find_kind("resource.k8s.io", "v1", "ResourceSlice");
  EXPECT_NE(kind, nullptr);
  auto object = kube::decode_object(text, kube::MediaType::kJson, *kind, options);
  EXPECT_TRUE(object.ok()) << text;
  EXPECT_THAT(warnings, ::testing::IsEmpty()) << text;
  return kube::parse_json(text).value();
}

TEST(Slices, TellTheGpusOfANode) {
  const Json s = slice(gpus(8), {});
  EXPECT_EQ(kube::find_key(*kube::find_path(s, "metadata.labels"), "ghostfleet.dev/fleet")->get_string(), "f1");
  EXPECT_EQ(get_string(s, "spec.driver"), "gpu.nvidia.com");
  EXPECT_EQ(get_string(s, "spec.nodeName"), "n-1");
  EXPECT_EQ(get_string(s, "spec.pool.name"), "n-1");
  EXPECT_EQ(get_int(s, "spec.pool.resourceSliceCount"), 1);
  const kube::JsonArray& devices = *get_array(s, "spec.devices");
  ASSERT_EQ(devices.size(), 8u);
  EXPECT_EQ(get_string(devices[5], "name"), "gpu-5");
  EXPECT_EQ(get_string(devices[5], "attributes.uuid.string"), "GPU-5");
  EXPECT_EQ(get_string(devices[5], "attributes.cudaComputeCapability.version"), "9.0.0");
  EXPECT_EQ(get_string(devices[5], "capacity.memory.value"), "81920Mi");
  EXPECT_EQ(kube::find_key(devices[5], "taints"), nullptr);
}

TEST(Slices, GroupNeuronDevices) {
  const Json s = slice(neurons(), {});
  const kube::JsonArray& devices = *get_array(s, "spec.devices");
  ASSERT_EQ(devices.size(), 16u);
  const auto group = [&](size_t i, std::string_view size) {
    const Json& at = *kube::find_key(devices[i], "attributes");
    return std::string(
        get_string(*kube::find_key(at, "resource.aws.com/devicegroup" + std::string(size) + "_id"), "string"));
  };
  EXPECT_EQ(group(4, "4"), group(7, "4"));
  EXPECT_NE(group(3, "4"), group(4, "4"));
  EXPECT_EQ(group(0, "16"), group(15, "16"));
  EXPECT_EQ(get_int(devices[6], "attributes.deviceId.int"), 6);
  EXPECT_EQ(get_int(devices[6], "attributes.topology_y.int"), 1);
  EXPECT_EQ(get_string(devices[6], "attributes.resourceType.string"), "neuron_device");
}

TEST(Slices, HoldAtMost128DevicesAnd64WithTaints) {
  const DraDevices d = gpus(200);
  EXPECT_EQ(slice_count(d, {}), 2u);
  EXPECT_EQ(get_array(slice(d, {}, 0), "spec.devices")->size(), 128u);
  EXPECT_EQ(get_array(slice(d, {}, 1), "spec.devices")->size(), 72u);
  DriverFaults faults = parse_faults("gpu-199=gpu-lost", d).value();
  EXPECT_EQ(slice_count(d, faults), 4u);
  const Json last = slice(d, faults, 3, 7);
  EXPECT_EQ(get_array(last, "spec.devices")->size(), 8u);
  EXPECT_EQ(get_int(last, "spec.pool.generation"), 7);
  EXPECT_EQ(get_int(last, "spec.pool.resourceSliceCount"), 4);
  const Json& taint = get_array(get_array(last, "spec.devices")->back(), "taints")->front();
  EXPECT_EQ(get_string(taint, "key"), "gpu.nvidia.com/gpu-lost");
  EXPECT_EQ(get_string(taint, "effect"), "NoExecute");
}

TEST(Slices, HaveNamesOfTheirOwnThatStay) {
  const DraDevices d = gpus(8), n = neurons();
  const std::string name = slice_name(d, "n-1", 0);
  EXPECT_EQ(name, slice_name(d, "n-1", 0));
  EXPECT_TRUE(name.starts_with("n-1-gpu.nvidia.com-")) << name;
  EXPECT_NE(name, slice_name(d, "n-1", 1));
  EXPECT_NE(name, slice_name(d, "n-2", 0));
  EXPECT_NE(name, slice_name(n, "n-1", 0));
  EXPECT_LE(slice_name(d, std::string(253, 'a'), 0).size(), 253u);
}

TEST(Faults, AreReadOrExplained) {
  const DraDevices d = gpus(8);
  const auto faults = parse_faults(" gpu-3=gpu-lost; gpu-0=xid:79@NoExecute, gpu-1=unmonitored;driver=down ", d);
  ASSERT_TRUE(faults.ok()) << faults.error().message();
  EXPECT_TRUE(faults->down);
  ASSERT_EQ(faults->devices.size(), 3u);
  EXPECT_EQ(faults->devices[0].value, "79");
  EXPECT_EQ(faults->devices[0].effect, "NoExecute");
  EXPECT_EQ(faults->devices[1].effect, "None");
  EXPECT_EQ(faults->devices[2].device, 3u);
  const auto said = [&d](std::string_view text) { return parse_faults(text, d).error().message(); };
  EXPECT_EQ(said("gpu-8=gpu-lost"),
            "faults: \"gpu-8=gpu-lost\": DEVICE=FAULT or driver=down is expected, with a device of gpu-0 to gpu-7");
  EXPECT_EQ(said("gpu-1=hot"), "faults: \"gpu-1=hot\": xid:CODE, gpu-lost, unmonitored or unhealthy is expected");
  EXPECT_EQ(said("gpu-1=xid"),
            "faults: \"gpu-1=xid\": the number of an XID is expected, as in gpu-0=xid:79, and behind xid alone");
  EXPECT_EQ(said("gpu-1=gpu-lost@Never"),
            "faults: \"gpu-1=gpu-lost@Never\": behind the @ None, NoSchedule or NoExecute is expected");
  EXPECT_EQ(parse_faults("neuron-0=gpu-lost", neurons()).error().message(),
            "faults: \"neuron-0=gpu-lost\": of a Neuron device only unhealthy is known");
}

TEST(Faults, TellTheHealth) {
  const DraDevices d = gpus(4);
  DraDriver driver{&d, "n-1", parse_faults("gpu-0=xid:79; gpu-1=unmonitored", d).value()};
  add_unhealthy({{0, 31}, {3, -1}, {2, 79}, {9, -1}}, d, &driver.faults);
  EXPECT_EQ(driver.state_of("gpu-0").message, "XID 79") << "what is known of it already counts";
  EXPECT_EQ(driver.state_of("gpu-1").health, DeviceHealth::kUnknown);
  EXPECT_EQ(driver.state_of("gpu-2").message, "XID 79");
  EXPECT_EQ(driver.state_of("gpu-3").health, DeviceHealth::kUnhealthy);
  EXPECT_EQ(driver.state_of("gpu-4").health, DeviceHealth::kUnknown);
  driver.faults.down = true;
  EXPECT_EQ(driver.state_of("gpu-2").health, DeviceHealth::kUnknown);
  EXPECT_FALSE(driver.serves("gpu.nvidia.com"));
}

// Plays a publisher against slices by name: resourceVersion and generation.
class PublisherTest : public ::testing::Test {
 protected:
  void run(SlicePublisher::Task task, const DriverFaults& faults, SlicePublisher::Options options) {
    SlicePublisher p(devices_, node_named("n-1"), faults, task, options);
    for (int i = 0; i < 200 && !p.done(); ++i) {
      const SliceRequest r = p.next();
      static constexpr std::string_view kVerbs[] = {"GET", "POST", "PUT", "DELETE"};
      log_.push_back(std::string(kVerbs[static_cast<int>(r.verb)]));
      std::string body;
      const int status = answers_.empty() ? answer(r, &body) : answers_.front();
      if (!answers_.empty()) answers_.pop_front();
      wait_ = p.answered(status, body, Duration(0), rng_);
      if (!p.refused().empty()) refused_ = p.refused();
    }
    EXPECT_TRUE(p.done());
  }
  int answer(const SliceRequest& r, std::string* body) {
    const std::string name = r.target.substr(r.target.find_last_of('/') + 1);
    const bool known = there_.count(name) != 0;
    if (r.verb == Verb::kDelete && r.target.find('?') != std::string::npos) return there_.clear(), 200;
    if (r.verb == Verb::kDelete) return there_.erase(name) != 0 ? 200 : 404;
    if (r.verb == Verb::kGet) {
      if (known) *body = there_[name];
      return known ? 200 : 404;
    }
    Json object = kube::parse_json(r.body).value();
    const std::string own(get_string(object, "metadata.name"));
    if (r.verb == Verb::kPost && there_.count(own) != 0) return 409;
    if (r.verb == Verb::kPut) {
      if (!known) return 404;
      const Json old = kube::parse_json(there_[name]).value();
      if (get_string(old, "metadata.resourceVersion") != get_string(object, "metadata.resourceVersion")) return 409;
    }
    kube::set_path(object, "metadata.resourceVersion", Json(std::to_string(++version_)));
    there_[own] = kube::to_json(object);
    return 201;
  }
  std::vector<int64_t> generations() {
    std::vector<int64_t> out;
    for (const auto& [name, text] : there_)
      out.push_back(get_int(kube::parse_json(text).value(), "spec.pool.generation"));
    return out;
  }

  DraDevices devices_ = gpus(200);
  std::map<std::string, std::string> there_;
  std::vector<std::string> log_;
  std::deque<int> answers_;
  std::string refused_;
  Duration wait_{0};
  int version_ = 0;
  Rng rng_{1};
};

using ::testing::ElementsAre;

TEST_F(PublisherTest, AFreshNodeOnlyCreates) {
  run(SlicePublisher::Task::kStart, {}, {});
  EXPECT_THAT(log_, ElementsAre("POST", "POST"));
  EXPECT_EQ(there_.size(), 2u);
}

TEST_F(PublisherTest, AKubeletRemovesWhatItsNodeHasFirst) {
  run(SlicePublisher::Task::kStart, {}, {.collection = true});
  log_.clear();
  run(SlicePublisher::Task::kStart, {}, {.collection = true});
  EXPECT_THAT(log_, ElementsAre("DELETE", "POST", "POST"));
  EXPECT_THAT(generations(), ElementsAre(1, 1));
}

TEST_F(PublisherTest, InALightFleetOldOnesGoByTheirNames) {
  run(SlicePublisher::Task::kStart, {}, {});
  log_.clear();
  run(SlicePublisher::Task::kStart, {}, {.existing = true});
  EXPECT_THAT(log_, ElementsAre("DELETE", "POST", "DELETE", "POST"));
  log_.clear();
  run(SlicePublisher::Task::kStart, {}, {});  // nobody knew
  EXPECT_THAT(log_, ElementsAre("POST", "DELETE", "POST", "POST", "DELETE", "POST"));
}

TEST_F(PublisherTest, AnUpdateRaisesTheGenerationOfThePool) {
  run(SlicePublisher::Task::kStart, {}, {});
  log_.clear();
  const DriverFaults faults = parse_faults("gpu-1=xid:79", devices_).value();
  run(SlicePublisher::Task::kUpdate, faults, {});
  EXPECT_THAT(log_, ElementsAre("GET", "PUT", "GET", "PUT", "GET", "POST", "GET", "POST"));
  EXPECT_THAT(generations(), ElementsAre(2, 2, 2, 2));
  run(SlicePublisher::Task::kUpdate, {}, {});
  EXPECT_THAT(generations(), ElementsAre(3, 3)) << "those that are not needed any more are gone";
}

TEST_F(PublisherTest, ADriverThatIsGoneLeavesNothing) {
  run(SlicePublisher::Task::kStart, {}, {});
  run(SlicePublisher::Task::kRemove, {}, {});
  EXPECT_TRUE(there_.empty());
  run(SlicePublisher::Task::kStart, {}, {});
  log_.clear();
  run(SlicePublisher::Task::kRemove, {}, {.collection = true});
  EXPECT_THAT(log_, ElementsAre("DELETE"));
  EXPECT_TRUE(there_.empty());
}

TEST_F(PublisherTest, WhatFailsIsTriedAgain) {
  answers_ = {500, 0, 403, 429};
  run(SlicePublisher::Task::kStart, {}, {});
  EXPECT_EQ(there_.size(), 2u);
  EXPECT_EQ(refused_, "the server answered 403");
  SlicePublisher p(devices_, node_named("n-1"), {}, SlicePublisher::Task::kStart, {});
  Duration last{0};
  for (int i = 0; i < 12; ++i) last = p.answered(503, "", Duration(0), rng_);
  EXPECT_GE(last, std::chrono::minutes(5));
  EXPECT_LE(last, std::chrono::minutes(6));
  EXPECT_EQ(p.answered(429, "", std::chrono::minutes(10), rng_), std::chrono::minutes(10));
}

TEST_F(PublisherTest, AConflictReadsAgain) {
  run(SlicePublisher::Task::kStart, {}, {});
  log_.clear();
  SlicePublisher p(devices_, node_named("n-1"), {}, SlicePublisher::Task::kUpdate, {});
  std::string body;
  p.answered(answer(p.next(), &body), body, Duration(0), rng_);
  EXPECT_EQ(p.next().verb, Verb::kPut);
  p.answered(409, "", Duration(0), rng_);
  EXPECT_EQ(p.next().verb, Verb::kGet);
}

}  // namespace
}  // namespace ghostfleet::agent
