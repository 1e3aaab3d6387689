#include "emulator/fleet/node_server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>

#include "base/descriptor.h"
#include "base/files.h"
#include "emulator/fleet/fake_api.h"
#include "emulator/fleet/fleet.h"
#include "kube/client/client.h"
#include "tests/support/waits.h"

namespace ghostfleet::emulator {
namespace {

using tests::eventually;

TEST(NodeNetwork, IsReadAndMustHaveRoom) {
  const auto network = NodeNetwork::parse("10.16.0.0/12", 1000);
  ASSERT_TRUE(network.ok());
  EXPECT_EQ(network->base, (10u << 24) | (16u << 16));
  EXPECT_EQ(NodeNetwork::parse("10.0.0.0/24", 250)->first, 1u);
  for (const char* bad : {"10.0.0.0", "10.0.0/12", "10.0.0.0/33", "10.0.0.0/x", "300.0.0.0/8", ""})
    EXPECT_FALSE(NodeNetwork::parse(bad, 1).ok()) << bad;
  EXPECT_EQ(NodeNetwork::parse("10.0.0.0/24", 1000).error().message(),
            "\"10.0.0.0/24\": room for 254 nodes, 1000 are wanted");
}

TEST(NodeNetwork, AddressesLeadBackToTheirNodes) {
  FleetGroup group;
  group.count = 3;
  group.name_template = "n-{index}";
  group.node.capacity = {{"cpu", "1"}};
  auto names = FleetNames::create("f", {group});
  ASSERT_TRUE(names.ok());
  names->set_network(NodeNetwork::loopback());
  EXPECT_EQ(names->identity(2).internal_ip, "127.64.1.2");
  EXPECT_EQ(names->node_at("127.64.1.2", 10250), 2u);
  EXPECT_FALSE(names->node_at("127.64.1.3", 10250));
  EXPECT_FALSE(names->node_at("127.0.0.1", 10250));
  NodeNetwork ports;
  ports.shared_address = "192.0.2.7";
  ports.first_port = 20000;
  names->set_network(ports);
  EXPECT_EQ(names->identity(1).internal_ip, "192.0.2.7");
  EXPECT_EQ(names->identity(1).kubelet_port, 20001);
  EXPECT_EQ(names->node_at("192.0.2.7", 20001), 1u);
  EXPECT_FALSE(names->node_at("192.0.2.7", 20003));
}

TEST(NodeServerOptions, WhatIsWrongIsNamed) {
  NodeServerOptions o;
  o.mode = NodeServerMode::kPorts;
  EXPECT_NE(check_node_server(o, 1).message().find("--kubelet-address"), std::string::npos);
  o.address = "127.0.0.1";
  EXPECT_TRUE(check_node_server(o, 1000).ok());
  EXPECT_NE(check_node_server(o, 20001).message().find("at most 20000"), std::string::npos);
  o.port = 65000;
  EXPECT_NE(check_node_server(o, 1000).message().find("ports up to 65999"), std::string::npos);
  o.port = 1000;
  o.tls_cert_file = "/none";
  EXPECT_NE(check_node_server(o, 1).message().find("one needs the other"), std::string::npos);
  o.tls_key_file = "/none";
  EXPECT_EQ(check_node_server(o, 1).code(), Code::kNotFound);
  EXPECT_EQ(resolve_mode(NodeServerMode::kAuto, "https://127.0.0.1:6443"), NodeServerMode::kLoopback);
  EXPECT_EQ(resolve_mode(NodeServerMode::kAuto, "https://[::1]:6443"), NodeServerMode::kLoopback);
  EXPECT_EQ(resolve_mode(NodeServerMode::kAuto, "https://10.0.0.1:6443"), NodeServerMode::kOff);
  EXPECT_EQ(resolve_mode(NodeServerMode::kOff, "https://127.0.0.1:6443"), NodeServerMode::kOff);
}

class NodeServerTest : public ::testing::Test {
 protected:
  FleetOptions options(const std::string& name) const {
    FleetOptions o;
    o.client = api.config();
    o.name = name;
    o.shards = 2;
    FleetGroup g;
    g.count = 5;
    g.name_template = name + "-{index}";
    g.node.capacity = {{"cpu", "16"}, {"memory", "64Gi"}, {"pods", "110"}};
    o.groups.push_back(g);
    o.node_server.mode = NodeServerMode::kLoopback;
    o.node_server.port = 0;
    return o;
  }
  // What a node's server answers to somebody without credentials, or with this certificate.
  static kube::ApiCallResult ask(const std::string& url, const std::string& path,
                                 const testing::CertificateAndKey& client_certificate = {}) {
    kube::ClientConfig config;
    config.server_url = url;
    config.tls.insecure = true;
    config.tls.client_cert_pem = client_certificate.certificate_pem;
    config.tls.client_key_pem = client_certificate.key_pem;
    auto client = kube::SyncClient::create(config);
    kube::ApiCall call;
    call.target = path;
    call.max_tries = 1;
    return (*client)->call_sync(std::move(call));
  }
  FakeApi api;
};

TEST_F(NodeServerTest, OneSocketAnswersForEveryNodeOfTheFleet) {
  auto fleet = Fleet::start(options("a"));
  ASSERT_TRUE(fleet.ok()) << fleet.error().message();
  ASSERT_TRUE(eventually([&] { return api.count_ready() == 5; }));
  const auto node = api.get("/api/v1/nodes/a-3");
  ASSERT_TRUE(node);
  EXPECT_EQ(kube::get_string(kube::get_array(*node, "status.addresses")->at(0), "address"), "127.64.1.3");
  const int64_t port = kube::get_int(*node, "status.daemonEndpoints.kubeletEndpoint.Port");
  EXPECT_GT(port, 0);
  EXPECT_EQ((*fleet)->node_server(), fmt::format("https://127.64.1.0:{}", port));
  for (int n = 0; n < 5; ++n) {
    const auto answer = ask(fmt::format("https://127.64.1.{}:{}", n, port), "/pods");
    EXPECT_EQ(answer.status, 401);
    EXPECT_EQ(answer.body, "Unauthorized");
  }
  EXPECT_EQ(ask(fmt::format("https://127.64.1.5:{}", port), "/pods").status, 404);
  EXPECT_EQ(ask(fmt::format("https://127.0.0.1:{}", port), "/healthz").status, 404);
  (*fleet)->stop();
}

TEST_F(NodeServerTest, ACertificateOfAnotherAuthorityIsNobodys) {
  const testing::TestPki ours("clients"), others("others");
  const std::string file = fmt::format("{}/gf-client-ca-{}.crt", ::testing::TempDir(), ::getpid());
  ASSERT_TRUE(write_file(file, ours.ca_pem()).ok());
  FleetOptions o = options("a");
  o.node_server.client_ca_file = file;
  auto fleet = Fleet::start(o);
  (void)std::remove(file.c_str());
  ASSERT_TRUE(fleet.ok()) << fleet.error().message();
  const auto refused = ask((*fleet)->node_server(), "/pods", others.client("somebody"));
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.body, "Unauthorized");
  const auto known = ask((*fleet)->node_server(), "/pods", ours.client("somebody"));
  EXPECT_NE(known.status, 0);
  EXPECT_NE(known.status, 401);
}

TEST_F(NodeServerTest, ASecondFleetTakesAnotherPort) {
  auto first = Fleet::start(options("a"));
  ASSERT_TRUE(first.ok());
  const std::string url = (*first)->node_server();
  const int port = std::stoi(url.substr(url.rfind(':') + 1));
  FleetOptions second = options("b");
  second.node_server.port = port;
  std::string remark;
  FleetCallbacks callbacks;
  callbacks.notice = [&remark](const std::string& text) { remark = text; };
  auto other = Fleet::start(second, callbacks);
  ASSERT_TRUE(other.ok()) << other.error().message();
  EXPECT_NE((*other)->node_server(), url);
  EXPECT_NE(remark.find(fmt::format("port {} is taken", port)), std::string::npos) << remark;
  second.node_server.port_given = true;
  const auto refused = Fleet::start(second);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("address already in use"), std::string::npos) << refused.error().message();
}

TEST_F(NodeServerTest, APortForEachNode) {
  FleetOptions o = options("c");
  o.node_server.mode = NodeServerMode::kPorts;
  o.node_server.address = "127.0.0.1";
  const auto fleet = Fleet::start(o);
  ASSERT_TRUE(fleet.ok()) << fleet.error().message();
  ASSERT_TRUE(eventually([&] { return api.count_ready() == 5; }));
  const auto port_of = [this](int n) {
    return kube::get_int(*api.get("/api/v1/nodes/c-" + std::to_string(n)),
                         "status.daemonEndpoints.kubeletEndpoint.Port");
  };
  EXPECT_EQ(port_of(4), port_of(0) + 4);
  EXPECT_EQ(ask(fmt::format("https://127.0.0.1:{}", port_of(4)), "/pods").status, 401);
}

// Every 64th port of those that the system chooses from is taken: a row of 40 that begins anywhere is cut by one in two
// cases of three.
TEST_F(NodeServerTest, PortsInARowAreFoundBetweenTakenOnes) {
  std::vector<Fd> taken;
  for (uint16_t port = 32768; port < 60999; port += 64) {
    taken.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)::bind(taken.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof address);  // or somebody else has it
  }
  for (const char* name : {"d", "e", "f"}) {
    FleetOptions o = options(name);
    o.groups[0].count = 40;
    o.node_server.mode = NodeServerMode::kPorts;
    o.node_server.address = "127.0.0.1";
    const auto fleet = Fleet::start(o);
    ASSERT_TRUE(fleet.ok()) << fleet.error().message();
  }
}

}  // namespace
}  // namespace ghostfleet::emulator
