#include "controlplane/informer/event_recorder.h"

#include <fmt/format.h>

#include "base/log.h"

namespace ghostfleet::controlplane {

namespace {
constexpr size_t kMaxWaiting = 20000;
constexpr size_t kMaxRemembered = 4096;
constexpr double kBurst = 25;
constexpr double kRefillPerSecond = 1.0 / 300;
constexpr Duration kSlice = std::chrono::milliseconds(2);
constexpr Duration kPause = std::chrono::milliseconds(8);
}  // namespace

ObjectReference reference_to(const kube::Json& object) {
  using kube::get_string;
  return {.api_version = std::string(get_string(object, "apiVersion")),
          .kind = std::string(get_string(object, "kind")),
          .ns = std::string(get_string(object, "metadata.namespace")),
          .name = std::string(get_string(object, "metadata.name")),
          .uid = std::string(get_string(object, "metadata.uid")),
          .resource_version = std::string(get_string(object, "metadata.resourceVersion"))};
}

EventRecorder::EventRecorder(Api& api, EventLoop& loop, std::string component)
    : api_(api),
      loop_(loop),
      component_(std::move(component)),
      resource_(api.find("", "v1", "events")),
      context_(internal_context(component_)),
      rng_(static_cast<uint64_t>(api.clock().wall_now().ns) ^ std::hash<std::string>()(component_)) {}

EventRecorder::~EventRecorder() { *alive_ = false; }

void EventRecorder::record(const ObjectReference& about, std::string_view type, std::string_view reason,
                           std::string message, std::string_view component) {
  enqueue({about, std::string(type), std::string(reason), std::move(message),
           component.empty() ? component_ : std::string(component), "", api_.clock().wall_now()});
}

void EventRecorder::record_action(const ObjectReference& about, std::string_view type, std::string_view reason,
                                  std::string_view action, std::string message) {
  enqueue({about, std::string(type), std::string(reason), std::move(message), component_, std::string(action),
           api_.clock().wall_now()});
}

bool EventRecorder::allowed(const std::string& source_and_object) {
  const TimePoint now = loop_.now();
  if (buckets_.size() > kMaxRemembered) buckets_.clear();
  const auto [it, fresh] = buckets_.try_emplace(source_and_object, Bucket{kBurst, now});
  Bucket& bucket = it->second;
  const double seconds = std::chrono::duration<double>(now - bucket.last).count();
  bucket.tokens = std::min(kBurst, bucket.tokens + seconds * kRefillPerSecond);
  bucket.last = now;
  if (bucket.tokens < 1) return false;
  bucket.tokens -= 1;
  return true;
}

void EventRecorder::enqueue(Pending pending) {
  if (resource_ == nullptr || queue_.size() >= kMaxWaiting ||
      !allowed(fmt::format("{}/{}/{}", pending.component, pending.about.kind, pending.about.uid))) {
    ++dropped_;
    return;
  }
  queue_.push_back(std::move(pending));
  schedule();
}

void EventRecorder::schedule() {
  if (posted_ || queue_.empty()) return;
  posted_ = true;
  loop_.run_after(kPause, [this, alive = alive_] {
    if (!*alive) return;
    posted_ = false;
    run_slice();
  });
}

void EventRecorder::run_slice() {
  const TimePoint end = loop_.now() + kSlice;
  while (!queue_.empty() && loop_.now() < end) {
    const Pending pending = std::move(queue_.front());
    queue_.pop_front();
    write(pending);
  }
  schedule();
}

void EventRecorder::flush() {
  while (!queue_.empty()) {
    const Pending pending = std::move(queue_.front());
    queue_.pop_front();
    write(pending);
  }
}

kube::Json EventRecorder::render(const Pending& p, const std::string& name) const {
  kube::JsonObject about{{"kind", p.about.kind}, {"apiVersion", p.about.api_version}};
  if (!p.about.ns.empty()) about["namespace"] = p.about.ns;
  about["name"] = p.about.name;
  if (!p.about.uid.empty()) about["uid"] = p.about.uid;
  if (!p.about.resource_version.empty()) about["resourceVersion"] = p.about.resource_version;
  kube::JsonObject event{{"apiVersion", "v1"}, {"kind", "Event"}};
  event["metadata"] = kube::JsonObject{{"name", name}, {"namespace", p.about.ns.empty() ? "default" : p.about.ns}};
  event["involvedObject"] = std::move(about);
  event["reason"] = p.reason;
  event["message"] = p.message;
  event["type"] = p.type;
  event["reportingComponent"] = p.component;
  if (!p.action.empty()) {
    event["action"] = p.action;
    event["eventTime"] = format_micro_time(p.when);
    event["reportingInstance"] = p.component + "-ghostfleet";
    event["source"] = kube::JsonObject{};
    return event;
  }
  const std::string when = format_time(p.when);
  event["source"] = kube::JsonObject{{"component", p.component}};
  event["firstTimestamp"] = when;
  event["lastTimestamp"] = when;
  event["count"] = 1;
  event["reportingInstance"] = "";
  return event;
}

void EventRecorder::write(const Pending& pending) {
  const std::string identity = fmt::format("{}/{}/{}/{}/{}", pending.component, pending.about.uid, pending.about.name,
                                           pending.reason, pending.message);
  const auto known = known_.find(identity);
  if (known != known_.end() && count_up(pending, &known->second)) return;
  const std::string name = fmt::format("{}.{:x}", pending.about.name, rng_.next());
  const std::string ns = pending.about.ns.empty() ? "default" : pending.about.ns;
  context_.warnings.clear();
  const auto created = api_.create(*resource_, ns, render(pending, name), context_);
  if (!created.ok()) {  // a namespace that goes away takes no more events
    log_debug(component_, "event not written: " + created.error().message);
    return;
  }
  if (known_.size() > kMaxRemembered) known_.clear();
  known_[identity] = Known{name, 1};
}

bool EventRecorder::count_up(const Pending& pending, Known* known) {
  const std::string ns = pending.about.ns.empty() ? "default" : pending.about.ns;
  const int64_t count = ++known->count;
  const auto changed = api_.modify(
      *resource_, ns, known->name, "",
      [&](kube::Json& event) -> kube::ApiResult<bool> {
        if (pending.action.empty()) {
          kube::set_path(event, "count", count);
          kube::set_path(event, "lastTimestamp", kube::Json(format_time(pending.when)));
        } else {
          kube::set_path(event, "series.count", count);
          kube::set_path(event, "series.lastObservedTime", kube::Json(format_micro_time(pending.when)));
        }
        return true;
      },
      context_);
  return changed.ok();
}

}  // namespace ghostfleet::controlplane
