// Subnet: which addresses of a range are taken, as EC2 gives them out: single addresses anywhere, prefixes as aligned
// blocks of 16 that are wholly free. So single addresses fragment it, and a subnet with plenty of free addresses may
// have no prefix left. The first four addresses and the last are never given out.
//
// A range reserved for prefixes gives nothing else; one reserved explicitly gives nothing by itself.
// When fleets share the subnet, only what this one has claimed is open to it; more is claimed when that is used up.
//
// Thread rule: one owner (Vpc). Memory: 2 bytes for 16 addresses, about 10 KiB for a /16.
// Source: AWS docs, Prefix delegation and subnet CIDR reservations.
#pragma once

#include <functional>
#include <vector>

#include "agent/network/ec2.h"
#include "base/random.h"
#include "base/status.h"
#include "emulator/vpc/block_set.h"

namespace ghostfleet::emulator {

enum class Placement : unsigned char { kRandom, kLowest };
enum class ReservationKind : unsigned char { kPrefix, kExplicit };

class Subnet {
 public:
  static constexpr int kMostBits = 28, kFewestBits = 16;  // of an IPv4 subnet
  static constexpr int kReservedFirst = 4, kReservedLast = 1;

  // `cidr` is IPv4, /16 to /28.
  Subnet(const agent::Cidr& cidr, Placement placement);

  const agent::Cidr& cidr() const { return cidr_; }

  // Before anything is given out. `range` is within the subnet, /28 or larger.
  Status reserve(const agent::Cidr& range, ReservationKind kind);
  // From now on only chunks that `claim` grants are used; each is asked for once, when it is needed.
  void share(std::function<bool(const agent::Cidr& chunk)> claim);

  agent::Ec2Error take_address(Rng& rng, agent::Ip* out);
  agent::Ec2Error take_prefix(Rng& rng, agent::Ip* out);
  // A certain address or /28: false when it is not free, or may not be taken.
  bool occupy(const agent::Ip& ip);
  bool occupy_prefix(const agent::Ip& base);
  // Of what was taken.
  void give_back(const agent::Ip& ip);
  void give_back_prefix(const agent::Ip& base);

  bool taken(const agent::Ip& ip) const;
  uint32_t free_addresses() const { return free_; }
  // The same with what may still be claimed.
  uint64_t room() const;
  // Blocks of 16 from which a prefix can be given.
  uint32_t free_prefixes() const { return open_free_.count() + reserved_free_.count(); }
  // The same with what may still be claimed.
  uint32_t prefix_room() const;

 private:
  enum class Use : unsigned char { kClosed, kOpen, kPrefixes, kExplicit };

  uint32_t index_of(const agent::Ip& ip) const { return ip.v4_value() - cidr_.base.v4_value(); }
  agent::Ip ip_of(uint32_t block, uint32_t bit) const { return cidr_.base.plus(block * 16 + bit); }
  void set_mask(uint32_t block, uint16_t mask);
  void set_use(uint32_t block, Use use);
  void refresh(uint32_t block);
  bool automatic(Use use) const { return use == Use::kOpen || use == Use::kPrefixes; }
  uint32_t from(Rng& rng) const;
  bool claim_next();
  void claim_around(uint32_t block);
  bool claim_chunk(uint32_t chunk);

  agent::Cidr cidr_;
  Placement placement_;
  std::vector<uint16_t> masks_;  // a bit for each address that is taken
  std::vector<Use> uses_;
  std::vector<Use> planned_;  // what a closed block becomes; only when shared
  BlockSet open_free_, reserved_free_, with_room_;
  std::function<bool(const agent::Cidr&)> claim_;
  uint32_t chunk_blocks_ = 1, next_chunk_ = 0;
  std::vector<bool> asked_;  // by chunk
  uint32_t free_ = 0;
};

}  // namespace ghostfleet::emulator
