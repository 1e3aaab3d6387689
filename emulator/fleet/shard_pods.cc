// The pods of a shard's nodes, and the watches of nodes that have a connection of their own.
#include <fmt/format.h>

#include <algorithm>

#include "agent/node/json_scan.h"
#include "emulator/fleet/node_facts.h"
#include "emulator/fleet/shard_hosts.h"

namespace ghostfleet::emulator {

Shard::NodePods& Shard::pods_of(uint32_t row) {
  std::unique_ptr<NodePods>& pods = pods_[row];
  if (!pods) pods = std::make_unique<NodePods>(*this, row);
  return *pods;
}

// The manager of a node is made with its first pod.
agent::PodManager& Shard::manager_of(uint32_t row, NodePods& pods) {
  if (pods.manager) return *pods.manager;
  give_puller(row, pods);
  const uint32_t node = node_of(row);
  const agent::NodeIdentity identity = config_.names->identity(node);
  pods.facts.name = identity.name;
  pods.facts.host_ip = identity.internal_ip;
  pods.facts.uid = machines_[row].uid().to_string();
  pods.facts.pod_ip = [names = config_.names, node](uint32_t n) { return names->pod_ip(node, n); };
  if (config_.names->has_second()) {
    pods.facts.second_host_ip = identity.second_ip;
    pods.facts.second_pod_ip = [names = config_.names, node](uint32_t n) { return names->second_pod_ip(node, n); };
    if (config_.second_is_primary) {
      std::swap(pods.facts.host_ip, pods.facts.second_host_ip);
      std::swap(pods.facts.pod_ip, pods.facts.second_pod_ip);
    }
  }
  if (network_ && network_->serves(row)) {
    pods.facts.network = network_->of(row);
    pods.facts.pod_ip = [this, row](uint32_t n) { return network_->address(row, n); };
  }
  if (!pods.facts.object) {
    pods.facts.object = node_facts_object(class_of(row).node_body(identity, SystemClock::instance().wall_now(), {}));
  }
  if (dra_) pods.facts.driver = dra_->driver_of(row);
  if (drivers_ && row == 0) pods.facts.drivers = &drivers_->drivers();
  pods.facts.listener = &pods.host;
  pods.facts.rebooted = (flags_[row] & kRebooted) != 0;
  if (config_.pods->device_plugins) pods.facts.devices = devices_->manager_for(row, pods_told(row));
  pods.manager = agent::PodManager::create(pods.facts, config_.pods, pods.host);
  return *pods.manager;
}

void Shard::pod_seen(uint32_t row, std::string json) {
  if (!config_.run_pods || machines_[row].phase() == agent::NodeMachine::Phase::kNotOurs) return;
  NodePods& pods = pods_of(row);
  if (network_) network_->pod_found(row, json);
  pods.pending.push_back(std::move(json));
  run_pending(row);
}

// Pods wait for their node to be registered, and for its object when it is not as its template says.
void Shard::run_pending(uint32_t row) {
  const auto it = pods_.find(row);
  if (it == pods_.end()) return;
  NodePods& pods = *it->second;
  if ((pods.pending.empty() && !pods.static_pods) || pods.asking || (flags_[row] & kRegisteredFlag) == 0) return;
  if (!pods.manager && !pods.facts.object && (flags_[row] & kDeviates) != 0) {
    pods.asking = true;
    agent::ApiRequest get;
    get.tag = kFactsTag;
    get.target = agent::NodeClass::node_path(config_.names->name(node_of(row)));
    send(row, get);
    return;
  }
  agent::PodManager& manager = manager_of(row, pods);
  pods.facts.uid = machines_[row].uid().to_string();
  if (pods.static_pods) manager.set_static_pods(std::move(*std::exchange(pods.static_pods, std::nullopt)));
  std::vector<std::string> pending;
  pending.swap(pods.pending);
  for (const std::string& text : pending) {
    const auto pod = kube::parse_json(text);
    if (!pod.ok()) continue;
    note_references(row, pods, *pod);
    manager.on_pod(*pod);
  }
  pods_are_told(row);
  count_pods(pods);
  start_network(row);
}

void Shard::set_static_pods(uint32_t row, std::vector<agent::StaticManifest> manifests) {
  pods_of(row).static_pods = std::move(manifests);
  run_pending(row);
}

// A kubelet does not GET the ConfigMaps and Secrets of its pods: it watches them and reads what the watch has told.
void Shard::send_for_pod(uint32_t row, const agent::ApiRequest& request) {
  bool secret = false;
  std::string ns, name;
  NodePods& pods = pods_of(row);
  if (!pods.objects || request.verb != agent::Verb::kGet || !parse_object_target(request.target, &secret, &ns, &name)) {
    return send(row, request);
  }
  pods.objects->read(secret, ns, name, [this, row, tag = request.tag](int status, std::string_view body) {
    on_answer(row, tag, {status, body, Duration(0)});
  });
}

std::unique_ptr<ObjectWatches> Shard::make_object_watches(uint32_t row) {
  using Keep = ObjectWatches::Keep;
  return std::make_unique<ObjectWatches>(client_of(row), rng_, store_ ? Keep::kPullSecrets : Keep::kKeys);
}

void Shard::note_references(uint32_t row, NodePods& pods, const kube::Json& pod) {
  if (client_ || !config_.pods->full_fidelity) return;
  if (!pods.objects) pods.objects = make_object_watches(row);
  const std::string uid(kube::get_string(pod, "metadata.uid"));
  const std::string_view phase = kube::get_string(pod, "status.phase");
  if (phase == "Succeeded" || phase == "Failed") return pods.objects->remove_pod(uid);
  pods.objects->add_pod(uid, kube::get_string(pod, "metadata.namespace"), pod);
}

void Shard::facts_answered(uint32_t row, const agent::ApiResponse& response) {
  NodePods& pods = pods_of(row);
  pods.asking = false;
  if (response.ok()) pods.facts.object = node_facts_object(response.body);
  if (!pods.facts.object) flags_[row] &= static_cast<uint16_t>(~kDeviates);  // then the template has to do
  run_pending(row);
}

void Shard::update_facts(uint32_t row, const std::string& node_json) {
  const auto it = pods_.find(row);
  if (it == pods_.end()) return;
  auto object = node_facts_object(node_json);
  if (object) it->second->facts.object = std::move(object);
}

// As PodResources names them: sidecars, then containers.
std::vector<agent::PodContainers> Shard::active_pods(uint32_t row) const {
  std::vector<agent::PodContainers> out;
  for (const agent::PodView& pod : describe_pods(row, {})) {
    if (pod.phase == "Succeeded" || pod.phase == "Failed") continue;
    agent::PodContainers& one = out.emplace_back(agent::PodContainers{pod.ns, pod.name, pod.uid, {}});
    for (const agent::ContainerView& container : pod.containers) {
      if (!container.init || container.sidecar)
        one.containers.push_back({container.name, container.sidecar, container.claims});
    }
  }
  return out;
}

void Shard::make_devices() {
  ShardDevicesParts parts;
  parts.names = config_.names;
  parts.groups = config_.devices;
  parts.number = config_.number;
  parts.count = config_.count;
  parts.loop = &loop_;
  parts.counts_changed = [this](uint32_t row) { device_counts_changed(row); };
  parts.health_changed = [this](uint32_t row) {
    loop_.post([this, row] {
      const auto it = pods_.find(row);
      if (it == pods_.end() || !it->second->manager) return;
      it->second->manager->on_devices_changed();
      count_pods(*it->second);
    });
  };
  for (const auto& dra : config_.dra) parts.claimed.emplace_back(dra ? agent::plugin_resource(dra->kind) : "");
  parts.tell_user = [this](uint32_t row, std::string_view text) { say(row, text); };
  devices_ = std::make_unique<ShardDevices>(std::move(parts));
}

// Written after the present call, in which a machine may be at work. A manager that is made tells what its node shows
// already.
void Shard::device_counts_changed(uint32_t row) {
  loop_.post([this, row] {
    const bool was = (flags_[row] & kDevicesDiffer) != 0;
    const bool is = devices_->deviates(row);
    flags_[row] = static_cast<uint16_t>(is ? flags_[row] | kDevicesDiffer : flags_[row] & ~kDevicesDiffer);
    if (was || is) machines_[row].devices_changed(host(row));
  });
}

// Whether what containers of an earlier run hold is known.
bool Shard::pods_told(uint32_t row) const { return client_ ? all_pods_told_ : (flags_[row] & kListedFlag) != 0; }

void Shard::pods_are_told(uint32_t row) {
  const auto it = pods_.find(row);
  if (it == pods_.end() || !it->second->manager || !it->second->pending.empty()) return;
  if (pods_told(row)) devices_->pods_told(row);
}

void Shard::make_dra() {
  const auto has = [](const auto& devices) { return devices != nullptr; };
  if (std::none_of(config_.dra.begin(), config_.dra.end(), has)) return;
  ShardDraParts parts;
  parts.names = config_.names;
  parts.groups = config_.dra;
  parts.fleet = config_.classes.front()->options().fleet;
  parts.number = config_.number;
  parts.count = config_.count;
  parts.collection = config_.classes.front()->options().full_fidelity;
  parts.loop = &loop_;
  parts.rng = &rng_;
  parts.send = [this](uint32_t row, const agent::ApiRequest& request) { send(row, request); };
  parts.uid = [this](uint32_t row) { return machines_[row].uid().to_string(); };
  parts.driver_changed = [this](uint32_t row) { driver_changed(row); };
  parts.tell_user = [this](uint32_t row, std::string_view text) { say(row, text); };
  dra_ = std::make_unique<ShardDra>(std::move(parts));
}

Status Shard::open_drivers() {
  ShardDriversParts parts;
  parts.root = config_.device_sockets->kubelet_root;
  parts.node = config_.names->name(node_of(0));
  const auto& own = config_.dra[config_.names->group_of(node_of(0))];
  if (own) parts.own_driver = agent::driver_name(own->kind);
  parts.device_plugins = devices_->plugin_handler();
  parts.loop = &loop_;
  parts.rng = &rng_;
  parts.send = [this](const agent::ApiRequest& request) { send(0, request); };
  parts.health_changed = [this] {
    const auto it = pods_.find(0);
    if (it == pods_.end() || !it->second->manager) return;
    it->second->manager->on_driver_changed();
    count_pods(*it->second);
  };
  parts.active_pods = [this] { return active_pod_uids(0); };
  parts.tell_user = [this](std::string_view text) { say(0, text); };
  auto drivers = ShardDrivers::open(std::move(parts));
  if (!drivers.ok()) return drivers.error();
  drivers_ = std::move(*drivers);
  return Status();
}

// Nothing while there may be pods that are not known yet.
std::optional<std::set<std::string, std::less<>>> Shard::active_pod_uids(uint32_t row) const {
  if ((flags_[row] & kRegisteredFlag) == 0 || !pods_told(row)) return std::nullopt;
  const auto it = pods_.find(row);
  if (it != pods_.end() && (it->second->asking || !it->second->pending.empty())) return std::nullopt;
  std::set<std::string, std::less<>> out;
  for (const agent::PodContainers& pod : active_pods(row)) out.insert(pod.uid);
  return out;
}

void Shard::driver_changed(uint32_t row) {
  const auto it = pods_.find(row);
  if (it == pods_.end() || !it->second->manager) return;
  it->second->facts.driver = dra_->driver_of(row);
  it->second->manager->on_driver_changed();
  count_pods(*it->second);
}

void Shard::pod_deleted(uint32_t row, const std::string& ns, const std::string& name, const std::string& uid) {
  const auto it = pods_.find(row);
  if (it == pods_.end()) return;
  NodePods& pods = *it->second;
  std::erase_if(pods.pending, [&uid](const std::string& json) {
    return agent::scan_string(agent::scan_path(json, {"metadata", "uid"})) == uid;
  });
  if (pods.objects) pods.objects->remove_pod(uid);
  if (!pods.manager) return;
  pods.manager->on_pod_deleted(ns, name, uid);
  count_pods(pods);
}

std::vector<agent::PodView> Shard::describe_pods(uint32_t row, const agent::PodPick& pick) const {
  const auto it = pods_.find(row);
  if (it == pods_.end() || !it->second->manager) return {};
  return it->second->manager->describe(pick);
}

std::optional<agent::DiskRoom> Shard::disk_room(uint32_t row) const {
  const auto it = pods_.find(row);
  if (it == pods_.end() || !it->second->manager) return std::nullopt;
  return it->second->manager->disk_room();
}

void Shard::call_api(uint32_t row, kube::ApiCall call, kube::ApiCallback done) {
  client_of(row).call(std::move(call), std::move(done));
}

void Shard::count_pods(NodePods& pods) {
  // Everything that happens to pods comes by here: a pull may have begun.
  if (pulls_ && !pulls_->service.idle() && next_tick_at_ != TimePoint{}) wake_at(loop_.now() + kPullLook);
  const size_t all = pods.manager->pod_count();
  const size_t running = pods.manager->running_count();
  pod_count_ += all - pods.counted;
  running_count_ += running - pods.counted_running;
  pods.counted = all;
  pods.counted_running = running;
  const size_t finished = pods.manager->finished_count();
  finished_count_ += finished - pods.counted_finished;
  pods.counted_finished = finished;
  stats_.pods_finished.set(static_cast<double>(finished_count_));
  stats_.pods.set(static_cast<double>(pod_count_));
  stats_.pods_running.set(static_cast<double>(running_count_));
}

void Shard::arm_pod_timer(uint32_t row, agent::Tag tag, TimePoint at) {
  NodePods& pods = pods_of(row);
  const auto [it, fresh] = pods.timers.try_emplace(tag, 0);
  if (fresh) {
    if (free_pod_slots_.empty()) {
      it->second = static_cast<uint32_t>(pod_slots_.size());
      pod_slots_.push_back({row, tag});
      pod_wheel_.resize(static_cast<uint32_t>(pod_slots_.size()));
    } else {
      it->second = free_pod_slots_.back();
      free_pod_slots_.pop_back();
      pod_slots_[it->second] = {row, tag};
    }
  }
  pod_wheel_.arm(it->second, at);
  if (next_tick_at_ != TimePoint{}) wake_at(at);
}

void Shard::disarm_pod_timer(uint32_t row, agent::Tag tag) {
  NodePods& pods = pods_of(row);
  const auto it = pods.timers.find(tag);
  if (it == pods.timers.end()) return;
  pod_wheel_.cancel(it->second);
  free_pod_slots_.push_back(it->second);
  pods.timers.erase(it);
}

void Shard::pod_timer_fired(uint32_t slot) {
  const PodSlot fired = pod_slots_[slot];
  NodePods& pods = pods_of(fired.row);
  pods.timers.erase(fired.tag);
  free_pod_slots_.push_back(slot);
  if (!pods.manager) return;
  pods.manager->on_timer(fired.tag);
  count_pods(pods);
}

void Shard::open_watch(uint32_t row, agent::NodeWatch watch) {
  if (client_) return;  // the hub watches for all
  kube::KubeClient& client = client_of(row);
  for (const auto& open : links_[row]->watches) {
    if (open->watch() == watch) return;  // a Node that came back
  }
  const std::string name = config_.names->name(node_of(row));
  kube::ReflectorOptions options;
  options.seed = rng_.next();
  options.protobuf = config_.protobuf;
  options.metadata_only = watch != agent::NodeWatch::kOwnNode && watch != agent::NodeWatch::kPods;
  switch (watch) {
    case agent::NodeWatch::kOwnNode:
      options.path = "/api/v1/nodes";
      options.field_selector = "metadata.name=" + name;
      break;
    case agent::NodeWatch::kServices:
      options.path = "/api/v1/services";
      options.field_selector = "spec.clusterIP!=None";
      break;
    case agent::NodeWatch::kCsiDrivers: options.path = "/apis/storage.k8s.io/v1/csidrivers"; break;
    case agent::NodeWatch::kRuntimeClasses: options.path = "/apis/node.k8s.io/v1/runtimeclasses"; break;
    case agent::NodeWatch::kPods:
      options.path = "/api/v1/pods";
      options.field_selector = "spec.nodeName=" + name;
      options.timeout_parameter = false;
      options.keep = kube::ReflectorOptions::Keep::kNamesAndVersions;
      break;
  }
  auto handler = std::make_unique<LinkWatch>(*this, row, watch);
  handler->reflector = kube::Reflector::create(client, std::move(options), handler.get());
  handler->reflector->start();
  links_[row]->watches.push_back(std::move(handler));
}

void Shard::LinkWatch::on_modified(const kube::ObjectView& object) {
  if (watch_ == agent::NodeWatch::kPods) {
    uids_[std::string(object.ns) + "/" + std::string(object.name)] = object.uid;
    shard_.pod_seen(row_, std::string(object.json));
  }
  if (watch_ != agent::NodeWatch::kOwnNode) return;
  agent::NodeView view;
  if (!agent::scan_node(object.json, shard_.class_of(row_).node_template(), &view)) return;
  uint16_t& flags = shard_.flags_[row_];
  if ((flags & kSeenReady) != 0 && !view.ready) shard_.stats_.not_ready.add();
  flags = static_cast<uint16_t>(view.ready ? flags | kSeenReady : flags & ~kSeenReady);
  shard_.node_seen(row_, std::string(object.json), node_deviates(object.json, shard_.class_of(row_)));
}

void Shard::LinkWatch::on_synced() {
  if (watch_ == agent::NodeWatch::kPods) shard_.own_pods_listed(row_);
}

void Shard::LinkWatch::on_deleted(const kube::ObjectView& object) {
  if (watch_ == agent::NodeWatch::kOwnNode) {
    agent::NodeUid uid;
    agent::NodeUid::parse(object.uid, &uid);
    shard_.node_deleted(row_, uid);
  }
  if (watch_ != agent::NodeWatch::kPods) return;
  const auto it = uids_.find(std::string(object.ns) + "/" + std::string(object.name));
  const std::string uid = it == uids_.end() ? std::string(object.uid) : it->second;
  if (it != uids_.end()) uids_.erase(it);
  shard_.pod_deleted(row_, std::string(object.ns), std::string(object.name), uid);
}

}  // namespace ghostfleet::emulator
