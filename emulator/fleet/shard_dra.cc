#include "emulator/fleet/shard_dra.h"

#include <fmt/format.h>

#include <utility>

#include "agent/device/device_control.h"
#include "emulator/fleet/node_facts.h"

namespace ghostfleet::emulator {

namespace {

constexpr Duration kDriverPatience = std::chrono::seconds(30);

agent::Verb verb_of(agent::SliceRequest::Verb verb) {
  using From = agent::SliceRequest::Verb;
  switch (verb) {
    case From::kGet: return agent::Verb::kGet;
    case From::kPost: return agent::Verb::kPost;
    case From::kPut: return agent::Verb::kPut;
    case From::kDelete: return agent::Verb::kDelete;
  }
  return agent::Verb::kGet;
}

}  // namespace

ShardDra::ShardDra(ShardDraParts parts) : parts_(std::move(parts)) {}

const std::shared_ptr<const agent::DraDevices>& ShardDra::devices_of(uint32_t row) const {
  return parts_.groups[parts_.names->group_of(row * parts_.count + parts_.number)];
}

std::string ShardDra::name_of(uint32_t row) const { return parts_.names->name(row * parts_.count + parts_.number); }

agent::DriverFaults ShardDra::faults_of(uint32_t row) const {
  const auto it = faults_.find(row);
  return it == faults_.end() ? agent::DriverFaults() : it->second;
}

std::shared_ptr<const agent::DraDriver> ShardDra::driver_of(uint32_t row) const {
  const auto& devices = devices_of(row);
  if (!devices) return nullptr;
  return std::make_shared<const agent::DraDriver>(agent::DraDriver{devices.get(), name_of(row), faults_of(row)});
}

void ShardDra::registered(uint32_t row, bool existing) {
  if (devices_of(row)) ask(row, Task::kStart, existing);
}

// Its slices go with it: they are its dependents.
void ShardDra::deleted(uint32_t row) {
  if (devices_of(row)) set_faults(row, {});
}

void ShardDra::node_seen(uint32_t row, std::string_view node_json) {
  const auto& devices = devices_of(row);
  if (!devices) return;
  const std::string_view text = node_annotation(node_json, kDriverFaults);
  auto faults = agent::parse_faults(text, *devices);
  if (!faults.ok())
    return parts_.tell_user(row, fmt::format("annotation {}: {}", kDriverFaults, faults.error().message()));
  // What the annotation of device plugins says is told elsewhere when it makes no sense.
  if (const auto unhealthy = agent::parse_faults(node_annotation(node_json, agent::kUnhealthyDevices));
      unhealthy.ok()) {
    std::vector<agent::UnhealthyDevice> found;
    for (const auto& fault : *unhealthy) {
      if (fault.resource != agent::plugin_resource(devices->kind)) continue;
      if (fault.code < 0 || agent::XidRules().is_fatal(fault.code)) found.push_back({fault.number, fault.code});
    }
    agent::add_unhealthy(found, *devices, &*faults);
  }
  const agent::DriverFaults before = faults_of(row);
  if (*faults == before) return;
  const bool went = faults->down && !before.down, runs = !faults->down;
  set_faults(row, std::move(*faults));
  parts_.driver_changed(row);
  if (runs) return ask(row, Task::kUpdate, false);
  if (!went) return;
  parts_.loop->run_after(kDriverPatience, [this, row] {
    if (faults_of(row).down) ask(row, Task::kRemove, false);
  });
}

void ShardDra::set_faults(uint32_t row, agent::DriverFaults faults) {
  if (faults.empty()) {
    faults_.erase(row);
  } else {
    faults_[row] = std::move(faults);
  }
}

void ShardDra::ask(uint32_t row, Task task, bool existing) {
  const auto [it, fresh] = work_.try_emplace(row);
  Work& work = it->second;
  if (work.publisher != nullptr) {
    if (!work.then || task != Task::kUpdate) work.then = task;
    return;
  }
  // A start tells the newest faults too.
  if (fresh || task == Task::kStart) work.existing = existing;
  if (fresh || task != Task::kUpdate) work.task = task;
  if (fresh) waiting_.push_back(row);
  pump();
}

void ShardDra::pump() {
  while (active_ < kMostAtOnce && !waiting_.empty()) {
    const uint32_t row = waiting_.front();
    waiting_.pop_front();
    const auto it = work_.find(row);
    if (it == work_.end()) continue;
    ++active_;
    begin(row, it->second);
  }
}

void ShardDra::begin(uint32_t row, Work& work) {
  const auto& devices = devices_of(row);
  agent::SliceNode node;
  node.name = name_of(row);
  node.uid = parts_.uid(row);
  node.zone = parts_.names->identity(row * parts_.count + parts_.number).zone;
  node.fleet = parts_.fleet;
  node.uuid = [name = node.name, resource = agent::plugin_resource(devices->kind)](uint32_t index) {
    return agent::device_uuid("GPU-", name, resource, index);
  };
  const agent::DriverFaults faults = faults_of(row);
  // A driver that does not run publishes nothing.
  const Task task = faults.down ? Task::kRemove : work.task;
  work.publisher = std::make_unique<agent::SlicePublisher>(
      *devices, std::move(node), faults, task,
      agent::SlicePublisher::Options{.collection = parts_.collection, .existing = work.existing});
  send_next(row);
}

void ShardDra::send_next(uint32_t row) {
  const auto it = work_.find(row);
  if (it == work_.end() || it->second.publisher == nullptr) return;
  agent::SliceRequest next = it->second.publisher->next();
  agent::ApiRequest request;
  request.verb = verb_of(next.verb);
  request.body_type = next.body.empty() ? agent::BodyType::kNone : agent::BodyType::kJson;
  request.priority = agent::Priority::kBulk;
  request.tag = kDraTag;
  request.target = std::move(next.target);
  request.body = std::move(next.body);
  parts_.send(row, request);
}

void ShardDra::answered(uint32_t row, const agent::ApiResponse& response) {
  const auto it = work_.find(row);
  if (it == work_.end() || it->second.publisher == nullptr) return;
  Work& work = it->second;
  agent::SlicePublisher& publisher = *work.publisher;
  const Duration wait = publisher.answered(response.status, response.body, response.retry_after, *parts_.rng);
  if (!publisher.refused().empty() && !std::exchange(refusal_told_, true))
    parts_.tell_user(row, fmt::format("ResourceSlices: {}; trying on", publisher.refused()));
  if (publisher.done()) return finish(row, work);
  if (wait == Duration(0)) return send_next(row);
  parts_.loop->run_after(wait, [this, row] { send_next(row); });
}

void ShardDra::finish(uint32_t row, Work& work) {
  if (work.then) {
    work.task = *std::exchange(work.then, std::nullopt);
    work.existing = true;
    return begin(row, work);
  }
  work_.erase(row);
  --active_;
  pump();
}

}  // namespace ghostfleet::emulator
