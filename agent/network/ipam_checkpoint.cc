#include "agent/network/ipam_checkpoint.h"

#include <fmt/format.h>

#include "kube/api/json.h"

namespace ghostfleet::agent {
namespace {

using kube::Json;
using kube::JsonObject;

constexpr size_t kMaxText = 256;  // of a name or an id

Status wrong(size_t index, std::string_view field, std::string_view value, std::string_view expected) {
  return invalid_argument(
      fmt::format("checkpoint: allocations[{}].{}: \"{}\": {}", index, field, value.substr(0, 60), expected));
}

void append_allocation(const IpamAllocation& a, std::string* out) {
  const IpamHolder& h = a.holder;
  const auto member = [out](std::string_view name, std::string_view value) {
    if (out->back() != '{') out->push_back(',');
    out->append("\"").append(name).append("\":");
    kube::append_json_string(value, out);
  };
  out->push_back('{');
  member("networkName", h.key.network_name);
  member("containerID", h.key.container_id);
  member("ifName", h.key.if_name);
  member(a.ip.is_v4() ? "ipv4" : "ipv6", format_ip(a.ip));
  out->append(fmt::format(",\"allocationTimestamp\":{},\"metadata\":{{", h.assigned.ns));
  member("k8sPodNamespace", h.pod_namespace);
  member("k8sPodName", h.pod_name);
  out->append(fmt::format(",\"interfacesCount\":{}}}}}", h.interfaces));
}

Status read_text(const Json& entry, size_t index, std::string_view field, std::string_view path, std::string* out) {
  const std::string_view text = kube::get_string(entry, path);
  if (text.size() > kMaxText) return wrong(index, field, text, fmt::format("at most {} bytes are expected", kMaxText));
  *out = text;
  return Status();
}

Status read_allocation(const Json& entry, size_t index, IpamAllocation* out) {
  IpamHolder& h = out->holder;
  if (!entry.is_object()) return wrong(index, "", kube::to_json(entry), "an object is expected");
  GF_RETURN_IF_ERROR(read_text(entry, index, "networkName", "networkName", &h.key.network_name));
  GF_RETURN_IF_ERROR(read_text(entry, index, "containerID", "containerID", &h.key.container_id));
  GF_RETURN_IF_ERROR(read_text(entry, index, "ifName", "ifName", &h.key.if_name));
  GF_RETURN_IF_ERROR(read_text(entry, index, "metadata.k8sPodNamespace", "metadata.k8sPodNamespace", &h.pod_namespace));
  GF_RETURN_IF_ERROR(read_text(entry, index, "metadata.k8sPodName", "metadata.k8sPodName", &h.pod_name));
  if (h.key.container_id.empty()) return wrong(index, "containerID", "", "the sandbox's id is expected");
  const std::string_view v4 = kube::get_string(entry, "ipv4"), v6 = kube::get_string(entry, "ipv6");
  if (!v4.empty() && (!parse_ip(v4, &out->ip) || !out->ip.is_v4()))
    return wrong(index, "ipv4", v4, "an address like 10.0.0.1 is expected");
  if (v4.empty() && (!parse_ip(v6, &out->ip) || out->ip.is_v4()))
    return wrong(index, "ipv6", v6, "an address like fd00::1 is expected, or ipv4");
  h.assigned = WallTime{kube::get_int(entry, "allocationTimestamp")};
  const int64_t interfaces = kube::get_int(entry, "metadata.interfacesCount", 1);
  // Absent in checkpoints of older versions, which wrote 0.
  if (interfaces < 0 || interfaces > 64)
    return wrong(index, "metadata.interfacesCount", std::to_string(interfaces), "a number from 0 to 64 is expected");
  h.interfaces = interfaces == 0 ? 1 : static_cast<int>(interfaces);
  return Status();
}

}  // namespace

std::string render_checkpoint(const IpamCheckpoint& checkpoint) {
  std::string out = fmt::format("{{\"version\":\"{}\",\"allocations\":[", kCheckpointVersion);
  for (const IpamAllocation& a : checkpoint.allocations) {
    if (out.back() != '[') out.push_back(',');
    append_allocation(a, &out);
  }
  out += "]}";
  return out;
}

Result<IpamCheckpoint> parse_checkpoint(std::string_view text) {
  if (text.size() > IpamCheckpoint::kMaxBytes) {
    return invalid_argument(
        fmt::format("checkpoint: {} bytes: at most {} are expected", text.size(), IpamCheckpoint::kMaxBytes));
  }
  kube::JsonParseOptions options;
  options.max_depth = 16;
  auto json = kube::parse_json(text, options);
  if (!json.ok()) return json.error().with_context("checkpoint");
  const std::string_view version = kube::get_string(*json, "version");
  if (version != kCheckpointVersion) {
    return invalid_argument(
        fmt::format("checkpoint: version: \"{}\": {} is expected", version.substr(0, 60), kCheckpointVersion));
  }
  IpamCheckpoint checkpoint;
  const kube::JsonArray* list = kube::get_array(*json, "allocations");
  const Json* any = kube::find_key(*json, "allocations");
  if (list == nullptr && any != nullptr && !any->is_null())
    return invalid_argument("checkpoint: allocations: a list is expected");
  if (list == nullptr) return checkpoint;
  if (list->size() > IpamCheckpoint::kMaxAllocations) {
    return invalid_argument(fmt::format("checkpoint: allocations: {} entries: at most {} are expected", list->size(),
                                        IpamCheckpoint::kMaxAllocations));
  }
  checkpoint.allocations.resize(list->size());
  for (size_t i = 0; i < list->size(); ++i)
    GF_RETURN_IF_ERROR(read_allocation((*list)[i], i, &checkpoint.allocations[i]));
  return checkpoint;
}

}  // namespace ghostfleet::agent
