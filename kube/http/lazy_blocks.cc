#include "kube/http/lazy_blocks.h"

#include <sys/mman.h>

#include <cstdint>
#include <mutex>
#include <vector>

namespace ghostfleet::kube::http {
namespace {

constexpr size_t kBlocks = size_t{1} << 18;

struct Area {
  char* begin = nullptr;
  std::mutex mutex;
  std::vector<uint32_t> free;  // given back
  uint32_t used = 0;           // blocks from here on were never taken

  Area() {
    void* at = ::mmap(nullptr, kBlocks * LazyBlocks::kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return;
    ::madvise(at, kBlocks * LazyBlocks::kBytes, MADV_NOHUGEPAGE);
    begin = static_cast<char*>(at);
  }
};

Area& area() {
  static Area* a = new Area;  // lives as long as the process: sessions may end after static objects
  return *a;
}

}  // namespace

void* LazyBlocks::take() {
  Area& a = area();
  const std::lock_guard lock(a.mutex);
  if (!a.free.empty()) {
    const uint32_t index = a.free.back();
    a.free.pop_back();
    return a.begin + size_t{index} * kBytes;
  }
  if (a.begin == nullptr || a.used == kBlocks) return nullptr;
  return a.begin + size_t{a.used++} * kBytes;
}

bool LazyBlocks::owns(const void* block) {
  const Area& a = area();
  return a.begin != nullptr && block >= a.begin && block < a.begin + kBlocks * kBytes;
}

void LazyBlocks::give_back(void* block) {
  Area& a = area();
  ::madvise(block, kBytes, MADV_DONTNEED);
  const std::lock_guard lock(a.mutex);
  a.free.push_back(static_cast<uint32_t>(static_cast<size_t>(static_cast<char*>(block) - a.begin) / kBytes));
}

}  // namespace ghostfleet::kube::http
