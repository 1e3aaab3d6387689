// SideThread: one thread for what a loop must not wait for: jobs are done one after the other.
//
// Thread rule: run() from any thread; jobs run on the thread of its own. The destructor waits for the job that is on,
// and drops the others.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace ghostfleet::emulator {

class SideThread {
 public:
  SideThread() = default;
  ~SideThread();
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;
  void run(std::function<void()> job);

 private:
  void work();

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool over_ = false;
  std::thread thread_;  // from the first job on
};

}  // namespace ghostfleet::emulator
