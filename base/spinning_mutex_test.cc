#include "base/spinning_mutex.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

namespace ghostfleet {
namespace {

TEST(SpinningSharedMutex, WritersExcludeEverybody) {
  SpinningSharedMutex mutex;
  uint64_t a = 0, b = 0, torn = 0;
  const auto write = [&] {
    for (int i = 0; i < 20000; ++i) {
      const std::unique_lock lock(mutex);
      ++a;
      ++b;
    }
  };
  const auto read = [&](uint64_t* seen) {
    for (int i = 0; i < 20000; ++i) {
      const std::shared_lock lock(mutex);
      *seen += a != b;
    }
  };
  std::vector<std::thread> threads;
  threads.emplace_back(write);
  threads.emplace_back(write);
  threads.emplace_back(read, &torn);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(a, 40000u);
  EXPECT_EQ(b, 40000u);
  EXPECT_EQ(torn, 0u);
}

TEST(SpinningSharedMutex, WaitsForALongHolder) {
  SpinningSharedMutex mutex;
  std::unique_lock held(mutex);
  EXPECT_FALSE(mutex.try_lock_shared());
  int order = 0;
  std::thread waiter([&] {
    const std::shared_lock lock(mutex);
    EXPECT_EQ(order, 1);
  });
  order = 1;
  held.unlock();
  waiter.join();
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

}  // namespace
}  // namespace ghostfleet
