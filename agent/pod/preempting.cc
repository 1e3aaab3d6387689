// Pods that are ended for others' sake: a critical pod that does not fit has some removed, and waits until they are
// gone.
//
// Which ones: best-effort pods before burstable before guaranteed ones, of each the fewest and smallest that free
// enough.
#include <fmt/format.h>

#include <algorithm>

#include "agent/pod/manager.h"

namespace ghostfleet::agent {

namespace {

constexpr std::string_view kPreempted = "Preempted in order to admit critical pod";

int64_t request_of(const Pod& pod, std::string_view resource) {
  if (resource == "pods") return 1;
  for (const auto& [key, value] : pod.granted().requests) {
    if (key == resource) return value;
  }
  return 0;
}

std::vector<Shortage> without(std::vector<Shortage> wanted, const std::vector<Pod*>& pods) {
  for (const Pod* pod : pods) {
    for (Shortage& s : wanted) s.missing -= request_of(*pod, s.resource);
  }
  std::erase_if(wanted, [](const Shortage& s) { return s.missing <= 0; });
  return wanted;
}

// How far a pod is from freeing what is wanted: 0 frees all of it.
double distance(const Pod& pod, const std::vector<Shortage>& wanted) {
  double sum = 0;
  for (const Shortage& s : wanted) {
    const double left = static_cast<double>(s.missing - request_of(pod, s.resource)) / static_cast<double>(s.missing);
    if (left > 0) sum += left * left;
  }
  return sum;
}

bool smaller(const Pod& a, const Pod& b) {
  for (const std::string_view resource : {"memory", "cpu"}) {
    if (request_of(a, resource) != request_of(b, resource)) return request_of(a, resource) < request_of(b, resource);
  }
  return true;
}

std::vector<Pod*> choose(std::vector<Pod*> pods, std::vector<Shortage> wanted) {
  std::vector<Pod*> out;
  while (!wanted.empty() && !pods.empty()) {
    size_t best = 0;
    double best_distance = static_cast<double>(wanted.size()) + 1;
    for (size_t i = 0; i < pods.size(); ++i) {
      const double d = distance(*pods[i], wanted);
      if (d > best_distance || (d == best_distance && !smaller(*pods[i], *pods[best]))) continue;
      best = i;
      best_distance = d;
    }
    out.push_back(pods[best]);
    wanted = without(std::move(wanted), {pods[best]});
    pods[best] = pods.back();
    pods.pop_back();
  }
  return out;
}

std::vector<Pod*> joined(std::vector<Pod*> a, const std::vector<Pod*>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

// False: nobody can be removed for it.
bool Manager::make_room(Pod& pod, const std::vector<Shortage>& shortages) {
  std::vector<Pod*> by_class[3];
  for (const Slot& slot : slots_) {
    Pod* other = slot.pod.get();
    if (other == nullptr || other == &pod || other->stage != Stage::kActive || other->work == Work::kAdmitting)
      continue;
    if (is_static(*other)) continue;
    if (other->spec->priority < pod.spec->priority) by_class[static_cast<int>(other->qos)].push_back(other);
  }
  const auto& [best_effort, burstable, guaranteed] = by_class;
  if (!without(shortages, joined(joined(best_effort, burstable), guaranteed)).empty()) return false;
  const auto guaranteed_ones = choose(guaranteed, without(shortages, joined(best_effort, burstable)));
  const auto burstable_ones = choose(burstable, without(shortages, joined(best_effort, guaranteed_ones)));
  const auto best_effort_ones = choose(best_effort, without(shortages, joined(burstable_ones, guaranteed_ones)));
  pod.work = Work::kAdmitting;
  for (Pod* victim : joined(joined(best_effort_ones, burstable_ones), guaranteed_ones)) {
    pod.more().victims.emplace_back(victim->uid());
    tell(*victim, true, "Preempting", std::string(kPreempted));
    evict(*victim,
          {"Preempting", std::string(kPreempted), "Pod was preempted by Kubelet to accommodate a critical pod.", -1});
    wake_later(*victim, Wake::kSettle);
  }
  return true;
}

void Manager::evict(Pod& pod, Eviction eviction) {
  if (pod.stage != Stage::kActive) return;
  Extras& more = pod.more();
  more.grace_override = eviction.grace_seconds;
  terminate(pod, Cause::kEnded);
  pod.evicted = true;
  more.reason = std::move(eviction.reason);
  more.message = std::move(eviction.message);
  if (eviction.disruption.empty()) return;
  more.disruption = {pod.generation, host_.wall_now().seconds(), "TerminationByKubelet",
                     std::move(eviction.disruption)};
}

// Once its victims have ended.
void Manager::admission_goes_on(Pod& pod) {
  // One without victims waits for something else.
  if (pod.work != Work::kAdmitting || pod.extras == nullptr || pod.extras->victims.empty()) return;
  for (const std::string& uid : pod.extras->victims) {
    const Pod* victim = find(uid);
    if (victim != nullptr && victim->stage != Stage::kFinished) return;
  }
  pod.extras->victims.clear();
  pod.work = Work::kNone;
  begin_life(pod);
}

}  // namespace ghostfleet::agent
