#include "agent/dra/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.h"

namespace ghostfleet::agent {

namespace {

constexpr std::string_view kDown = "down";
constexpr std::array<std::string_view, 3> kEffects = {"None", "NoSchedule", "NoExecute"};

struct FaultWord {
  std::string_view word;
  FaultKind kind;
  std::string_view effect;  // when none is said
};
// What the drivers set by default is not published: a GPU that is there but failing takes nothing new, one that is gone
// can serve nobody, and not to be watched is only remarked.
constexpr std::array<FaultWord, 4> kFaultWords = {{{"xid", FaultKind::kXid, "NoSchedule"},
                                                   {"gpu-lost", FaultKind::kGpuLost, "NoExecute"},
                                                   {"unmonitored", FaultKind::kUnmonitored, "None"},
                                                   {"unhealthy", FaultKind::kUnhealthy, "NoSchedule"}}};

const FaultWord& word_of(FaultKind kind) {
  return *std::find_if(kFaultWords.begin(), kFaultWords.end(), [kind](const FaultWord& w) { return w.kind == kind; });
}

std::string_view device_prefix(DriverKind kind) { return kind == DriverKind::kGpu ? "gpu-" : "neuron-"; }

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 6 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

Status wrong(std::string_view item, std::string_view what) {
  return invalid_argument(fmt::format("faults: \"{}\": {}", item, what));
}

// "xid:79@NoExecute"
Result<DeviceFault> parse_fault(std::string_view item, std::string_view text, DriverKind driver) {
  std::string_view rest = text;
  std::string_view what = take_part(&rest, "@");
  const std::string_view effect = rest;
  const std::string_view word = take_part(&what, ":");
  const std::string_view value = what;
  const auto at =
      std::find_if(kFaultWords.begin(), kFaultWords.end(), [word](const FaultWord& w) { return w.word == word; });
  if (at == kFaultWords.end()) return wrong(item, "xid:CODE, gpu-lost, unmonitored or unhealthy is expected");
  if (driver != DriverKind::kGpu && at->kind != FaultKind::kUnhealthy)
    return wrong(item, "of a Neuron device only unhealthy is known");
  if ((at->kind == FaultKind::kXid) != is_number(value) || (at->kind != FaultKind::kXid && !value.empty()))
    return wrong(item, "the number of an XID is expected, as in gpu-0=xid:79, and behind xid alone");
  if (!effect.empty() && std::find(kEffects.begin(), kEffects.end(), effect) == kEffects.end())
    return wrong(item, "behind the @ None, NoSchedule or NoExecute is expected");
  DeviceFault fault;
  fault.kind = at->kind;
  fault.value = value;
  fault.effect = effect.empty() ? at->effect : effect;
  return fault;
}

}  // namespace

std::string_view driver_name(DriverKind kind) { return kind == DriverKind::kGpu ? "gpu.nvidia.com" : "neuron.aws.com"; }

std::string_view plugin_resource(DriverKind kind) {
  return kind == DriverKind::kGpu ? "nvidia.com/gpu" : "aws.amazon.com/neuron";
}

std::string device_name(DriverKind kind, uint32_t index) { return fmt::format("{}{}", device_prefix(kind), index); }

std::optional<uint32_t> device_index(const DraDevices& devices, std::string_view name) {
  const std::string_view prefix = device_prefix(devices.kind);
  if (!name.starts_with(prefix)) return std::nullopt;
  const std::string_view digits = name.substr(prefix.size());
  if (!is_number(digits) || (digits.size() > 1 && digits.front() == '0')) return std::nullopt;
  uint32_t index = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), index);
  return index < devices.count ? std::optional(index) : std::nullopt;
}

std::string cdi_device(DriverKind kind, std::string_view device) {
  return fmt::format("k8s.{}/device={}", driver_name(kind), device);
}

Result<DriverFaults> parse_faults(std::string_view text, const DraDevices& devices) {
  if (text.size() > kMaxFaults) return invalid_argument("faults: more than 65536 bytes");
  DriverFaults out;
  while (!trimmed(text).empty()) {
    const std::string_view item = take_part(&text, ";,");
    if (item.empty()) continue;
    std::string_view rest = item;
    const std::string_view name = take_part(&rest, "=");
    rest = trimmed(rest);
    if (name == "driver" && rest == kDown) {
      out.down = true;
      continue;
    }
    const std::optional<uint32_t> index = device_index(devices, name);
    if (!index) {
      return wrong(item, fmt::format("DEVICE=FAULT or driver=down is expected, with a device of {} to {}",
                                     device_name(devices.kind, 0), device_name(devices.kind, devices.count - 1)));
    }
    auto fault = parse_fault(item, rest, devices.kind);
    if (!fault.ok()) return fault.error();
    fault->device = *index;
    out.devices.push_back(std::move(*fault));
  }
  std::stable_sort(out.devices.begin(), out.devices.end(),
                   [](const DeviceFault& a, const DeviceFault& b) { return a.device < b.device; });
  return out;
}

void add_unhealthy(const std::vector<UnhealthyDevice>& found, const DraDevices& devices, DriverFaults* faults) {
  for (const UnhealthyDevice& f : found) {
    const auto same = [&f](const DeviceFault& known) { return known.device == f.device; };
    if (f.device >= devices.count || std::any_of(faults->devices.begin(), faults->devices.end(), same)) continue;
    const bool xid = f.xid >= 0 && devices.kind == DriverKind::kGpu;
    const FaultWord& word = word_of(xid ? FaultKind::kXid : FaultKind::kUnhealthy);
    faults->devices.push_back(
        {f.device, word.kind, xid ? std::to_string(f.xid) : std::string(), std::string(word.effect)});
  }
  std::stable_sort(faults->devices.begin(), faults->devices.end(),
                   [](const DeviceFault& a, const DeviceFault& b) { return a.device < b.device; });
}

std::string taint_key(DriverKind kind, FaultKind fault) {
  return fmt::format("{}/{}", driver_name(kind), word_of(fault).word);
}

DeviceState DraDriver::state_of(std::string_view device) const {
  if (faults.down) return {DeviceHealth::kUnknown, {}};
  const std::optional<uint32_t> index = device_index(*devices, device);
  if (!index) return {DeviceHealth::kUnknown, {}};
  DeviceState state;
  for (const DeviceFault& fault : faults.devices) {
    if (fault.device != *index) continue;
    switch (fault.kind) {
      case FaultKind::kXid: return {DeviceHealth::kUnhealthy, "XID " + fault.value};
      case FaultKind::kGpuLost: return {DeviceHealth::kUnhealthy, "GPU is lost"};
      case FaultKind::kUnhealthy: return {DeviceHealth::kUnhealthy, {}};
      case FaultKind::kUnmonitored: state = {DeviceHealth::kUnknown, "health is not monitored"}; break;
    }
  }
  return state;
}

}  // namespace ghostfleet::agent
