// FakeCluster: just enough of an API server and of a host around one PodManager to drive it without network or clock:
// it answers requests after a moment of virtual time, applies status patches as strategic merge patches, feeds changes
// back as a watch would, and writes down what happened in the format of the recordings of a real kubelet.
//
// Used by the unit tests of agent/pod and by pod_trace_writer. Thread rule: one thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/device/device_control.h"
#include "agent/pod/pod_manager.h"

namespace ghostfleet::test {

using kube::Json;

// Of a text that is well-formed.
inline Json json(std::string_view text) { return kube::parse_json(text).value(); }

struct RecordedRequest {
  double at = 0;  // seconds since the cluster was made
  agent::Verb verb = agent::Verb::kGet;
  std::string target;
  std::string body;
  int status = 0;
  std::string pod;  // that it is about
};

class FakeCluster final : public agent::Host, public agent::NodeListener, public agent::DeviceListener {
 public:
  struct Options {
    agent::PodOptions pods;
    uint64_t seed = 1;
    Duration latency = std::chrono::milliseconds(2);
    std::string node_name = "oracle-0";
    bool dual_stack = false;
    Json node;  // empty: 16 CPUs, 64 GiB, 110 pods, 8 nvidia.com/gpu
    // Where addresses come from instead, and what it has given out.
    agent::PodNetwork* network = nullptr;
    std::function<std::string(uint32_t number)> network_ip;
    agent::ImagePuller* puller = nullptr;  // outlives the cluster
  };
  explicit FakeCluster(Options options);
  ~FakeCluster() override;

  // Host
  TimePoint now() const override { return clock_.now(); }
  WallTime wall_now() const override { return clock_.wall_now(); }
  Rng& rng() override { return rng_; }
  void send(agent::ApiRequest request) override;
  void arm(agent::Tag tag, TimePoint at) override { timers_[tag] = at; }
  void disarm(agent::Tag tag) override { timers_.erase(tag); }
  bool may_write_event() override { return event_slots < 0 || (event_slots > 0 && event_slots-- > 0); }
  void event_dropped(agent::EventDrop why) override { ++dropped[why]; }
  int event_slots = -1;  // that may still be written; -1: any number
  std::map<agent::EventDrop, int> dropped;

  // NodeListener
  void pressure_changed(unsigned pressure) override;
  void reclaiming(std::string_view resource) override;

  // DeviceListener
  void device_counts_changed() override {}
  void device_health_changed() override;

  agent::PodManager& manager() { return *manager_; }
  // With PodOptions::device_plugins: plain plugins, and NVIDIA's, of what the node has.
  agent::DeviceManager& devices() { return *devices_; }
  // What the manager told of its node: "pressure MemoryPressure", "reclaiming memory".
  const std::vector<std::string>& node_news() const { return node_news_; }
  size_t timers() const { return timers_.size(); }
  // A new manager, as after a restart: it is given the pods that are there. `rebooted`: of the machine; its plugins are
  // there from the beginning, or not before start_plugins().
  void restart_agent(bool rebooted = false, bool plugins = true);
  void start_plugins();

  // What users and controllers do. Missing defaults of the API are filled in.
  std::string create(Json pod);  // answers the uid
  void remove(const std::string& name,
              int64_t grace = -1);      // graceful; -1: the pod's own grace
  void evict(const std::string& name);  // through the API's eviction
  void remove_by_force(const std::string& name);
  void patch_spec(const std::string& name,
                  const Json& patch);  // a new generation
  void patch_status(const std::string& name,
                    const Json& patch);  // somebody else's write
  void patch_metadata(const std::string& name, const Json& patch);
  // Another object of the pods' namespace; `plural`: configmaps, secrets, ...
  void put_object(const std::string& plural, const Json& object);
  void remove_object(const std::string& plural, const std::string& name);
  void patch_node(const Json& patch);  // a merge patch
  void set_driver(std::shared_ptr<const agent::DraDriver> driver);
  // Before the first pod; it outlives the cluster.
  void set_drivers(agent::ClaimDrivers* drivers) { facts_.drivers = drivers; }
  void drivers_changed() { manager_->on_driver_changed(); }
  // Answers for the next requests: nullopt leaves it to the cluster.
  std::function<std::optional<agent::ApiResponse>(const agent::ApiRequest&)> intercept;

  // Runs virtual time forward.
  void run_for(Duration d);
  // Calls fn when virtual time gets there.
  void at(Duration from_now, std::function<void()> fn);

  const Json* pod(const std::string& name) const;
  std::string_view text(const std::string& name, std::string_view path) const;
  const Json* condition(const std::string& name, std::string_view type) const;
  // "Normal Started x1 spec.containers{c}: Container started", in the order of creation
  std::vector<std::string> events(const std::string& pod) const;
  const std::vector<RecordedRequest>& requests() const { return log_; }
  size_t count(agent::Verb verb, std::string_view target_part) const;
  double seconds() const { return static_cast<double>((clock_.now() - begin_).count()) / 1e9; }
  // A recording of one pod.
  std::string trace(const std::string& pod, double window) const;

 private:
  struct Answer {
    agent::Tag tag;
    int status;
    std::string body;
    Duration retry_after;
  };
  struct Row {
    double at;
    std::string pod, verb, where, text;
    int code;
  };
  Answer handle(const agent::ApiRequest& request, Row* row);
  Answer handle_pod(const agent::ApiRequest& request, const std::string& name, bool status, Row* row);
  Answer create_mirror(const agent::ApiRequest& request, Row* row);
  Answer patch_pod_status(const agent::ApiRequest& request, Json& pod, Row* row);
  Answer delete_pod(const agent::ApiRequest& request, const std::string& name, Row* row);
  Answer handle_event(const agent::ApiRequest& request, const std::string& name, Row* row);
  void changed(const std::string& name);
  void gone(const std::string& name);
  void make_devices(bool plugins);
  void later(Duration d, std::function<void()> fn);
  bool step(TimePoint until);

  Options options_;
  ManualClock clock_;
  TimePoint begin_;
  Rng rng_;
  agent::NodeFacts facts_;
  std::shared_ptr<const agent::PodOptions> pod_options_;
  std::unique_ptr<agent::DeviceManager> devices_;
  agent::DeviceSetup setup_;
  std::unique_ptr<agent::PodManager> manager_;
  std::map<agent::Tag, TimePoint> timers_;
  std::multimap<TimePoint, std::function<void()>> queue_;
  std::map<std::string, Json> pods_;
  std::vector<std::pair<std::string, Json>> events_;  // by name
  std::map<std::string, Json> objects_;               // by path
  std::vector<RecordedRequest> log_;
  std::vector<Row> rows_;
  std::vector<std::string> node_news_;
  uint64_t version_ = 100, generation_of_agent_ = 0;
  int created_ = 0;
};

}  // namespace ghostfleet::test
