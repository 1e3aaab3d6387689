// A fast 64-bit mixing hash for interning and for "has this piece of a status changed". Not for hostile keys.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace ghostfleet {

inline uint64_t hash_mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ULL + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccdULL;
  return h ^ (h >> 32);
}

inline uint64_t hash_text(std::string_view text, uint64_t seed = 0) {
  uint64_t h = hash_mix(seed, text.size());
  while (text.size() >= 8) {
    uint64_t v = 0;
    std::memcpy(&v, text.data(), 8);
    h = hash_mix(h, v);
    text.remove_prefix(8);
  }
  uint64_t v = 0;
  if (!text.empty()) std::memcpy(&v, text.data(), text.size());
  return hash_mix(h, v);
}

}  // namespace ghostfleet
