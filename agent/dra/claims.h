// The ResourceClaims of a node's pods, as a kubelet keeps them: ClaimCache says what is prepared for whom on ONE node,
// PodClaims takes the claims of one pod through their preparation and back.
//
// Order of a kubelet: all claims of the pod are read and checked before anything is noted (so that a pod which may not
// have them can go again without its driver), then noted for the pod, then prepared by the driver; what is prepared
// already is not prepared twice. A pod gives its claims back after its containers have stopped and before its terminal
// phase is told; only the last pod of a claim has it unprepared.
//
// Thread rule: the node's thread. Ownership: the node's manager owns the cache, a pod its PodClaims. Errors are the
// texts of a kubelet's events. Source: a kubelet 1.36.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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

struct PreparedDevice {
  std::string driver, pool, device;
  std::string request;  // of the claim; subrequests are named by their request
};

class ClaimCache {
 public:
  struct Entry {
    std::string uid;                // of the claim; empty: taken over, not known
    std::vector<std::string> pods;  // uids
    std::vector<std::string> drivers;
    std::vector<PreparedDevice> devices;
    bool prepared = false;
  };

  Entry* find(std::string_view ns, std::string_view claim);
  const Entry* find(std::string_view ns, std::string_view claim) const;
  Entry& add(std::string_view ns, std::string_view claim);
  void erase(std::string_view ns, std::string_view claim);
  size_t size() const { return entries_.size(); }

 private:
  std::map<std::string, Entry, std::less<>> entries_;  // "namespace/name"
};

class PodClaims {
 public:
  explicit PodClaims(ClaimsOfPod claims) : claims_(std::move(claims)) {}

  const ClaimsOfPod& all() const { return claims_; }
  // Spec or status say something else now; what is prepared stays.
  void set(ClaimsOfPod claims);
  bool prepared() const { return prepared_; }
  bool skips_plugin(std::string_view container, std::string_view resource) const;

  // ---- a try to prepare: begin(), then next() and take() until next() says kReady, then prepare().
  enum class Next : unsigned char { kFetch, kReady, kFailed };
  void begin();
  // kFetch: GET this claim; kFailed: its `text` says why.
  Next next(const PodRef& pod, std::string* text);
  // The answer. `text` says what is wrong with the claim; empty: it is as it should be.
  std::string take(const PodRef& pod, int status, std::string_view body, const DraDriver* driver);
  std::string prepare(const PodRef& pod, const DraDriver* driver, ClaimCache* cache);

  // Gives back what the pod holds. The text says why it cannot: to be tried again.
  std::string unprepare(const PodRef& pod, const DraDriver* driver, ClaimCache* cache);
  // Of a pod that is gone for good: whatever the driver says.
  void forget(const PodRef& pod, ClaimCache* cache);
  // A pod whose sandbox an earlier agent made: its claims are prepared. `status` is the pod's, whose containers tell
  // their devices.
  void adopt(const PodRef& pod, const kube::Json& status, const DraDriver* driver, ClaimCache* cache);

 private:
  struct Fetched {
    size_t ref = 0;
    std::string uid;
    std::vector<std::string> drivers;
    std::vector<PreparedDevice> devices;
  };
  ClaimsOfPod claims_;
  std::vector<Fetched> fetched_;
  size_t at_ = 0;
  bool tried_ = false;
  bool prepared_ = false;
};

}  // namespace ghostfleet::agent
