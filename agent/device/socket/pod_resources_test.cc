#include <gtest/gtest.h>

#include <algorithm>

#include "agent/device/socket/pod_resources_server.h"
#include "kube/grpc/client.h"
#include "tests/support/temporary_folder.h"

namespace ghostfleet::agent {
namespace {

const DynamicResource kClaim{"gpus", "ml", {{{"k8s.gpu.nvidia.com/device=gpu-3"}, "gpu.nvidia.com", "n1", "gpu-3"}}};

class Pods final : public PodResourcesSource {
 public:
  std::vector<PodContainers> active_pods() const override { return pods; }
  std::optional<PodContainers> find_pod(std::string_view ns, std::string_view name) const override {
    for (const PodContainers& pod : pods) {
      if (pod.ns == ns && pod.name == name) return pod;
    }
    return std::nullopt;
  }
  std::vector<ContainerDevices> held(std::string_view uid, std::string_view container) const override {
    if (uid != "u1" || container != "main") return {};
    return {{"u1", "main", "nvidia.com/gpu", {{"GPU-0", true, 1}, {"GPU-1", false, 3}}}};
  }
  std::vector<ContainerDevices> all_devices() const override {
    return {{"", "", "nvidia.com/gpu", {{"GPU-0", true, 1}, {"GPU-1", false, 3}, {"GPU-2", true, 0}}}};
  }
  std::vector<PodContainers> pods = {{"ml", "train", "u1", {{"sidecar", true, {}}, {"main", false, {kClaim}}}},
                                     {"ml", "idle", "u2", {{"main", false, {}}}}};
};

class PodResourcesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server = std::move(PodResourcesServer::open(loop, path(), pods).value());
    kube::grpc::RpcClientOptions options;
    options.host = "unix:" + path();
    client = kube::grpc::RpcClient::create(loop, options);
  }
  void TearDown() override {
    client.reset();
    server.reset();
    loop.run_for(std::chrono::milliseconds(1));
  }
  std::string path() const { return folder.path() + "/pod-resources/kubelet.sock"; }
  std::string call(const std::string& method, const std::string& request, const std::string& version = "v1") {
    std::string out;
    bool done = false;
    client->call("/" + version + ".PodResourcesLister/" + method, request, {},
                 [&](const kube::grpc::RpcStatus& status, std::string reply) {
                   out = status.ok() ? std::move(reply) : status.text();
                   done = true;
                 });
    for (int i = 0; i < 10000 && !done; ++i) loop.run_for(std::chrono::milliseconds(1));
    return out;
  }

  tests::TemporaryFolder folder;
  EventLoop loop;
  Pods pods;
  std::unique_ptr<PodResourcesServer> server;
  std::unique_ptr<kube::grpc::RpcClient> client;
};

TEST_F(PodResourcesTest, ListHasAllPodsAndAnEntryForEachDeviceAndNumaNode) {
  const std::vector<ResourceDevices> held = {
      {"nvidia.com/gpu", {"GPU-0"}, 1}, {"nvidia.com/gpu", {"GPU-1"}, 1}, {"nvidia.com/gpu", {"GPU-1"}, 2}};
  const std::vector<PodResources> expected = {{"train", "ml", {{"sidecar", {}, {}}, {"main", held, {kClaim}}}},
                                              {"idle", "ml", {{"main", {}, {}}}}};
  EXPECT_EQ(decode_pod_resources_list(call("List", "")).value(), expected);
  const auto one = decode_pod_resources(call("Get", encode_pod_resources_request("train", "ml")));
  EXPECT_EQ(one.value(), expected[0]);
}

TEST_F(PodResourcesTest, APodThatIsNotThere) {
  EXPECT_EQ(call("Get", encode_pod_resources_request("gone", "ml")),
            "rpc error: code = Unknown desc = pod gone in namespace ml not found");
  EXPECT_EQ(call("Get", "\x0a\x7f").rfind("rpc error: code = Internal desc = grpc: error unmarshalling request", 0),
            0u);
}

TEST_F(PodResourcesTest, AllocatableAreTheHealthyDevices) {
  EXPECT_EQ(decode_allocatable(call("GetAllocatableResources", "")).value(),
            (std::vector<ResourceDevices>{{"nvidia.com/gpu", {"GPU-0"}, 1}, {"nvidia.com/gpu", {"GPU-2"}, 0}}));
}

TEST_F(PodResourcesTest, ThirtyAtOnceAreTooMany) {
  std::vector<std::string> answers;
  for (int i = 0; i < 30; ++i) {
    client->call("/v1.PodResourcesLister/List", "", {},
                 [&](const kube::grpc::RpcStatus& status, const std::string&) { answers.push_back(status.text()); });
  }
  for (int i = 0; i < 10000 && answers.size() < 30; ++i) loop.run_for(std::chrono::milliseconds(1));
  ASSERT_EQ(answers.size(), 30u);
  const auto served = std::count(answers.begin(), answers.end(), "");
  const auto refused =
      std::count(answers.begin(), answers.end(), "rpc error: code = ResourceExhausted desc = rejected by rate limit");
  EXPECT_GE(served, 10);
  EXPECT_GT(refused, 0);
  EXPECT_EQ(served + refused, 30);
}

TEST_F(PodResourcesTest, TheOldVersionKnowsContainersAndTheirDevices) {
  const std::vector<ResourceDevices> held = {
      {"nvidia.com/gpu", {"GPU-0"}, 0}, {"nvidia.com/gpu", {"GPU-1"}, 0}, {"nvidia.com/gpu", {"GPU-1"}, 0}};
  EXPECT_EQ(decode_pod_resources_list(call("List", "", "v1alpha1")).value(),
            (std::vector<PodResources>{{"train", "ml", {{"main", held, {}}}}, {"idle", "ml", {{"main", {}, {}}}}}));
  EXPECT_EQ(call("Get", "", "v1alpha1"),
            "rpc error: code = Unimplemented desc = unknown method Get for service v1alpha1.PodResourcesLister");
}

}  // namespace
}  // namespace ghostfleet::agent
