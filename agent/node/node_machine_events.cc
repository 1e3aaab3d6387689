// Node events. In full fidelity they are sent one after the other, and an event that repeats becomes a PATCH of its
// count; else each is sent once and its answer ignored.
#include <fmt/format.h>

#include "agent/node/node_requests.h"
#include "base/hash.h"

namespace ghostfleet::agent {
namespace {

constexpr std::string_view kEvents = "/api/v1/namespaces/default/events";
constexpr size_t kMaxQueued = 1000;  // as a kubelet's recorder

bool wanted(const NodeOptions& options, std::string_view reason, bool rare) {
  if (options.events == NodeEvents::kAll) return true;
  return options.events == NodeEvents::kFew && (rare || reason == "Starting" || reason == "NodeReady");
}

std::string repeat_patch(const NodeEventText& text, int count, WallTime now) {
  return fmt::format(R"({{"count":{},"lastTimestamp":"{}","message":"{}"}})", count, format_time(now), text.message);
}

}  // namespace

void NodeMachine::event(NodeHost& host, std::string_view reason, std::string message, bool warning, Weight weight) {
  const NodeClass& node_class = host.node_class();
  if (!wanted(node_class.options(), reason, weight == Weight::kRare)) return;
  if (!host.may_write_event()) {
    host.event_dropped(EventDrop::kFleetBudget);
    return;
  }
  const std::string& node = host.name();
  const WallTime now = host.wall_now();
  NodeEventText text{warning ? "Warning" : "Normal", reason, std::move(message)};
  if (!extra_) {
    host.send(post_request(kTagEvent, std::string(kEvents),
                           node_class.event_body(node, text, event_name(node, now), now), Priority::kBulk));
    return;
  }
  if (extra_->queue.size() >= kMaxQueued) {
    host.event_dropped(EventDrop::kQueueFull);
    return;
  }
  const uint64_t key = hash_text(text.message, hash_text(text.reason));
  for (Extra::SentEvent& sent : extra_->sent) {
    if (sent.text != key) continue;
    ++sent.count;
    const std::string name = event_name(node, {sent.name});
    ApiRequest patch{Verb::kPatch,   BodyType::kStrategicMergePatch,      Priority::kNormal,
                     kTagEvent,      fmt::format("{}/{}", kEvents, name), repeat_patch(text, sent.count, now),
                     kRequestTimeout};
    extra_->queue.push_back(std::move(patch));
    return pump_events(host);
  }
  // Two events of one nanosecond would have one name.
  const int64_t moment = now.ns + static_cast<int64_t>(extra_->sent.size());
  const std::string name = event_name(node, {moment});
  extra_->queue.push_back(post_request(kTagEvent, std::string(kEvents), node_class.event_body(node, text, name, now)));
  extra_->sent.push_back({key, moment, 1});
  pump_events(host);
}

void NodeMachine::node_event(NodeHost& host, std::string_view reason, Weight weight) {
  event(host, reason, fmt::format("Node {} status is now: {}", host.name(), reason), false, weight);
}

void NodeMachine::pressure_events(NodeHost& host) {
  for (const std::string_view reason : {"NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"}) {
    node_event(host, reason);
  }
}

void NodeMachine::pump_events(NodeHost& host) {
  if (!extra_ || extra_->in_flight || extra_->queue.empty()) return;
  extra_->in_flight = true;
  host.send(extra_->queue.front());
}

// An answer of the server, whatever it is, ends an event; without an answer it is tried again every 10 s.
void NodeMachine::event_answered(NodeHost& host, const ApiResponse& r) {
  if (!extra_ || !extra_->in_flight) return;
  extra_->in_flight = false;
  if (r.status == 0) {
    host.arm(kEventTimer, host.now() + std::chrono::seconds(10));
    return;
  }
  extra_->queue.erase(extra_->queue.begin());
  if (extra_->queue.empty()) std::vector<ApiRequest>().swap(extra_->queue);
  pump_events(host);
}

}  // namespace ghostfleet::agent
