#include "agent/device/plugin_messages.h"

#include "kube/api/protobuf_fields.h"

namespace ghostfleet::agent {
namespace {

using kube::append_flag;
using kube::append_text;
using kube::append_texts;
using kube::decode_list;
using Fields = kube::MessageFields;

// TopologyInfo{1 nodes{1 ID}}
void append_topology(uint32_t number, const std::vector<int64_t>& nodes, std::string* out) {
  if (nodes.empty()) return;
  kube::append_message_field(number, out, [&] {
    for (const int64_t node : nodes) {
      kube::append_message_field(1, out, [&] {
        if (node != 0) kube::append_varint_field(1, static_cast<uint64_t>(node), out);
      });
    }
  });
}

Result<int64_t> decode_numa_node(std::string_view bytes) {
  Fields f(bytes);
  int64_t id = 0;
  while (f.next()) {
    if (f.is_value(1)) id = static_cast<int64_t>(f.value());
  }
  return f.result(id);
}

Result<std::vector<int64_t>> decode_topology(std::string_view bytes) {
  Fields f(bytes);
  std::vector<int64_t> nodes;
  while (f.next()) f.message(1, decode_numa_node, [&](int64_t id) { nodes.push_back(id); });
  return f.result(std::move(nodes));
}

uint64_t bits_of(const std::vector<int64_t>& nodes) {
  uint64_t bits = 0;
  for (const int64_t node : nodes) {
    if (node >= 0 && node < 64) bits |= uint64_t{1} << node;
  }
  return bits;
}

// A message that is one repeated string.
Result<TextList> decode_texts(std::string_view bytes) {
  Fields f(bytes);
  TextList out;
  while (f.next()) f.texts(1, &out);
  return f.result(std::move(out));
}

std::string encode_text_lists(const std::vector<TextList>& lists) {
  std::string out;
  for (const TextList& list : lists) kube::append_message_field(1, &out, [&] { append_texts(1, list, &out); });
  return out;
}

Result<PluginDevice> decode_device(std::string_view bytes) {
  Fields f(bytes);
  PluginDevice out;
  while (f.next()) {
    f.text(1, &out.id);
    f.text(2, &out.health);
    f.message(3, decode_topology, [&](std::vector<int64_t> nodes) { out.numa_nodes = std::move(nodes); });
  }
  return f.result(std::move(out));
}

Result<PreferredRequest> decode_preferred(std::string_view bytes) {
  Fields f(bytes);
  PreferredRequest out;
  while (f.next()) {
    f.texts(1, &out.available);
    f.texts(2, &out.must_include);
    if (f.is_value(3)) out.size = static_cast<int32_t>(f.value());
  }
  return f.result(std::move(out));
}

// ContainerDevices{1 resource_name, 2 device_ids, 3 topology}
void append_devices(uint32_t number, const std::vector<ResourceDevices>& all, std::string* out) {
  for (const ResourceDevices& devices : all) {
    kube::append_message_field(number, out, [&] {
      append_text(1, devices.resource, out);
      append_texts(2, devices.ids, out);
      append_topology(3, numa_nodes_of(devices.numa_nodes), out);
    });
  }
}

Result<ResourceDevices> decode_resource_devices(std::string_view bytes) {
  Fields f(bytes);
  ResourceDevices out;
  while (f.next()) {
    f.text(1, &out.resource);
    f.texts(2, &out.ids);
    f.message(3, decode_topology, [&](const std::vector<int64_t>& nodes) { out.numa_nodes = bits_of(nodes); });
  }
  return f.result(std::move(out));
}

// DynamicResource{2 claim_name, 3 claim_namespace, 4 claim_resources{1 cdi_devices{1 name}, 2 driver_name, 3 pool_name,
// 4 device_name}}
void append_claims(uint32_t number, const std::vector<DynamicResource>& claims, std::string* out) {
  for (const DynamicResource& claim : claims) {
    kube::append_message_field(number, out, [&] {
      append_text(2, claim.claim, out);
      append_text(3, claim.ns, out);
      for (const ClaimedDevice& device : claim.devices) {
        kube::append_message_field(4, out, [&] {
          for (const std::string& name : device.cdi_names)
            kube::append_message_field(1, out, [&] { append_text(1, name, out); });
          append_text(2, device.driver, out);
          append_text(3, device.pool, out);
          append_text(4, device.device, out);
        });
      }
    });
  }
}

Result<std::string> decode_cdi_name(std::string_view bytes) {
  Fields f(bytes);
  std::string name;
  while (f.next()) f.text(1, &name);
  return f.result(std::move(name));
}

Result<ClaimedDevice> decode_claimed_device(std::string_view bytes) {
  Fields f(bytes);
  ClaimedDevice out;
  while (f.next()) {
    f.message(1, decode_cdi_name, [&](std::string name) { out.cdi_names.push_back(std::move(name)); });
    f.text(2, &out.driver);
    f.text(3, &out.pool);
    f.text(4, &out.device);
  }
  return f.result(std::move(out));
}

Result<DynamicResource> decode_claim(std::string_view bytes) {
  Fields f(bytes);
  DynamicResource out;
  while (f.next()) {
    f.text(2, &out.claim);
    f.text(3, &out.ns);
    f.message(4, decode_claimed_device, [&](ClaimedDevice device) { out.devices.push_back(std::move(device)); });
  }
  return f.result(std::move(out));
}

// PodResources{1 name, 2 namespace, 3 containers{1 name, 2 devices, 5 dynamic_resources}}. A node that pins neither
// CPUs nor memory, as a kubelet whose managers have policy none, leaves 3 and 4 out.
void append_pod(uint32_t number, const PodResources& pod, std::string* out) {
  kube::append_message_field(number, out, [&] {
    append_text(1, pod.name, out);
    append_text(2, pod.ns, out);
    for (const ContainerResources& container : pod.containers) {
      kube::append_message_field(3, out, [&] {
        append_text(1, container.name, out);
        append_devices(2, container.devices, out);
        append_claims(5, container.claims, out);
      });
    }
  });
}

Result<ContainerResources> decode_container_resources(std::string_view bytes) {
  Fields f(bytes);
  ContainerResources out;
  while (f.next()) {
    f.text(1, &out.name);
    f.message(2, decode_resource_devices, [&](ResourceDevices d) { out.devices.push_back(std::move(d)); });
    f.message(5, decode_claim, [&](DynamicResource claim) { out.claims.push_back(std::move(claim)); });
  }
  return f.result(std::move(out));
}

Result<PodResources> decode_pod(std::string_view bytes) {
  Fields f(bytes);
  PodResources out;
  while (f.next()) {
    f.text(1, &out.name);
    f.text(2, &out.ns);
    f.message(3, decode_container_resources, [&](ContainerResources c) { out.containers.push_back(std::move(c)); });
  }
  return f.result(std::move(out));
}

}  // namespace

std::string encode_register_request(const RegisterRequest& request) {
  std::string out;
  append_text(1, request.version, &out);
  append_text(2, request.endpoint, &out);
  append_text(3, request.resource, &out);
  kube::append_bytes_field(4, encode_plugin_options(request.options), &out);
  return out;
}

Result<RegisterRequest> decode_register_request(std::string_view bytes) {
  Fields f(bytes);
  RegisterRequest out;
  while (f.next()) {
    f.text(1, &out.version);
    f.text(2, &out.endpoint);
    f.text(3, &out.resource);
    f.message(4, decode_plugin_options, [&](PluginOptions options) { out.options = options; });
  }
  return f.result(std::move(out));
}

std::string encode_plugin_options(const PluginOptions& options) {
  std::string out;
  append_flag(1, options.pre_start, &out);
  append_flag(2, options.preferred_allocation, &out);
  return out;
}

Result<PluginOptions> decode_plugin_options(std::string_view bytes) {
  Fields f(bytes);
  PluginOptions out;
  while (f.next()) {
    f.flag(1, &out.pre_start);
    f.flag(2, &out.preferred_allocation);
  }
  return f.result(out);
}

std::vector<int64_t> numa_nodes_of(uint64_t bits) {
  std::vector<int64_t> nodes;
  for (int64_t i = 0; i < 64; ++i) {
    if (bits >> i & 1) nodes.push_back(i);
  }
  return nodes;
}

uint64_t PluginDevice::numa_bits() const { return bits_of(numa_nodes); }

std::string encode_device_list(const std::vector<PluginDevice>& devices) {
  std::string out;
  for (const PluginDevice& device : devices) {
    kube::append_message_field(1, &out, [&] {
      append_text(1, device.id, &out);
      append_text(2, device.health, &out);
      append_topology(3, device.numa_nodes, &out);
    });
  }
  return out;
}

Result<std::vector<PluginDevice>> decode_device_list(std::string_view bytes) {
  return decode_list<PluginDevice>(bytes, decode_device);
}

std::string encode_preferred_request(const std::vector<PreferredRequest>& containers) {
  std::string out;
  for (const PreferredRequest& container : containers) {
    kube::append_message_field(1, &out, [&] {
      append_texts(1, container.available, &out);
      append_texts(2, container.must_include, &out);
      // An int32 that is negative is ten bytes, as of an int64.
      if (container.size != 0)
        kube::append_varint_field(3, static_cast<uint64_t>(static_cast<int64_t>(container.size)), &out);
    });
  }
  return out;
}

Result<std::vector<PreferredRequest>> decode_preferred_request(std::string_view bytes) {
  return decode_list<PreferredRequest>(bytes, decode_preferred);
}

std::string encode_preferred_response(const std::vector<TextList>& containers) { return encode_text_lists(containers); }

Result<std::vector<TextList>> decode_preferred_response(std::string_view bytes) {
  return decode_list<TextList>(bytes, decode_texts);
}

std::string encode_allocate_request(const std::vector<TextList>& containers) { return encode_text_lists(containers); }

Result<std::vector<TextList>> decode_allocate_request(std::string_view bytes) {
  return decode_list<TextList>(bytes, decode_texts);
}

std::string encode_allocate_answers(const std::vector<std::string>& containers) {
  std::string out;
  for (const std::string& container : containers) kube::append_bytes_field(1, container, &out);
  return out;
}

Result<std::vector<std::string>> decode_allocate_answers(std::string_view bytes) {
  Fields f(bytes);
  std::vector<std::string> out;
  while (f.next()) {
    if (f.is_bytes(1)) out.emplace_back(f.bytes());
  }
  return f.result(std::move(out));
}

std::string encode_pre_start_request(const TextList& ids) {
  std::string out;
  append_texts(1, ids, &out);
  return out;
}

Result<TextList> decode_pre_start_request(std::string_view bytes) { return decode_texts(bytes); }

std::string encode_pod_resources_list(const std::vector<PodResources>& pods) {
  std::string out;
  for (const PodResources& pod : pods) append_pod(1, pod, &out);
  return out;
}

Result<std::vector<PodResources>> decode_pod_resources_list(std::string_view bytes) {
  return decode_list<PodResources>(bytes, decode_pod);
}

std::string encode_allocatable(const std::vector<ResourceDevices>& devices) {
  std::string out;
  append_devices(1, devices, &out);
  return out;
}

Result<std::vector<ResourceDevices>> decode_allocatable(std::string_view bytes) {
  return decode_list<ResourceDevices>(bytes, decode_resource_devices);
}

std::string encode_pod_resources_request(std::string_view name, std::string_view ns) {
  std::string out;
  append_text(1, name, &out);
  append_text(2, ns, &out);
  return out;
}

Result<std::pair<std::string, std::string>> decode_pod_resources_request(std::string_view bytes) {
  return kube::decode_text_pair(bytes);
}

std::string encode_pod_resources(const PodResources& pod) {
  std::string out;
  append_pod(1, pod, &out);
  return out;
}

Result<PodResources> decode_pod_resources(std::string_view bytes) {
  Fields f(bytes);
  PodResources out;
  while (f.next()) f.message(1, decode_pod, [&](PodResources pod) { out = std::move(pod); });
  return f.result(std::move(out));
}

}  // namespace ghostfleet::agent
