// An IpamNode between scripted answers: which calls it makes, in which order, and what it makes of failures.
#include "agent/network/ipam_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "agent/network/ipam_show.h"
#include "kube/api/json.h"

namespace ghostfleet::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

Cidr cidr(const std::string& text) {
  Cidr c;
  EXPECT_TRUE(parse_cidr(text, &c)) << text;
  return c;
}

IpamHolder pod(int n) {
  IpamHolder h;
  h.key.container_id = "sandbox-" + std::to_string(n);
  h.pod_namespace = "default";
  h.pod_name = "p" + std::to_string(n);
  return h;
}

std::shared_ptr<IpamConfig> m5_large(bool prefixes) {
  auto c = std::make_shared<IpamConfig>();
  c->limits = {"m5.large", 1, 3, 10, 0, 2, true};
  c->prefix_delegation = prefixes;
  c->max_pods = 110;
  c->leak_sweep = Duration(0);
  return c;
}

class ScriptedHost final : public IpamHost {
 public:
  TimePoint now() const override { return clock.now(); }
  WallTime wall_now() const override { return clock.wall_now(); }
  Rng& rng() override { return rng_; }
  void call(const Ec2Call& call) override { calls.push_back(call); }
  void arm(TimePoint at) override { due = at; }
  void disarm() override { due = {INT64_MAX}; }
  bool save() override { return saves; }

  ManualClock clock;
  std::deque<Ec2Call> calls;
  TimePoint due{INT64_MAX};
  bool saves = true;

 private:
  Rng rng_{1};
};

// The instance as EC2 has it, and a node on it.
class IpamNodeTest : public testing::Test {
 protected:
  void make(std::shared_ptr<IpamConfig> c) {
    config = std::move(c);
    node = std::make_unique<IpamNode>(config);
    EniView primary;
    primary.id = 1;
    primary.primary = true;
    primary.primary_ip = cidr("10.0.0.10/32").base;
    enis = {primary};
  }
  // Starts and answers everything.
  void start(std::shared_ptr<IpamConfig> c, IpamCheckpoint checkpoint = {}) {
    make(std::move(c));
    node->start(host, std::move(checkpoint));
    answer_all();
  }

  Ec2Call take() {
    EXPECT_FALSE(host.calls.empty());
    if (host.calls.empty()) return {};
    Ec2Call call = host.calls.front();
    host.calls.pop_front();
    return call;
  }
  void fail(Ec2Error error) {
    take();
    Ec2Answer answer;
    answer.error = error;
    node->on_answer(host, answer);
  }
  // Carries the waiting call out, as EC2 would.
  Ec2Call answer() {
    const Ec2Call call = take();
    made.push_back(call.action);
    Ec2Answer a;
    switch (call.action) {
      case Ec2Action::kAssignPrivateIpAddresses: a.cidrs = give(call); break;
      case Ec2Action::kAssignIpv6Addresses: a.cidrs = {cidr("fd00:10:0:0:5::/80")}; break;
      case Ec2Action::kCreateNetworkInterface:
        created = EniView();
        created.id = a.eni = ++last_eni;
        created.card = call.card;
        created.subnet = call.subnet;
        for (const Cidr& c : new_cidrs(call)) created.cidrs.push_back(c);
        break;
      case Ec2Action::kAttachNetworkInterface:
        created.device = static_cast<uint8_t>(enis.size());
        enis.push_back(created);
        break;
      case Ec2Action::kUnassignPrivateIpAddresses:
        for (EniView& eni : enis) {
          for (const Cidr& c : call.cidrs) std::erase(eni.cidrs, c);
        }
        break;
      case Ec2Action::kDetachNetworkInterface:
        std::erase_if(enis, [&call](const EniView& e) { return e.id == call.eni; });
        break;
      case Ec2Action::kDescribeSubnets: a.subnets = {3, 4}; break;
      case Ec2Action::kDescribeNetworkInterfaces:
      case Ec2Action::kReadMetadata: a.enis = enis; break;
      case Ec2Action::kDescribeLeaked: a.enis = leaked; break;
      default: break;
    }
    node->on_answer(host, a);
    return call;
  }
  void answer_all() {
    while (!host.calls.empty()) answer();
  }
  // Plays timers for that long, answering at once.
  void run(Duration d) {
    const TimePoint until = host.now() + d;
    while (host.due <= until) {
      host.clock.advance(std::max(host.due - host.now(), Duration(0)));
      host.due = {INT64_MAX};
      node->on_timer(host);
      answer_all();
    }
    host.clock.advance(until - host.now());
  }
  // To the next timer, without answering.
  void step() {
    ASSERT_NE(host.due, TimePoint{INT64_MAX});
    host.clock.advance(std::max(host.due - host.now(), Duration(0)));
    host.due = {INT64_MAX};
    node->on_timer(host);
  }
  std::vector<Cidr> new_cidrs(const Ec2Call& call) {
    std::vector<Cidr> out;
    for (int i = 0; i < call.count; ++i, ++blocks)
      out.push_back(call.prefixes ? Cidr{cidr("10.0.4.0/28").base.plus(static_cast<uint64_t>(blocks) * 16), 28}
                                  : Cidr{cidr("10.0.200.0/32").base.plus(static_cast<uint64_t>(blocks)), 32});
    return out;
  }
  std::vector<Cidr> give(const Ec2Call& call) {
    const std::vector<Cidr> out = new_cidrs(call);
    for (EniView& eni : enis) {
      if (eni.id == call.eni) eni.cidrs.insert(eni.cidrs.end(), out.begin(), out.end());
    }
    return out;
  }
  std::string add(int n) {
    const AddResult r = node->add(host, pod(n));
    return r.outcome == AddOutcome::kOk ? format_ip(r.addresses.front().ip) : "";
  }
  PoolStats stats() { return node->stats(host.now()); }

  ScriptedHost host;
  std::shared_ptr<IpamConfig> config;
  std::unique_ptr<IpamNode> node;
  std::vector<EniView> enis, leaked;
  EniView created;
  EniId last_eni = 1;
  int blocks = 1;
  std::vector<Ec2Action> made;
};

TEST_F(IpamNodeTest, StartsWithOnePrefixAndKeepsOneSpare) {
  start(m5_large(true));
  EXPECT_TRUE(node->ready());
  EXPECT_EQ(stats().prefixes, 1);
  EXPECT_THAT(made, testing::ElementsAre(Ec2Action::kDescribeNetworkInterfaces, Ec2Action::kAssignPrivateIpAddresses));
  EXPECT_EQ(add(1), "10.0.4.16");
  run(seconds(5));
  EXPECT_EQ(stats().prefixes, 2);
  EXPECT_EQ(stats().free_prefixes, 1);
  const size_t calls = made.size();
  run(seconds(50));
  EXPECT_EQ(made.size(), calls) << "nothing happens to a pool that is as it should be";
}

TEST_F(IpamNodeTest, SecondaryModeFillsTheFirstInterfaceThenAttachesAnother) {
  start(m5_large(false));
  EXPECT_EQ(stats().total, 9);
  run(seconds(30));
  EXPECT_EQ(stats().total, 9) << "9 of 9 are left: one interface's worth";
  add(1);
  made.clear();
  run(seconds(10));
  EXPECT_EQ(stats().total, 18);
  EXPECT_THAT(made, testing::ElementsAre(Ec2Action::kDescribeSubnets, Ec2Action::kCreateNetworkInterface,
                                         Ec2Action::kAttachNetworkInterface,
                                         Ec2Action::kModifyNetworkInterfaceAttribute, Ec2Action::kReadMetadata));
  EXPECT_EQ(created.subnet, 3) << "the candidate with most free addresses";
}

TEST_F(IpamNodeTest, AFailedAssignIsTriedOnceMoreWithOne) {
  auto c = m5_large(true);
  c->warm_prefix_target = 3;
  make(c);
  node->start(host);
  answer();
  EXPECT_EQ(host.calls.front().count, 3);
  fail(Ec2Error::kInsufficientCidrBlocks);
  ASSERT_EQ(host.calls.size(), 1u);
  EXPECT_EQ(host.calls.front().count, 1);
  answer();
  EXPECT_TRUE(node->ready());
  EXPECT_EQ(stats().prefixes, 1);
}

TEST_F(IpamNodeTest, AFullSubnetPausesTheNodeButNotItsReadiness) {
  auto c = m5_large(true);
  c->max_eni = 1;
  c->subnet_discovery = false;
  make(c);
  node->start(host);
  answer();
  fail(Ec2Error::kInsufficientCidrBlocks);
  fail(Ec2Error::kInsufficientCidrBlocks);
  EXPECT_TRUE(node->ready());
  EXPECT_EQ(node->add(host, pod(1)).outcome, AddOutcome::kNoAddress);
  const TimePoint paused = host.now();
  EXPECT_EQ(node->paused_until(), paused + seconds(120));
  made.clear();
  run(seconds(119));
  EXPECT_THAT(made, testing::Not(testing::Contains(Ec2Action::kAssignPrivateIpAddresses)));
  run(seconds(6));
  EXPECT_THAT(made, testing::Contains(Ec2Action::kAssignPrivateIpAddresses));
  EXPECT_EQ(add(1), "10.0.4.16");
}

TEST_F(IpamNodeTest, WithSubnetDiscoveryANewInterfaceIsTriedAndItsFailurePauses) {
  make(m5_large(true));
  node->start(host);
  answer();
  fail(Ec2Error::kInsufficientCidrBlocks);
  fail(Ec2Error::kInsufficientCidrBlocks);
  EXPECT_EQ(answer().action, Ec2Action::kDescribeSubnets);
  EXPECT_EQ(host.calls.front().subnet, 3);
  fail(Ec2Error::kInsufficientCidrBlocks);
  EXPECT_EQ(host.calls.front().subnet, 4);
  fail(Ec2Error::kInsufficientFreeAddressesInSubnet);
  EXPECT_TRUE(node->ready()) << "a failure here never makes a node not ready";
  EXPECT_EQ(node->paused_until(), host.now() + seconds(120));
}

TEST_F(IpamNodeTest, TheClientRepeatsWhatWasThrottled) {
  make(m5_large(true));
  node->start(host);
  answer();
  for (int i = 0; i < 10; ++i) {
    fail(Ec2Error::kRequestLimitExceeded);
    EXPECT_TRUE(host.calls.empty()) << "it waits first";
    const TimePoint before = host.now();
    step();
    EXPECT_LE(host.now() - before, seconds(20));
    ASSERT_EQ(host.calls.size(), 1u);
  }
  fail(Ec2Error::kRequestLimitExceeded);
  ASSERT_EQ(host.calls.size(), 1u) << "then the daemon tries with one, which doubles the calls";
  answer();
  EXPECT_TRUE(node->ready());
  EXPECT_EQ(node->counters().throttled[static_cast<size_t>(Ec2Action::kAssignPrivateIpAddresses)], 11u);
}

TEST_F(IpamNodeTest, AStartThatFailsIsRepeatedLaterAndLater) {
  make(m5_large(true));
  node->start(host);
  fail(Ec2Error::kInvalidParameterValue);
  EXPECT_EQ(node->state(), IpamNode::State::kCrashed);
  EXPECT_EQ(host.due, host.now() + seconds(10));
  step();
  fail(Ec2Error::kInvalidParameterValue);
  EXPECT_EQ(host.due, host.now() + seconds(20));
  step();
  answer_all();
  EXPECT_TRUE(node->ready());
}

TEST_F(IpamNodeTest, AnInterfaceThatHoldsMoreThanWeKnowIsReadAgain) {
  start(m5_large(true));
  add(1);
  step();
  enis[0].cidrs.push_back(cidr("10.0.4.240/28"));
  fail(Ec2Error::kPrivateIpAddressLimitExceeded);
  EXPECT_EQ(answer().action, Ec2Action::kDescribeNetworkInterfaces);
  EXPECT_EQ(stats().prefixes, 2);
}

TEST_F(IpamNodeTest, AnInterfaceThatCannotBeAttachedIsDeleted) {
  start(m5_large(false));
  add(1);
  step();
  answer();  // subnets
  answer();  // create
  fail(Ec2Error::kAttachmentLimitExceeded);
  EXPECT_EQ(answer().action, Ec2Action::kDeleteNetworkInterface);
  EXPECT_FALSE(node->busy());
  EXPECT_EQ(node->pools()[0].enis().size(), 1u);
  run(seconds(10));
  EXPECT_EQ(node->pools()[0].enis().size(), 2u) << "the next loop tries again";
}

TEST_F(IpamNodeTest, AnInterfaceWhoseAttributeCannotBeSetIsDetachedAndDeleted) {
  start(m5_large(false));
  add(1);
  step();
  answer();
  answer();
  answer();  // attach
  fail(Ec2Error::kInvalidParameterValue);
  EXPECT_EQ(answer().action, Ec2Action::kDetachNetworkInterface);
  EXPECT_EQ(answer().action, Ec2Action::kDeleteNetworkInterface);
  EXPECT_FALSE(node->busy());
}

TEST_F(IpamNodeTest, TheMetadataServiceIsPolledUntilTheInterfaceIsThere) {
  start(m5_large(false));
  add(1);
  step();
  for (int i = 0; i < 4; ++i) answer();
  const std::vector<EniView> attached = enis;
  enis.pop_back();
  TimePoint before = host.now();
  step();
  EXPECT_EQ(host.now() - before, milliseconds(100));
  answer();
  before = host.now();
  step();
  EXPECT_EQ(host.now() - before, milliseconds(200));
  enis = attached;
  answer();
  EXPECT_EQ(stats().total, 18);
}

TEST_F(IpamNodeTest, AnAddressIsNotGivenWhenTheCheckpointCannotBeWritten) {
  start(m5_large(true));
  host.saves = false;
  EXPECT_EQ(node->add(host, pod(1)).outcome, AddOutcome::kNotSaved);
  EXPECT_EQ(stats().assigned, 0);
  host.saves = true;
  EXPECT_EQ(add(1), "10.0.4.16");
  host.saves = false;
  EXPECT_FALSE(node->remove(host, pod(1).key));
  EXPECT_EQ(stats().assigned, 1);
  host.saves = true;
  EXPECT_TRUE(node->remove(host, pod(1).key));
  EXPECT_FALSE(node->remove(host, pod(1).key)) << "unknown: no error, and nothing happens";
}

TEST_F(IpamNodeTest, ARestartKeepsAddressesAndGivesNoneTwice) {
  start(m5_large(true));
  for (int i = 0; i < 10; ++i) add(i);
  const auto enis_before = enis;
  for (int round = 0; round < 100; ++round) {
    auto parsed = parse_checkpoint(render_checkpoint(node->checkpoint()));
    ASSERT_TRUE(parsed.ok());
    node->start(host, std::move(*parsed));
    EXPECT_EQ(node->add(host, pod(50)).outcome, AddOutcome::kNotReady) << "new pods wait until it knows the old ones";
    EXPECT_EQ(node->checkpoint().allocations.size(), 10u) << "also one that is cut short keeps them";
    answer_all();
  }
  EXPECT_EQ(stats().assigned, 10);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(add(i), "10.0.4." + std::to_string(16 + i));
  EXPECT_EQ(add(50), "10.0.4.26");
}

TEST_F(IpamNodeTest, ACheckpointOfAnotherMachineIsLetGo) {
  IpamCheckpoint stale;
  stale.allocations.push_back({pod(1), cidr("172.16.0.5/32").base});
  start(m5_large(true), stale);
  EXPECT_TRUE(node->ready());
  EXPECT_EQ(stats().assigned, 0);
  EXPECT_EQ(node->counters().lost_entries, 1u);
}

TEST_F(IpamNodeTest, ACordonedNodeNeitherGrowsNorShrinks) {
  start(m5_large(true));
  node->set_schedulable(host, false);
  for (int i = 0; i < 16; ++i) add(i);
  run(minutes(2));
  EXPECT_EQ(stats().prefixes, 1);
  node->set_schedulable(host, true);
  run(seconds(10));
  EXPECT_EQ(stats().prefixes, 2);
  node->set_schedulable(host, false);
  for (int i = 0; i < 16; ++i) node->remove(host, pod(i).key);
  run(minutes(3));
  EXPECT_EQ(stats().prefixes, 2);
  node->set_schedulable(host, true);
  run(seconds(10));
  EXPECT_EQ(stats().prefixes, 1);
}

TEST_F(IpamNodeTest, TheSettingForCordonedNodesLetsThemGrow) {
  auto c = m5_large(true);
  c->manage_unschedulable = true;
  start(c);
  node->set_schedulable(host, false);
  add(1);
  run(seconds(10));
  EXPECT_EQ(stats().prefixes, 2);
}

TEST_F(IpamNodeTest, ATerminatingNodeAsksForNothing) {
  start(m5_large(true));
  node->set_terminating();
  add(1);
  made.clear();
  run(seconds(30));
  EXPECT_TRUE(made.empty());
}

TEST_F(IpamNodeTest, WithoutProvisioningItOnlyLooks) {
  auto c = m5_large(true);
  c->disable_provisioning = true;
  make(c);
  enis[0].cidrs = {cidr("10.0.4.16/28")};
  node->start(host);
  answer_all();
  add(1);
  made.clear();
  run(minutes(3));
  EXPECT_THAT(made, testing::Each(Ec2Action::kReadMetadata));
  EXPECT_EQ(stats().prefixes, 1);
}

TEST_F(IpamNodeTest, ShrinkingHasItsInterval) {
  auto c = m5_large(true);
  c->warm_prefix_target = 3;
  start(c);
  EXPECT_EQ(stats().prefixes, 3);
  config->warm_prefix_target = 2;
  add(1);
  node->remove(host, pod(1).key);
  run(seconds(5));
  EXPECT_EQ(stats().prefixes, 2);
  config->warm_prefix_target = 1;
  add(1);
  node->remove(host, pod(1).key);
  run(seconds(24));
  EXPECT_EQ(stats().prefixes, 2);
  run(seconds(12));
  EXPECT_EQ(stats().prefixes, 1);
}

TEST_F(IpamNodeTest, ADroppedRangeIsNotLearnedAgainForAMinute) {
  auto c = m5_large(true);
  c->warm_prefix_target = 2;
  start(c);
  config->warm_prefix_target = 1;
  add(1);
  node->remove(host, pod(1).key);
  step();
  ASSERT_EQ(host.calls.front().action, Ec2Action::kUnassignPrivateIpAddresses);
  fail(Ec2Error::kInvalidParameterValue);  // so the interface keeps it
  EXPECT_EQ(stats().prefixes, 1);
  node->request_reconcile(host);
  run(seconds(10));
  EXPECT_EQ(stats().prefixes, 1);
  config->warm_prefix_target = 2;
  node->set_terminating();  // nothing is asked for anew
  run(seconds(130));
  EXPECT_EQ(stats().prefixes, 2);
}

TEST_F(IpamNodeTest, ReconcilingTakesWhatCameAndForcesWhatWent) {
  start(m5_large(true));
  add(1);
  run(seconds(10));
  EniView other;
  other.id = 77;
  other.device = 1;
  other.cidrs = {cidr("10.0.9.16/28")};
  enis.push_back(other);
  enis[0].cidrs.erase(enis[0].cidrs.begin());  // the one the pod uses
  made.clear();
  run(seconds(61));
  EXPECT_THAT(made, testing::Contains(Ec2Action::kDescribeNetworkInterfaces));
  EXPECT_EQ(node->pools()[0].enis().size(), 2u);
  EXPECT_EQ(stats().assigned, 0);
  EXPECT_EQ(node->counters().forced_ips, 1u);
  enis.pop_back();
  run(seconds(70));
  EXPECT_EQ(node->pools()[0].enis().size(), 1u);
}

TEST_F(IpamNodeTest, InterfacesOfOthersTakeRoom) {
  make(m5_large(false));
  EniView efa = enis[0];
  efa.primary = false;
  efa.id = 5;
  efa.device = 1;
  efa.efa_only = true;
  EniView hands_off = efa;
  hands_off.id = 6;
  hands_off.device = 2;
  hands_off.efa_only = false;
  hands_off.no_manage = true;
  enis.push_back(efa);
  enis.push_back(hands_off);
  node->start(host);
  answer_all();
  EXPECT_EQ(node->unmanaged(0), 2);
  add(1);
  made.clear();
  run(seconds(30));
  EXPECT_TRUE(made.empty()) << "3 interfaces, 2 of them not ours";
  EXPECT_EQ(stats().total, 9);
}

TEST_F(IpamNodeTest, ATrunkInterfaceGetsItsPlace) {
  auto c = m5_large(false);
  c->pod_eni = true;
  c->max_eni = 2;
  start(c);
  add(1);
  made.clear();
  run(seconds(30));
  EXPECT_TRUE(made.empty());
}

TEST_F(IpamNodeTest, ChangingTheModeGivesBackWhatIsUnused) {
  make(m5_large(true));
  enis[0].cidrs = {cidr("10.0.200.1/32"), cidr("10.0.200.2/32")};
  IpamCheckpoint used;
  used.allocations.push_back({pod(1), cidr("10.0.200.2/32").base});
  node->start(host, used);
  answer_all();
  EXPECT_THAT(made, testing::ElementsAre(Ec2Action::kDescribeNetworkInterfaces, Ec2Action::kUnassignPrivateIpAddresses,
                                         Ec2Action::kAssignPrivateIpAddresses));
  EXPECT_EQ(enis[0].cidrs.size(), 2u) << "the used address stays beside the new prefix";
  EXPECT_EQ(stats().total, 16) << "only the prefix counts";
  EXPECT_EQ(add(1), "10.0.200.2");
  EXPECT_EQ(add(2), "10.0.4.16");
}

TEST_F(IpamNodeTest, IPv6AsksOnceAndNeverAgain) {
  auto c = m5_large(true);
  c->ipv6 = true;
  start(c);
  EXPECT_THAT(made, testing::ElementsAre(Ec2Action::kDescribeNetworkInterfaces, Ec2Action::kAssignIpv6Addresses));
  for (int i = 0; i < 110; ++i) EXPECT_NE(add(i), "");
  EXPECT_EQ(add(3), "fd00:10::5:0:0:3");
  EXPECT_EQ(host.due, TimePoint{INT64_MAX});
  EXPECT_EQ(made.size(), 2u);
}

TEST_F(IpamNodeTest, CustomNetworkingUsesTheOtherInterfacesOnly) {
  auto c = m5_large(false);
  c->custom_networking = true;
  c->eni_config_subnet = 8;
  start(c);
  run(seconds(1));
  EXPECT_TRUE(node->ready());
  EXPECT_EQ(created.subnet, 8);
  EXPECT_EQ(stats().total, 9);
  EXPECT_EQ(node->add(host, pod(1)).addresses.front().eni, created.id);
}

TEST_F(IpamNodeTest, CustomNetworkingWithAnEmptyPoolDoesNotStart) {
  auto c = m5_large(false);
  c->custom_networking = true;
  make(c);
  node->start(host);
  answer();
  fail(Ec2Error::kInsufficientFreeAddressesInSubnet);
  EXPECT_EQ(node->state(), IpamNode::State::kCrashed);
}

TEST_F(IpamNodeTest, EachCardHasItsPool) {
  auto c = m5_large(true);
  c->limits = {"trn2.48xlarge", 3, 2, 50, 0, 192, true};
  c->multi_nic = true;
  start(c);
  run(seconds(20));
  ASSERT_EQ(node->pools().size(), 3u);
  EXPECT_EQ(node->stats(host.now(), 0).prefixes, 1);
  EXPECT_EQ(node->stats(host.now(), 1).total, 1);
  EXPECT_EQ(node->stats(host.now(), 2).total, 1);
  EXPECT_EQ(node->add(host, pod(1), true).addresses.size(), 3u);
  EXPECT_EQ(node->add(host, pod(2)).addresses.size(), 1u);
  EXPECT_EQ(node->add(host, pod(3), true).outcome, AddOutcome::kNoAddress) << "cards above the first have no more yet";
  EXPECT_EQ(node->stats(host.now(), 0).assigned, 2) << "and what it had got is given back";
  run(seconds(20));
  EXPECT_EQ(node->add(host, pod(3), true).addresses.size(), 3u);
  node->remove(host, pod(1).key);
  EXPECT_EQ(node->stats(host.now(), 2).assigned, 1);
}

TEST_F(IpamNodeTest, LostInterfacesAreFoundAndDeleted) {
  auto c = m5_large(true);
  c->leak_sweep = minutes(60);
  start(c);
  EniView lost;
  lost.id = 99;
  leaked = {lost};
  run(seconds(301));
  EXPECT_THAT(made, testing::IsSupersetOf({Ec2Action::kDescribeLeaked, Ec2Action::kDeleteNetworkInterface}));
}

TEST_F(IpamNodeTest, ManyWaitingPodsCostNothing) {
  auto c = m5_large(true);
  c->max_pods = 16;
  start(c);
  for (int i = 0; i < 16; ++i) add(i);
  for (int i = 16; i < 100016; ++i) EXPECT_EQ(node->add(host, pod(i)).outcome, AddOutcome::kNoAddress);
  EXPECT_EQ(node->counters().no_available, 100000u);
  EXPECT_EQ(stats().assigned, 16);
  EXPECT_EQ(node->checkpoint().allocations.size(), 16u);
}

TEST_F(IpamNodeTest, IntrospectionIsTheDaemons) {
  start(m5_large(true));
  add(1);
  add(2);
  node->remove(host, pod(2).key);
  const auto get = [this](std::string_view path) {
    return render_introspection(*node, path, host.wall_now(), host.now());
  };
  auto enis_json = kube::parse_json(get("/v1/enis"));
  ASSERT_TRUE(enis_json.ok());
  EXPECT_EQ(kube::get_int(*enis_json, "0.TotalIPs"), 16);
  EXPECT_EQ(kube::get_int(*enis_json, "0.AssignedIPs"), 1);
  const kube::JsonObject* all = kube::get_object(*enis_json, "0.ENIs");
  ASSERT_NE(all, nullptr);
  const kube::Json& eni = all->at(format_eni(1));
  EXPECT_TRUE(kube::get_bool(eni, "IsPrimary"));
  const kube::Json* ranges = kube::find_key(eni, "AvailableIPv4Cidrs");
  ASSERT_NE(ranges, nullptr);
  const kube::Json* range = kube::find_key(*ranges, "10.0.4.16/28");
  ASSERT_NE(range, nullptr);
  EXPECT_EQ(kube::get_string(*range, "Cidr.Mask"), "////8A==");
  const kube::Json* addresses = kube::find_key(*range, "IPAddresses");
  ASSERT_NE(addresses, nullptr);
  EXPECT_EQ(kube::get_string(*kube::find_key(*addresses, "10.0.4.16"), "IPAMMetadata.k8sPodName"), "p1");
  EXPECT_EQ(kube::get_string(*kube::find_key(*addresses, "10.0.4.17"), "IPAMKey.containerID"), "");
  EXPECT_THAT(get("/v1/ipamd-env-settings"), HasSubstr(R"("WARM_PREFIX_TARGET":"1")"));
  EXPECT_THAT(get("/v1/networkutils-env-settings"), HasSubstr(R"("AWS_VPC_ENI_MTU":"9001")"));
  EXPECT_THAT(get("/"), HasSubstr(R"({"AvailableCommands":["/v1/eni-configs",)"));
  EXPECT_EQ(get("/v1/eni-configs"), "\"\"");
}

TEST_F(IpamNodeTest, MetricsAreTheDaemons) {
  start(m5_large(true));
  add(1);
  const std::string text = render_ipam_metrics(*node, host.now());
  for (const char* line :
       {"awscni_total_ip_addresses 16\n", "awscni_assigned_ip_addresses 1\n", "awscni_eni_max 3\n",
        "awscni_ip_max 432\n", "awscni_total_ipv4_prefixes 1\n",
        "awscni_assigned_ip_per_cidr{cidr=\"10.0.4.16/28\"} 1\n",
        "awscni_ec2api_req_count{fn=\"AssignPrivateIpAddresses\"} 1\n", "awscni_add_ip_req_count 1\n",
        "awscni_no_available_ip_addresses 0\n", "# TYPE awscni_reconcile_count counter\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

}  // namespace
}  // namespace ghostfleet::agent
