// EventLoop: one thread's reactor. A shard of the fleet, an I/O thread of the API server and the controllers each own
// one.
//
// Thread rule: post() and stop() may be called from any thread; everything else only on the loop's own thread (the one
// inside run()), or before run() begins. Callbacks run on that thread, never inside the call that registered them.
// Ownership: whoever creates the loop joins its thread before destroying it; what a callback captures must outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/clock.h"

namespace ghostfleet {

class EventLoop {
 public:
  using Task = std::function<void()>;
  using TimerId = uint64_t;  // 0 is no timer

  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Runs until stop(). Tasks posted before run() are run by it.
  void run();
  // Runs what is ready and what becomes ready within `d`; for tests and for draining at the end.
  void run_for(Duration d);
  void stop();
  bool in_loop_thread() const;

  void post(Task task);

  // One-shot timers, for the few (a hundred thousand nodes share a TimerWheel instead). Cancelling one that fired does
  // nothing.
  TimerId run_after(Duration delay, Task task);
  void cancel(TimerId id);

  TimePoint now() const;

  // The reactor underneath, for the code that owns sockets (a boost::asio::io_context*). Only .cc files of base/ and
  // kube/http/ cast it.
  void* native() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ghostfleet
