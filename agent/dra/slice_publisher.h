// SlicePublisher: brings the ResourceSlices of one node to what its driver has to tell, one request after the other. It
// lives only as long as there is something to do.
//
// Thread rule: the node's thread. Ownership: `devices` outlives it. Nothing is sent here: the owner sends what next()
// says, hands the answer to answered(), waits as long as that says, and goes on until done().
// Source: a kubelet 1.36 deletes the slices of its node when it starts, and those of a driver that is gone for 30 s;
// everything else is the driver's (resource.k8s.io/v1: an update raises the generation of the whole pool).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/dra/slices.h"
#include "base/clock.h"
#include "base/random.h"

namespace ghostfleet::agent {

struct SliceRequest {
  enum class Verb : unsigned char { kGet, kPost, kPut, kDelete };
  Verb verb = Verb::kGet;
  std::string target, body;
};

class SlicePublisher {
 public:
  enum class Task : unsigned char {
    kStart,   // what an earlier run left goes, then all are made
    kUpdate,  // those that are there are replaced
    kRemove,  // the driver is gone
  };
  // How old slices are removed: all of the node in one request, as by a kubelet, or one by one by their names, and only
  // where one is in the way (`existing`: of a Node that was there before).
  struct Options {
    bool collection = false;
    bool existing = false;
  };

  SlicePublisher(const DraDevices& devices, SliceNode node, DriverFaults faults, Task task, Options options);

  bool done() const { return step_ == Step::kDone; }
  SliceRequest next() const;
  // How long to wait before next(). `refused()` tells what the server said when it will not have them.
  Duration answered(int status, std::string_view body, Duration retry_after, Rng& rng);
  const std::string& refused() const { return refused_; }

 private:
  enum class Step : unsigned char {
    kWipe,   // deletes all slices of the node in one request
    kClear,  // deletes an old slice that is in the way of the one to be created
    kCreate,
    kRead,  // of a slice that is to be replaced: its version and generation
    kReplace,
    kDrop,  // deletes a slice beyond the last one that is needed
    kDone
  };
  void create_next(uint32_t slice);
  void update_next(uint32_t slice);
  void drop_next(uint32_t slice);
  void read(std::string_view body);
  void succeed(int status, std::string_view body);
  static bool is_answer(Step step, int status);
  uint32_t most_slices() const;

  const DraDevices& devices_;
  SliceNode node_;
  DriverFaults faults_;
  Task task_;
  Options options_;
  Step step_;
  uint32_t slice_ = 0;
  int tries_ = 0;
  int64_t generation_ = 0;  // 0: not known yet
  std::string version_;     // of the slice that is being replaced
  std::string refused_;
};

}  // namespace ghostfleet::agent
