// IpamNode: the address daemon of ONE node (the VPC CNI's ipamd): it keeps addresses warm by calls of EC2, gives them
// to pods and takes them back. A pure state machine: calls go out through IpamHost::call and come back through
// on_answer; there is one timer.
//
// A pod that asks while there is no address is told so at once, and nothing remembers that it asked: its kubelet asks
// again. So any number of waiting pods costs nothing here.
//
// How it runs: start() reads what is attached, takes over the checkpoint and fills the pool; then every 5 s, when
// something has changed, each card's pool is looked at: grown or shrunk by at most one action, then an interface too
// many is given back. One call of EC2 is on its way at a time; the client's own repeats (RequestLimitExceeded: at most
// 10, with jitter) are made here. The loop's beat is kept while nothing happens and calls are on their way: a look at
// an unchanged pool is left out.
//
// Thread rule: the node's thread. Ownership: the config is shared by the nodes of a group.
// Memory: about 700 bytes with one interface and three prefixes (bench/ipam measures it).
// Source: amazon-vpc-cni-k8s v1.23, ipamd.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/network/address_pool.h"
#include "agent/network/ec2.h"
#include "agent/network/ipam_checkpoint.h"
#include "agent/network/ipam_config.h"
#include "base/random.h"

namespace ghostfleet::agent {

// Given to one node.
class IpamHost {
 public:
  virtual ~IpamHost() = default;
  virtual TimePoint now() const = 0;
  virtual WallTime wall_now() const = 0;
  virtual Rng& rng() = 0;
  // Makes the call; the answer comes later through on_answer, never inside this call.
  virtual void call(const Ec2Call& call) = 0;
  // Arms the node's one timer, replacing what it was armed for.
  virtual void arm(TimePoint at) = 0;
  virtual void disarm() = 0;
  // Keeps the checkpoint. False: it could not be written, and what made it necessary is undone.
  virtual bool save() = 0;
};

enum class AddOutcome : unsigned char {
  kOk,
  kNotReady,   // the daemon starts
  kNoAddress,  // none is free: ask again later
  kNotSaved,   // the checkpoint could not be written
};

struct AddResult {
  AddOutcome outcome = AddOutcome::kNotReady;
  std::vector<PodAddress> addresses;  // one of each managed card for a pod of several interfaces, else one
};

struct IpamCounters {
  std::array<uint32_t, kEc2Actions> calls{}, errors{}, throttled{};
  std::array<float, kEc2Actions> milliseconds{};
  uint32_t add_requests = 0, del_requests = 0, no_available = 0;
  uint32_t forced_enis = 0, forced_ips = 0, lost_entries = 0;
  uint32_t reconcile_added = 0, reconcile_deleted = 0;
  uint32_t grow_failures = 0, eni_failures = 0, starts = 0, failed_starts = 0;
};

class IpamNode {
 public:
  enum class State : unsigned char { kStopped, kStarting, kReady, kCrashed };

  explicit IpamNode(std::shared_ptr<const IpamConfig> config);
  IpamNode(IpamNode&&) noexcept;
  IpamNode& operator=(IpamNode&&) noexcept;
  ~IpamNode();

  // `checkpoint`: what an earlier run left, without what belongs to pods that are gone (prune_checkpoint).
  void start(IpamHost& host, IpamCheckpoint checkpoint = {});
  void on_answer(IpamHost& host, const Ec2Answer& answer);
  void on_timer(IpamHost& host);

  // A pod's sandbox wants its address; `all_cards`: one of each managed card. Asked again with the same key it gets the
  // same.
  AddResult add(IpamHost& host, const IpamHolder& holder, bool all_cards = false);
  // False: nobody of that key (which is no error to a container runtime).
  bool remove(IpamHost& host, const IpamKey& key);

  // Cordoned: no growing and no shrinking, unless the config says otherwise.
  void set_schedulable(IpamHost& host, bool schedulable);
  // The node goes down: no interface or address is asked for any more.
  void set_terminating() { terminating_ = true; }
  // Somebody else changed the instance's interfaces: the next loop looks.
  void request_reconcile(IpamHost& host);

  State state() const { return state_; }
  bool ready() const { return state_ == State::kReady; }
  bool busy() const { return job_ != nullptr; }
  const IpamConfig& config() const { return *config_; }
  const std::vector<AddressPool>& pools() const { return pools_; }
  PoolStats stats(TimePoint now, int card = 0) const;
  const IpamCounters& counters() const { return counters_; }
  TimePoint paused_until() const { return paused_until_; }
  int unmanaged(int card) const;  // interfaces of others
  IpamCheckpoint checkpoint() const;

 private:
  struct Job;
  // What the answer on its way, or the wait, is for.
  enum class Step : unsigned char {
    kDescribe,   // starting: what is attached
    kCleanUp,    // starting: unused ranges of the wrong kind are given back
    kAssignV6,   // starting: the /80
    kAssign,     // growing
    kAssignOne,  // growing: with a count of 1, after the first try failed
    kReread,     // growing: the interface holds more than we know
    kSubnets,    // a new interface: where
    kCreate,
    kAttach,
    kModify,
    kAwaitMetadata,
    kUndoDetach,  // the new interface is given up
    kUndoDelete,
    kUnassign,  // shrinking
    kDetach,    // an interface goes
    kDelete,
    kMetadata,   // reconciling
    kReconcile,  // reconciling with EC2, after the metadata differed
    kFindLeaked,
    kDeleteLeaked,
  };

  // ipam_node.cc: the frame
  void begin(IpamHost& host, Step step, int card);
  void issue(IpamHost& host, Ec2Call call);
  void issue_again(IpamHost& host);
  void wait(IpamHost& host, Duration delay);
  bool repeat(IpamHost& host, const Ec2Answer& answer);
  void dispatch(IpamHost& host, const Ec2Answer& answer);
  void job_done(IpamHost& host);
  void run_loop(IpamHost& host);
  void end_loop(IpamHost& host);
  void look_again(TimePoint at) { again_ = std::min(again_, at); }
  void changed(IpamHost& host);
  void arm(IpamHost& host);
  TimePoint beat_after(TimePoint t) const;
  AddressPool& pool(int card) { return pools_[static_cast<size_t>(card)]; }
  bool may_change() const { return !terminating_ && (schedulable_ || config_->manage_unschedulable); }

  // ipam_start.cc
  void take_description(IpamHost& host, const Ec2Answer& answer);
  void take_eni(const EniView& view, TimePoint created);
  void recover(IpamHost& host);
  void clean_up(IpamHost& host);
  void fill(IpamHost& host);
  void started(IpamHost& host);
  void crash(IpamHost& host);

  // ipam_grow.cc
  void size_pool(IpamHost& host, int card);
  void grow(IpamHost& host, int card);
  void grow_next_eni(IpamHost& host);
  void assigned(IpamHost& host, const Ec2Answer& answer);
  void reread(IpamHost& host, const Ec2Answer& answer);
  bool room_for_eni(int card) const;
  void new_eni(IpamHost& host);
  void create_in_next_subnet(IpamHost& host);
  void created(IpamHost& host, const Ec2Answer& answer);
  void attached(IpamHost& host, const Ec2Answer& answer);
  void modified(IpamHost& host, const Ec2Answer& answer);
  void seen_in_metadata(IpamHost& host, const Ec2Answer& answer);
  void undo_eni(IpamHost& host, bool detach);
  void pause(IpamHost& host);
  void grown(IpamHost& host);

  // ipam_shrink.cc
  void shrink(IpamHost& host, int card);
  void unassign_next(IpamHost& host);
  void free_eni(IpamHost& host, int card);
  void detached(IpamHost& host, const Ec2Answer& answer);
  void deleted(IpamHost& host, const Ec2Answer& answer);

  // ipam_reconcile.cc
  void reconcile(IpamHost& host);
  bool differs(const Ec2Answer& answer) const;
  void take_truth(IpamHost& host, const Ec2Answer& answer);
  void drop_detached(const Ec2Answer& answer);
  void match_ranges(IpamHost& host, const EniView& view);
  void note_dropped(const Cidr& cidr, TimePoint now);
  bool dropped_lately(const Cidr& cidr, TimePoint now) const;
  void sweep(IpamHost& host);
  void delete_next_leaked(IpamHost& host);

  struct Dropped {
    Cidr cidr;
    TimePoint until;
  };

  std::shared_ptr<const IpamConfig> config_;
  std::vector<AddressPool> pools_;
  std::vector<uint8_t> unmanaged_;  // interfaces of others, by card; empty: none
  std::vector<Dropped> dropped_;
  std::unique_ptr<Job> job_;
  std::unique_ptr<IpamCheckpoint> recovering_;
  TimePoint origin_;  // of the loop's beat
  TimePoint next_look_, next_reconcile_, next_sweep_;
  TimePoint again_;  // of the loop that runs: when there is something to do again
  TimePoint paused_until_, last_shrink_, last_action_, restart_at_;
  IpamCounters counters_;
  uint16_t cursor_ = 0;  // of the loop that runs: card * 2, +1 for its interfaces
  uint8_t crashes_ = 0;
  State state_ = State::kStopped;
  bool schedulable_ = true, terminating_ = false, ever_shrunk_ = false, looping_ = false, changed_ = false,
       worked_ = false;
};

}  // namespace ghostfleet::agent
