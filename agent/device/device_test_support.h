// What tests of the device manager need: a listener that counts, and a plugin that answers when the test says so.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "agent/device/device_manager.h"

namespace ghostfleet::agent {

struct CountingListener final : DeviceListener {
  int counts = 0, health = 0, checkpoints = 0;
  std::vector<std::string> problems;
  void device_counts_changed() override { ++counts; }
  void device_health_changed() override { ++health; }
  void device_checkpoint_changed() override { ++checkpoints; }
  void device_problem(std::string_view, std::string_view what) override { problems.emplace_back(what); }
};

struct ScriptedPlugin final : DevicePlugin {
  bool later = false;                           // answers wait in `waiting`
  DeviceIds prefers;                            // its preferred ids, whatever is asked
  std::string allocate_error, pre_start_error;  // of every call
  std::vector<DeviceIds> asked_available, asked_must, allocated, pre_started;
  std::deque<std::function<void()>> waiting;

  void answer(std::function<void()> fn) {
    if (later) return waiting.push_back(std::move(fn));
    fn();
  }
  void answer_one() {
    auto fn = std::move(waiting.front());
    waiting.pop_front();
    fn();
  }
  void preferred_allocation(DeviceIds available, DeviceIds must, uint32_t,
                            std::function<void(Result<DeviceIds>)> done) override {
    asked_available.push_back(std::move(available));
    asked_must.push_back(std::move(must));
    answer([done = std::move(done), ids = prefers] { done(ids); });
  }
  void allocate(DeviceIds ids, std::function<void(Result<AllocateResponse>)> done) override {
    allocated.push_back(ids);
    AllocateResponse r;
    for (const std::string& id : ids) r.envs.emplace_back("DEVICE_" + id, "1");
    if (allocate_error.empty()) return answer([done = std::move(done), r] { done(r); });
    answer([done = std::move(done), why = allocate_error] { done(Status(Code::kUnavailable, why)); });
  }
  void pre_start_container(DeviceIds ids, std::function<void(Status)> done) override {
    pre_started.push_back(std::move(ids));
    answer([done = std::move(done), why = pre_start_error] {
      done(why.empty() ? Status() : Status(Code::kUnavailable, why));
    });
  }
};

inline PodDemand demand(std::string uid, std::string_view resource, uint32_t count) {
  return {std::move(uid), {{"c", false, false, false, {{std::string(resource), count}}}}};
}

}  // namespace ghostfleet::agent
