// Devices of claims in a container's status.
#include <algorithm>
#include <optional>

#include "agent/pod/status_parts.h"

namespace ghostfleet::agent {

namespace {

constexpr std::string_view kHealthNames[] = {"Unknown", "Healthy", "Unhealthy"};

std::string title_of(const std::pair<std::string, std::string>& claim) {
  return "claim:" + claim.first + (claim.second.empty() ? "" : "/" + claim.second);
}

// The claim of that entry of the pod's resourceClaims, when it is prepared.
const ClaimCache::Entry* prepared_claim(const Pod& pod, std::string_view pod_claim, const StatusContext& context) {
  for (const ClaimRef& ref : pod.claims()->all().refs) {
    if (ref.pod_claim == pod_claim && !ref.object.empty()) return context.claims->find(pod.ns(), ref.object);
  }
  return nullptr;
}

bool is_wanted(const PreparedDevice& device, std::string_view request) {
  if (request.empty() || device.requests.empty()) return true;
  const std::string_view base = request.substr(0, request.find('/'));
  return std::find(device.requests.begin(), device.requests.end(), base) != device.requests.end();
}

std::optional<DriverKind> kind_of(std::string_view driver) {
  for (const DriverKind kind : {DriverKind::kGpu, DriverKind::kNeuron}) {
    if (driver == driver_name(kind)) return kind;
  }
  return std::nullopt;
}

NodeDrivers drivers_of(const StatusContext& context) { return {context.node.driver.get(), context.node.drivers}; }

// What the runtime was told.
std::vector<std::string> cdi_names(const PreparedDevice& device, const NodeDrivers& drivers) {
  const bool by_program = drivers.others != nullptr && !drivers.is_own(device.driver);
  const auto kind = by_program ? std::nullopt : kind_of(device.driver);
  return kind ? std::vector<std::string>{cdi_device(*kind, device.device)} : device.cdi;
}

// The first of these names; a device without one is named by driver, pool and device.
std::string resource_id(const PreparedDevice& device, const NodeDrivers& drivers) {
  const std::vector<std::string> names = cdi_names(device, drivers);
  return names.empty() ? device.driver + "/" + device.pool + "/" + device.device : names.front();
}

DeviceState state_of(const PreparedDevice& device, const NodeDrivers& drivers) {
  if (drivers.is_own(device.driver)) return drivers.own->state_of(device.device);
  if (drivers.others != nullptr) return drivers.others->health_of(device.driver, device.pool, device.device);
  return {DeviceHealth::kUnknown, {}};
}

// As a kubelet tells them to PodResources: each device with the names of those before it too, of the same driver.
DynamicResource resource_of(const Pod& pod, const ClaimRef& ref, const ClaimCache::Entry& entry,
                            const NodeDrivers& drivers) {
  DynamicResource out{ref.object, std::string(pod.ns()), {}};
  for (const std::string& driver : entry.drivers) {
    std::vector<std::string> names;
    for (const PreparedDevice& device : entry.devices) {
      if (device.driver != driver) continue;
      const std::vector<std::string> own = cdi_names(device, drivers);
      names.insert(names.end(), own.begin(), own.end());
      out.devices.push_back({names, device.driver, device.pool, device.device});
    }
  }
  return out;
}

bool uses(const Pod& pod, size_t index, const ClaimRef& ref) {
  const ContainerSpec& spec = pod.spec->containers[index];
  if (ref.pod_claim.empty()) {
    const std::vector<ExtendedResource>& extended = pod.claims()->all().extended;
    return std::any_of(extended.begin(), extended.end(), [&](const auto& one) { return one.container == spec.name; });
  }
  return std::any_of(spec.claims.begin(), spec.claims.end(),
                     [&](const auto& claim) { return claim.first == ref.pod_claim; });
}

}  // namespace

std::vector<DynamicResource> claims_in_use(const Pod& pod, size_t index, const StatusContext& context) {
  std::vector<DynamicResource> out;
  if (pod.claims() == nullptr || context.claims == nullptr) return out;
  for (const ClaimRef& ref : pod.claims()->all().refs) {
    if (ref.object.empty() || !uses(pod, index, ref)) continue;
    const ClaimCache::Entry* entry = context.claims->find(pod.ns(), ref.object);
    // Read from a file they are not prepared for another sandbox, but those of this one are.
    const bool known = entry != nullptr && (entry->prepared || !entry->devices.empty());
    if (known) out.push_back(resource_of(pod, ref, *entry, drivers_of(context)));
  }
  return out;
}

void for_each_claimed(
    const Pod& pod, size_t index, const StatusContext& context,
    const std::function<void(const std::string& title, const std::string& device, const DeviceState& state)>& each) {
  const ContainerSpec& spec = pod.spec->containers[index];
  if (spec.init || spec.ephemeral || spec.claims.empty()) return;
  if (pod.claims() == nullptr || context.claims == nullptr) return;
  const NodeDrivers drivers = drivers_of(context);
  for (const auto& claim : spec.claims) {
    const ClaimCache::Entry* entry = prepared_claim(pod, claim.first, context);
    if (entry == nullptr) continue;
    for (const PreparedDevice& device : entry->devices) {
      if (!is_wanted(device, claim.second)) continue;
      each(title_of(claim), resource_id(device, drivers), state_of(device, drivers));
    }
  }
}

void add_claimed(const Pod& pod, size_t index, const StatusContext& context, std::string* out) {
  std::string last;
  std::vector<std::string> seen;  // of this title
  for_each_claimed(pod, index, context, [&](const std::string& title, const std::string& device, const DeviceState& s) {
    if (title != last) {
      if (!last.empty()) *out += "]}";
      if (!out->empty()) *out += ",";
      *out += "{";
      add_text("name", title, out);
      *out += ",\"resources\":[";
      seen.clear();
      last = title;
    }
    if (std::find(seen.begin(), seen.end(), device) != seen.end()) return;
    if (!seen.empty()) *out += ",";
    seen.push_back(device);
    *out += "{";
    add_text("health", kHealthNames[static_cast<size_t>(s.health)], out);
    *out += ",";
    if (!s.message.empty()) {
      add_text("message", s.message, out);
      *out += ",";
    }
    add_text("resourceID", device, out);
    *out += "}";
  });
  if (!last.empty()) *out += "]}";
}

}  // namespace ghostfleet::agent
