// LazyBlocks: blocks of 20 KiB of which only the pages that were written take memory. nghttp2 allocates a frame buffer
// of 16 KiB for each session and writes a few hundred bytes into most of them; from a heap such a buffer lies on pages
// that others have written before.
//
// Thread rule: any thread. Limit: 2^18 blocks (5 GiB of addresses, reserved at the first use); then null.
#pragma once

#include <cstddef>

namespace ghostfleet::kube::http {

class LazyBlocks {
 public:
  static constexpr size_t kBytes = 20 * 1024;

  static void* take();
  static bool owns(const void* block);
  static void give_back(void* block);
};

}  // namespace ghostfleet::kube::http
