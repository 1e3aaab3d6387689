// PodClaims: the ResourceClaims of one pod, as a kubelet takes them through their preparation and back. Drivers are the
// node's own, which answers at once, and programs that answer later (claim_drivers.h).
//
// Order of a kubelet: all claims of the pod are read and checked before anything is noted (so that a pod which may not
// have them can go again without its driver), then noted for the pod, then prepared by the driver; what is prepared
// already is not prepared twice. Drivers are asked one after the other, each for all of the pod's claims it is needed
// for. A pod gives its claims back after its containers have stopped and before its terminal phase is told; only the
// last pod of a claim has it unprepared.
//
// Thread rule: the node's thread. Ownership: a pod owns its PodClaims; cache and drivers outlive them. Errors are the
// texts of a kubelet's events. Source: a kubelet 1.36.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/dra/claim_cache.h"
#include "agent/dra/claim_drivers.h"
#include "agent/dra/devices.h"
#include "kube/api/json.h"

namespace ghostfleet::agent {

// One entry of a pod's spec.resourceClaims, or the claim that the scheduler made for its extended resources (which has
// no name in the spec).
struct ClaimRef {
  std::string pod_claim;
  std::string object;          // name of the ResourceClaim; empty: none is needed, or none is there yet
  bool from_template = false;  // then it must have been made for this pod
  bool missing = false;        // its controller has not made it yet
  friend bool operator==(const ClaimRef&, const ClaimRef&) = default;
};

// A container's extended resource that devices of a claim stand for: no device plugin is asked for it.
struct ExtendedResource {
  std::string container, resource;
  friend bool operator==(const ExtendedResource&, const ExtendedResource&) = default;
};

// What spec and status of a pod say of claims.
struct ClaimsOfPod {
  std::vector<ClaimRef> refs;
  std::vector<ExtendedResource> extended;
  friend bool operator==(const ClaimsOfPod&, const ClaimsOfPod&) = default;
};
ClaimsOfPod read_claims(const kube::Json& pod);

struct PodRef {
  std::string_view ns, name, uid;
};

class PodClaims {
 public:
  explicit PodClaims(ClaimsOfPod claims) : claims_(std::move(claims)) {}

  const ClaimsOfPod& all() const { return claims_; }
  // Spec or status say something else now; what is prepared stays.
  void set(ClaimsOfPod claims);
  bool prepared() const { return prepared_; }
  bool skips_plugin(std::string_view container, std::string_view resource) const;

  // ---- a try to prepare: begin(), then next() and take() until next() says kReady, then note(), then each batch, then
  // done().
  enum class Next : unsigned char { kFetch, kReady, kFailed };
  void begin();
  // kFetch: GET this claim; kFailed: its `text` says why.
  Next next(const PodRef& pod, std::string* text);
  // The answer. `text` says what is wrong with the claim; empty: it is as it should be.
  std::string take(const PodRef& pod, int status, std::string_view body, const NodeDrivers& drivers);
  // Notes all claims for the pod; to be saved before drivers are asked.
  std::string note(const PodRef& pod, ClaimCache* cache);
  // The driver to be asked next; null: none is left.
  const DriverBatch* batch() const { return batch_at_ < batches_.size() ? &batches_[batch_at_] : nullptr; }
  std::string take_prepared(const PodRef& pod, const Result<ClaimAnswers>& answers, ClaimCache* cache);
  // What the node's own driver answers.
  ClaimAnswers answer_of(const DraDriver& own) const;
  void done(const PodRef& pod, ClaimCache* cache);

  // Gives back what the pod holds: each batch of release() is to be asked, then released(). The text says why it
  // cannot: to be tried again.
  std::string begin_release(const PodRef& pod, ClaimCache* cache);
  ClaimRelease* release() { return release_ ? &*release_ : nullptr; }  // null: nothing is to be given back
  void abort_release() { release_.reset(); }
  void released(ClaimCache* cache);
  // Of a pod that is gone for good: whatever the driver says.
  void forget(const PodRef& pod, ClaimCache* cache);
  // A pod whose sandbox an earlier agent made: its claims are prepared. `status` is the pod's, whose containers tell
  // the devices of the node's own driver; what others have prepared is in the cache.
  void adopt(const PodRef& pod, const kube::Json& status, const NodeDrivers& drivers, ClaimCache* cache);

 private:
  struct Fetched {
    size_t ref = 0;
    std::string uid;
    std::vector<std::string> drivers;
    std::vector<PreparedDevice> devices;  // as allocated
  };
  const Fetched* fetched(std::string_view uid) const;

  ClaimsOfPod claims_;
  std::vector<Fetched> fetched_;
  std::vector<DriverBatch> batches_;
  std::optional<ClaimRelease> release_;
  size_t at_ = 0, batch_at_ = 0;
  bool tried_ = false;
  bool prepared_ = false;
};

}  // namespace ghostfleet::agent
