#include "controlplane/apiserver/server_metrics.h"

#include <atomic>
#include <map>
#include <thread>
#include <tuple>

#include "controlplane/apiserver/call.h"

namespace ghostfleet::controlplane {

struct RequestMetrics::PerThread {
  struct Series {
    Counter* count = nullptr;
    Histogram* seconds = nullptr;
  };
  std::thread::id thread = std::this_thread::get_id();
  MetricsRegistry registry;
  std::map<std::tuple<std::string, std::string, std::string, int>, Series, std::less<>> series;
  Counter* watch_events = nullptr;
};

RequestMetrics::RequestMetrics() {
  static std::atomic<uint64_t> made{0};
  number_ = ++made;
}
RequestMetrics::~RequestMetrics() = default;

RequestMetrics::PerThread& RequestMetrics::mine() {
  // Nearly always there is one server; a thread that serves several looks again.
  thread_local uint64_t last_owner = 0;
  thread_local PerThread* last = nullptr;
  if (last_owner == number_) return *last;
  last = &find_mine();
  last_owner = number_;
  return *last;
}

RequestMetrics::PerThread& RequestMetrics::find_mine() {
  const std::thread::id me = std::this_thread::get_id();
  std::lock_guard lock(mutex_);
  for (const auto& thread : threads_) {
    if (thread->thread == me) return *thread;
  }
  threads_.push_back(std::make_unique<PerThread>());
  PerThread& made = *threads_.back();
  made.watch_events = &made.registry.counter("apiserver_watch_events_total", "Events sent to watchers");
  return made;
}

void RequestMetrics::record(const Call& call, int code) {
  PerThread& thread = mine();
  const std::string_view resource =
      call.info.is_resource && call.resource ? std::string_view(call.resource->info.resource) : std::string_view();
  // A client chooses its path and method: what is served under no name is counted under none.
  const bool known = call.resource && call.resource->info.has_subresource(call.info.subresource);
  const std::string_view subresource = known ? std::string_view(call.info.subresource) : std::string_view();
  const std::string_view verb = call.resource ? std::string_view(call.info.verb) : std::string_view("other");
  auto it = thread.series.find(std::make_tuple(verb, resource, subresource, code));
  if (it == thread.series.end()) {
    const std::string v(verb), r(resource), sub(subresource);
    it = thread.series.try_emplace(std::make_tuple(v, r, sub, code)).first;
    MetricLabels labels{{"verb", v}, {"resource", r}, {"subresource", sub}};
    it->second.seconds =
        &thread.registry.histogram("apiserver_request_duration_seconds", "Time to the end of the answer", labels);
    labels.emplace_back("code", std::to_string(code));
    it->second.count = &thread.registry.counter("apiserver_request_total", "Requests answered", labels);
  }
  it->second.count->add();
  it->second.seconds->record(call.parts.clock.now() - call.begun);
}

void RequestMetrics::watch_event_sent(size_t count) { mine().watch_events->add(count); }

std::vector<const MetricsRegistry*> RequestMetrics::registries() const {
  std::lock_guard lock(mutex_);
  std::vector<const MetricsRegistry*> all;
  for (const auto& thread : threads_) all.push_back(&thread->registry);
  return all;
}

}  // namespace ghostfleet::controlplane
