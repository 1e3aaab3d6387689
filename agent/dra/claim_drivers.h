// ClaimDrivers: the DRA drivers of ONE node that are programs of their own, as its pods and their claims meet them. Who
// implements it has the sockets; the state machines behind it have none.
//
// NodeDrivers adds the node's own modelled driver: it answers at once, and everything that asks drivers goes through
// it. Thread rule: the node's thread. Ownership: the implementation outlives whoever asks; a callback may come after
// the asker is gone, which must then be seen by it. No callback comes from inside a call.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/dra/claim_cache.h"
#include "agent/dra/devices.h"
#include "agent/dra/driver_messages.h"
#include "base/status.h"

namespace ghostfleet::agent {

class ClaimDrivers {
 public:
  using Done = std::function<void(const Result<ClaimAnswers>&)>;
  virtual ~ClaimDrivers() = default;

  // Outlives the pods of the node, and the agent (save()).
  virtual ClaimCache& cache() = 0;
  virtual Status save() = 0;
  virtual bool has(std::string_view driver) const = 0;
  // Of a driver that is not there: an error.
  virtual void prepare(std::string_view driver, const std::vector<ClaimName>& claims, Done done) = 0;
  virtual void unprepare(std::string_view driver, const std::vector<ClaimName>& claims, Done done) = 0;
  virtual DeviceState health_of(std::string_view driver, std::string_view pool, std::string_view device) const = 0;
};

struct NodeDrivers {
  const DraDriver* own = nullptr;  // null: none
  ClaimDrivers* others = nullptr;  // null: none

  bool is_own(std::string_view driver) const { return own != nullptr && driver == driver_name(own->devices->kind); }
  bool serves(std::string_view driver) const {
    return is_own(driver) ? own->serves(driver) : others != nullptr && others->has(driver);
  }
};

// Claims that one driver is asked for together.
struct DriverBatch {
  std::string driver;
  std::vector<ClaimName> claims;
};
// To the batch of the driver, which may be new.
void add_claim(std::string_view driver, ClaimName claim, std::vector<DriverBatch>* batches);
std::string not_registered(std::string_view driver);
// What is wrong with a driver's answer to such a batch, in a kubelet's words that begin with `call`
// ("NodePrepareResources"); empty: nothing.
std::string answer_fault(std::string_view call, const DriverBatch& batch, const Result<ClaimAnswers>& answers);

// ClaimRelease: gives back what ONE pod has by claims: its part of claims that others have too, and then, driver by
// driver, all others. What drivers have taken back leaves the cache only when all of them have.
class ClaimRelease {
 public:
  ClaimRelease(std::string_view ns, std::string_view pod_uid, const std::vector<std::string>& claims,
               ClaimCache* cache);
  // Who is to be asked next; null: finish().
  const DriverBatch* next() const { return at_ < batches_.size() ? &batches_[at_] : nullptr; }
  // The answer; what is wrong with it: then all is to be tried again, from the beginning.
  std::string take(const Result<ClaimAnswers>& answers);
  void skip() { ++at_; }  // of the node's own driver
  void finish(ClaimCache* cache) const;

 private:
  std::string ns_, pod_;
  std::vector<ClaimName> released_;
  std::vector<DriverBatch> batches_;
  size_t at_ = 0;
};

}  // namespace ghostfleet::agent
