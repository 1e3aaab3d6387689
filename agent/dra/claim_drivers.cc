#include "agent/dra/claim_drivers.h"

#include <fmt/format.h>

#include <algorithm>

namespace ghostfleet::agent {

void add_claim(std::string_view driver, ClaimName claim, std::vector<DriverBatch>* batches) {
  const auto same = [driver](const DriverBatch& batch) { return batch.driver == driver; };
  const auto at = std::find_if(batches->begin(), batches->end(), same);
  DriverBatch& batch = at != batches->end() ? *at : batches->emplace_back(DriverBatch{std::string(driver), {}});
  const bool known = std::find(batch.claims.begin(), batch.claims.end(), claim) != batch.claims.end();
  if (!known) batch.claims.push_back(std::move(claim));
}

std::string not_registered(std::string_view driver) { return fmt::format("DRA driver {} is not registered", driver); }

std::string answer_fault(std::string_view call, const DriverBatch& batch, const Result<ClaimAnswers>& answers) {
  if (!answers.ok()) return fmt::format("{}: {}", call, answers.error().message());
  for (const auto& [uid, answer] : *answers) {
    const auto asked = std::find_if(batch.claims.begin(), batch.claims.end(),
                                    [&uid = uid](const ClaimName& claim) { return claim.uid == uid; });
    if (asked == batch.claims.end()) return fmt::format("{} returned result for unknown claim UID {}", call, uid);
    if (!answer.error.empty())
      return fmt::format("{} failed for ResourceClaim {}: {}", call, asked->name, answer.error);
  }
  const size_t left = batch.claims.size() - answers->size();
  return left == 0 ? std::string() : fmt::format("{} skipped {} ResourceClaims", call, left);
}

ClaimRelease::ClaimRelease(std::string_view ns, std::string_view pod_uid, const std::vector<std::string>& claims,
                           ClaimCache* cache)
    : ns_(ns), pod_(pod_uid) {
  for (const std::string& name : claims) {
    ClaimCache::Entry* entry = cache->find(ns, name);
    if (entry == nullptr) continue;
    const bool has = std::erase(entry->pods, pod_uid) > 0;
    if (!entry->pods.empty()) continue;  // others have it
    if (has) entry->pods.emplace_back(pod_uid);
    released_.push_back({ns_, entry->uid, name});
    for (const std::string& driver : entry->drivers) add_claim(driver, released_.back(), &batches_);
  }
}

std::string ClaimRelease::take(const Result<ClaimAnswers>& answers) {
  std::string fault = answer_fault("NodeUnprepareResources", batches_[at_], answers);
  if (fault.empty()) ++at_;
  return fault;
}

void ClaimRelease::finish(ClaimCache* cache) const {
  for (const ClaimName& claim : released_) {
    ClaimCache::Entry* entry = cache->find(ns_, claim.name);
    if (entry == nullptr || entry->uid != claim.uid) continue;
    std::erase(entry->pods, pod_);
    entry->prepared = false;  // for one that came while the drivers were asked
    if (entry->pods.empty()) cache->erase(ns_, claim.name);
  }
}

}  // namespace ghostfleet::agent
