#include "agent/dra/slices.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "kube/api/json.h"

namespace ghostfleet::agent {

namespace {

constexpr uint32_t kMostInSlice = 128;
constexpr uint32_t kMostWithTaints = 64;
constexpr size_t kLongestName = 253;

uint32_t devices_in_slice(const DriverFaults& faults) {
  return faults.devices.empty() ? kMostInSlice : kMostWithTaints;
}

// Collects the members of a JSON object of attributes.
class Attributes {
 public:
  explicit Attributes(std::string* out) : out_(out) { *out_ += "{"; }
  void text(std::string_view name, std::string_view value) { add(name, "string", value, true); }
  void version(std::string_view name, std::string_view value) { add(name, "version", value, true); }
  void number(std::string_view name, uint64_t value) { add(name, "int", std::to_string(value), false); }
  void end() { *out_ += "}"; }

 private:
  void add(std::string_view name, std::string_view type, std::string_view value, bool quoted) {
    if (value.empty()) return;
    if (out_->back() != '{') *out_ += ",";
    kube::append_json_string(name, out_);
    *out_ += fmt::format(":{{\"{}\":", type);
    if (quoted) {
      kube::append_json_string(value, out_);
    } else {
      *out_ += value;
    }
    *out_ += "}";
  }
  std::string* out_;
};

// Two GPUs hang below one root of PCI Express.
void add_gpu(const DraDevices& d, const SliceNode& node, uint32_t index, std::string* out) {
  const uint32_t root = index / 2 * 16;
  Attributes a(out);
  a.text("addressingMode", d.addressing_mode);
  a.text("architecture", d.architecture);
  a.text("brand", d.brand);
  a.version("cudaComputeCapability", d.compute_capability);
  a.version("cudaDriverVersion", d.cuda_version);
  a.version("driverVersion", d.driver_version);
  a.text("productName", d.product);
  a.text("resource.kubernetes.io/pciBusID", fmt::format("0000:{:02x}:{:02x}.0", root + 3, index % 2));
  a.text("resource.kubernetes.io/pcieRoot", fmt::format("pci0000:{:02x}", root));
  a.text("type", "gpu");
  if (node.uuid) a.text("uuid", node.uuid(index));
  a.end();
}

std::string network_node(std::string_view seed, int layer) {
  return fmt::format("nn-{:016x}", hash_text(seed, static_cast<uint64_t>(layer)));
}

// Devices stand in a torus of four columns; groups of 1, 4, 8 and 16 neighbours can be asked for.
void add_neuron(const DraDevices& d, const SliceNode& node, uint32_t index, std::string* out) {
  Attributes a(out);
  a.number("deviceId", index);
  a.version("draDriverVersion", d.dra_version);
  a.text("instanceType", d.instance_type);
  a.text("networkNodeLayer1", network_node(node.zone, 1));
  a.text("networkNodeLayer2", network_node(fmt::format("{}/{}", node.zone, hash_text(node.name) % 16), 2));
  a.text("networkNodeLayer3", network_node(fmt::format("{}/{}", node.zone, hash_text(node.name) % 256), 3));
  a.version("neuronDriverVersion", d.driver_version);
  for (const uint32_t size : {1U, 16U, 4U, 8U}) {
    a.text(fmt::format("resource.aws.com/devicegroup{}_id", size),
           fmt::format("{:012x}-{}", hash_text(node.name) & 0xffffffffffff, index / size));
  }
  a.text("resourceType", "neuron_device");
  a.number("topology4_id", index / 4);
  a.number("topology8_id", index / 8);
  a.number("topology_x", index % 4);
  a.number("topology_y", index / 4);
  a.end();
}

void add_taints(const DraDevices& d, const DriverFaults& faults, uint32_t index, std::string* out) {
  bool any = false;
  for (const DeviceFault& fault : faults.devices) {
    if (fault.device != index) continue;
    *out += any ? ",{" : ",\"taints\":[{";
    any = true;
    *out += fmt::format("\"effect\":\"{}\",\"key\":\"{}\"", fault.effect, taint_key(d.kind, fault.kind));
    if (!fault.value.empty()) *out += fmt::format(",\"value\":\"{}\"", fault.value);
    *out += "}";
  }
  if (any) *out += "]";
}

void add_device(const DraDevices& d, const SliceNode& node, const DriverFaults& faults, uint32_t index,
                std::string* out) {
  *out += "{\"attributes\":";
  if (d.kind == DriverKind::kGpu) {
    add_gpu(d, node, index, out);
  } else {
    add_neuron(d, node, index, out);
  }
  if (d.memory_mib > 0) *out += fmt::format(",\"capacity\":{{\"memory\":{{\"value\":\"{}Mi\"}}}}", d.memory_mib);
  *out += fmt::format(",\"name\":\"{}\"", device_name(d.kind, index));
  add_taints(d, faults, index, out);
  *out += "}";
}

}  // namespace

uint32_t slice_count(const DraDevices& devices, const DriverFaults& faults) {
  const uint32_t most = devices_in_slice(faults);
  return std::max(1U, (devices.count + most - 1) / most);
}

// As a generated name looks: five letters behind what is told.
std::string slice_name(const DraDevices& devices, std::string_view node, uint32_t slice) {
  constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
  const std::string_view driver = driver_name(devices.kind);
  uint64_t hash = hash_text(node, hash_text(driver, slice));
  std::string suffix = "-";
  for (int i = 0; i < 5; ++i, hash /= kLetters.size()) suffix += kLetters[hash % kLetters.size()];
  std::string out = fmt::format("{}-{}", node.substr(0, kLongestName - driver.size() - suffix.size() - 1), driver);
  return out + suffix;
}

std::string render_slice(const DraDevices& devices, const SliceNode& node, const DriverFaults& faults,
                         int64_t generation, uint32_t slice, std::string_view resource_version) {
  std::string out = R"({"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":{)";
  if (!node.fleet.empty()) out += fmt::format(R"("labels":{{"ghostfleet.dev/fleet":"{}"}},)", node.fleet);
  out += fmt::format(R"("name":"{}","ownerReferences":[{{"apiVersion":"v1","controller":true,"kind":"Node",)"
                     R"("name":"{}","uid":"{}"}}])",
                     slice_name(devices, node.name, slice), node.name, node.uid);
  if (!resource_version.empty()) out += fmt::format(R"(,"resourceVersion":"{}")", resource_version);
  out += R"(},"spec":{"devices":[)";
  const uint32_t most = devices_in_slice(faults);
  const uint32_t end = std::min(devices.count, (slice + 1) * most);
  for (uint32_t i = slice * most; i < end; ++i) {
    if (out.back() != '[') out += ",";
    add_device(devices, node, faults, i, &out);
  }
  out += fmt::format(
      R"(],"driver":"{}","nodeName":"{}","pool":{{"generation":{},"name":"{}","resourceSliceCount":{}}}}}}})",
      driver_name(devices.kind), node.name, generation, node.name, slice_count(devices, faults));
  return out;
}

}  // namespace ghostfleet::agent
