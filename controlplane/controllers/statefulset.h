// StatefulSetController: numbered pods with stable names and claims, made and taken away in order (or at once, with
// podManagementPolicy Parallel), rolled from the highest number down to the partition.
//
// Claims are made as the set's templates say; nothing binds them here. Of the retention policy only whenDeleted is
// followed.
// Thread rule: the controllers' loop.
#pragma once

#include <map>

#include "controlplane/controllers/context.h"
#include "controlplane/controllers/owned_pods.h"
#include "controlplane/controllers/revisions.h"

namespace ghostfleet::controlplane::controllers {

// The number in "SET-NUMBER"; -1 when the name is none of the set's.
int64_t ordinal_of(std::string_view pod, std::string_view set);
// The pod of a number as it is made of one revision's template: name, host name, labels, claims as volumes.
kube::Json stateful_pod(const kube::Json& set, const Revisions::Entry& revision, int64_t ordinal);
// The claims that pod needs.
std::vector<kube::Json> stateful_claims(const kube::Json& set, int64_t ordinal);

class StatefulSetController final : public Controller {
 public:
  explicit StatefulSetController(Context& context);
  void start() override;

 private:
  // What one look at a set goes by.
  struct Look {
    const kube::Json& set;
    const Revisions::Entry& current;
    const Revisions::Entry& update;
    int64_t start = 0, end = 0;                // ordinals [start, end) are wanted
    bool ordered = true;                       // one after the other
    std::map<int64_t, const PodInfo*> pods;    // by ordinal
    const PodInfo* first_unhealthy = nullptr;  // the wanted ones first, by number
  };

  SyncResult sync(const std::string& key);
  void find_first_unhealthy(Look* look) const;
  bool healthy(const PodInfo& pod) const { return pod.phase == PodPhase::kRunning && pod.ready && !pod.deleting; }
  bool available(const Look& look, const PodInfo& pod) const;
  // Each answers whether the next may begin; *result says when to look again.
  bool fill(const Look& look, SyncResult* result);
  bool fill_one(const Look& look, int64_t ordinal, bool* acted, SyncResult* result);
  bool shrink(const Look& look, SyncResult* result);
  void roll(const Look& look, SyncResult* result);
  bool make(const Look& look, int64_t ordinal, SyncResult* result);
  bool remove(const kube::Json& set, const PodInfo& pod, SyncResult* result);
  bool make_claims(const kube::Json& set, int64_t ordinal);
  SyncResult write_status(const kube::Json& set, const Revisions::Entry& current, const Revisions::Entry& update);

  Context& context_;
  const Resource& resource_;
  const Resource* claims_;
  KindWatch& sets_;
  WorkQueue queue_;
  OwnedPods pods_;
  Revisions revisions_;
};

}  // namespace ghostfleet::controlplane::controllers
