#include "agent/device/device_checkpoint.h"

#include <fmt/format.h>

#include <charconv>

#include "base/digest.h"
#include "kube/api/json.h"

namespace ghostfleet::agent {
namespace {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

constexpr size_t kMaxText = 1024;  // of a name or an id

Status wrong(std::string_view field, std::string_view value, std::string_view expected) {
  return invalid_argument(fmt::format("device checkpoint: {}: \"{}\": {}", field, value.substr(0, 60), expected));
}

// ---- the checksum

class Fnv32 {
 public:
  void add(std::string_view text) {
    for (const char c : text) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 16777619u;
  }
  uint32_t value() const { return hash_; }

 private:
  uint32_t hash_ = 2166136261u;
};

// Go's %#v of spew: names of types stand before the values of struct fields, not before those of lists and maps.
void add_ids(const std::vector<std::string>& ids, Fnv32* hash) {
  hash->add("[");
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) hash->add(" ");
    hash->add(ids[i]);
  }
  hash->add("]");
}

void add_entry(const DeviceCheckpoint::Entry& e, Fnv32* hash) {
  hash->add(
      fmt::format("{{PodUID:(string){} ContainerName:(string){} ResourceName:(string){} "
                  "DeviceIDs:(checkpoint.DevicesPerNUMA)map[",
                  e.pod_uid, e.container, e.resource));
  bool first = true;
  for (const auto& [numa, ids] : e.ids) {
    hash->add(fmt::format("{}{}:", first ? "" : " ", numa));
    first = false;
    add_ids(ids, hash);
  }
  hash->add("] AllocResp:([]uint8)");
  if (e.response.empty()) {
    hash->add("<nil>}");
    return;
  }
  hash->add("[");
  for (size_t i = 0; i < e.response.size(); ++i) {
    hash->add(fmt::format("{}{}", i > 0 ? " " : "", static_cast<unsigned>(static_cast<unsigned char>(e.response[i]))));
  }
  hash->add("]}");
}

// ---- text

void append_ids(const std::vector<std::string>& ids, std::string* out) {
  out->push_back('[');
  for (const std::string& id : ids) {
    if (out->back() != '[') out->push_back(',');
    kube::append_json_string(id, out);
  }
  out->push_back(']');
}

void append_entry(const DeviceCheckpoint::Entry& e, std::string* out) {
  *out += "{\"PodUID\":";
  kube::append_json_string(e.pod_uid, out);
  *out += ",\"ContainerName\":";
  kube::append_json_string(e.container, out);
  *out += ",\"ResourceName\":";
  kube::append_json_string(e.resource, out);
  *out += ",\"DeviceIDs\":{";
  for (const auto& [numa, ids] : e.ids) {
    if (out->back() != '{') out->push_back(',');
    *out += fmt::format("\"{}\":", numa);
    append_ids(ids, out);
  }
  // Go writes a list of bytes that is nil as null.
  *out += "},\"AllocResp\":";
  *out += e.response.empty() ? "null}" : "\"" + base64_encode(e.response) + "\"}";
}

// ---- reading

Status read_text(const Json& entry, const std::string& at, std::string_view field, std::string* out) {
  const Json* value = kube::find_key(entry, field);
  const std::string path = at + "." + std::string(field);
  if (value == nullptr || !value->is_string()) return wrong(path, "", "a text is expected");
  const std::string_view text = value->get_string();
  if (text.empty() || text.size() > kMaxText) return wrong(path, text, "a text of 1 to 1024 bytes is expected");
  *out = text;
  return Status();
}

Status read_ids(const Json& list, const std::string& path, std::vector<std::string>* out) {
  if (list.is_null()) return Status();
  if (!list.is_array()) return wrong(path, kube::to_json(list), "a list of device ids is expected");
  for (const Json& id : list.get_array()) {
    if (!id.is_string() || id.get_string().empty() || id.get_string().size() > kMaxText)
      return wrong(path, kube::to_json(id), "a device id of 1 to 1024 bytes is expected");
    out->emplace_back(id.get_string());
  }
  return Status();
}

Status read_entry(const Json& json, const std::string& at, DeviceCheckpoint::Entry* out) {
  GF_RETURN_IF_ERROR(read_text(json, at, "PodUID", &out->pod_uid));
  GF_RETURN_IF_ERROR(read_text(json, at, "ContainerName", &out->container));
  GF_RETURN_IF_ERROR(read_text(json, at, "ResourceName", &out->resource));
  const Json* ids = kube::find_key(json, "DeviceIDs");
  if (ids == nullptr || !ids->is_object())
    return wrong(at + ".DeviceIDs", "", "lists of device ids by NUMA node are expected, as in {\"-1\":[\"a\"]}");
  for (const auto& [key, list] : ids->get_object()) {
    int64_t numa = 0;
    const std::string_view text = key;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), numa);
    if (error != std::errc() || end != text.data() + text.size())
      return wrong(at + ".DeviceIDs", text, "the number of a NUMA node is expected");
    GF_RETURN_IF_ERROR(read_ids(list, at + ".DeviceIDs." + std::string(text), &out->ids[numa]));
  }
  const Json* response = kube::find_key(json, "AllocResp");
  if (response == nullptr || response->is_null()) return Status();
  if (!response->is_string() || !base64_decode(response->get_string(), &out->response))
    return wrong(at + ".AllocResp", response->is_string() ? std::string_view(response->get_string()) : "",
                 "base64 is expected");
  return Status();
}

Status read_registered(const Json& data, DeviceCheckpoint* out) {
  const Json* json = kube::find_key(data, "RegisteredDevices");
  if (json == nullptr || json->is_null()) return Status();
  if (!json->is_object()) return wrong("Data.RegisteredDevices", "", "an object of lists is expected");
  for (const auto& [resource, ids] : json->get_object()) {
    const std::string name(resource);
    GF_RETURN_IF_ERROR(read_ids(ids, "Data.RegisteredDevices." + name, &out->registered[name]));
  }
  return Status();
}

Status read_data(const Json& data, DeviceCheckpoint* out) {
  const Json* entries = kube::find_key(data, "PodDeviceEntries");
  if (entries != nullptr && !entries->is_null()) {
    if (!entries->is_array()) return wrong("Data.PodDeviceEntries", "", "a list is expected");
    const JsonArray& list = entries->get_array();
    if (list.size() > DeviceCheckpoint::kMaxEntries) {
      return wrong("Data.PodDeviceEntries", std::to_string(list.size()),
                   fmt::format("at most {} entries are expected", DeviceCheckpoint::kMaxEntries));
    }
    out->entries.resize(list.size());
    for (size_t i = 0; i < list.size(); ++i)
      GF_RETURN_IF_ERROR(read_entry(list[i], fmt::format("Data.PodDeviceEntries[{}]", i), &out->entries[i]));
  }
  return read_registered(data, out);
}

}  // namespace

uint32_t checksum_of(const DeviceCheckpoint& c) {
  Fnv32 hash;
  hash.add("(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)");
  if (c.entries.empty()) hash.add("<nil>");
  for (size_t i = 0; i < c.entries.size(); ++i) {
    hash.add(i == 0 ? "[" : " ");
    add_entry(c.entries[i], &hash);
  }
  if (!c.entries.empty()) hash.add("]");
  hash.add(" RegisteredDevices:(map[string][]string)map[");
  bool first = true;
  for (const auto& [resource, ids] : c.registered) {
    if (!first) hash.add(" ");
    first = false;
    hash.add(resource);
    hash.add(":");
    add_ids(ids, &hash);
  }
  hash.add("]}");
  return hash.value();
}

std::string render_checkpoint(const DeviceCheckpoint& c) {
  std::string out = "{\"Data\":{\"PodDeviceEntries\":";
  if (c.entries.empty()) out += "null";
  for (size_t i = 0; i < c.entries.size(); ++i) {
    out.push_back(i == 0 ? '[' : ',');
    append_entry(c.entries[i], &out);
  }
  if (!c.entries.empty()) out.push_back(']');
  out += ",\"RegisteredDevices\":{";
  for (const auto& [resource, ids] : c.registered) {
    if (out.back() != '{') out.push_back(',');
    kube::append_json_string(resource, &out);
    out.push_back(':');
    append_ids(ids, &out);
  }
  out += fmt::format("}}}},\"Checksum\":{}}}", checksum_of(c));
  return out;
}

Result<DeviceCheckpoint> parse_device_checkpoint(std::string_view text) {
  if (text.size() > DeviceCheckpoint::kMaxBytes) {
    return invalid_argument(
        fmt::format("device checkpoint: {} bytes: at most {} are expected", text.size(), DeviceCheckpoint::kMaxBytes));
  }
  kube::JsonParseOptions options;
  options.max_depth = 16;
  const auto json = kube::parse_json(text, options);
  if (!json.ok()) return json.error().with_context("device checkpoint");
  const Json* data = kube::find_key(*json, "Data");
  if (data == nullptr || !data->is_object()) return wrong("Data", "", "an object is expected");
  DeviceCheckpoint checkpoint;
  GF_RETURN_IF_ERROR(read_data(*data, &checkpoint));
  const Json* sum = kube::find_key(*json, "Checksum");
  const int64_t told = sum != nullptr && sum->is_int64() ? sum->get_int64() : -1;
  const uint32_t expected = checksum_of(checkpoint);
  if (told != expected) return wrong("Checksum", std::to_string(told), fmt::format("{} is expected", expected));
  return checkpoint;
}

}  // namespace ghostfleet::agent
