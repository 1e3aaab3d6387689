#include "agent/dra/claim_cache.h"

#include <fmt/format.h>
#include <zlib.h>

#include "kube/api/json.h"

namespace ghostfleet::agent {
namespace {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

constexpr std::string_view kVersion = "checkpoint.dra.kubelet.k8s.io/v1";

std::string key_of(std::string_view ns, std::string_view claim) { return fmt::format("{}/{}", ns, claim); }

uint32_t crc32_of(std::string_view text) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const unsigned char*>(text.data()), text.size()));
}

Status wrong(std::string_view field, const std::string& why) {
  return invalid_argument(fmt::format("claim checkpoint: {}: {}", field, why));
}

// Go writes a list that is nil as null.
Json list_of(const std::vector<std::string>& texts) {
  if (texts.empty()) return {};
  JsonArray out;
  for (const std::string& text : texts) out.emplace_back(text);
  return out;
}

Json device_json(const PreparedDevice& d) {
  return JsonObject{{"PoolName", d.pool},
                    {"DeviceName", d.device},
                    {"ShareID", d.share.empty() ? Json() : Json(d.share)},
                    {"RequestNames", list_of(d.requests)},
                    {"CDIDeviceIDs", list_of(d.cdi)}};
}

Json entry_json(std::string_view ns, std::string_view claim, const ClaimCache::Entry& entry) {
  JsonObject pods, drivers;
  for (const std::string& uid : entry.pods) pods[uid] = JsonObject();
  for (const std::string& driver : entry.drivers) {
    JsonArray devices;
    for (const PreparedDevice& d : entry.devices) {
      if (d.driver == driver) devices.push_back(device_json(d));
    }
    drivers[driver] = JsonObject{{"Devices", devices.empty() ? Json() : Json(std::move(devices))}};
  }
  return JsonObject{{"ClaimUID", entry.uid},
                    {"ClaimName", claim},
                    {"Namespace", ns},
                    {"PodUIDs", std::move(pods)},
                    {"DriverState", std::move(drivers)}};
}

void read_texts(const Json& object, std::string_view field, std::vector<std::string>* out) {
  const JsonArray* list = kube::get_array(object, field);
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    if ((*list)[i].is_string()) out->emplace_back((*list)[i].get_string());
  }
}

void read_devices(std::string_view driver, const Json& state, ClaimCache::Entry* entry) {
  const JsonArray* devices = kube::get_array(state, "Devices");
  for (size_t i = 0; devices != nullptr && i < devices->size(); ++i) {
    const Json& item = (*devices)[i];
    PreparedDevice d;
    d.driver = driver;
    d.pool = kube::get_string(item, "PoolName");
    d.device = kube::get_string(item, "DeviceName");
    d.share = kube::get_string(item, "ShareID");
    read_texts(item, "RequestNames", &d.requests);
    read_texts(item, "CDIDeviceIDs", &d.cdi);
    entry->devices.push_back(std::move(d));
  }
}

Status read_entry(const Json& item, size_t at, ClaimCache* cache) {
  const std::string_view ns = kube::get_string(item, "Namespace"), name = kube::get_string(item, "ClaimName"),
                         uid = kube::get_string(item, "ClaimUID");
  if (ns.empty() || name.empty() || uid.empty()) {
    return wrong(fmt::format("ClaimInfoStateList[{}]", at),
                 "Namespace, ClaimName and ClaimUID are expected, each a text that is not empty");
  }
  ClaimCache::Entry& entry = cache->add(ns, name);
  entry.uid = uid;
  if (const JsonObject* pods = kube::get_object(item, "PodUIDs")) {
    for (const auto& pair : *pods) entry.pods.emplace_back(pair.key());
  }
  if (const JsonObject* drivers = kube::get_object(item, "DriverState")) {
    for (const auto& pair : *drivers) {
      entry.drivers.emplace_back(pair.key());
      read_devices(pair.key(), pair.value(), &entry);
    }
  }
  return Status();
}

}  // namespace

ClaimCache::Entry* ClaimCache::find(std::string_view ns, std::string_view claim) {
  const auto it = entries_.find(key_of(ns, claim));
  return it == entries_.end() ? nullptr : &it->second;
}

const ClaimCache::Entry* ClaimCache::find(std::string_view ns, std::string_view claim) const {
  const auto it = entries_.find(key_of(ns, claim));
  return it == entries_.end() ? nullptr : &it->second;
}

ClaimCache::Entry& ClaimCache::add(std::string_view ns, std::string_view claim) { return entries_[key_of(ns, claim)]; }

void ClaimCache::erase(std::string_view ns, std::string_view claim) { entries_.erase(key_of(ns, claim)); }

void ClaimCache::for_each(const Each& each) const {
  for (const auto& [key, entry] : entries_) {
    const std::string_view text(key);
    const size_t slash = text.find('/');
    each(text.substr(0, slash), text.substr(slash + 1), entry);
  }
}

std::string render_claim_checkpoint(const ClaimCache& cache) {
  JsonArray list;
  cache.for_each([&](std::string_view ns, std::string_view claim, const ClaimCache::Entry& entry) {
    list.push_back(entry_json(ns, claim, entry));
  });
  const std::string data =
      kube::to_json(JsonObject{{"kind", "DRACheckpoint"},
                               {"apiVersion", kVersion},
                               {"ClaimInfoStateList", list.empty() ? Json() : Json(std::move(list))}});
  std::string out = "{\"Data\":";
  kube::append_json_string(data, &out);
  return out + fmt::format(",\"Checksum\":{}}}", crc32_of(data));
}

Result<ClaimCache> parse_claim_checkpoint(std::string_view text) {
  const auto file = kube::parse_json(text);
  if (!file.ok()) return wrong("text", file.error().message());
  const std::string_view data = kube::get_string(*file, "Data");
  if (data.empty()) return wrong("Data", "a text with JSON is expected");
  const int64_t told = kube::get_int(*file, "Checksum");
  if (told != crc32_of(data)) return wrong("Checksum", fmt::format("{}: {} is expected", told, crc32_of(data)));
  const auto inner = kube::parse_json(data);
  if (!inner.ok()) return wrong("Data", inner.error().message());
  const std::string_view version = kube::get_string(*inner, "apiVersion");
  if (version != kVersion) return wrong("apiVersion", fmt::format("\"{}\": {} is expected", version, kVersion));
  ClaimCache out;
  const JsonArray* list = kube::get_array(*inner, "ClaimInfoStateList");
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) GF_RETURN_IF_ERROR(read_entry((*list)[i], i, &out));
  return out;
}

}  // namespace ghostfleet::agent
