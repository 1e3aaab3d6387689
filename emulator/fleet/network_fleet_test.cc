// Pods of a fleet on a cloud network: where their addresses come from, who waits, and what a restart keeps. Latencies
// of EC2 and the cooling time are short here; a kubelet's 10 to 15 s between two tries are not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <set>

#include "emulator/fleet/fake_api.h"
#include "emulator/fleet/fleet.h"
#include "emulator/fleet/single_node.h"
#include "emulator/fleet/test_fleet.h"
#include "tests/support/waits.h"

namespace ghostfleet::emulator {
namespace {

using tests::eventually;

using agent::InstanceLimits;
using agent::IpamConfig;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const InstanceLimits kM5{"m5.large", 1, 3, 10, 0, 2, true};
const InstanceLimits kT2{"t2.medium", 1, 3, 6, 0, 2, false};
const InstanceLimits kM6i{"m6i.2xlarge", 1, 4, 15, 0, 8, true};
const std::string kPods = "/api/v1/namespaces/default/pods/";

agent::Cidr cidr(std::string_view text) {
  agent::Cidr c;
  EXPECT_TRUE(agent::parse_cidr(text, &c)) << text;
  return c;
}

Ec2Latencies quick() {
  Ec2Latencies l;
  for (Duration* d : {&l.describe, &l.assign, &l.unassign, &l.create, &l.attach, &l.detach, &l.modify, &l.remove})
    *d = milliseconds(5);
  return l;
}

IpamConfig quick_config(const InstanceLimits& limits) {
  IpamConfig c;
  c.limits = limits;
  c.max_pods = 110;
  c.ip_cooldown = seconds(1);
  c.loop = milliseconds(200);
  c.space_pause = seconds(1);
  return c;
}

std::shared_ptr<NetworkOptions> network_of(const std::string& range, const IpamConfig& config) {
  auto n = std::make_shared<NetworkOptions>();
  n->vpc.name = "test";
  n->vpc.quota_multiplier = 1000;
  n->vpc.latencies = quick();
  n->vpc.cidrs = {cidr(range)};
  VpcSubnet s;
  s.name = "a";
  s.zone = "z1";
  s.cidr = cidr(range);
  n->vpc.subnets = {s};
  n->groups = {std::make_shared<const IpamConfig>(config)};
  return n;
}

FleetOptions options_for(const FakeApi& api, uint32_t nodes, std::shared_ptr<const NetworkOptions> network) {
  FleetOptions o = small_fleet(api, nodes);
  o.groups.front().zones = {"z1"};
  o.network = std::move(network);
  return o;
}

void put_pod(FakeApi& api, const std::string& node, const std::string& name, bool host_network = false) {
  api.put(kPods + name, *kube::parse_json(R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":")" + name +
                                          R"(","namespace":"default"},"spec":{"nodeName":")" + node +
                                          R"(","hostNetwork":)" + (host_network ? "true" : "false") +
                                          R"(,"containers":[{"name":"c","image":"registry.example.test/web:1"}]},)" +
                                          R"("status":{"phase":"Pending"}})"));
}

std::string text_of(FakeApi& api, const std::string& name, const char* path) {
  const auto pod = api.get(kPods + name);
  return pod ? std::string(kube::get_string(*pod, path)) : "gone";
}
std::string phase_of(FakeApi& api, const std::string& name) { return text_of(api, name, "status.phase"); }
std::string ip_of(FakeApi& api, const std::string& name) { return text_of(api, name, "status.podIP"); }

// Names of the pods in that phase.
std::set<std::string> in_phase(FakeApi& api, const std::string& phase) {
  std::set<std::string> names;
  for (const auto& [path, pod] : api.objects()) {
    if (path.starts_with(kPods) && kube::get_string(pod, "status.phase") == phase)
      names.insert(path.substr(kPods.size()));
  }
  return names;
}

// Addresses of the pods that run and have their own; two of the same are a failure.
std::map<std::string, std::string> addresses(FakeApi& api) {
  std::map<std::string, std::string> by_pod;
  std::set<std::string> seen;
  for (const auto& [path, pod] : api.objects()) {
    if (!path.starts_with(kPods) || kube::get_string(pod, "status.phase") != "Running") continue;
    const kube::Json* host = kube::find_path(pod, "spec.hostNetwork");
    if (host != nullptr && host->is_bool() && host->get_bool()) continue;
    const std::string ip(kube::get_string(pod, "status.podIP"));
    EXPECT_TRUE(seen.insert(ip).second) << ip << " is given twice";
    by_pod[path.substr(kPods.size())] = ip;
  }
  return by_pod;
}

std::vector<std::string> failures(FakeApi& api, const std::string& pod) {
  std::vector<std::string> messages;
  for (const auto& [path, event] : api.objects()) {
    if (path.find("/events/" + pod + ".") == std::string::npos) continue;
    if (kube::get_string(event, "reason") == "FailedCreatePodSandBox")
      messages.emplace_back(kube::get_string(event, "message"));
  }
  return messages;
}

std::unique_ptr<Fleet> start(FleetOptions options) {
  auto fleet = Fleet::start(std::move(options));
  EXPECT_TRUE(fleet.ok()) << fleet.error().message();
  return fleet.ok() ? std::move(*fleet) : nullptr;
}

int assigned(const Fleet& fleet, const std::string& node) {
  const auto shown = fleet.show_network(node, "/v1/enis");
  if (!shown) return -1;
  return static_cast<int>(kube::get_int(*kube::parse_json(*shown), "0.AssignedIPs", -1));
}

// Case C056.
TEST(NetworkFleet, AddressesAreDistinctAndOfTheNetwork) {
  FakeApi api;
  auto fleet = start(options_for(api, 50, network_of("172.31.0.0/20", quick_config(kM5))));
  ASSERT_TRUE(fleet);
  ASSERT_TRUE(eventually([&] { return fleet->snapshot().ready == 50; }));
  ASSERT_TRUE(eventually([&] { return assigned(*fleet, "n-0") == 0 && assigned(*fleet, "n-49") == 0; }));
  for (int i = 0; i < 50; ++i) {
    const std::string n = std::to_string(i);
    put_pod(api, "n-" + n, "d1-" + n);
    put_pod(api, "n-" + n, "d2-" + n);
    put_pod(api, "n-" + n, "d3-" + n, true);
  }
  ASSERT_TRUE(eventually([&] { return fleet->snapshot().pods_running == 150; }, seconds(60)));
  const auto got = addresses(api);
  EXPECT_EQ(got.size(), 100u);
  for (const auto& [pod, ip] : got) {
    agent::Ip parsed;
    ASSERT_TRUE(agent::parse_ip(ip, &parsed)) << ip;
    EXPECT_TRUE(cidr("172.31.0.0/20").contains(parsed)) << ip;
    const auto object = api.get(kPods + pod);
    const auto* all = kube::get_array(*object, "status.podIPs");
    ASSERT_EQ(all->size(), 1u);
    EXPECT_EQ(kube::get_string(all->at(0), "ip"), ip);
  }
  std::set<std::string> hosts;
  for (int i = 0; i < 50; ++i) {
    const std::string name = "d3-" + std::to_string(i);
    EXPECT_EQ(ip_of(api, name), text_of(api, name, "status.hostIP"));
    EXPECT_TRUE(hosts.insert(ip_of(api, name)).second);
    EXPECT_EQ(got.count(ip_of(api, name)), 0u);
  }
  EXPECT_EQ(assigned(*fleet, "n-7"), 2);
  EXPECT_THAT(fleet->network_metrics(), HasSubstr("ghostfleet_vpc_subnet_free_prefixes{subnet=\"a\"}"));
  EXPECT_THAT(MetricsRegistry::expose(fleet->metrics()), HasSubstr("ghostfleet_ipam_addresses_in_use 100"));
  EXPECT_THAT(*fleet->show_network("n-7", "/metrics"), HasSubstr("awscni_assigned_ip_addresses 2"));
  EXPECT_FALSE(fleet->show_network("n-50", "/v1/enis"));
}

// Case C053: an instance with 15 addresses for its pods.
TEST(NetworkFleet, PodsBeyondTheAddressesWaitUntilOneIsFree) {
  FakeApi api;
  auto fleet = start(options_for(api, 1, network_of("172.31.0.0/20", quick_config(kT2))));
  ASSERT_TRUE(fleet);
  ASSERT_TRUE(eventually([&] { return assigned(*fleet, "n-0") == 0; }));
  for (int i = 0; i < 28; ++i) put_pod(api, "n-0", "p" + std::to_string(i));
  put_pod(api, "n-0", "h0", true);
  put_pod(api, "n-0", "h1", true);
  ASSERT_TRUE(eventually([&] { return fleet->snapshot().pods_running == 17; }, seconds(60)));
  EXPECT_EQ(phase_of(api, "h0") + phase_of(api, "h1"), "RunningRunning");
  const auto got = addresses(api);
  EXPECT_EQ(got.size(), 15u);
  const std::set<std::string> waiting = in_phase(api, "Pending");
  ASSERT_EQ(waiting.size(), 13u);
  for (const std::string& pod : waiting) {
    ASSERT_TRUE(eventually([&] { return !failures(api, pod).empty(); })) << pod;
    EXPECT_THAT(
        failures(api, pod).front(),
        AllOf(HasSubstr("Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network "
                        "for sandbox \""),
              HasSubstr("\": plugin type=\"aws-cni\" name=\"aws-cni\" failed (add): add cmd: failed to assign an "
                        "IP address to container")));
  }
  EXPECT_EQ(fleet->snapshot().ready, 1u) << "the node stays Ready";
  api.erase(kPods + got.begin()->first);
  ASSERT_TRUE(eventually([&] { return fleet->snapshot().pods_running == 16; }));
  // The stop, the cooling time and one more try.
  ASSERT_TRUE(eventually([&] { return fleet->snapshot().pods_running == 17; }, seconds(40)));
  EXPECT_EQ(addresses(api).size(), 15u);
}

// Case C050.
TEST(NetworkFleet, AFragmentedSubnetHoldsPodsUntilABlockIsFree) {
  FakeApi api;
  IpamConfig config = quick_config(kM5);
  config.prefix_delegation = true;
  auto network = network_of("10.0.4.0/24", config);
  for (uint32_t block = 0; block < 16; ++block)
    network->vpc.subnets[0].occupied.push_back(agent::Ip::v4((10u << 24) + (4u << 8) + block * 16 + 8));
  auto fleet = start(options_for(api, 1, network));
  ASSERT_TRUE(fleet);
  put_pod(api, "n-0", "normal");
  put_pod(api, "n-0", "host", true);
  ASSERT_TRUE(eventually([&] { return phase_of(api, "host") == "Running" && !failures(api, "normal").empty(); }));
  ASSERT_TRUE(eventually([&] { return assigned(*fleet, "n-0") == 0; }));
  EXPECT_EQ(phase_of(api, "normal"), "Pending");
  EXPECT_EQ(fleet->snapshot().ready, 1u);
  EXPECT_THAT(fleet->network_metrics(), HasSubstr("free_prefixes{subnet=\"a\"} 0"));
  EXPECT_THAT(fleet->network_metrics(), ContainsRegex("free_addresses.subnet=\"a\". 2[0-9][0-9]"));
}

TEST(NetworkFleet, AReservationForPrefixesServesAtOnce) {
  FakeApi api;
  IpamConfig config = quick_config(kM5);
  config.prefix_delegation = true;
  auto network = network_of("10.0.4.0/24", config);
  for (uint32_t block = 0; block < 16; ++block)
    network->vpc.subnets[0].occupied.push_back(agent::Ip::v4((10u << 24) + (4u << 8) + block * 16 + 8));
  network->vpc.subnets[0].reservations = {{cidr("10.0.4.128/26"), ReservationKind::kPrefix}};
  auto fleet = start(options_for(api, 1, network));
  ASSERT_TRUE(fleet);
  ASSERT_TRUE(eventually([&] { return assigned(*fleet, "n-0") == 0; }));
  put_pod(api, "n-0", "normal");
  ASSERT_TRUE(eventually([&] { return phase_of(api, "normal") == "Running"; }));
  agent::Ip ip;
  ASSERT_TRUE(agent::parse_ip(ip_of(api, "normal"), &ip));
  EXPECT_TRUE(cidr("10.0.4.128/26").contains(ip)) << ip_of(api, "normal");
}

// Case C055: 14 prefixes fit on one interface, and they come as pods do.
TEST(NetworkFleet, PrefixesComeAsPodsCome) {
  FakeApi api;
  IpamConfig config = quick_config(kM6i);
  config.prefix_delegation = true;
  auto fleet = start(options_for(api, 1, network_of("10.0.0.0/20", config)));
  ASSERT_TRUE(fleet);
  ASSERT_TRUE(eventually([&] { return assigned(*fleet, "n-0") == 0; }));
  for (int i = 0; i < 65; ++i) put_pod(api, "n-0", "p" + std::to_string(i));
  ASSERT_TRUE(eventually([&] { return fleet->snapshot().pods_running == 65; }, seconds(120)));
  EXPECT_EQ(addresses(api).size(), 65u);
  ASSERT_TRUE(eventually(
      [&] { return fleet->show_network("n-0", "/metrics")->find("total_ipv4_prefixes 6\n") != std::string::npos; }));
  EXPECT_THAT(*fleet->show_network("n-0", "/metrics"), HasSubstr("eni_allocated 1\n"));
}

// Case C052, for both ways in which a node learns of its pods.
class Restarts : public ::testing::TestWithParam<ConnectionMode> {};
INSTANTIATE_TEST_SUITE_P(Connections, Restarts, ::testing::Values(ConnectionMode::kShared, ConnectionMode::kPerNode),
                         [](const auto& info) { return info.param == ConnectionMode::kShared ? "Shared" : "PerNode"; });

TEST_P(Restarts, KeepEveryAddressAndGiveNoneTwice) {
  FakeApi api;
  // Each node wants two interfaces, 20 addresses: more than the subnet has.
  FleetOptions options = options_for(api, 4, network_of("172.31.0.0/26", quick_config(kM5)));
  options.connections = GetParam();
  std::map<std::string, std::string> before;
  {
    auto fleet = start(options);
    ASSERT_TRUE(fleet);
    for (int node = 0; node < 4; ++node) {
      ASSERT_TRUE(eventually([&] { return assigned(*fleet, "n-" + std::to_string(node)) == 0; }));
      for (int i = 0; i < 8; ++i)
        put_pod(api, "n-" + std::to_string(node), "p" + std::to_string(node) + std::to_string(i));
    }
    ASSERT_TRUE(eventually([&] { return fleet->snapshot().pods_running == 32; }, seconds(90)));
    before = addresses(api);
  }
  ASSERT_EQ(before.size(), 32u);
  // One ended while nobody looked: its address is free.
  api.edit(kPods + "p00", [](kube::Json& pod) { kube::ensure_object(pod, "status")["phase"] = "Succeeded"; });
  before.erase("p00");
  const int rounds = GetParam() == ConnectionMode::kShared ? 2 : 1;
  for (int round = 0; round < rounds; ++round) {
    const std::string fresh = "new" + std::to_string(round);
    put_pod(api, "n-" + std::to_string(round), fresh);
    auto fleet = start(options);
    ASSERT_TRUE(fleet);
    ASSERT_TRUE(eventually([&] { return phase_of(api, fresh) == "Running"; }, seconds(120)));
    const auto now = addresses(api);
    for (const auto& [pod, ip] : before) EXPECT_EQ(now.at(pod), ip);
    before[fresh] = now.at(fresh);
    EXPECT_EQ(now.size(), 32u + static_cast<size_t>(round));
    for (int node = 0; node < 4; ++node)
      EXPECT_TRUE(eventually([&] { return assigned(*fleet, "n-" + std::to_string(node)) > 0; }));
    EXPECT_THAT(MetricsRegistry::expose(fleet->metrics()), HasSubstr("ghostfleet_ipam_conflicts_total 0"));
  }
}

TEST(NetworkFleet, IPv6) {
  FakeApi api;
  IpamConfig config = quick_config(kM5);
  config.prefix_delegation = config.ipv6 = true;
  auto network = network_of("172.31.0.0/20", config);
  network->vpc.subnets[0].ipv6 = cidr("fd00:10::/64");
  std::string before;
  for (int run = 0; run < 2; ++run) {
    auto fleet = start(options_for(api, 2, network));
    ASSERT_TRUE(fleet);
    ASSERT_TRUE(eventually([&] { return assigned(*fleet, "n-1") == run; }));
    if (run == 0) put_pod(api, "n-1", "a");
    ASSERT_TRUE(eventually([&] { return phase_of(api, "a") == "Running"; }));
    if (run == 1) {
      EXPECT_EQ(ip_of(api, "a"), before);
    }
    before = ip_of(api, "a");
    agent::Ip ip;
    ASSERT_TRUE(agent::parse_ip(before, &ip)) << before;
    EXPECT_TRUE(cidr("fd00:10::/64").contains(ip));
    EXPECT_EQ(kube::get_string(kube::get_array(*api.get(kPods + "a"), "status.podIPs")->at(0), "ip"), before);
  }
}

TEST(NetworkFleet, FleetsThatShareANetworkDoNotMeet) {
  FakeApi api;
  const std::string file = ::testing::TempDir() + "claims-" + std::to_string(::getpid());
  FleetOptions one = options_for(api, 2, network_of("172.31.0.0/22", quick_config(kM5)));
  FleetOptions two = one;
  one.network_claims = two.network_claims = file;
  two.name = "f2";
  two.groups[0].name_template = "m-{index}";
  auto first = start(one), second = start(two);
  ASSERT_TRUE(first && second);
  ASSERT_TRUE(eventually([&] { return assigned(*first, "n-1") == 0 && assigned(*second, "m-1") == 0; }));
  for (int i = 0; i < 20; ++i)
    put_pod(api, (i % 2 == 0 ? "n-" : "m-") + std::to_string(i / 2 % 2), "p" + std::to_string(i));
  ASSERT_TRUE(eventually([&] { return first->snapshot().pods_running == 10 && second->snapshot().pods_running == 10; },
                         seconds(60)));
  EXPECT_EQ(addresses(api).size(), 20u);
  ::unlink(file.c_str());
}

TEST(NetworkFleet, ACordonedNodeDoesNotGrow) {
  FakeApi api;
  const FleetOptions options = options_for(api, 1, network_of("172.31.0.0/20", quick_config(kM5)));
  {
    auto fleet = start(options);
    ASSERT_TRUE(fleet);
    ASSERT_TRUE(eventually([&] { return fleet->snapshot().ready == 1; }));
  }
  api.edit("/api/v1/nodes/n-0", [](kube::Json& node) { kube::ensure_object(node, "spec")["unschedulable"] = true; });
  auto fleet = start(options);
  ASSERT_TRUE(fleet);
  const auto total = [&] {
    const auto shown = fleet->show_network("n-0", "/v1/enis");
    return shown ? kube::get_int(*kube::parse_json(*shown), "0.TotalIPs", -1) : -1;
  };
  ASSERT_TRUE(eventually([&] { return total() == 0; }));
  put_pod(api, "n-0", "p");
  ASSERT_TRUE(eventually([&] { return failures(api, "p").size() == 2; }, seconds(40)));
  EXPECT_EQ(total(), 0);
  api.edit("/api/v1/nodes/n-0", [](kube::Json& node) { kube::ensure_object(node, "spec")["unschedulable"] = false; });
  ASSERT_TRUE(eventually([&] { return phase_of(api, "p") == "Running"; }, seconds(40)));
  EXPECT_GE(total(), 9);
}

TEST(NetworkFleet, AGroupMayKeepTheRange) {
  FakeApi api;
  FleetOptions o = options_for(api, 1, nullptr);
  auto network = network_of("172.31.0.0/20", quick_config(kM5));
  o.groups.push_back(o.groups[0]);
  o.groups[1].name_template = "plain-{index}";
  network->groups.push_back(nullptr);
  o.network = network;
  auto fleet = start(o);
  ASSERT_TRUE(fleet);
  put_pod(api, "plain-0", "p");
  ASSERT_TRUE(eventually([&] { return phase_of(api, "p") == "Running"; }));
  EXPECT_THAT(ip_of(api, "p"), StartsWith("10."));
  EXPECT_FALSE(fleet->show_network("plain-0", "/v1/enis"));
  network = std::make_shared<NetworkOptions>(*network);
  network->vpc.cidrs = {cidr("10.64.0.0/16")};
  o.network = network;
  const auto refused = Fleet::start(o);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message(), HasSubstr("10.64.0.0/10, which overlaps the cidrs of VPC test"));
}

TEST(NetworkFleet, OneNodeInTheForeground) {
  FakeApi api;
  SingleNodeOptions o;
  o.client = api.config();
  o.identity.name = "solo";
  o.identity.zone = "z1";
  o.node.capacity = {{"cpu", "16"}, {"memory", "64Gi"}, {"pods", "110"}};
  o.network = network_of("172.31.0.0/28", quick_config(kM5));
  auto node = SingleNode::start(o);
  ASSERT_TRUE(node.ok()) << node.error().message();
  put_pod(api, "solo", "p");
  ASSERT_TRUE(eventually([&] { return phase_of(api, "p") == "Running"; }));
  EXPECT_THAT(ip_of(api, "p"), StartsWith("172.31.0."));
  EXPECT_TRUE((*node)->show_network("solo", "/v1/enis"));
}

double metric(const Fleet& fleet, const std::string& name) {
  const std::string text = MetricsRegistry::expose(fleet.metrics());
  const size_t at = text.find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::atof(text.c_str() + at + name.size() + 2);
}

// However many pods wait, each asks once in ten seconds, and the nodes are renewed meanwhile.
TEST(NetworkFleet, WaitingPodsDoNotHoldUpHeartbeats) {
  FakeApi api;
  FleetOptions o = options_for(api, 20, network_of("172.31.0.0/27", quick_config(kT2)));
  o.lease_duration = seconds(2);
  auto fleet = start(o);
  ASSERT_TRUE(fleet);
  ASSERT_TRUE(eventually([&] { return fleet->snapshot().ready == 20; }));
  const TimePoint begin = SystemClock::instance().now();
  for (int i = 0; i < 1000; ++i) put_pod(api, "n-" + std::to_string(i % 20), "p" + std::to_string(i));
  ASSERT_TRUE(eventually([&] { return fleet->snapshot().pods == 1000; }));
  const uint64_t before = fleet->snapshot().renewals;
  ASSERT_TRUE(eventually([&] { return fleet->snapshot().renewals > before + 20 * 2 * 12; }, seconds(60)));
  EXPECT_EQ(fleet->snapshot().not_ready_transitions, 0u);
  EXPECT_LE(addresses(api).size(), 27u);
  const auto spent = std::chrono::duration<double>(SystemClock::instance().now() - begin).count();
  EXPECT_GE(metric(*fleet, "ghostfleet_ipam_no_available_total"), 900);
  EXPECT_LE(metric(*fleet, "ghostfleet_ipam_no_available_total"), 1000 * (spent / 10 + 1));
}

}  // namespace
}  // namespace ghostfleet::emulator
