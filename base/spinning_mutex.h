// SpinningSharedMutex: a shared mutex for sections of a microsecond or two. It tries for a few microseconds before it
// sleeps: handing a lock over through the kernel costs a wake-up, and on a machine whose cores are busy with others'
// work a wake-up waits for a time slice (a millisecond and more), which turns a short section into a queue that never
// empties again.
//
// Thread rule: any thread; meets the standard's SharedMutex requirements (std::unique_lock, std::shared_lock).
#pragma once

#include <shared_mutex>

namespace ghostfleet {

class SpinningSharedMutex {
 public:
  void lock() {
    if (!spin([this] { return mutex_.try_lock(); })) mutex_.lock();
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

  void lock_shared() {
    if (!spin([this] { return mutex_.try_lock_shared(); })) mutex_.lock_shared();
  }
  bool try_lock_shared() { return mutex_.try_lock_shared(); }
  void unlock_shared() { mutex_.unlock_shared(); }

 private:
  static constexpr int kTries = 256;  // with a pause between them about 5 to 10 microseconds

  template <typename Try>
  static bool spin(Try attempt) {
    for (int i = 0; i < kTries; ++i) {
      if (attempt()) return true;
      pause();
    }
    return false;
  }

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  std::shared_mutex mutex_;
};

}  // namespace ghostfleet
