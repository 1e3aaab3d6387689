// Files of its image that a container reads at given ages (the word read= of its behaviour), where images are really
// pulled: a file that cannot be read ends it, as a process that is told EIO.
#include <fmt/format.h>

#include <algorithm>

#include "agent/pod/manager.h"
#include "agent/pod/pull_secrets.h"

namespace ghostfleet::agent {

namespace {

std::string_view words_of(ReadEnd end) {
  switch (end) {
    case ReadEnd::kNoSuchFile: return "No such file or directory";
    case ReadEnd::kNotReadable: return "Not a regular file";
    default: return "Input/output error";
  }
}

}  // namespace

// What was to be read before `age` was, by an earlier agent.
void Manager::begin_reading(Pod& pod, size_t index, Duration age) {
  ContainerRun& run = pod.runs[index];
  run.reading.reset();
  const std::vector<ReadStep>& reads = script_of(pod, index).reads;
  if (!images_.real() || reads.empty()) return;
  auto reading = std::make_unique<Reading>();
  while (reading->next < reads.size() && reads[reading->next].at < age) ++reading->next;
  if (reading->next == reads.size()) return;
  reading->begun = host_.now() - age;
  reading->due = reading->begun + reads[reading->next].at;
  run.reading = std::move(reading);
}

void Manager::read_next(Pod& pod, size_t index) {
  ContainerRun& run = pod.runs[index];
  Reading& reading = *run.reading;
  reading.due = kNever;
  const bool stops = pod.stage != Stage::kActive || pod.work == Work::kKilling;
  if (stops || run.now.state != RunState::kRunning || reading.next >= script_of(pod, index).reads.size()) return;
  // It does not end by itself while it waits for the file.
  reading.asked = host_.now();
  reading.held = std::exchange(run.exit_due, kNever);
  const size_t secrets = full() ? std::min<size_t>(pod.spec->pull_secrets.size(), 255) : 0;
  if (secrets == 0) return send_read(pod, index, {});
  // Read anew each time: the one that the image was pulled with may have expired.
  reading.wants_secrets = true;
  if (pod.more().read_secrets != nullptr) return;
  auto fetch = std::make_unique<SecretFetch>();
  fetch->waiting = secrets;
  fetch->answered.assign(secrets, 0);
  fetch->secrets.resize(secrets);
  pod.extras->read_secrets = std::move(fetch);
  for (size_t i = 0; i < secrets; ++i)
    send_object_request(pod, Call::kReadSecret, i, {.kind = ObjectKind::kSecret, .name = pod.spec->pull_secrets[i]});
}

void Manager::on_read_secret(Pod& pod, size_t index, const ApiResponse& response) {
  SecretFetch* fetch = pod.extras != nullptr ? pod.extras->read_secrets.get() : nullptr;
  if (fetch == nullptr || index >= fetch->answered.size() || fetch->answered[index] != 0) return;
  fetch->answered[index] = 1;
  fetch->secrets[index] = pull_secret_of(pod.ns(), pod.spec->pull_secrets[index], response.ok(), response.body);
  if (--fetch->waiting > 0) return;
  const std::vector<PullSecret> secrets = std::move(fetch->secrets);
  pod.extras->read_secrets.reset();
  for (size_t i = 0; i < pod.runs.size(); ++i) {
    if (pod.runs[i].reading != nullptr && pod.runs[i].reading->wants_secrets) send_read(pod, i, secrets);
  }
}

void Manager::send_read(Pod& pod, size_t index, std::vector<PullSecret> secrets) {
  Reading& reading = *pod.runs[index].reading;
  reading.wants_secrets = false;
  reading.ticket = ++last_read_;
  reads_[reading.ticket] = pod.uid();
  // Its tag may have moved since the container was made.
  std::string image(pod.extras != nullptr ? pod.extras->image_id(index) : std::string_view());
  if (image.empty()) image = pod.spec->containers[index].image;
  images_.begin_read(reading.ticket, image, script_of(pod, index).reads[reading.next].path, std::move(secrets));
}

void Manager::on_image_read(ReadTicket ticket, ReadEnd end) {
  const auto it = reads_.find(ticket);
  if (it == reads_.end()) return;
  Pod* pod = find(it->second);
  reads_.erase(it);
  if (pod == nullptr) return;
  for (size_t i = 0; i < pod->runs.size(); ++i) {
    const Reading* reading = pod->runs[i].reading.get();
    if (reading == nullptr || reading->ticket != ticket) continue;
    read_ended(*pod, i, end);
    settle(*pod);
    return;
  }
}

void Manager::read_ended(Pod& pod, size_t index, ReadEnd end) {
  ContainerRun& run = pod.runs[index];
  Reading& reading = *run.reading;
  const TimePoint now = host_.now();
  const Script& script = script_of(pod, index);
  const Duration took = now - reading.asked;
  reading.ticket = 0;
  reading.begun = reading.begun + took;
  const std::string path = reading.next < script.reads.size() ? script.reads[reading.next].path : std::string();
  ++reading.next;
  if (end == ReadEnd::kRead) {
    // Who is being stopped has another end by now.
    if (run.exit_due == kNever && reading.held != kNever) run.exit_due = reading.held + took;
    if (reading.next < script.reads.size()) reading.due = std::max(now, reading.begun + script.reads[reading.next].at);
    return;
  }
  if (now >= run.exit_due) return;
  std::vector<ReadFailure>& failures = pod.more().read_failures;
  std::erase_if(failures, [&](const ReadFailure& f) {
    return f.container == index && (f.attempt + 1 < run.now.attempt || f.attempt >= run.now.attempt);
  });
  failures.push_back({static_cast<uint32_t>(index), run.now.attempt, fmt::format("{}: {}", path, words_of(end))});
  run.exit_due = now;
  run.exit_code = script.read_exit;
}

std::string_view Manager::last_words(const Pod& pod, size_t index, uint32_t attempt) {
  if (pod.extras == nullptr) return {};
  for (const ReadFailure& f : pod.extras->read_failures) {
    if (f.container == index && f.attempt == attempt) return f.line;
  }
  return {};
}

}  // namespace ghostfleet::agent
