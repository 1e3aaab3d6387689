// BlockSet: a set of small numbers that finds its next member quickly: bits, and one bit for each 64 of them.
//
// Thread rule: one owner. Limits: 4,096 numbers (the blocks of 16 addresses of a /16).
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace ghostfleet::emulator {

class BlockSet {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kMost = 4096;

  explicit BlockSet(uint32_t size = 0) : words_((size + 63) / 64) {}

  void set(uint32_t i, bool in) {
    uint64_t& word = words_[i / 64];
    const uint64_t bit = uint64_t{1} << (i % 64);
    if (((word & bit) != 0) == in) return;
    word ^= bit;
    count_ += in ? 1 : -1u;
    const uint64_t summary_bit = uint64_t{1} << (i / 64);
    summary_ = word != 0 ? summary_ | summary_bit : summary_ & ~summary_bit;
  }
  bool has(uint32_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  uint32_t count() const { return count_; }
  // The first member that is not below `from`, else the first of all; kNone when there is none.
  uint32_t next(uint32_t from) const {
    if (count_ == 0) return kNone;
    const uint32_t at = find(from);
    return at != kNone ? at : find(0);
  }

 private:
  uint32_t find(uint32_t from) const {
    uint32_t w = from / 64;
    if (w >= words_.size()) return kNone;
    const uint64_t rest = words_[w] & ~uint64_t{0} << (from % 64);
    if (rest != 0) return w * 64 + static_cast<uint32_t>(std::countr_zero(rest));
    if (++w >= 64) return kNone;
    const uint64_t words = summary_ & ~uint64_t{0} << w;
    if (words == 0) return kNone;
    w = static_cast<uint32_t>(std::countr_zero(words));
    return w * 64 + static_cast<uint32_t>(std::countr_zero(words_[w]));
  }

  std::vector<uint64_t> words_;
  uint64_t summary_ = 0;
  uint32_t count_ = 0;
};

}  // namespace ghostfleet::emulator
