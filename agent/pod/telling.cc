// Events about a pod, as client-go's recorder makes them: equal ones are counted, floods are cut.
#include <fmt/format.h>

#include <algorithm>

#include "agent/pod/manager.h"
#include "base/hash.h"

namespace ghostfleet::agent {

namespace {

constexpr size_t kMaxQueue = 1000;  // of a node
constexpr size_t kMaxRecords = 200;
constexpr uint8_t kMaxTries = 12;
// client-go: from the tenth different message of one reason within ten minutes on they are one event.
constexpr size_t kSimilar = 10;
constexpr int64_t kSimilarSeconds = 600;
constexpr std::string_view kCombined = "(combined from similar events): ";
constexpr Duration kRetry = std::chrono::seconds(10);

void add(std::string_view key, std::string_view value, std::string* out) {
  if (out->back() != '{') *out += ',';
  *out += fmt::format("\"{}\":", key);
  kube::append_json_string(value, out);
}

bool too_many_similar(const EventLog& log, uint32_t group, uint32_t text, int64_t now) {
  std::vector<uint32_t> texts;
  for (const EventRecord& r : log.records) {
    if (r.group != group || r.combined || now - r.first > kSimilarSeconds) continue;
    if (r.text == text) return false;
    if (std::find(texts.begin(), texts.end(), r.text) == texts.end()) texts.push_back(r.text);
  }
  return texts.size() + 1 >= kSimilar;
}

}  // namespace

// `container`: an index of the spec; -1: about the pod itself.
void Manager::tell(Pod& pod, bool warning, std::string_view reason, std::string message, int container,
                   std::string annotations) {
  if (!options_->events) return;
  std::string field;
  if (container >= 0) {
    const ContainerSpec& spec = pod.spec->containers[static_cast<size_t>(container)];
    field = fmt::format("spec.{}{{{}}}",
                        spec.init        ? "initContainers"
                        : spec.ephemeral ? "ephemeralContainers"
                                         : "containers",
                        spec.name);
  }
  EventLog& log = pod.events;
  const WallTime now = host_.wall_now();
  const uint32_t group = static_cast<uint32_t>(hash_text(reason, warning ? 1 : 0));
  const uint32_t text = static_cast<uint32_t>(hash_text(message));
  const bool combined = too_many_similar(log, group, text, now.seconds());
  const uint64_t key = combined ? hash_text(kCombined, group) : hash_text(message, hash_text(field, group));
  auto at = std::find_if(log.records.begin(), log.records.end(), [&](const EventRecord& r) { return r.key == key; });
  const bool known = at != log.records.end();
  if (!known) {
    if (log.records.size() >= kMaxRecords) {
      host_.event_dropped(EventDrop::kFilter);
      return;
    }
    int64_t nanos = now.ns;
    for (const EventRecord& r : log.records) nanos = std::max(nanos, r.nanos + 1);
    log.records.push_back({key, nanos, now.seconds(), 0, group, text, combined});
    at = log.records.end() - 1;
  }
  ++at->count;
  if (!log.filters[warning ? 1 : 0].take(host_.now())) {
    host_.event_dropped(EventDrop::kFilter);
    return;
  }
  if (queued_events_ >= kMaxQueue) {
    host_.event_dropped(EventDrop::kQueueFull);
    return;
  }
  if (log.queue == nullptr) log.queue = std::make_unique<std::deque<QueuedEvent>>();
  ++queued_events_;
  QueuedEvent event;
  event.record = static_cast<uint32_t>(at - log.records.begin());
  event.count = at->count;
  event.patch = known;
  event.warning = warning;
  event.last = now.seconds();
  event.reason = reason;
  event.message = combined ? std::string(kCombined) + message : std::move(message);
  event.combined = combined;
  event.field = std::move(field);
  event.annotations = std::move(annotations);
  log.queue->push_back(std::move(event));
}

std::string Manager::event_name(const Pod& pod, const EventRecord& record) const {
  return fmt::format("{}.{:x}", pod.name(), record.nanos);
}

std::string Manager::render_event(const Pod& pod, const QueuedEvent& event) const {
  const EventRecord& record = pod.events.records[event.record];
  const std::string last = format_time({event.last * 1000000000});
  if (event.patch) {
    std::string patch = fmt::format("{{\"count\":{},\"lastTimestamp\":\"{}\"", event.count, last);
    if (event.combined) add("message", event.message, &patch);
    return patch + "}";
  }
  std::string out = "{\"kind\":\"Event\",\"apiVersion\":\"v1\",\"metadata\":{";
  add("name", event_name(pod, record), &out);
  add("namespace", pod.ns(), &out);
  if (!event.annotations.empty()) out += ",\"annotations\":" + event.annotations;
  out += "},\"involvedObject\":{\"kind\":\"Pod\"";
  add("namespace", pod.ns(), &out);
  add("name", pod.name(), &out);
  add("uid", pod.uid(), &out);
  out += ",\"apiVersion\":\"v1\"";
  if (pod.resource_version != 0) add("resourceVersion", std::to_string(pod.resource_version), &out);
  if (!event.field.empty()) add("fieldPath", event.field, &out);
  out += "}";
  add("reason", event.reason, &out);
  add("message", event.message, &out);
  out += ",\"source\":{\"component\":\"kubelet\"";
  add("host", node_.name, &out);
  out += "}";
  add("firstTimestamp", format_time({record.first * 1000000000}), &out);
  add("lastTimestamp", last, &out);
  out += fmt::format(
      ",\"count\":{},\"type\":\"{}\",\"eventTime\":null,"
      "\"reportingComponent\":\"kubelet\"",
      event.count, event.warning ? "Warning" : "Normal");
  add("reportingInstance", node_.name, &out);
  return out + "}";
}

// One after the other: a count must not overtake the event that it counts.
void Manager::flush_events(Pod& pod) {
  EventLog& log = pod.events;
  if (log.in_flight || log.queue == nullptr || log.due != kNever) return;
  while (!log.reserved && !host_.may_write_event()) {
    host_.event_dropped(EventDrop::kFleetBudget);
    event_done(log);
    if (log.queue == nullptr) return;
  }
  const TimePoint turn = log.reserved ? host_.now() : event_limiter_.reserve(host_.now());
  log.reserved = turn > host_.now();
  if (log.reserved) {
    log.due = turn;
    return;
  }
  const QueuedEvent& event = log.queue->front();
  ApiRequest request;
  request.priority = Priority::kBulk;
  request.tag = tag_of(pod, Call::kEvent);
  request.verb = event.patch ? Verb::kPatch : Verb::kPost;
  request.body_type = event.patch ? BodyType::kStrategicMergePatch : BodyType::kJson;
  request.target = fmt::format("/api/v1/namespaces/{}/events", pod.ns());
  if (event.patch) request.target += "/" + event_name(pod, log.records[event.record]);
  request.body = render_event(pod, event);
  log.in_flight = true;
  host_.send(std::move(request));
}

// The first of the queue has been written, or never will be.
void Manager::event_done(EventLog& log) {
  --queued_events_;
  log.queue->pop_front();
  if (log.queue->empty()) log.queue.reset();
}

void Manager::forget_events(Pod& pod) {
  EventLog& log = pod.events;
  if (log.queue == nullptr) return;
  queued_events_ -= log.queue->size();
  for (size_t i = log.in_flight ? 1 : 0; i < log.queue->size(); ++i) host_.event_dropped(EventDrop::kPodGone);
  log.queue.reset();
}

void Manager::on_event_answer(Pod& pod, const ApiResponse& response) {
  EventLog& log = pod.events;
  if (!log.in_flight || log.queue == nullptr) return;
  log.in_flight = false;
  QueuedEvent& event = log.queue->front();
  const bool lost = response.status == 0;
  const bool later = (response.status == 429 || response.status >= 500) && response.retry_after > Duration(0);
  if ((lost || later) && event.tries < kMaxTries) {
    ++event.tries;
    log.due = host_.now() + (later ? response.retry_after : kRetry);
    return;
  }
  if (event.patch && response.status == 404) {
    // It is gone: told anew, under a name of its own.
    EventRecord& record = log.records[event.record];
    record.nanos = std::max(record.nanos + 1, host_.wall_now().ns);
    event.patch = false;
    return;
  }
  if (lost || later) {
    host_.event_dropped(EventDrop::kNoAnswer);
  } else if (!response.ok()) {
    host_.event_dropped(EventDrop::kRefused);
  }
  event_done(log);
}

}  // namespace ghostfleet::agent
