// Starting one container: back-off, image, the objects its variables need, creation.
#include <fmt/format.h>

#include "agent/pod/manager.h"
#include "base/hash.h"

namespace ghostfleet::agent {

namespace {
// When a container begins after its pass of the worker did: they are made one after the other.
constexpr Duration kFirstMade = std::chrono::milliseconds(2);
constexpr Duration kNextMade = std::chrono::milliseconds(6);
}  // namespace

namespace {
// Until a program has found out that it cannot use its devices.
constexpr Duration kBadDevicesTake = std::chrono::seconds(1);
}  // namespace

Duration Manager::error_delay() { return host_.rng().between(std::chrono::seconds(10), std::chrono::seconds(15)); }

Manager::Start Manager::fail(Pod& pod, size_t index, Why why, Duration delay, uint8_t detail) {
  pod.runs[index].reason = why;
  pod.runs[index].reason_detail = detail;
  fail_pass(pod, delay);
  return Start::kFailed;
}

Manager::Start Manager::start(Pod& pod, size_t index) {
  ContainerRun& run = pod.runs[index];
  if (run.tried && !run.image_ready && !run.objects_ready) return Start::kFailed;
  if (!run.tried && back_off(pod, index)) return Start::kFailed;
  run.tried = true;
  if (const Start image = ensure_image(pod, index); image != Start::kStarted) return image;
  if (const Start objects = ensure_objects(pod, index); objects != Start::kStarted) return objects;
  const auto refuse = [&](Why why, const std::string& error) {
    run.image_ready = run.objects_ready = false;
    tell(pod, true, "Failed", "Error: " + error, static_cast<int>(index));
    return fail(pod, index, why, error_delay());
  };
  const ContainerSpec& spec = pod.spec->containers[index];
  if (!spec.config_error.empty()) return refuse(Why::kBadSpec, spec.config_error);
  if (spec.not_root) return refuse(Why::kNotRoot, not_root_failure(pod, index));
  if (const Start devices = prepare_devices(pod, index); devices != Start::kStarted) return devices;
  create_container(pod, index);
  return begin_post_start(pod, index) ? Start::kBusy : Start::kStarted;
}

// A container that ended is started again at once the first time, then later and later.
bool Manager::back_off(Pod& pod, size_t index) {
  ContainerRun& run = pod.runs[index];
  if (run.now.state != RunState::kExited) return false;
  const TimePoint now = host_.now();
  TimePoint since = run.ended_at;
  if (run.killed_in_pass) {
    // The end that this very pass made is not seen yet: the one before counts.
    if (!run.now.last.known) return false;
    since = now - (host_.wall_now() - run.now.last.finished);
  }
  if (!run.backoff.waiting(since, now)) {
    run.backoff.next(since, now);
    return false;
  }
  run.tried = true;
  const std::string& name = pod.spec->containers[index].name;
  tell(pod, true, "BackOff",
       fmt::format("Back-off restarting failed container {} in pod {}_{}({})", name, pod.name(), pod.ns(), pod.uid()),
       static_cast<int>(index));
  Duration left = since + run.backoff.current() - now;
  left = std::min(left, Duration(std::chrono::seconds(60)));
  fail(pod, index, Why::kCrashLoop, left + host_.rng().between(Duration(1), left / 2 + Duration(2)));
  return true;
}

Manager::Start Manager::ensure_image(Pod& pod, size_t index) {
  const ContainerSpec& spec = pod.spec->containers[index];
  if (pod.runs[index].image_ready) return Start::kStarted;
  const int container = static_cast<int>(index);
  if (!valid_image_name(spec.image)) {
    tell(pod, true, "InspectFailed", bad_image_name(spec.image), container);
    tell(pod, true, "Failed", "Error: InvalidImageName", container);
    return fail(pod, index, Why::kInvalidImageName, error_delay());
  }
  const bool must_be_there = spec.pull_policy == PullPolicy::kNever;
  const bool present =
      must_be_there ? images_.present_unpulled(spec.image, host_.now()) : images_.present(spec.image, host_.now());
  if (must_be_there && !present) return never_pull(pod, index);
  if (!present || spec.pull_policy == PullPolicy::kAlways) return pull(pod, index);
  if (!images_.real() || images_.open_to_all(spec.image)) {
    tell_present(pod, index);
    return Start::kStarted;
  }
  if (!pod.spec->pull_secrets.empty()) {
    fetch_pull_secrets(pod, index, true);
    return Start::kBusy;
  }
  return must_be_there ? never_pull(pod, index) : pull(pod, index);
}

void Manager::tell_present(Pod& pod, size_t index) {
  tell(pod, false, "Pulled",
       fmt::format("Container image \"{}\" already present on machine and "
                   "can be accessed by the pod",
                   pod.spec->containers[index].image),
       static_cast<int>(index));
}

// Also of an image that is there, and not for this pod: it is not told which.
Manager::Start Manager::never_pull(Pod& pod, size_t index) {
  const int container = static_cast<int>(index);
  tell(
      pod, true, "ErrImageNeverPull",
      fmt::format("Container image \"{}\" is not present with pull policy of Never", pod.spec->containers[index].image),
      container);
  tell(pod, true, "Failed", "Error: ErrImageNeverPull", container);
  return fail(pod, index, Why::kErrImageNeverPull, error_delay());
}

// The image is there, and the pod's pull secrets are known: are they those of somebody who has pulled it?
void Manager::verify_image(Pod& pod, size_t index) {
  const ContainerSpec& spec = pod.spec->containers[index];
  if (images_.open_to(spec.image, pod.extras->secrets->secrets)) {
    pod.extras->secrets.reset();
    tell_present(pod, index);
    pod.runs[index].image_ready = true;
    return run_pass(pod);
  }
  if (spec.pull_policy == PullPolicy::kNever) {
    pod.extras->secrets.reset();
    never_pull(pod, index);
    return run_pass(pod);
  }
  if (!pull_backs_off(pod, index)) return begin_pull(pod, index);
  pod.extras->secrets.reset();
  run_pass(pod);
}

// A failed pull holds back all containers of the pod with that image: what is known of it is kept with the first one.
ContainerRun& Manager::pulls_of(Pod& pod, size_t index) {
  size_t first = 0;
  while (pod.spec->containers[first].image != pod.spec->containers[index].image) ++first;
  return pod.runs[first];
}

bool Manager::pull_backs_off(Pod& pod, size_t index) {
  const ContainerRun& pulls = pulls_of(pod, index);
  if (!pulls.image_backoff.waiting(pulls.pull_failed_at, host_.now())) return false;
  const int container = static_cast<int>(index);
  tell(pod, false, "BackOff", fmt::format("Back-off pulling image \"{}\"", pod.spec->containers[index].image),
       container);
  tell(pod, true, "Failed", "Error: ImagePullBackOff", container);
  fail(pod, index, Why::kImagePullBackOff, error_delay());
  return true;
}

Manager::Start Manager::pull(Pod& pod, size_t index) {
  if (pull_backs_off(pod, index)) return Start::kFailed;
  if (full() && images_.real() && !pod.spec->pull_secrets.empty()) {
    fetch_pull_secrets(pod, index, false);
  } else {
    begin_pull(pod, index);
  }
  return Start::kBusy;
}

void Manager::begin_pull(Pod& pod, size_t index) {
  const ContainerSpec& spec = pod.spec->containers[index];
  const TimePoint now = host_.now();
  tell(pod, false, "Pulling", fmt::format("Pulling image \"{}\"", spec.image), static_cast<int>(index));
  if (pod.extras != nullptr && pod.extras->secrets != nullptr) {
    images_.give_secrets(ticket_of(pod), std::move(pod.extras->secrets->secrets));
    pod.extras->secrets.reset();
  }
  pod.work = Work::kPulling;
  pod.work_due = images_.begin(ticket_of(pod), spec.image, now);  // kNever: its end is told
  pod.busy_with = static_cast<uint32_t>(index);
  pod.runs[index].pull_began = now;
}

static_assert(kPullEndIsTold == kNever);  // then the pod's timer waits for it

// A pod pulls one image at a time.
PullTicket Manager::ticket_of(const Pod& pod) { return PullTicket{pod.serial} << 32 | pod.slot; }

void Manager::on_image_pulled(PullTicket ticket) {
  const size_t slot = ticket & UINT32_MAX;
  Pod* pod = slot < slots_.size() ? slots_[slot].pod.get() : nullptr;
  if (pod == nullptr || ticket_of(*pod) != ticket || pod->work != Work::kPulling) {
    (void)images_.end(ticket, {}, host_.now());  // of a pod that was ended meanwhile
    return;
  }
  pod->work_due = kNever;
  pull_ends(*pod);
  settle(*pod);
}

void Manager::pull_ends(Pod& pod) {
  const size_t index = pod.busy_with;
  const ContainerSpec& spec = pod.spec->containers[index];
  ContainerRun& run = pod.runs[index];
  const TimePoint now = host_.now();
  const int container = static_cast<int>(index);
  PullResult result = images_.end(ticket_of(pod), spec.image, now);
  if (!result.error.empty()) {
    tell(pod, true, "Failed", fmt::format("Failed to pull image \"{}\": {}", spec.image, result.error), container);
    tell(pod, true, "Failed", "Error: ErrImagePull", container);
    ContainerRun& pulls = pulls_of(pod, index);
    pulls.image_backoff.next(now, now);
    pulls.pull_failed_at = now;
    for (size_t i = 0; i < pod.runs.size(); ++i) {
      if (pod.spec->containers[i].image == spec.image)
        pod.more().set_pull_error(static_cast<uint32_t>(i), result.error);
    }
    fail(pod, index, Why::kErrImagePull, error_delay());
  } else {
    const Duration whole = now - run.pull_began;
    const Duration own = std::min(whole, result.own);
    const auto text = [](Duration d) {
      return format_duration(std::chrono::duration_cast<std::chrono::milliseconds>(d));
    };
    tell(pod, false, "Pulled",
         fmt::format("Successfully pulled image \"{}\" in {} ({} including "
                     "waiting). Image size: {} bytes.",
                     spec.image, text(own), text(whole), result.size_bytes),
         container);
    run.image_ready = true;
  }
  run_pass(pod);
}

Manager::Start Manager::ensure_objects(Pod& pod, size_t index) {
  const ContainerSpec& spec = pod.spec->containers[index];
  ContainerRun& run = pod.runs[index];
  if (spec.variables.empty() || !full()) return Start::kStarted;
  Extras& more = pod.more();
  if (run.objects_ready) {
    for (size_t i = 0; i < spec.variables.size() && i < more.object_state.size(); ++i) {
      const ObjectRef& ref = spec.variables[i];
      const ObjectState state = more.object_state[i];
      if (state == ObjectState::kThere || ref.optional) continue;
      run.image_ready = run.objects_ready = false;
      const bool gone = state == ObjectState::kMissing;
      tell(pod, true, "Failed", "Error: " + (gone ? missing_object(ref) : missing_key(ref, pod.ns())),
           static_cast<int>(index));
      return fail(pod, index, gone ? Why::kConfigError : Why::kNoKey, error_delay(),
                  static_cast<uint8_t>(std::min<size_t>(i, 255)));
    }
    return Start::kStarted;
  }
  const size_t asked = std::min<size_t>(spec.variables.size(), 255);
  more.object_state.assign(asked, ObjectState::kUnknown);
  more.fetching = static_cast<int>(asked);
  more.fetch_index = static_cast<int>(index);
  run.image_ready = true;  // told already
  pod.work = Work::kFetching;
  for (size_t i = 0; i < asked; ++i) send_object_request(pod, Call::kVariable, i, spec.variables[i]);
  return Start::kBusy;
}

void Manager::create_container(Pod& pod, size_t index) {
  const ContainerSpec& spec = pod.spec->containers[index];
  ContainerRun& run = pod.runs[index];
  const bool again = run.now.state == RunState::kExited;
  const uint32_t attempt = again ? run.now.attempt + 1 : run.now.attempt;
  const Ended last = again ? run.now.end : run.now.last;
  run.now = Look{};
  run.now.state = RunState::kRunning;
  run.now.attempt = attempt;
  run.now.started_at = host_.wall_now();
  run.now.last = last;
  run.reason = Why::kNone;
  run.unhealthy = run.image_ready = run.objects_ready = false;
  run.exit_due = kNever;
  if (images_.real()) pod.more().set_image_id(static_cast<uint32_t>(index), images_.id_of(spec.image));
  draw_script(pod, index);
  const Script& script = script_of(pod, index);
  const uint32_t line = script_line(pod, index);
  if (!script.exits.empty() && script.exit_of(line) != kRunsOn) {
    run.exit_due = host_.now() + kFirstMade + kNextMade * pod.pass_made + script.after_of(line);
    run.exit_code = script.exit_of(line);
  }
  if (node_.devices != nullptr && !spec.devices.empty() &&
      !node_.devices->start_failure(pod.uid(), spec.name).empty()) {
    run.exit_due = host_.now() + kBadDevicesTake;
    run.exit_code = 1;
  }
  begin_reading(pod, index, Duration(0));
  ++pod.pass_made;
  run.made_of.reset();
  run.image_hash = static_cast<uint32_t>(hash_text(spec.image));
  pod.ever_started |= !spec.init && !spec.ephemeral;
  pod.pass_changed = true;
  tell(pod, false, "Created", "Container created", static_cast<int>(index));
  tell(pod, false, "Started", "Container started", static_cast<int>(index));
  prepare_probes(pod, index);
}

}  // namespace ghostfleet::agent
