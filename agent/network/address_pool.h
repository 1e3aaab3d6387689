// AddressPool: the addresses of one network card: its interfaces, the ranges on each, and which address which pod has.
// An address is remembered from the first time it was given out until it was given back and has cooled, not before or
// after.
//
// Thread rule: the node's thread. Ownership: values.
// Memory: about 100 bytes an interface, 48 a range, 24 an address in use or cooling and 150 for the pod that has it.
// Source: amazon-vpc-cni-k8s v1.23 (ipamd's data store).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/network/ec2.h"
#include "base/clock.h"

namespace ghostfleet::agent {

// Who holds an address: one interface of one sandbox.
struct IpamKey {
  std::string network_name = "aws-cni";
  std::string container_id;  // of the sandbox
  std::string if_name = "eth0";
  friend bool operator==(const IpamKey&, const IpamKey&) = default;
};

struct IpamHolder {
  IpamKey key;
  std::string pod_namespace, pod_name;
  int interfaces = 1;
  WallTime assigned;
};

// An address that was given out at least once. Without a holder it cools, or has cooled.
struct PoolAddress {
  uint32_t offset = 0;  // in its range
  TimePoint released;
  std::unique_ptr<IpamHolder> holder;
};

struct PoolRange {
  Cidr cidr;
  std::vector<PoolAddress> seen;

  // A range of 2^31 addresses and more counts as that many.
  int size() const { return cidr.host_bits() >= 31 ? 1 << 30 : 1 << cidr.host_bits(); }
  bool is_prefix() const { return cidr.host_bits() > 0; }
  int assigned() const;
};

struct PoolEni {
  EniId id = 0;
  TimePoint created;
  uint8_t device = 0;
  bool primary = false, trunk = false, efa = false, excluded = false;
  SubnetIndex subnet = 0;
  Ip primary_ip;
  std::vector<PoolRange> ranges;

  int assigned() const;
};

struct PoolStats {
  int total = 0, assigned = 0, cooling = 0;
  int prefixes = 0, free_prefixes = 0;
  // Cooling ones among them.
  int available() const { return total - assigned; }
};

struct PodAddress {
  Ip ip;
  EniId eni = 0;
  uint8_t device = 0;
};

// What must stay warm, for the question whether an interface can go.
struct KeepWarm {
  int warm_ips = 0, minimum_ips = 0, warm_prefixes = 0;
};

class AddressPool {
 public:
  AddressPool(uint8_t card, bool prefixes, Duration cooldown) : cooldown_(cooldown), card_(card), prefixes_(prefixes) {}

  uint8_t card() const { return card_; }
  const std::vector<PoolEni>& enis() const { return enis_; }
  PoolEni* find_eni(EniId id);

  // False: it is there already.
  bool add_eni(PoolEni eni);
  bool add_range(EniId id, const Cidr& cidr);
  // Takes the interface out; addresses in use are taken from their pods, and counted.
  bool remove_eni(EniId id, int* forced);
  // The same of a range. Without `force` one in use stays (false).
  bool remove_range(EniId id, const Cidr& cidr, bool force, int* forced);

  // The address that the key has already, else one that cooled, else the lowest one never given out.
  std::optional<PodAddress> assign(const IpamHolder& holder, TimePoint now);
  // Takes an address from a checkpoint. False: no range holds it, or somebody has it.
  bool restore(const Ip& ip, const IpamHolder& holder);
  std::optional<PodAddress> find(const IpamKey& key) const;
  // What the address was held by, or null: nobody of that key.
  std::unique_ptr<IpamHolder> release(const IpamKey& key, TimePoint now, Ip* ip);
  // Undo an assign, or a release, whose checkpoint could not be written.
  void forget(const IpamKey& key);
  void put_back(const Ip& ip, std::unique_ptr<IpamHolder> holder);

  PoolStats stats(TimePoint now) const;
  // The first interface that may go, or none. `later`: when one that is too young or cools may, if that is earlier.
  const PoolEni* deletable(const KeepWarm& keep, Duration min_age, TimePoint now, TimePoint* later) const;
  bool has_unused_eni() const;
  bool has_trunk() const;

  // Calls fn(eni, range, address) for every address with a holder.
  template <class Fn>
  void for_each_holder(Fn&& fn) const {
    for (const PoolEni& eni : enis_) {
      for (const PoolRange& range : eni.ranges) {
        for (const PoolAddress& address : range.seen) {
          if (address.holder) fn(eni, range, address);
        }
      }
    }
  }

 private:
  struct Place {
    size_t eni = 0, range = 0, address = 0;
  };
  std::optional<Place> place_of(const IpamKey& key) const;
  bool right_kind(const PoolRange& range) const;
  bool cooled(const PoolAddress& address, TimePoint now) const { return now - address.released >= cooldown_; }
  std::optional<uint32_t> take_offset(PoolRange& range, TimePoint now) const;
  bool required(const KeepWarm& keep, const PoolEni& eni) const;

  std::vector<PoolEni> enis_;
  Duration cooldown_;
  uint8_t card_;
  bool prefixes_;
};

}  // namespace ghostfleet::agent
