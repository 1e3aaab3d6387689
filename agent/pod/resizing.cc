// A pod's spec changes while it is there: resources in place, images, the deadline, ephemeral containers.
//
// As in a kubelet, new resources are first granted (the node has room for them) or held back, then put into force.
#include <fmt/format.h>

#include <algorithm>

#include "agent/pod/admission.h"
#include "agent/pod/manager.h"

namespace ghostfleet::agent {

namespace {

void add_resources(const PodTemplate& t, std::string_view field, size_t from, size_t to, std::string* out) {
  if (from == to) return;
  *out += fmt::format("{}\"{}\":[", out->size() > 1 ? "," : "", field);
  for (size_t i = from; i < to; ++i) {
    if (i > from) *out += ",";
    *out += "{\"name\":";
    kube::append_json_string(t.containers[i].name, out);
    *out += ",\"resources\":" + t.containers[i].resources + "}";
  }
  *out += "]";
}

std::string about(const PodTemplate& t, int64_t generation, std::string_view error = {}) {
  std::string out = "{";
  add_resources(t, "initContainers", 0, t.init_count, &out);
  add_resources(t, "containers", t.init_count, t.regular_end(), &out);
  out += fmt::format(",\"generation\":{}", generation);
  if (!error.empty()) {
    out += ",\"error\":";
    kube::append_json_string(error, &out);
  }
  return out + "}";
}

constexpr Duration kToldSoon = std::chrono::milliseconds(50);

int64_t amount(const Amounts& list, std::string_view resource) {
  for (const auto& [key, value] : list) {
    if (key == resource) return value;
  }
  return 0;
}

bool shrinks(const PodTemplate& from, const PodTemplate& to) {
  return amount(to.requests, "cpu") < amount(from.requests, "cpu") ||
         amount(to.requests, "memory") < amount(from.requests, "memory");
}

}  // namespace

bool Manager::resources_differ(const PodTemplate& a, const PodTemplate& b) const {
  for (size_t i = 0; i < a.regular_end() && i < b.regular_end(); ++i) {
    if (a.containers[i].resources != b.containers[i].resources) return true;
  }
  return a.resources != b.resources;
}

std::vector<const PodTemplate*> Manager::templates_beside(const Pod& pod) const {
  std::vector<const PodTemplate*> out;
  for (const Slot& slot : slots_) {
    if (slot.pod == nullptr || slot.pod.get() == &pod || !slot.pod->holds_resources()) continue;
    if (slot.pod->work == Work::kAdmitting) continue;
    out.push_back(&slot.pod->granted());
  }
  return out;
}

// What a container does was settled when it was made, whatever its annotation says now.
void Manager::keep_scripts(Pod& pod, const PodTemplate& old) {
  for (size_t i = 0; i < pod.runs.size(); ++i) {
    ContainerRun& run = pod.runs[i];
    if (run.now.state == RunState::kRunning && run.drawn == nullptr)
      run.drawn = std::make_unique<const Script>(old.containers[i].script);
  }
}

// Ephemeral containers are added, and not always at the end.
void Manager::place_ephemerals(Pod& pod, const PodTemplate& old, const PodTemplate& fresh) {
  const size_t kept = old.regular_end();
  std::vector<ContainerRun> runs(fresh.containers.size());
  std::move(pod.runs.begin(), pod.runs.begin() + static_cast<std::ptrdiff_t>(kept), runs.begin());
  uint32_t busy_with = pod.busy_with;
  for (size_t i = kept; i < pod.runs.size(); ++i) {
    for (size_t j = kept; j < runs.size(); ++j) {
      if (old.containers[i].name != fresh.containers[j].name) continue;
      runs[j] = std::move(pod.runs[i]);
      if (pod.busy_with == i) busy_with = static_cast<uint32_t>(j);
    }
  }
  pod.busy_with = busy_with;
  pod.runs = std::move(runs);
}

// Waits belong to an image and to resources: with others a container begins anew. The status names the image that it
// was made of until then.
void Manager::reset_backoffs(Pod& pod, const PodTemplate& old, const PodTemplate& fresh) {
  for (size_t i = 0; i < old.regular_end(); ++i) {
    const ContainerSpec& a = old.containers[i];
    const ContainerSpec& b = fresh.containers[i];
    ContainerRun& run = pod.runs[i];
    if (a.image != b.image) run.image_backoff = {};
    if (a.image != b.image && run.now.state != RunState::kAbsent && run.made_of == nullptr)
      run.made_of = std::make_unique<const std::string>(a.image);
    if (a.image != b.image || a.resources != b.resources) run.backoff = {};
  }
}

// What the worker is busy with it brings to an end as it was.
void Manager::meet_new_spec(Pod& pod, const kube::Json& json) {
  if (pod.work == Work::kNone) return take_new_spec(pod, json);
  pod.more().next = std::make_unique<kube::Json>(json);
  pod.sync_pending = true;
}

void Manager::take_next_spec(Pod& pod) {
  if (pod.extras == nullptr || pod.extras->next == nullptr) return;
  const std::unique_ptr<kube::Json> json = std::move(pod.extras->next);
  take_new_spec(pod, *json);
}

void Manager::take_new_spec(Pod& pod, const kube::Json& json) {
  std::shared_ptr<const PodTemplate> fresh = intern_template(json, options_->commands, options_->behaviors.get());
  if (fresh->init_count != pod.spec->init_count || fresh->regular_count() != pod.spec->regular_count()) return;
  if (fresh->containers.size() < pod.runs.size()) return;
  if (fresh != pod.spec) {
    keep_scripts(pod, *pod.spec);
    reset_backoffs(pod, *pod.spec, *fresh);
  }
  place_ephemerals(pod, *pod.spec, *fresh);
  const std::shared_ptr<const PodTemplate> old = std::exchange(pod.spec, std::move(fresh));
  if (pod.spec->problems != old->problems) tell_problems(pod);
  if (pod.spec->active_deadline_seconds != old->active_deadline_seconds) check_deadline(pod);
  if (pod.stage != Stage::kActive) return;
  if (resources_differ(*old, *pod.spec)) {
    Extras& more = pod.more();
    if (more.resizing == nullptr) more.resizing = std::make_unique<Resizing>();
    if (more.resizing->granted == nullptr) more.resizing->granted = old;
    consider_resize(pod);
  }
  request_sync(pod, host_.now());
}

void Manager::consider_resize(Pod& pod) {
  Resizing& r = *pod.extras->resizing;
  if (r.granted == nullptr) return;
  if (!resources_differ(*r.granted, *pod.spec)) {
    r.granted.reset();
    r.pending = {};
    request_sync(pod, host_.now());
    return;
  }
  const std::shared_ptr<const kube::Json> node = node_.object;
  const auto bad = node != nullptr ? check_resources(*pod.spec, *node, templates_beside(pod)) : std::nullopt;
  if (bad) {
    hold_resize(pod, bad->reason, bad->message);
  } else {
    grant_resize(pod);
  }
  request_sync(pod, host_.now());
}

// A resize that is held back is looked at once more when the pod is deleted.
void Manager::retry_pending_resize(Pod& pod) {
  const Resizing* r = pod.extras != nullptr ? pod.extras->resizing.get() : nullptr;
  if (r != nullptr && r->pending.generation != 0) consider_resize(pod);
}

void Manager::grant_resize(Pod& pod) {
  Resizing& r = *pod.extras->resizing;
  if (r.in_force == nullptr) r.in_force = r.granted;
  r.granted.reset();
  r.pending = {};
  r.progress = {pod.generation, host_.wall_now().seconds(), {}, {}};
  tell(pod, false, "ResizeStarted", "Pod resize started: " + about(*pod.spec, pod.generation));
}

void Manager::hold_resize(Pod& pod, const std::string& reason, const std::string& message) {
  Resizing& r = *pod.extras->resizing;
  const bool told = r.pending.generation == pod.generation;
  if (r.pending.generation == 0) r.pending.since = host_.wall_now().seconds();
  r.pending.generation = pod.generation;
  r.pending.reason = "Deferred";
  r.pending.message = message;
  if (told) return;
  tell(pod, true, "ResizeDeferred", "Pod resize " + reason + ": " + about(*pod.spec, pod.generation, message));
}

// Of a pod that has ended: it is granted, and that is all.
void Manager::tell_late_resize(Pod& pod, const kube::Json& json) {
  const int64_t generation = kube::get_int(json, "metadata.generation");
  if (generation == pod.generation || pod.rejected || pod.was_refused) return;
  const std::shared_ptr<const PodTemplate> fresh = intern_template(json, options_->commands, options_->behaviors.get());
  const bool alike = fresh->init_count == pod.spec->init_count && fresh->regular_count() == pod.spec->regular_count();
  if (!alike || !resources_differ(*pod.spec, *fresh)) return;
  tell(pod, false, "ResizeStarted", "Pod resize started: " + about(*fresh, generation));
}

// In a pass of the worker: what runs gets its new resources. Containers that want a restart for that have had it.
bool Manager::actuate_resize(Pod& pod) {
  Resizing* r = pod.extras != nullptr ? pod.extras->resizing.get() : nullptr;
  if (r == nullptr || r->in_force == nullptr || r->progress.generation == 0) return false;
  const bool shrunk = shrinks(*r->in_force, pod.granted());
  r->in_force.reset();
  if (shrunk) room_was_made();
  return true;
}

// Whether something that runs has yet to get its new resources: what does not run gets them when it starts.
bool Manager::resize_is_due(const Pod& pod) {
  const PodTemplate& has = pod.in_force();
  const PodTemplate& gets = pod.granted();
  bool same = true, due = false;
  for (size_t i = 0; i < gets.regular_end(); ++i) {
    const bool differs = has.containers[i].resources != gets.containers[i].resources;
    same &= !differs;
    due |= differs && pod.runs[i].now.state == RunState::kRunning;
  }
  return due || same;  // the same: those of the pod as a whole changed
}

// Before a status: a resize that is in force is over.
void Manager::finish_resize(Pod& pod) {
  Resizing* r = pod.extras != nullptr ? pod.extras->resizing.get() : nullptr;
  if (r != nullptr && r->in_force != nullptr && !resize_is_due(pod)) r->in_force.reset();
  if (r == nullptr || r->progress.generation == 0 || r->in_force != nullptr) return;
  if (pod.sending) {
    // That it is in progress is being told.
    request_sync(pod, host_.now() + kToldSoon);
    return;
  }
  tell(pod, false, "ResizeCompleted", "Pod resize completed: " + about(pod.granted(), r->progress.generation));
  r->progress = {};
}

// Others may now get the resources they wait for.
void Manager::room_was_made() {
  for (const Slot& slot : slots_) {
    Pod* pod = slot.pod.get();
    if (pod == nullptr || pod->stage != Stage::kActive || pod->extras == nullptr) continue;
    Resizing* r = pod->extras->resizing.get();
    if (r != nullptr && r->pending.generation != 0) wake_later(*pod, Wake::kResize);
    if (pod->work == Work::kAdmitting) wake_later(*pod, Wake::kAdmission);
  }
}

}  // namespace ghostfleet::agent
