// Claims of devices (DRA): read and prepared before the sandbox is made, given back when the containers have stopped.
#include <fmt/format.h>

#include "agent/pod/manager.h"

namespace ghostfleet::agent {

namespace {
constexpr Duration kResync = std::chrono::minutes(1);  // a failed preparation is no error to a kubelet's worker
}

void Manager::take_claims(Pod& pod, const kube::Json& json) {
  ClaimsOfPod claims = read_claims(json);
  PodClaims* known = pod.claims();
  if (known == nullptr ? claims.refs.empty() : known->all() == claims) return;
  if (claims_ == nullptr && node_.drivers == nullptr) claims_ = std::make_unique<ClaimCache>();
  if (known == nullptr) {
    pod.more().claims = std::make_unique<PodClaims>(std::move(claims));
    return;
  }
  known->set(std::move(claims));
  // What it waited for may be there now.
  if (pod.stage == Stage::kActive && !pod.sandbox) request_sync(pod, host_.now());
}

void Manager::adopt_claims(Pod& pod, const kube::Json& json) {
  const kube::Json* status = kube::find_key(json, "status");
  if (pod.claims() != nullptr && status != nullptr) pod.claims()->adopt(ref_of(pod), *status, drivers(), claim_cache());
}

// Whether the sandbox may be made. Else the pass waits for an answer, or has ended.
bool Manager::claim(Pod& pod) {
  if (pod.claims() == nullptr) return true;
  if (!pod.claims_ready) {
    pod.claims()->begin();
    if (!claim_next(pod)) return false;
  }
  pod.claims_ready = false;  // the next sandbox asks again
  return true;
}

bool Manager::claim_next(Pod& pod) {
  std::string text;
  switch (pod.claims()->next(ref_of(pod), &text)) {
    case PodClaims::Next::kFailed: claims_failed(pod, text); return false;
    case PodClaims::Next::kFetch: {
      pod.work = Work::kClaiming;
      ApiRequest request;
      request.tag = tag_of(pod, Call::kClaim);
      request.target = fmt::format("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/{}", pod.ns(), text);
      host_.send(std::move(request));
      return false;
    }
    case PodClaims::Next::kReady: break;
  }
  std::string why = pod.claims()->note(ref_of(pod), claim_cache());
  if (why.empty()) why = save_claims("cache");
  if (why.empty()) return prepare_next(pod);
  claims_failed(pod, why);
  return false;
}

ClaimCache* Manager::claim_cache() const { return node_.drivers != nullptr ? &node_.drivers->cache() : claims_.get(); }

// For an agent that starts again; what is wrong with that.
std::string Manager::save_claims(std::string_view what) {
  const Status saved = node_.drivers != nullptr ? node_.drivers->save() : Status();
  return saved.ok() ? std::string() : fmt::format("checkpoint ResourceClaim {}: {}", what, saved.message());
}

// Asks the drivers, one after the other. True: all have prepared what they were asked for; else the pass waits for an
// answer, or has ended.
bool Manager::prepare_next(Pod& pod) {
  PodClaims& claims = *pod.claims();
  while (const DriverBatch* batch = claims.batch()) {
    if (!drivers().is_own(batch->driver)) {
      ask_driver(pod, *batch, false);
      return false;
    }
    const std::string why = claims.take_prepared(ref_of(pod), claims.answer_of(*node_.driver), claim_cache());
    if (!why.empty()) {
      claims_failed(pod, why);
      return false;
    }
  }
  claims.done(ref_of(pod), claim_cache());
  if (const std::string why = save_claims("state"); !why.empty()) {
    claims_failed(pod, why);
    return false;
  }
  pod.claims_ready = true;
  return true;
}

void Manager::ask_driver(Pod& pod, const DriverBatch& batch, bool release) {
  pod.work = release ? Work::kReleasing : Work::kClaiming;
  if (release) pod.work_due = kNever;
  const auto done = [this, uid = std::string(pod.uid()), serial = pod.serial, release,
                     alive = std::weak_ptr<const bool>(alive_)](const Result<ClaimAnswers>& answers) {
    Pod* asker = alive.expired() ? nullptr : find(uid);
    if (asker == nullptr || asker->serial != serial || asker->claims() == nullptr) return;
    if (asker->work != (release ? Work::kReleasing : Work::kClaiming)) return;
    release ? on_released(*asker, answers) : on_prepared(*asker, answers);
    settle(*asker);
    wake_others();
  };
  release ? node_.drivers->unprepare(batch.driver, batch.claims, done)
          : node_.drivers->prepare(batch.driver, batch.claims, done);
}

void Manager::on_prepared(Pod& pod, const Result<ClaimAnswers>& answers) {
  if (pod.claims()->batch() == nullptr) return;  // it waits for a claim to be read
  pod.work = Work::kNone;
  const std::string why = pod.claims()->take_prepared(ref_of(pod), answers, claim_cache());
  if (!why.empty()) {
    claims_failed(pod, why);
  } else if (prepare_next(pod)) {
    run_pass(pod);
  }
}

// A kubelet tells it and goes on as if nothing had gone wrong: the next try is that of the regular resync.
void Manager::claims_failed(Pod& pod, const std::string& why) {
  tell(pod, true, "FailedPrepareDynamicResources",
       "Failed to prepare dynamic resources: prepare dynamic resources: " + why);
  pod.work = Work::kNone;
  finish_pass(pod);
  if (pod.stage == Stage::kActive) request_sync(pod, host_.now() + host_.rng().between(kResync, kResync * 3 / 2));
}

void Manager::on_claim_answer(Pod& pod, const ApiResponse& response) {
  if (pod.work != Work::kClaiming || pod.claims() == nullptr) return;
  pod.work = Work::kNone;
  const std::string why = pod.claims()->take(ref_of(pod), response.status, response.body, drivers());
  if (!why.empty()) {
    claims_failed(pod, why);
  } else if (claim_next(pod)) {
    run_pass(pod);
  }
}

// False: a driver is asked, or one is not there or will not, which keeps the pod from its end; tried again.
bool Manager::unclaim(Pod& pod) {
  if (pod.claims() == nullptr || claim_cache() == nullptr) return true;
  if (pod.claims()->begin_release(ref_of(pod), claim_cache()).empty()) return release_next(pod);
  release_later(pod);
  return false;
}

bool Manager::release_next(Pod& pod) {
  ClaimRelease* release = pod.claims()->release();
  while (const DriverBatch* batch = release == nullptr ? nullptr : release->next()) {
    if (!drivers().serves(batch->driver)) {
      release_later(pod);
      return false;
    }
    if (!drivers().is_own(batch->driver)) {
      ask_driver(pod, *batch, true);
      return false;
    }
    release->skip();
  }
  if (release == nullptr) return true;
  pod.claims()->released(claim_cache());
  if (save_claims("state").empty()) return true;
  release_later(pod);
  return false;
}

void Manager::release_later(Pod& pod) {
  pod.claims()->abort_release();
  pod.work = Work::kKilling;
  pod.work_due = host_.now() + error_delay();
}

void Manager::on_released(Pod& pod, const Result<ClaimAnswers>& answers) {
  ClaimRelease* release = pod.claims()->release();
  if (release == nullptr) return;
  if (!release->take(answers).empty()) return release_later(pod);
  if (release_next(pod)) finish(pod);
}

// What programs have prepared is given back to them later (ClaimDrivers).
void Manager::forget_claims(Pod& pod) {
  if (pod.claims() != nullptr && claims_ != nullptr) pod.claims()->forget(ref_of(pod), claims_.get());
}

void Manager::on_driver_changed() {
  for (const Slot& slot : slots_) {
    Pod* pod = slot.pod.get();
    if (pod == nullptr || pod->claims() == nullptr || !pod->claims()->prepared()) continue;
    if (pod->stage != Stage::kActive) continue;
    request_sync(*pod, host_.now());
    wake_later(*pod, Wake::kSettle);
  }
  wake_others();
}

}  // namespace ghostfleet::agent
