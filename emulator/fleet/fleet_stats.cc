#include "emulator/fleet/fleet_stats.h"

#include "emulator/fleet/fleet.h"

namespace ghostfleet::emulator {
namespace {

std::string_view verb_name(agent::Verb verb) {
  static constexpr std::string_view kNames[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};
  return kNames[static_cast<size_t>(verb)];
}

std::string_view next_segment(std::string_view* path) {
  if (!path->empty() && path->front() == '/') path->remove_prefix(1);
  const std::string_view segment = path->substr(0, path->find('/'));
  path->remove_prefix(segment.size());
  return segment;
}

constexpr std::array<const char*, agent::kEventDrops> kDrops = {"filter",  "queue_full", "fleet_budget",
                                                                "refused", "no_answer",  "pod_gone"};

std::array<Counter*, agent::kEventDrops> drop_counters(MetricsRegistry& registry) {
  std::array<Counter*, agent::kEventDrops> out{};
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] =
        &registry.counter("ghostfleet_events_dropped_total", "Events that were not written.", {{"reason", kDrops[i]}});
  }
  return out;
}

}  // namespace

std::string_view resource_of_target(std::string_view target, std::string* scratch) {
  std::string_view path = target.substr(0, target.find('?'));
  const std::string_view root = next_segment(&path);
  if (root == "apis") next_segment(&path);
  next_segment(&path);  // version
  std::string_view resource = next_segment(&path);
  if (resource == "namespaces") {
    const std::string_view ns = next_segment(&path);
    const std::string_view below = next_segment(&path);
    if (ns.empty() || below.empty()) return resource;
    resource = below;
  }
  next_segment(&path);  // name
  const std::string_view subresource = next_segment(&path);
  if (subresource.empty()) return resource;
  scratch->assign(resource).append("/").append(subresource);
  return *scratch;
}

ShardStats::ShardStats()
    : events_dropped(drop_counters(registry)),
      nodes(registry.gauge("ghostfleet_nodes", "Nodes of the fleet.")),
      registered(registry.gauge("ghostfleet_nodes_registered", "Nodes whose object exists and is ours.")),
      ready(registry.gauge("ghostfleet_nodes_ready", "Nodes whose Ready=True was acknowledged.")),
      not_ours(registry.gauge("ghostfleet_nodes_not_ours", "Names taken by nodes of somebody else.")),
      deleted(registry.gauge("ghostfleet_nodes_deleted", "Nodes that were deleted by somebody.")),
      pods(registry.gauge("ghostfleet_pods", "Pods bound to our nodes.")),
      pods_running(registry.gauge("ghostfleet_pods_running", "Pods whose phase Running was acknowledged.")),
      pods_finished(registry.gauge("ghostfleet_pods_finished", "Pods that are Succeeded or Failed, as acknowledged.")),
      certificates(registry.gauge("ghostfleet_certificates", "Nodes that hold a valid client certificate.")),
      rotations(registry.counter("ghostfleet_certificate_rotations_total", "Client certificates renewed.")),
      in_flight(registry.gauge("ghostfleet_requests_in_flight", "Requests on their way.")),
      queued(registry.gauge("ghostfleet_requests_queued", "Requests waiting for a stream.")),
      connections(registry.gauge("ghostfleet_connections", "Open connections to the API server.")),
      ramp_window(registry.gauge("ghostfleet_register_window", "Nodes that may be on their way to Ready at once.")),
      taken_over(registry.counter("ghostfleet_nodes_taken_over_total", "Nodes found from an earlier run.")),
      renewals(registry.counter("ghostfleet_lease_renewals_total", "Acknowledged lease writes.")),
      not_ready(registry.counter("ghostfleet_not_ready_transitions_total",
                                 "Times a node's Ready went from True to something else, as seen in the API.")),
      lateness(registry.histogram("ghostfleet_lease_lateness_seconds", "From a renewal's due time to its answer.")),
      latency(registry.histogram("ghostfleet_request_seconds", "From sending a request to the end of its answer.")) {}

void ShardStats::request(agent::Verb verb, std::string_view target) {
  std::string scratch;
  const std::string_view resource = resource_of_target(target, &scratch);
  for (const RequestSeries& s : requests_) {
    if (s.verb == verb && s.resource == resource) {
      s.counter->add();
      return;
    }
  }
  Counter& counter = registry.counter("ghostfleet_requests_total", "Requests sent.",
                                      {{"verb", std::string(verb_name(verb))}, {"resource", std::string(resource)}});
  const std::lock_guard lock(mutex_);
  requests_.push_back({verb, std::string(resource), &counter});
  counter.add();
}

void ShardStats::error(std::string_view kind) {
  const auto it = errors_.find(kind);
  if (it != errors_.end()) {
    it->second->add();
    return;
  }
  Counter& counter =
      registry.counter("ghostfleet_errors_total", "Requests that failed.", {{"kind", std::string(kind)}});
  const std::lock_guard lock(mutex_);
  errors_.emplace(kind, &counter);
  counter.add();
}

void ShardStats::no_answer(TimePoint at, const Status& why) {
  last_failure.store(at.ns, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  failure_text_ = why.message();
}

std::string ShardStats::failure_text() const {
  const std::lock_guard lock(mutex_);
  return failure_text_;
}

void ShardStats::add_to(FleetStats* out) const {
  out->registered += static_cast<uint64_t>(registered.value());
  out->ready += static_cast<uint64_t>(ready.value());
  out->not_ours += static_cast<uint64_t>(not_ours.value());
  out->deleted += static_cast<uint64_t>(deleted.value());
  out->pods += static_cast<uint64_t>(pods.value());
  out->pods_running += static_cast<uint64_t>(pods_running.value());
  out->pods_finished += static_cast<uint64_t>(pods_finished.value());
  out->certificates += static_cast<uint64_t>(certificates.value());
  out->certificates_rotated += rotations.value();
  out->in_flight += static_cast<uint64_t>(in_flight.value());
  out->queued += static_cast<uint64_t>(queued.value());
  out->connections += static_cast<uint64_t>(connections.value());
  out->taken_over += taken_over.value();
  out->renewals += renewals.value();
  out->not_ready_transitions += not_ready.value();
  for (size_t i = 0; i < events_dropped.size(); ++i) out->events_dropped[kDrops[i]] += events_dropped[i]->value();
  const double skew = skew_seconds.load(std::memory_order_relaxed);
  if (std::abs(skew) > std::abs(out->clock_skew_seconds)) out->clock_skew_seconds = skew;
  const std::lock_guard lock(mutex_);
  for (const RequestSeries& s : requests_) {
    out->requests[std::string(verb_name(s.verb)) + " " + s.resource] += s.counter->value();
  }
  for (const auto& [kind, counter] : errors_) out->errors[kind] += counter->value();
}

}  // namespace ghostfleet::emulator
