#include "emulator/vpc/subnet.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace ghostfleet::emulator {
namespace {

using agent::Cidr;
using agent::Ec2Error;
using agent::Ip;

constexpr uint16_t kAll = 0xffff;
constexpr uint32_t kChunks = 64;  // of a shared subnet

}  // namespace

Subnet::Subnet(const Cidr& cidr, Placement placement) : cidr_(cidr), placement_(placement) {
  const auto blocks = static_cast<uint32_t>(cidr.size() / 16);
  masks_.assign(blocks, 0);
  uses_.assign(blocks, Use::kClosed);
  open_free_ = reserved_free_ = with_room_ = BlockSet(blocks);
  masks_.front() = (1u << kReservedFirst) - 1;
  masks_.back() = static_cast<uint16_t>(masks_.back() | kAll << (16 - kReservedLast));
  for (uint32_t b = 0; b < blocks; ++b) set_use(b, Use::kOpen);
}

void Subnet::refresh(uint32_t block) {
  const Use use = uses_[block];
  const uint16_t mask = masks_[block];
  open_free_.set(block, use == Use::kOpen && mask == 0);
  reserved_free_.set(block, use == Use::kPrefixes && mask == 0);
  with_room_.set(block, use == Use::kOpen && mask != kAll);
}

void Subnet::set_use(uint32_t block, Use use) {
  const auto room = static_cast<uint32_t>(16 - std::popcount(masks_[block]));
  if (automatic(uses_[block])) free_ -= room;
  uses_[block] = use;
  if (automatic(use)) free_ += room;
  refresh(block);
}

void Subnet::set_mask(uint32_t block, uint16_t mask) {
  if (automatic(uses_[block])) {
    free_ += static_cast<uint32_t>(std::popcount(masks_[block]));
    free_ -= static_cast<uint32_t>(std::popcount(mask));
  }
  masks_[block] = mask;
  refresh(block);
}

Status Subnet::reserve(const Cidr& range, ReservationKind kind) {
  if (!cidr_.contains(range) || range.bits > kMostBits) {
    return invalid_argument(
        fmt::format("{}: a range of /28 or larger within {} is expected", format_cidr(range), format_cidr(cidr_)));
  }
  const uint32_t first = index_of(range.base) / 16;
  const uint32_t count = static_cast<uint32_t>(range.size() / 16);
  for (uint32_t b = first; b < first + count; ++b) {
    if (uses_[b] != Use::kOpen)
      return invalid_argument(fmt::format("{}: overlaps another reservation", format_cidr(range)));
  }
  for (uint32_t b = first; b < first + count; ++b)
    set_use(b, kind == ReservationKind::kPrefix ? Use::kPrefixes : Use::kExplicit);
  return Status();
}

void Subnet::share(std::function<bool(const Cidr&)> claim) {
  const auto blocks = static_cast<uint32_t>(masks_.size());
  claim_ = std::move(claim);
  chunk_blocks_ = std::max<uint32_t>(blocks / kChunks, 1);
  asked_.assign(blocks / chunk_blocks_, false);
  planned_ = uses_;
  for (uint32_t b = 0; b < blocks; ++b) set_use(b, Use::kClosed);
}

bool Subnet::claim_chunk(uint32_t chunk) {
  if (asked_[chunk]) return false;
  asked_[chunk] = true;
  const int bits = 28 - (std::bit_width(chunk_blocks_) - 1);
  if (!claim_({ip_of(chunk * chunk_blocks_, 0), static_cast<uint8_t>(bits)})) return false;
  for (uint32_t b = chunk * chunk_blocks_; b < (chunk + 1) * chunk_blocks_; ++b) set_use(b, planned_[b]);
  return true;
}

// True: there is more than before.
bool Subnet::claim_next() {
  while (next_chunk_ < asked_.size()) {
    if (claim_chunk(next_chunk_++)) return true;
  }
  return false;
}

uint64_t Subnet::room() const {
  const auto unasked = static_cast<uint64_t>(std::count(asked_.begin(), asked_.end(), false));
  return free_ + unasked * chunk_blocks_ * 16;
}

uint32_t Subnet::prefix_room() const {
  uint32_t room = free_prefixes();
  for (uint32_t block = 0; block < asked_.size() * chunk_blocks_; ++block) {
    if (!asked_[block / chunk_blocks_] && masks_[block] == 0 && automatic(planned_[block])) ++room;
  }
  return room;
}

void Subnet::claim_around(uint32_t block) {
  if (claim_ && uses_[block] == Use::kClosed) claim_chunk(block / chunk_blocks_);
}

uint32_t Subnet::from(Rng& rng) const {
  return placement_ == Placement::kLowest ? 0 : static_cast<uint32_t>(rng.below(masks_.size()));
}

Ec2Error Subnet::take_address(Rng& rng, Ip* out) {
  uint32_t block = with_room_.next(from(rng));
  while (block == BlockSet::kNone && claim_next()) block = with_room_.next(from(rng));
  if (block == BlockSet::kNone) return Ec2Error::kInsufficientFreeAddressesInSubnet;
  const auto room = static_cast<uint16_t>(~masks_[block]);
  uint16_t candidates = room;
  if (placement_ == Placement::kRandom) {
    const auto above = static_cast<uint16_t>(room & kAll << rng.below(16));
    if (above != 0) candidates = above;
  }
  const auto bit = static_cast<uint32_t>(std::countr_zero(candidates));
  set_mask(block, static_cast<uint16_t>(masks_[block] | 1u << bit));
  *out = ip_of(block, bit);
  return Ec2Error::kNone;
}

// What is reserved for prefixes goes first.
Ec2Error Subnet::take_prefix(Rng& rng, Ip* out) {
  const auto find = [&] {
    const uint32_t reserved = reserved_free_.next(from(rng));
    return reserved != BlockSet::kNone ? reserved : open_free_.next(from(rng));
  };
  uint32_t block = find();
  while (block == BlockSet::kNone && claim_next()) block = find();
  if (block == BlockSet::kNone)
    return free_ > 0 ? Ec2Error::kInsufficientCidrBlocks : Ec2Error::kInsufficientFreeAddressesInSubnet;
  set_mask(block, kAll);
  *out = ip_of(block, 0);
  return Ec2Error::kNone;
}

bool Subnet::occupy(const Ip& ip) {
  if (!cidr_.contains(ip)) return false;
  const uint32_t block = index_of(ip) / 16;
  claim_around(block);
  const auto bit = static_cast<uint16_t>(1u << index_of(ip) % 16);
  if (uses_[block] == Use::kClosed || uses_[block] == Use::kPrefixes || (masks_[block] & bit) != 0) return false;
  set_mask(block, masks_[block] | bit);
  return true;
}

bool Subnet::occupy_prefix(const Ip& base) {
  if (!cidr_.contains(base) || index_of(base) % 16 != 0) return false;
  const uint32_t block = index_of(base) / 16;
  claim_around(block);
  if (uses_[block] == Use::kClosed || masks_[block] != 0) return false;
  set_mask(block, kAll);
  return true;
}

void Subnet::give_back(const Ip& ip) {
  const uint32_t index = index_of(ip);
  set_mask(index / 16, static_cast<uint16_t>(masks_[index / 16] & ~(1u << index % 16)));
}

void Subnet::give_back_prefix(const Ip& base) { set_mask(index_of(base) / 16, 0); }

bool Subnet::taken(const Ip& ip) const {
  return cidr_.contains(ip) && (masks_[index_of(ip) / 16] >> index_of(ip) % 16 & 1) != 0;
}

}  // namespace ghostfleet::emulator
