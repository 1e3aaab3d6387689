// What the containers of a pod leave to chance, drawn when they start.
#include <algorithm>

#include "agent/pod/manager.h"
#include "base/hash.h"

namespace ghostfleet::agent {

const Script& Manager::script_of(const Pod& pod, size_t index) {
  const ContainerRun& run = pod.runs[index];
  return run.drawn != nullptr ? *run.drawn : pod.spec->containers[index].script;
}

uint32_t Manager::script_line(const Pod& pod, size_t index) const {
  const ContainerRun& run = pod.runs[index];
  return run.now.attempt - std::min(run.now.attempt, run.script_from);
}

// By names and not by the uid: the same pod gets the same in the next run.
void Manager::draw_script(Pod& pod, size_t index) {
  const ContainerSpec& spec = pod.spec->containers[index];
  ContainerRun& run = pod.runs[index];
  run.drawn.reset();
  if (spec.script.draws == nullptr) return;
  const uint64_t seed = hash_text(spec.name, hash_text(pod.name(), hash_text(pod.ns(), options_->seed)));
  run.drawn = std::make_unique<const Script>(drawn_script(spec.script, seed, run.now.attempt, script_line(pod, index)));
}

}  // namespace ghostfleet::agent
