// Node-pressure eviction: what the pods use of their node is looked at while one of them tells it (or a pressure
// lasts), and pods that use too much are ended: those over a limit of local storage, and one at a time for a node that
// is short of something.
//
// Source: the behaviour of a kubelet 1.36 (tests/data/traces, evicted-*). It looks every 10 s, and again as soon as a
// pod it has evicted is gone.
#include <fmt/format.h>

#include <algorithm>

#include "agent/pod/manager.h"
#include "agent/pod/pod_resources.h"
#include "kube/api/quantity.h"

namespace ghostfleet::agent {

namespace {

constexpr int64_t kHardGraceSeconds = 1;
constexpr Duration kGoneLook = std::chrono::seconds(1);       // is an evicted pod gone?
constexpr Duration kGonePatience = std::chrono::seconds(30);  // then the next look comes anyway
constexpr Duration kVolumeLook = std::chrono::minutes(1);     // volumes are measured each one to two minutes
constexpr std::string_view kDisk = "ephemeral-storage";
constexpr int64_t kUntoldFiles = 16;  // of a container: its log, and what a runtime puts into each (hosts, resolv.conf)

std::string binary(int64_t bytes) {
  return kube::Quantity::from_value(bytes, kube::Quantity::Format::kBinarySI).to_string();
}

std::string available_text(const Starved& starved) {
  const bool bytes = starved.resource == "memory" || starved.resource == kDisk;
  return bytes ? binary(starved.available) : kube::Quantity::from_value(starved.available).to_string();
}

int64_t request_of(const Pod& pod, std::string_view resource) {
  for (const auto& [key, value] : pod.granted().requests) {
    if (key == resource) return value;
  }
  return 0;
}

int64_t curve_at(const UseCurve& curve, Duration age, int64_t requested, int64_t untold) {
  if (curve.empty()) return untold;
  const double value = curve.at(age) * (curve.share ? static_cast<double>(requested) : 1.0);
  return static_cast<int64_t>(std::clamp(value, 0.0, 9e18));
}

NodeAmounts amounts_at(const kube::Json* node, std::string_view list) {
  if (node == nullptr) return {};
  return {read_amount(*node, list, "memory").value, read_amount(*node, list, kDisk).value};
}

Observations observe(const EvictionRules& rules, const kube::Json* node, const ResourceUse& used) {
  return observations_of(rules, amounts_at(node, "status.capacity"), amounts_at(node, "status.allocatable"), used);
}

// What is ranked: of memory, of the disk, of its files, of processes.
int64_t amount_in(const ResourceUse& use, std::string_view resource) {
  if (resource == "memory") return use.memory;
  if (resource == kDisk) return use.disk();
  return resource == "inodes" ? use.inodes : use.pids;
}

// The most that a container ever uses of memory; -1: it is drawn anew each time, or more than memory is told of it.
int64_t most_memory(const ContainerSpec& spec) {
  const Script& script = spec.script;
  const bool drawn = script.draws != nullptr && script.draws->memory;
  const bool more = !script.storage.empty() || !script.logs.empty() || !script.inodes.empty() || !script.pids.empty() ||
                    !script.volumes.empty();
  if (drawn || more) return -1;
  const int64_t request = spec.memory_request.value;
  int64_t most = script.memory.empty() ? request : 0;
  for (const UseCurve::Point& point : script.memory.points) {
    const UseCurve level{script.memory.share, {point}};
    most = std::max(most, curve_at(level, Duration(0), request, 0));
  }
  return most;
}

struct Used {
  std::string_view name;
  int64_t amount = 0;
  const Amount* request = nullptr;
};

void add_offender(const Used& c, std::string_view resource, std::string* message, std::string* names,
                  std::string* amounts) {
  if (c.amount <= c.request->value) return;
  *message += fmt::format("Container {} was using {}, request is {}, has larger consumption of {}. ", c.name,
                          binary(c.amount), c.request->text, resource);
  if (!names->empty()) {
    *names += ",";
    *amounts += ",";
  }
  *names += c.name;
  *amounts += binary(c.amount);
}

std::string annotations_of(const std::vector<std::pair<std::string_view, std::string>>& list) {
  std::string out = "{";
  for (const auto& [key, value] : list) {
    if (out.size() > 1) out += ",";
    out += fmt::format("\"{}\":", key);
    kube::append_json_string(value, &out);
  }
  return out + "}";
}

// First those above their request, then the lowest priority, then whose use is the furthest above.
struct Rank {
  Pod* pod = nullptr;
  bool over = false;
  int64_t priority = 0, beyond = 0;
  friend bool operator<(const Rank& a, const Rank& b) {
    if (a.over != b.over) return a.over;
    if (a.priority != b.priority) return a.priority < b.priority;
    return a.beyond > b.beyond;
  }
};

}  // namespace

// ---- use

ResourceUse Manager::use_of(const Pod& pod, size_t index) const {
  ResourceUse use;
  if (pod.runs[index].now.state != RunState::kRunning) return use;
  const ContainerSpec& spec = pod.spec->containers[index];
  const Script& script = script_of(pod, index);
  const Duration age = host_.wall_now() - pod.runs[index].now.started_at;
  const ContainerSpec& granted = spec.ephemeral ? spec : pod.granted().containers[index];
  use.memory = curve_at(script.memory, age, granted.memory_request.value, granted.memory_request.value);
  use.storage = curve_at(script.storage, age, granted.storage_request.value, 0);
  use.logs = curve_at(script.logs, age, granted.storage_request.value, 0);
  use.inodes = curve_at(script.inodes, age, 0, kUntoldFiles);
  use.pids = curve_at(script.pids, age, 0, 1);
  return use;
}

// As last measured.
int64_t Manager::volume_use(const Pod& pod, size_t index) {
  const VolumeLook* look = pod.extras != nullptr ? pod.extras->volumes.get() : nullptr;
  return look != nullptr && index < look->used.size() ? look->used[index] : 0;
}

void Manager::measure_volumes(Pod& pod) {
  const auto tells = [](const ContainerSpec& c) { return !c.script.volumes.empty(); };
  if (std::none_of(pod.spec->containers.begin(), pod.spec->containers.end(), tells)) return;
  std::unique_ptr<VolumeLook>& look = pod.more().volumes;
  const TimePoint now = host_.now();
  if (look == nullptr) {
    look = std::make_unique<VolumeLook>();
    look->due = now + host_.rng().between(Duration(0), kVolumeLook);
  }
  if (now < look->due) return;
  look->due = now + host_.rng().between(kVolumeLook, 2 * kVolumeLook);
  look->used.assign(pod.spec->empty_dirs.size(), 0);
  const Duration age = host_.wall_now() - WallTime{pod.start_time * 1000000000};
  for (size_t v = 0; v < look->used.size(); ++v) {
    const EmptyDir& dir = pod.spec->empty_dirs[v];
    for (size_t i = 0; i < pod.spec->containers.size(); ++i) {
      for (const auto& [name, curve] : pod.spec->containers[i].script.volumes) {
        if (name == dir.name && (pod.runs[i].now.state != RunState::kAbsent || pod.runs[i].now.last.known))
          look->used[v] += curve_at(curve, age, dir.limit.value, 0);
      }
    }
  }
}

ResourceUse Manager::use_of(const Pod& pod) const {
  ResourceUse sum;
  for (size_t i = 0; i < pod.runs.size(); ++i) sum += use_of(pod, i);
  for (size_t v = 0; v < pod.spec->empty_dirs.size(); ++v) sum.storage += volume_use(pod, v);
  return sum;
}

Observations Manager::observe_node() const {
  ResourceUse used;
  for (const Slot& slot : slots_) {
    if (slot.pod != nullptr && slot.pod->stage != Stage::kFinished) used += use_of(*slot.pod);
  }
  const std::shared_ptr<const kube::Json> node = node_.object;
  Observations seen = observe(options_->eviction, node.get(), used);
  if (const std::optional<DiskRoom> room = images_.disk_room()) {
    seen[static_cast<size_t>(EvictionSignal::kNodeFs)] = seen[static_cast<size_t>(EvictionSignal::kImageFs)] =
        Observation{room->available, room->capacity};
  }
  return seen;
}

bool Manager::uses_image(std::string_view image) const {
  const auto is_of = [&](const Pod& pod, size_t i) {
    const std::string& name = pod.spec->containers[i].image;
    if (pod.runs[i].now.state == RunState::kAbsent) return false;
    // Of a real image: also when its tag has moved since.
    if (pod.extras != nullptr && !image.empty() && pod.extras->image_id(i) == image) return true;
    // The whole name holds the one that the pod gives: most are told apart without making it.
    return image.find(name) != std::string_view::npos && normal_image_name(name) == image;
  };
  for (const Slot& slot : slots_) {
    for (size_t i = 0; slot.pod != nullptr && i < slot.pod->runs.size(); ++i) {
      if (is_of(*slot.pod, i)) return true;
    }
  }
  return false;
}

int64_t Manager::storage_used() const {
  int64_t used = 0;
  for (const Slot& slot : slots_) {
    const bool counts = slot.pod != nullptr && slot.pod->stage != Stage::kFinished && slot.pod->spec->uses;
    if (counts) used += use_of(*slot.pod).disk();
  }
  return used;
}

// ---- the monitor

unsigned Manager::pressure() const { return monitoring_ == nullptr ? 0 : monitoring_->monitor.pressure(); }

// The pod may come to use too much: the node is looked at from now on.
void Manager::watch_use(const Pod& pod) {
  if (!pod.spec->uses && monitoring_ == nullptr) return;
  if (monitoring_ == nullptr) monitoring_ = std::make_unique<Monitoring>();
  if (monitoring_->due != kNever) return;
  monitoring_->due = host_.now() + host_.rng().between(Duration(0), options_->eviction.period);
  arm();
}

// Whether images and pods together leave less of the disk than a threshold wants.
bool Manager::short_of_disk() const {
  const std::optional<DiskRoom> room = images_.disk_room();
  if (!room) return false;
  Observations seen;
  seen[static_cast<size_t>(EvictionSignal::kNodeFs)] = seen[static_cast<size_t>(EvictionSignal::kImageFs)] =
      Observation{room->available, room->capacity};
  PressureMonitor trial;
  trial.look(options_->eviction, seen, TimePoint{});
  return trial.pressure() != 0;
}

void Manager::on_images_changed() {
  if ((monitoring_ != nullptr && monitoring_->due != kNever) || !short_of_disk()) return;
  if (monitoring_ == nullptr) monitoring_ = std::make_unique<Monitoring>();
  monitoring_->due = host_.now() + host_.rng().between(Duration(0), options_->eviction.period);
  arm();
}

// Whatever the pods that are there come to use, the node has it.
bool Manager::never_short() const {
  const std::shared_ptr<const kube::Json> node = node_.object;
  int64_t most = 0;
  for (const Slot& slot : slots_) {
    if (slot.pod == nullptr || slot.pod->stage == Stage::kFinished) continue;
    for (const ContainerSpec& spec : slot.pod->spec->containers) {
      const int64_t own = most_memory(spec);
      if (own < 0) return false;
      most += own;
    }
  }
  ResourceUse used;
  used.memory = most;
  PressureMonitor trial;
  trial.look(options_->eviction, observe(options_->eviction, node.get(), used), TimePoint{});
  return trial.pressure() == 0;
}

bool Manager::is_gone(const std::string& uid) {
  const Pod* pod = find(uid);
  return pod == nullptr || (pod->stage == Stage::kFinished && pod->terminal_acked);
}

void Manager::look_at_use() {
  Monitoring& m = *monitoring_;
  const TimePoint now = host_.now();
  std::erase_if(m.leaving, [this](const std::string& uid) { return is_gone(uid); });
  if (!m.leaving.empty() && now < m.patience) {
    m.due = now + kGoneLook;
    return;
  }
  m.leaving.clear();
  bool used = false;
  for (const Slot& slot : slots_) {
    if (slot.pod == nullptr || slot.pod->stage == Stage::kFinished) continue;
    used |= slot.pod->spec->uses;
    measure_volumes(*slot.pod);
  }
  const unsigned before = m.monitor.pressure();
  const std::optional<Starved> starved = m.monitor.look(options_->eviction, observe_node(), now);
  if (node_.listener != nullptr && m.monitor.pressure() != before) {
    node_.listener->pressure_changed(m.monitor.pressure());
  }
  evict_over_limits();
  if (m.leaving.empty() && starved) evict_for(*starved);
  if (!used && m.monitor.at_rest()) {
    monitoring_.reset();
    return;
  }
  const bool calm = m.leaving.empty() && m.monitor.at_rest() && never_short();
  m.due = calm ? kNever : now + (m.leaving.empty() ? options_->eviction.period : kGoneLook);
  m.patience = now + kGonePatience;
}

bool Manager::evict_for_use(Pod& pod, const std::string& message, int64_t grace_seconds, bool disruption,
                            std::string annotations) {
  if (is_critical(pod)) return false;
  tell(pod, true, "Evicted", message, -1, std::move(annotations));
  monitoring_->leaving.emplace_back(pod.uid());
  evict(pod, {"Evicted", message, disruption ? message : std::string(), grace_seconds});
  wake_later(pod, Wake::kSettle);
  return true;
}

// ---- limits of local storage

std::string Manager::over_limit(const Pod& pod) const {
  const PodTemplate& spec = *pod.spec;
  for (size_t v = 0; v < spec.empty_dirs.size(); ++v) {
    const Amount& limit = spec.empty_dirs[v].limit;
    if (limit.value == 0 || volume_use(pod, v) <= limit.value) continue;
    return fmt::format("Usage of EmptyDir volume \"{}\" exceeds the limit \"{}\". ", spec.empty_dirs[v].name,
                       limit.text);
  }
  if (spec.storage_limit.value > 0 && use_of(pod).disk() > spec.storage_limit.value) {
    return fmt::format("Pod ephemeral local storage usage exceeds the total limit of containers {}. ",
                       spec.storage_limit.text);
  }
  for (size_t i = spec.init_count; i < spec.regular_end(); ++i) {
    const Amount& limit = spec.containers[i].storage_limit;
    if (limit.value == 0 || use_of(pod, i).disk() <= limit.value) continue;
    return fmt::format("Container {} exceeded its local ephemeral storage limit \"{}\". ", spec.containers[i].name,
                       limit.text);
  }
  return {};
}

void Manager::evict_over_limits() {
  for (const Slot& slot : slots_) {
    Pod* pod = slot.pod.get();
    if (pod == nullptr || pod->stage != Stage::kActive || !pod->spec->uses) continue;
    const std::string message = over_limit(*pod);
    if (!message.empty()) evict_for_use(*pod, message, kHardGraceSeconds, false, {});
  }
}

// ---- a node that is short of something

std::vector<Pod*> Manager::ranked_for(const Starved& starved) {
  std::vector<Rank> ranks;
  for (const Slot& slot : slots_) {
    Pod* pod = slot.pod.get();
    if (pod == nullptr || pod->stage != Stage::kActive || pod->work == Work::kAdmitting) continue;
    // Nobody requests files; processes are not compared with requests at all.
    const int64_t beyond = amount_in(use_of(*pod), starved.resource) - request_of(*pod, starved.resource);
    ranks.push_back({pod, starved.signal != EvictionSignal::kPid && beyond > 0, pod->spec->priority, beyond});
  }
  std::stable_sort(ranks.begin(), ranks.end());
  std::vector<Pod*> out;
  for (const Rank& r : ranks) out.push_back(r.pod);
  return out;
}

std::string Manager::low_message(const Pod& pod, const Starved& starved, std::string* annotations) const {
  std::string message = fmt::format("The node was low on resource: {}. Threshold quantity: {}, available: {}. ",
                                    starved.resource, starved.threshold, available_text(starved));
  std::vector<std::pair<std::string_view, std::string>> notes;
  const bool memory = starved.signal == EvictionSignal::kMemory;
  if (memory && pod.spec->memory_request.value > 0) {
    const std::string used = binary(use_of(pod).memory);
    message += fmt::format("Pod {} was using {}, request is {}, has larger consumption of memory. ", pod.name(), used,
                           pod.spec->memory_request.text);
    notes.emplace_back("offending_pod", pod.name());
    notes.emplace_back("offending_pod_usage", used);
  }
  std::string names, amounts;
  for (size_t i = 0; i < pod.spec->regular_end() && (memory || starved.resource == kDisk); ++i) {
    if (pod.runs[i].now.state != RunState::kRunning) continue;
    const ContainerSpec& spec = pod.granted().containers[i];
    add_offender(
        {spec.name, amount_in(use_of(pod, i), starved.resource), memory ? &spec.memory_request : &spec.storage_request},
        starved.resource, &message, &names, &amounts);
  }
  notes.emplace_back("offending_containers", names);
  notes.emplace_back("offending_containers_usage", amounts);
  notes.emplace_back("starved_resource", starved.resource);
  std::sort(notes.begin(), notes.end());
  *annotations = annotations_of(notes);
  return message;
}

// Before a pod has to go for the disk's sake, images do that no container is of.
bool Manager::images_make_room(const Starved& starved) {
  if (starved.resource != kDisk || !images_.disk_room()) return false;
  images_.remove_unused(host_.now());
  return !short_of_disk();
}

void Manager::evict_for(const Starved& starved) {
  if (node_.listener != nullptr) node_.listener->reclaiming(starved.resource);
  if (images_make_room(starved)) return;
  for (Pod* pod : ranked_for(starved)) {
    std::string annotations;
    const std::string message = low_message(*pod, starved, &annotations);
    const int64_t grace =
        starved.hard ? kHardGraceSeconds : std::min(options_->eviction.max_pod_grace_seconds, pod->spec->grace_seconds);
    if (evict_for_use(*pod, message, grace, true, std::move(annotations))) return;
  }
}

}  // namespace ghostfleet::agent
