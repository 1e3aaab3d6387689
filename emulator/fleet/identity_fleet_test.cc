// Nodes with certificates of their own.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>

#include "base/digest.h"
#include "base/files.h"
#include "emulator/fleet/fake_api.h"
#include "emulator/fleet/fleet.h"
#include "emulator/fleet/single_node.h"
#include "emulator/fleet/test_fleet.h"
#include "kube/client/signing_request.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/waits.h"

namespace ghostfleet::emulator {
namespace {

using tests::eventually;

constexpr const char* kRequests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

FleetOptions own_identities(const FakeApi& api, uint32_t nodes, const std::string& folder) {
  FleetOptions o = small_fleet(api, nodes);
  o.connections = ConnectionMode::kPerNode;
  o.full_fidelity = true;
  o.identity.per_node = true;
  o.identity.folder = CertificateFolder(folder, CertificateFolder::Layout::kFleet);
  return o;
}

TEST(FleetIdentity, EachNodeSpeaksForItself) {
  FakeApi api;
  api.sign_for(3600);
  tests::TemporaryFolder folder;
  {
    auto fleet = Fleet::start(own_identities(api, 8, folder.path()));
    ASSERT_TRUE(fleet.ok()) << fleet.error().message();
    ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().ready == 8; }));
    EXPECT_EQ((*fleet)->snapshot().certificates, 8u);
    EXPECT_TRUE((*fleet)->snapshot().errors.empty());
  }
  EXPECT_EQ(api.count(kRequests), 8u);
  EXPECT_EQ(api.users("POST " + std::string(kRequests)), std::set<std::string>{""});
  std::set<std::string> nodes;
  for (int i = 0; i < 8; ++i) nodes.insert("system:node:n-" + std::to_string(i));
  EXPECT_EQ(api.users("POST /api/v1/nodes"), nodes);
  EXPECT_EQ(api.users("PATCH /api/v1/nodes/n-3/status"), std::set<std::string>{"system:node:n-3"});
  EXPECT_EQ(api.users("GET /api/v1/services?"), nodes);
  struct stat info {};
  ASSERT_EQ(::stat((folder.path() + "/n-3.pem").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  // A restart needs no further certificate.
  api.clear_log();
  auto again = Fleet::start(own_identities(api, 8, folder.path()));
  ASSERT_TRUE(eventually([&] { return (*again)->snapshot().ready == 8; }));
  EXPECT_EQ(api.requests("POST", kRequests), 0u);
}

TEST(FleetIdentity, TheRequestIsAKubelets) {
  FakeApi api;
  api.sign_for(3600);
  auto fleet = Fleet::start(own_identities(api, 1, ""));
  ASSERT_TRUE(fleet.ok());
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().ready == 1; }));
  const auto objects = api.objects();
  const auto it = objects.lower_bound(std::string(kRequests) + "/");
  ASSERT_NE(it, objects.end());
  const std::string name(kube::get_string(it->second, "metadata.name"));
  EXPECT_TRUE(name.starts_with("csr-"));
  EXPECT_EQ(kube::get_string(it->second, "spec.signerName"), "kubernetes.io/kube-apiserver-client-kubelet");
  EXPECT_EQ(kube::to_json(*kube::find_path(it->second, "spec.usages")), R"(["digital signature","client auth"])");
  EXPECT_EQ(kube::find_path(it->second, "spec.expirationSeconds"), nullptr);
  std::string pem;
  ASSERT_TRUE(base64_decode(kube::get_string(it->second, "spec.request"), &pem));
  const auto subject = kube::read_signing_request(pem);
  ASSERT_TRUE(subject.ok());
  EXPECT_EQ(subject->common_name, "system:node:n-0");
  EXPECT_EQ(subject->organizations, std::vector<std::string>{"system:nodes"});
  EXPECT_TRUE(subject->dns_names.empty() && subject->ip_addresses.empty());
  std::vector<std::string> order;
  for (const std::string& line : api.log()) {
    if (line.find("certificatesigningrequests") != std::string::npos) order.push_back(line);
  }
  ASSERT_EQ(order.size(), 3u);
  const std::string selector = "?fieldSelector=metadata.name%3D" + name;
  EXPECT_EQ(order[0], "POST " + std::string(kRequests));
  EXPECT_EQ(order[1], "GET " + std::string(kRequests) + selector);
  EXPECT_TRUE(order[2].starts_with("GET " + std::string(kRequests) + "?allowWatchBookmarks=true&fieldSelector"));
}

TEST(FleetIdentity, CertificatesAreRenewedAndTheNodeStaysReady) {
  FakeApi api;
  api.sign_for(4);
  auto fleet = Fleet::start(own_identities(api, 4, ""));
  ASSERT_TRUE(fleet.ok());
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().ready == 4; }));
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().certificates_rotated >= 8; }));
  EXPECT_EQ((*fleet)->snapshot().certificates, 4u);
  EXPECT_EQ((*fleet)->snapshot().not_ready_transitions, 0u);
  // The first request came without a certificate, later ones from the node itself.
  EXPECT_EQ(api.users("POST " + std::string(kRequests)),
            (std::set<std::string>{"", "system:node:n-0", "system:node:n-1", "system:node:n-2", "system:node:n-3"}));
}

TEST(FleetIdentity, WithoutAnApproverNothingIsPretended) {
  FakeApi api;
  std::string told;
  std::mutex mutex;
  FleetCallbacks callbacks;
  callbacks.notice = [&](const std::string& text) {
    const std::lock_guard lock(mutex);
    told += text + "\n";
  };
  auto fleet = Fleet::start(own_identities(api, 2, ""), callbacks);
  ASSERT_TRUE(fleet.ok());
  ASSERT_TRUE(eventually([&] { return api.count(kRequests) == 2; }));
  EXPECT_EQ((*fleet)->snapshot().ready, 0u);
  EXPECT_EQ(api.count("/api/v1/nodes/"), 0u);
  for (const auto& [path, object] : api.objects()) {
    api.edit(path, [](kube::Json& request) {
      kube::ensure_array(request, "status.conditions")
          .emplace_back(kube::JsonObject{{"type", "Denied"}, {"status", "True"}, {"message", "not this one"}});
    });
  }
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return told.find("was denied: not this one") != std::string::npos;
  }));
  // Two seconds later it asks again.
  api.sign_for(3600);
  ASSERT_TRUE(eventually([&] { return (*fleet)->snapshot().ready == 2; }));
}

TEST(FleetIdentity, ServingCertificatesAreApprovedWhenAskedTo) {
  FakeApi api;
  api.sign_for(3600);
  tests::TemporaryFolder folder;
  FleetOptions o = own_identities(api, 3, folder.path());
  o.identity.serving = o.identity.approve_serving = true;
  auto fleet = Fleet::start(o);
  ASSERT_TRUE(fleet.ok());
  ASSERT_TRUE(eventually([&] { return file_exists(folder.path() + "/n-2-server.pem"); }));
  const auto facts = kube::read_certificate(*read_file(folder.path() + "/n-2-server.pem"));
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts->subject.common_name, "system:node:n-2");
  EXPECT_EQ(facts->subject.dns_names, std::vector<std::string>{"n-2"});
  EXPECT_EQ(facts->subject.ip_addresses.size(), 1u);
  EXPECT_GE(api.requests("PUT", kRequests), 1u);
}

TEST(FleetIdentity, OneNodeKeepsItsCertificateAsAKubeletDoes) {
  FakeApi api;
  api.sign_for(3600);
  tests::TemporaryFolder folder;
  SingleNodeOptions o;
  o.client = api.config();
  o.identity.name = "alone";
  o.node.capacity = {{"cpu", "4"}, {"memory", "8Gi"}, {"pods", "110"}};
  o.credentials.per_node = true;
  o.credentials.folder = CertificateFolder(folder.path(), CertificateFolder::Layout::kKubelet);
  auto node = SingleNode::start(o);
  ASSERT_TRUE(node.ok()) << node.error().message();
  ASSERT_TRUE(eventually([&] { return (*node)->snapshot().ready == 1; }));
  char target[256] = {};
  ASSERT_GT(::readlink((folder.path() + "/kubelet-client-current.pem").c_str(), target, sizeof target - 1), 0);
  EXPECT_TRUE(std::string(target).starts_with("kubelet-client-2"));
  EXPECT_EQ(api.users("POST /api/v1/nodes"), std::set<std::string>{"system:node:alone"});
}

TEST(FleetIdentity, SharedConnectionsCannotCarryIt) {
  FakeApi api;
  FleetOptions o = own_identities(api, 1, "");
  o.connections = ConnectionMode::kShared;
  auto fleet = Fleet::start(o);
  ASSERT_FALSE(fleet.ok());
  EXPECT_NE(fleet.error().message().find("--connections per-node"), std::string::npos);
}

}  // namespace
}  // namespace ghostfleet::emulator
