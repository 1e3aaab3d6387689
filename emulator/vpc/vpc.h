// Vpc: the cloud network of a fleet: its subnets, its instances with their network interfaces, and the EC2 API in front
// of them. An address belongs to one interface at a time, over all nodes of the fleet, and over other fleets when their
// claims are shared.
//
// Time is the caller's: begin() says when the answer of a call is there (and whether it is a refusal), finish(), called
// then, carries the call out. So a fleet keeps calls in its timers and a benchmark in a queue; nothing waits in here.
//
// Thread rule: any thread (one lock, held for a microsecond).
// Ownership: the claims outlive it. Memory: about 10 KiB a /16, and about 120 bytes an instance with three prefixes.
// Source: AWS docs, the EC2 API reference and quotas of network interfaces.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/network/ec2.h"
#include "agent/network/ipam_config.h"
#include "base/random.h"
#include "emulator/vpc/claims.h"
#include "emulator/vpc/vpc_spec.h"

namespace ghostfleet::emulator {

using InstanceId = uint32_t;

struct LaunchRequest {
  std::string zone;
  agent::InstanceLimits limits;
  bool prefixes = false;  // what `in_use` and `at_launch` are given as
  int at_launch = 0;      // prefixes, or addresses, of the first interface
  int efa_only = 0;       // interfaces without addresses, on the cards from 0 on
  // By its pods since earlier: further interfaces are made for those that the first one cannot hold.
  std::vector<agent::Ip> in_use;
  bool custom_networking = false;    // then the first interface holds none of them
  std::optional<agent::Ip> address;  // its own, since earlier
};

struct Launch {
  agent::Ec2Error error = agent::Ec2Error::kNone;
  InstanceId id = 0;
  agent::Ip address;
  std::string subnet;
  std::vector<agent::Ip> conflicts;  // of `in_use`: somebody else has them, or no subnet does
};

struct Ec2Ticket {
  TimePoint due;
  Duration took{0};
  bool refused = false;
};

// With what may still be claimed.
struct SubnetFigures {
  std::string name;
  uint32_t free_addresses = 0, free_prefixes = 0;
};

struct VpcFigures {
  std::array<uint64_t, agent::kEc2Actions> calls{}, throttled{};
  uint64_t instances = 0, interfaces = 0, address_units = 0;
  std::vector<SubnetFigures> subnets;

  uint64_t all_calls() const;
  uint64_t all_throttled() const;
};

class Vpc {
 public:
  // The spec as a VPC file's reader gives it. `claims` may be null: nobody shares the network.
  static Result<std::unique_ptr<Vpc>> create(VpcSpec spec, Claims* claims = nullptr);

  const VpcSpec& spec() const { return spec_; }

  // These addresses of pods, or the prefixes around them, are kept for the launches that name them as `in_use`: to be
  // called for all of them before the first launch, which takes addresses of its own.
  void promise(const std::vector<agent::Ip>& in_use, bool prefixes);

  // Whether RunInstances is let through for so many instances.
  bool admit_launch(TimePoint now, uint32_t instances);
  // The instance is there, with its first interface in the subnet of its zone that has most room.
  Launch launch(const LaunchRequest& request);
  void terminate(InstanceId id);

  Ec2Ticket begin(agent::Ec2Action action, TimePoint now);
  agent::Ec2Answer finish(InstanceId id, const agent::Ec2Call& call, const Ec2Ticket& ticket);

  // Somebody outside the fleet takes an address, or gives it back: false when it is not free.
  bool occupy(const agent::Ip& ip);
  void vacate(const agent::Ip& ip);

  // Somebody else attaches an interface to the instance (as the VPC resource controller or a user does), or takes the
  // tag away. 0: no room.
  agent::EniId attach_foreign(InstanceId id, uint8_t card, bool no_manage, bool trunk);
  void detach_foreign(InstanceId id, agent::EniId eni);

  VpcFigures figures() const;
  // Prometheus text: free addresses and free prefixes of each subnet, calls of EC2.
  std::string render_metrics() const;
  // Of a subnet by name; kPrimarySubnet when there is none.
  agent::SubnetIndex find_subnet(std::string_view name) const;

 private:
  struct Held {  // an IPv4 address or prefix
    uint32_t base = 0;
    uint8_t bits = 32;
  };
  struct Eni {
    agent::EniId id = 0;
    uint32_t address = 0;  // IPv4; 0: none
    uint32_t prefix6 = 0;  // number of its /80 in the subnet; 0: none
    agent::SubnetIndex subnet = 0;
    uint8_t card = 0, device = 0;
    bool primary : 1 = false, trunk : 1 = false, efa : 1 = false, efa_only : 1 = false, no_manage : 1 = false;
    std::vector<Held> held;
  };
  struct Instance {
    bool alive = false;
    uint16_t type = 0, zone = 0;
    std::vector<Eni> enis;
  };
  struct Loose {  // created, not attached
    Eni eni;
    InstanceId owner = 0;
    TimePoint since;
  };
  struct Prefixes6 {  // the /80s of a subnet's /64; number 0 holds EC2's own addresses
    uint32_t next = 1;
    std::vector<uint32_t> returned;
    std::set<uint32_t> taken_over;  // beyond `next`
  };

  Vpc(VpcSpec spec, Claims* claims);
  Status prepare();
  agent::SubnetIndex pick_subnet(std::string_view zone) const;
  agent::SubnetIndex subnet_of(const agent::Ip& ip) const;
  bool keep(const agent::Cidr& wanted, agent::SubnetIndex subnet);
  bool keep6(agent::SubnetIndex subnet, uint32_t number);
  bool take_over6(Eni& eni, const agent::Ip& ip);
  uint16_t type_of(const agent::InstanceLimits& limits);
  uint16_t zone_of(const std::string& zone);
  agent::EniId new_id();
  Instance* find(InstanceId id);
  static Eni* find_eni(Instance& instance, agent::EniId id);
  const agent::InstanceLimits& limits_of(const Instance& i) const { return types_[i.type]; }
  agent::Ec2Error hold(Eni& eni, int count, bool prefixes, std::vector<agent::Cidr>* given);
  bool take_over(std::vector<Eni>& enis, const agent::Ip& ip, const LaunchRequest& request);
  Eni* eni_for(std::vector<Eni>& enis, agent::SubnetIndex subnet, const LaunchRequest& request);
  void let_go(Eni& eni, const Held& held);
  void dissolve(Eni& eni);
  agent::Ec2Error take_prefix6(agent::SubnetIndex subnet, uint32_t* number);
  agent::Cidr prefix6(agent::SubnetIndex subnet, uint32_t number) const;
  agent::EniView view(const Eni& eni) const;
  static uint8_t free_device(const Instance& instance, uint8_t card, int most);

  // One of each action.
  void carry_out(InstanceId id, Instance& instance, const agent::Ec2Call& call, TimePoint now, agent::Ec2Answer* out);
  void assign(Instance& instance, const agent::Ec2Call& call, agent::Ec2Answer* out);
  void assign6(Instance& instance, const agent::Ec2Call& call, agent::Ec2Answer* out);
  void unassign(Instance& instance, const agent::Ec2Call& call, agent::Ec2Answer* out);
  void create_eni(InstanceId id, Instance& instance, const agent::Ec2Call& call, TimePoint now, agent::Ec2Answer* out);
  void attach(Instance& instance, const agent::Ec2Call& call, agent::Ec2Answer* out);
  void detach(InstanceId id, Instance& instance, const agent::Ec2Call& call, TimePoint now, agent::Ec2Answer* out);
  void remove(const agent::Ec2Call& call, agent::Ec2Answer* out);
  void describe(const Instance& instance, const agent::Ec2Call& call, agent::Ec2Answer* out) const;
  void describe_leaked(InstanceId id, TimePoint now, agent::Ec2Answer* out) const;
  void describe_subnets(const Instance& instance, agent::Ec2Answer* out) const;

  mutable std::mutex mutex_;
  VpcSpec spec_;
  Claims* claims_;
  Rng rng_;
  Ec2Throttle throttle_;
  std::vector<Subnet> subnets_;
  std::vector<Prefixes6> prefixes6_;
  std::vector<agent::InstanceLimits> types_;
  std::vector<std::string> zones_;
  std::vector<Instance> instances_;
  std::vector<InstanceId> free_instances_;
  std::unordered_map<agent::EniId, Loose> loose_;
  std::set<agent::Cidr> promised_;
  uint64_t ids_ = 0;
  VpcFigures figures_;
};

}  // namespace ghostfleet::emulator
