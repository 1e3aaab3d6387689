// When things happen to the pods: the one timer, what is due, and what follows a change.
#include <algorithm>

#include "agent/pod/manager.h"

namespace ghostfleet::agent {

namespace {
constexpr int kMaxSteps = 2000;  // of one pod in one call; the rest a moment later
}

void Manager::on_timer(Tag) {
  armed_ = kNever;
  const TimePoint now = host_.now();
  for (size_t i = 0; i < slots_.size(); ++i) {
    // settle() may remove the pod, and with it slots at the end.
    if (slots_[i].pod != nullptr && slots_[i].due <= now) settle(*slots_[i].pod);
  }
  delete_strange_mirrors();
  if (monitoring_ != nullptr && monitoring_->due <= now) {
    look_at_use();
    wake_others();
  }
  arm();
}

// A second lies between two looks, and each takes a moment: what ends whole seconds after it was begun by a look is
// seen by that second's look, unless that was only one or two ago.
TimePoint Manager::tick_after(TimePoint t) const {
  constexpr int64_t kBeat = 1003000000;
  const int64_t past = t.ns - phase_ns_;
  const int64_t ticks = past / kBeat + (past % kBeat != 0 ? 1 : 0);
  return {ticks * kBeat + phase_ns_};
}

TimePoint Manager::due_of(const Pod& pod) const {
  TimePoint due = std::min({pod.work_due, pod.sync_due, pod.send_due, pod.drift_due, pod.delete_due, pod.deadline_due,
                            pod.token_due, pod.events.due});
  if (is_static(pod)) due = std::min(due, pod.extras->mirror->retry);
  for (const ContainerRun& run : pod.runs) {
    due = std::min(due, run.exit_due);
    if (run.reading != nullptr) due = std::min(due, run.reading->due);
    if (run.probing == nullptr) continue;
    for (const TimePoint t : run.probing->due) due = std::min(due, t);
  }
  return due;
}

void Manager::settle(Pod& pod) {
  advance(pod);
  const size_t slot = pod.slot;
  if (slots_.size() <= slot || slots_[slot].pod.get() != &pod) return;
  if (is_static(pod) && pod.extras->mirror->withdrawn) withdraw_mirror(pod);
  if (pod.gone && pod.stage == Stage::kFinished) {
    remove(pod);
    start_waiting_static_pods();
    wake_others();
    return;
  }
  flush(pod);
  flush_events(pod);
  consider_delete(pod);
  slots_[slot].due = due_of(pod);
  if (slots_[slot].due < armed_) {
    armed_ = slots_[slot].due;
    host_.arm(kPodTimerTag, armed_);
  }
  wake_others();
}

void Manager::wake_later(Pod& pod, Wake wake) { wakes_.emplace_back(pod.uid(), wake); }

void Manager::wake_others() {
  while (!wakes_.empty()) {
    const auto [uid, wake] = std::move(wakes_.back());
    wakes_.pop_back();
    Pod* pod = find(uid);
    if (pod == nullptr || pod->stage == Stage::kFinished) continue;
    if (wake == Wake::kAdmission) admission_goes_on(*pod);
    const bool resizes = pod->stage == Stage::kActive && pod->extras != nullptr && pod->extras->resizing != nullptr;
    if (wake == Wake::kResize && resizes) consider_resize(*pod);
    settle(*pod);
  }
}

void Manager::arm() {
  TimePoint due = monitoring_ != nullptr ? monitoring_->due : kNever;
  for (const StrangeMirror& m : strange_mirrors_) due = std::min(due, m.until);
  for (const Slot& slot : slots_) due = std::min(due, slot.due);
  if (due == armed_) return;
  armed_ = due;
  if (due == kNever) {
    host_.disarm(kPodTimerTag);
  } else {
    host_.arm(kPodTimerTag, due);
  }
}

void Manager::advance(Pod& pod) {
  const TimePoint now = host_.now();
  for (int i = 0; i < kMaxSteps; ++i) {
    if (!play_next(pod, now)) return;
  }
  // Too much at once (a container that ends at once, again and again): go on a little later.
  request_sync(pod, now + std::chrono::milliseconds(100));
}

bool Manager::play_next(Pod& pod, TimePoint now) {
  const TimePoint due = due_of(pod);
  if (due > now) return false;
  for (size_t i = 0; i < pod.runs.size(); ++i) {
    if (pod.runs[i].exit_due <= due) {
      container_exits(pod, i);
      return true;
    }
  }
  for (size_t i = 0; i < pod.runs.size(); ++i) {
    for (int kind = 0; kind < kProbeKinds && pod.runs[i].probing != nullptr; ++kind) {
      if (pod.runs[i].probing->due[kind] > due) continue;
      probe(pod, i, static_cast<ProbeKind>(kind));
      return true;
    }
  }
  for (size_t i = 0; i < pod.runs.size(); ++i) {
    if (pod.runs[i].reading == nullptr || pod.runs[i].reading->due > due) continue;
    read_next(pod, i);
    return true;
  }
  const auto take = [&](TimePoint& at) { return at <= due ? (at = kNever, true) : false; };
  if (take(pod.work_due)) {
    work_done(pod);
  } else if (take(pod.deadline_due)) {
    check_deadline(pod);
  } else if (take(pod.sync_due)) {
    sync(pod);
  } else if (take(pod.drift_due)) {
    apply_drift(pod);
  } else if (take(pod.delete_due)) {
    send_delete(pod);
  } else if (take(pod.token_due)) {
    renew_tokens(pod);
  } else if (take(pod.events.due)) {
    flush_events(pod);
  } else if (take(pod.send_due)) {
    flush(pod);
  } else if (is_static(pod) && take(pod.extras->mirror->retry)) {
    reconcile_mirror(pod);
  }
  return true;
}

}  // namespace ghostfleet::agent
