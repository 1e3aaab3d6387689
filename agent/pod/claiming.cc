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
  if (claims_ == nullptr) claims_ = std::make_unique<ClaimCache>();
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
  if (pod.claims() != nullptr && status != nullptr)
    pod.claims()->adopt(ref_of(pod), *status, node_.driver.get(), claims_.get());
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
  const std::string why = pod.claims()->prepare(ref_of(pod), node_.driver.get(), claims_.get());
  if (!why.empty()) {
    claims_failed(pod, why);
    return false;
  }
  pod.claims_ready = true;
  return true;
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
  const std::string why = pod.claims()->take(ref_of(pod), response.status, response.body, node_.driver.get());
  if (!why.empty()) {
    claims_failed(pod, why);
  } else if (claim_next(pod)) {
    run_pass(pod);
  }
}

// False: the driver is not there, which keeps the pod from its end; tried again.
bool Manager::unclaim(Pod& pod) {
  if (pod.claims() == nullptr || claims_ == nullptr) return true;
  if (pod.claims()->unprepare(ref_of(pod), node_.driver.get(), claims_.get()).empty()) return true;
  pod.work = Work::kKilling;
  pod.work_due = host_.now() + error_delay();
  return false;
}

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
