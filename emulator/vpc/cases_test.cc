// What is known to go wrong with addresses of pods, played in virtual time: nodes with their daemons on one network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "emulator/vpc/simulation.h"

namespace ghostfleet::emulator {
namespace {

using agent::AddOutcome;
using agent::Cidr;
using agent::Ec2Error;
using agent::InstanceLimits;
using agent::Ip;
using agent::IpamConfig;
using agent::IpamHolder;
using std::chrono::minutes;
using std::chrono::seconds;

const InstanceLimits kM5{"m5.large", 1, 3, 10, 0, 2, true};
const InstanceLimits kM6i{"m6i.2xlarge", 1, 4, 15, 0, 8, true};
const InstanceLimits kT2{"t2.medium", 1, 3, 6, 0, 2, false};
const InstanceLimits kP4d{"p4d.24xlarge", 4, 15, 50, 4, 96, true};

Cidr cidr(std::string_view text) {
  Cidr c;
  EXPECT_TRUE(agent::parse_cidr(text, &c)) << text;
  return c;
}
Ip ip(std::string_view text) {
  Ip i;
  EXPECT_TRUE(agent::parse_ip(text, &i)) << text;
  return i;
}

IpamHolder pod(const std::string& name) {
  IpamHolder h;
  h.key.container_id = name + "-sandbox";
  h.pod_namespace = "default";
  h.pod_name = name;
  return h;
}

std::shared_ptr<IpamConfig> config(const InstanceLimits& limits, bool prefixes, int max_pods) {
  auto c = std::make_shared<IpamConfig>();
  c->limits = limits;
  c->prefix_delegation = prefixes;
  c->max_pods = max_pods;
  return c;
}

class Cases : public testing::Test {
 protected:
  void make(const std::string& range, double quota = 1000) {
    VpcSpec spec;
    spec.name = "test";
    spec.quota_multiplier = quota;
    VpcSubnet s;
    s.name = "a";
    s.zone = "z1";
    s.cidr = cidr(range);
    s.placement = Placement::kLowest;
    s.reservations = reservations;
    s.occupied = occupied;
    spec.subnets = {s};
    auto v = Vpc::create(std::move(spec));
    ASSERT_TRUE(v.ok()) << v.error().message();
    vpc = std::move(*v);
    sim = std::make_unique<Simulation>(*vpc);
  }
  Simulation::NodeIndex add_node(const std::shared_ptr<IpamConfig>& c, int efa_only = 0, std::optional<Ip> at = {}) {
    LaunchRequest r;
    r.zone = "z1";
    r.limits = c->limits;
    r.efa_only = efa_only;
    r.address = at;
    const Launch l = vpc->launch(r);
    EXPECT_EQ(l.error, Ec2Error::kNone);
    const Simulation::NodeIndex n = sim->add(c, l.id);
    sim->start(n);
    return n;
  }
  // The kubelet's part: each pod that has no address asks again every 12 s. How many have one in the end.
  int wait_for(Simulation::NodeIndex node, int first, int last, Duration most) {
    int running = 0;
    for (Duration spent{0}; spent <= most; spent += seconds(12)) {
      running = 0;
      for (int i = first; i < last; ++i) {
        const auto r = sim->add_pod(node, pod("p" + std::to_string(i)));
        if (r.outcome != AddOutcome::kOk) continue;
        ++running;
        addresses[i] = r.addresses.front().ip;
      }
      if (running == last - first) return running;
      sim->run_for(seconds(12));
    }
    return running;
  }
  void remove(Simulation::NodeIndex node, int i) {
    EXPECT_TRUE(sim->remove_pod(node, pod("p" + std::to_string(i)).key));
    addresses.erase(i);
  }
  void expect_distinct() {
    std::set<Ip> seen;
    for (const auto& [i, address] : addresses) EXPECT_TRUE(seen.insert(address).second) << format_ip(address);
  }
  agent::PoolStats stats(Simulation::NodeIndex n) { return sim->node(n).stats(sim->now()); }

  std::vector<VpcReservation> reservations;
  std::vector<Ip> occupied;
  std::unique_ptr<Vpc> vpc;
  std::unique_ptr<Simulation> sim;
  std::map<int, Ip> addresses;
};

std::vector<Ip> one_of_each_block() {
  std::vector<Ip> out;
  for (int block = 0; block < 16; ++block) out.push_back(ip("10.0.4." + std::to_string(block * 16 + 8)));
  return out;
}

// Hundreds of free addresses, no free /28.
TEST_F(Cases, AFragmentedSubnetHasAddressesButNoPrefix) {
  occupied = one_of_each_block();
  make("10.0.4.0/24");
  const auto n = add_node(config(kM5, true, 110));
  sim->run_for(seconds(30));
  EXPECT_TRUE(sim->node(n).ready()) << "the node stays Ready";
  EXPECT_GT(vpc->figures().subnets[0].free_addresses, 200u);
  EXPECT_EQ(vpc->figures().subnets[0].free_prefixes, 0u);
  EXPECT_EQ(wait_for(n, 0, 1, seconds(60)), 0);
  EXPECT_GT(sim->node(n).counters().no_available, 3u);
  EXPECT_GT(sim->node(n).paused_until(), sim->now());
  vpc->vacate(ip("10.0.4.24"));
  EXPECT_EQ(vpc->figures().subnets[0].free_prefixes, 1u);
  const Duration left = sim->node(n).paused_until() - sim->now();
  EXPECT_LE(left, seconds(120));
  sim->run_for(left);
  EXPECT_EQ(wait_for(n, 0, 1, seconds(30)), 1) << "at most 30 s after the pause of a full subnet";
  EXPECT_TRUE(cidr("10.0.4.16/28").contains(addresses[0]));
}

TEST_F(Cases, AShorterPauseFindsTheFreedBlockSooner) {
  occupied = one_of_each_block();
  make("10.0.4.0/24");
  auto c = config(kM5, true, 110);
  c->space_pause = seconds(10);
  const auto n = add_node(c);
  sim->run_for(seconds(30));
  vpc->vacate(ip("10.0.4.24"));
  EXPECT_EQ(wait_for(n, 0, 1, seconds(24)), 1);
}

TEST_F(Cases, AReservationForPrefixesServesAtOnce) {
  reservations = {{cidr("10.0.4.128/26"), ReservationKind::kPrefix}};
  occupied = one_of_each_block();
  make("10.0.4.0/24");
  const auto n = add_node(config(kM5, true, 110));
  sim->run_for(seconds(5));
  EXPECT_EQ(wait_for(n, 0, 1, seconds(0)), 1);
  EXPECT_TRUE(cidr("10.0.4.128/26").contains(addresses[0]));
}

// After a restart no address in use is given out, and those of ended pods are free again.
TEST_F(Cases, ARestartNeverGivesAnAddressTwice) {
  make("10.0.4.0/24");
  auto c = config(kM5, true, 16);
  const auto n = add_node(c);
  sim->run_for(seconds(5));
  ASSERT_EQ(wait_for(n, 0, 12, seconds(0)), 12);
  const std::map<int, Ip> before = addresses;
  remove(n, 10);  // completed
  remove(n, 11);
  for (int round = 0; round < 100; ++round) {
    auto kept = agent::parse_checkpoint(render_checkpoint(sim->node(n).checkpoint()));
    ASSERT_TRUE(kept.ok());
    sim->start(n, std::move(*kept));
    EXPECT_EQ(sim->add_pod(n, pod("p20")).outcome, AddOutcome::kNotReady) << "new pods wait for the rebuild";
    ASSERT_TRUE(sim->run_until([&] { return sim->node(n).ready(); }, minutes(1)));
  }
  EXPECT_EQ(wait_for(n, 20, 22, seconds(0)), 2);
  for (int i = 0; i < 10; ++i) {
    const auto r = sim->add_pod(n, pod("p" + std::to_string(i)));
    ASSERT_EQ(r.outcome, AddOutcome::kOk);
    EXPECT_EQ(r.addresses.front().ip, before.at(i)) << "pods keep their addresses";
  }
  expect_distinct();
  EXPECT_EQ(stats(n).assigned, 12);
}

TEST_F(Cases, AfterACheckpointWasLostPodsAreFoundByTheirNames) {
  make("10.0.4.0/24");
  const auto n = add_node(config(kM5, true, 110));
  sim->run_for(seconds(5));
  ASSERT_EQ(wait_for(n, 0, 3, seconds(0)), 3);
  agent::IpamCheckpoint c = sim->node(n).checkpoint();
  prune_checkpoint(&c, [](const std::string&, const std::string& name) { return name != "p1"; });
  sim->start(n, std::move(c));
  sim->run_for(seconds(30));
  EXPECT_EQ(stats(n).assigned, 2) << "p1 ended while nobody looked";
}

// The scheduler allows 110 pods, the addresses 15.
TEST_F(Cases, MorePodsThanAddresses) {
  make("10.0.0.0/20");
  const auto n = add_node(config(kT2, false, 110));
  EXPECT_EQ(wait_for(n, 0, 28, minutes(5)), 15);
  expect_distinct();
  EXPECT_EQ(sim->node(n).pools()[0].enis().size(), 3u);
  const uint64_t calls = vpc->figures().all_calls();
  sim->run_for(minutes(10));
  EXPECT_LE(vpc->figures().all_calls() - calls, 1u) << "a full instance does not go on asking";
  remove(n, addresses.begin()->first);
  EXPECT_EQ(wait_for(n, 0, 28, seconds(12)), 14) << "the freed address cools";
  sim->run_for(seconds(12));
  EXPECT_EQ(wait_for(n, 0, 28, seconds(0)), 15);
  EXPECT_EQ(max_pods_of(kT2, false, false), 17) << "15, and the 2 of the host's network";
  EXPECT_FALSE(check_ipam_config(*config(kT2, true, 110)).ok());
}

// 65 pods on one interface that holds 14 prefixes.
TEST_F(Cases, MorePrefixesAsPodsCome) {
  make("10.0.0.0/20");
  const auto n = add_node(config(kM6i, true, 110));
  EXPECT_EQ(wait_for(n, 0, 40, minutes(2)), 40);
  sim->run_for(seconds(15));
  EXPECT_EQ(stats(n).prefixes, 4) << "3 used, 1 spare";
  EXPECT_EQ(wait_for(n, 0, 65, minutes(2)), 65);
  sim->run_for(seconds(15));
  EXPECT_EQ(stats(n).prefixes, 6) << "5 used, 1 spare";
  EXPECT_EQ(sim->node(n).pools()[0].enis().size(), 1u) << "14 fit on the first interface";
  expect_distinct();
  while (!addresses.empty()) {
    remove(n, addresses.begin()->first);
    sim->run_for(seconds(1));
    for (const auto& range : sim->node(n).pools()[0].enis()[0].ranges) EXPECT_LE(range.assigned(), 16);
    EXPECT_EQ(stats(n).assigned, static_cast<int>(addresses.size())) << "no prefix goes while a pod uses it";
  }
  sim->run_for(seconds(70));
  EXPECT_EQ(stats(n).prefixes, 1);
  EXPECT_EQ(vpc->figures().address_units, 2u);
}

// Three pods on each of fifty nodes: a hundred and fifty distinct addresses, and the nodes' own.
TEST_F(Cases, AddressesAreDistinctOverTheFleet) {
  make("10.0.0.0/20");
  const auto c = config(kM5, true, 110);
  std::set<Ip> seen;
  std::vector<Simulation::NodeIndex> nodes;
  for (int i = 0; i < 50; ++i) nodes.push_back(add_node(c));
  ASSERT_TRUE(sim->run_until([&] { return sim->node(nodes.back()).ready(); }, minutes(10)));
  sim->run_for(minutes(2));
  for (const auto n : nodes) {
    EXPECT_TRUE(seen.insert(sim->node(n).pools()[0].enis()[0].primary_ip).second);
    for (int i = 0; i < 3; ++i) {
      const auto r = sim->add_pod(n, pod("d" + std::to_string(i)));
      ASSERT_EQ(r.outcome, AddOutcome::kOk);
      EXPECT_TRUE(seen.insert(r.addresses.front().ip).second) << format_ip(r.addresses.front().ip);
    }
  }
  EXPECT_EQ(seen.size(), 200u);
}

// 2.9.1: the pool seems full while all of it cools.
TEST_F(Cases, CoolingAddressesLookAvailable) {
  make("10.0.0.0/20");
  const auto n = add_node(config(kM5, true, 110));
  sim->run_for(seconds(5));
  ASSERT_EQ(wait_for(n, 0, 16, seconds(0)), 16);
  sim->run_for(seconds(10));
  ASSERT_EQ(stats(n).prefixes, 2);
  for (int i = 0; i < 16; ++i) remove(n, i);
  sim->run_for(seconds(6));
  EXPECT_EQ(stats(n).prefixes, 1) << "two unused prefixes: one is given back";
  ASSERT_EQ(stats(n).cooling, 16) << "the first one was kept, and cools";
  EXPECT_EQ(stats(n).available(), 16);
  EXPECT_EQ(wait_for(n, 20, 36, seconds(12)), 0);
  EXPECT_EQ(stats(n).prefixes, 1) << "and nothing grows, since 16 seem available";
  EXPECT_EQ(wait_for(n, 20, 36, seconds(24)), 16) << "until they have cooled";
}

// 2.9.3: at the default quota a burst of nodes is held up, and repeats add calls.
TEST_F(Cases, ThrottlingHoldsUpManyNodes) {
  make("10.0.0.0/16", 1);
  const auto c = config(kM5, true, 110);
  std::vector<Simulation::NodeIndex> nodes;
  for (int i = 0; i < 1000; ++i) nodes.push_back(add_node(c));
  const TimePoint start = sim->now();
  size_t ready = 0;
  ASSERT_TRUE(sim->run_until(
      [&] {
        while (ready < nodes.size() && stats(nodes[ready]).prefixes > 0) ++ready;
        return ready == nodes.size();
      },
      std::chrono::hours(2)));
  const double seconds_taken = static_cast<double>((sim->now() - start).count()) * 1e-9;
  EXPECT_GT(seconds_taken, 180.0) << "(1000 - 100) / 5 a second";
  EXPECT_LT(seconds_taken, 3600.0);
  EXPECT_GT(vpc->figures().all_throttled(), 1000u);
  EXPECT_GT(vpc->figures().calls[static_cast<size_t>(agent::Ec2Action::kAssignPrivateIpAddresses)], 2000u);
}

TEST_F(Cases, PrefixesAtLaunchNeedNoCall) {
  make("10.0.0.0/16", 1);
  const auto c = config(kM5, true, 110);
  LaunchRequest r;
  r.zone = "z1";
  r.limits = c->limits;
  r.prefixes = true;
  r.at_launch = 1;
  for (int i = 0; i < 50; ++i) sim->start(sim->add(c, vpc->launch(r).id));
  sim->run_for(minutes(1));
  for (uint32_t n = 0; n < 50; ++n) EXPECT_EQ(stats(n).prefixes, 1);
  EXPECT_EQ(vpc->figures().calls[static_cast<size_t>(agent::Ec2Action::kAssignPrivateIpAddresses)], 0u);
}

// 2.9.4: spare interfaces hoard.
TEST_F(Cases, SpareInterfacesHoardAddresses) {
  make("10.0.0.0/22");
  auto c = config(kP4d, false, 737);
  c->warm_eni_target = 8;
  add_node(c);
  sim->run_for(minutes(5));
  EXPECT_EQ(stats(0).total, 8 * 49);
  EXPECT_EQ(stats(0).assigned, 0);
  add_node(c);
  sim->run_for(minutes(5));
  add_node(c);
  sim->run_for(minutes(5));
  EXPECT_LT(vpc->figures().subnets[0].free_addresses, 250u) << "a /22, and not one pod";
  EXPECT_LT(stats(2).total, 8 * 49);
}

// 2.9.5
TEST_F(Cases, ACordonedNodeKeepsItsPool) {
  make("10.0.0.0/20");
  const auto n = add_node(config(kM5, true, 110));
  sim->run_for(seconds(5));
  sim->set_schedulable(n, false);
  EXPECT_EQ(wait_for(n, 0, 20, minutes(1)), 16);
  sim->set_schedulable(n, true);
  EXPECT_EQ(wait_for(n, 0, 20, minutes(1)), 20);
}

// 2.9.6: m5.large with both other places taken by EFA interfaces.
TEST_F(Cases, OtherInterfacesLeaveNoRoom) {
  make("10.0.0.0/20");
  const auto n = add_node(config(kM5, false, 110), 2);
  EXPECT_EQ(wait_for(n, 0, 12, minutes(3)), 9);
  EXPECT_EQ(sim->node(n).unmanaged(0), 2);
}

// 2.9.8
TEST_F(Cases, ChangingTheModeLeavesUsedAddressesAlone) {
  make("10.0.0.0/20");
  auto c = config(kM5, false, 110);
  const auto n = add_node(c);
  sim->run_for(seconds(10));
  ASSERT_EQ(wait_for(n, 0, 3, seconds(0)), 3);
  const std::map<int, Ip> before = addresses;
  c->prefix_delegation = true;
  sim->start(n, sim->node(n).checkpoint());
  sim->run_for(minutes(3));
  EXPECT_EQ(wait_for(n, 0, 3, seconds(0)), 3);
  EXPECT_EQ(addresses, before);
  EXPECT_EQ(wait_for(n, 10, 12, seconds(12)), 2);
  expect_distinct();
  bool singles = false, prefixes = false;
  for (const auto& eni : sim->node(n).pools()[0].enis()) {
    for (const auto& range : eni.ranges) (range.is_prefix() ? prefixes : singles) = true;
  }
  EXPECT_TRUE(singles && prefixes);
}

// 2.9.9
TEST_F(Cases, MaxPodsEndsGrowthThoughPrefixesAreFree) {
  make("10.0.0.0/20");
  const auto n = add_node(config(kM5, true, 20));
  EXPECT_EQ(wait_for(n, 0, 32, minutes(3)), 32);
  EXPECT_EQ(stats(n).prefixes, 2);
  EXPECT_EQ(wait_for(n, 32, 40, minutes(3)), 0);
  EXPECT_GT(vpc->figures().subnets[0].free_prefixes, 100u);
}

TEST_F(Cases, AnInterfaceOfSomebodyElseIsFoundByReconciling) {
  make("10.0.0.0/20");
  const auto n = add_node(config(kM5, false, 110));
  sim->run_for(seconds(10));
  const agent::EniId foreign = vpc->attach_foreign(sim->instance(n), 0, true, false);
  ASSERT_NE(foreign, 0u);
  sim->run_for(seconds(130));
  EXPECT_EQ(sim->node(n).unmanaged(0), 1);
  vpc->detach_foreign(sim->instance(n), foreign);
  sim->run_for(seconds(130));
  EXPECT_EQ(sim->node(n).unmanaged(0), 0);
}

TEST_F(Cases, AnExtraInterfaceGoesWhenPodsAreGone) {
  make("10.0.0.0/20");
  const auto n = add_node(config(kM5, false, 110));
  EXPECT_EQ(wait_for(n, 0, 12, minutes(2)), 12);
  sim->run_for(minutes(1));
  EXPECT_EQ(sim->node(n).pools()[0].enis().size(), 3u);
  while (!addresses.empty()) remove(n, addresses.begin()->first);
  sim->run_for(minutes(5));
  EXPECT_EQ(sim->node(n).pools()[0].enis().size(), 1u);
  EXPECT_EQ(vpc->figures().interfaces, 1u);
  EXPECT_EQ(vpc->figures().address_units, 10u);
}

}  // namespace
}  // namespace ghostfleet::emulator
