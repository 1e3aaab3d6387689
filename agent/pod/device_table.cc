#include "agent/pod/device_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/hash.h"

namespace ghostfleet::agent {

namespace {

std::string_view without_blanks(std::string_view text) {
  const size_t from = text.find_first_not_of(" \t\n");
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(" \t\n") + 1 - from);
}

// The part of `text` up to the next `mark`, which is taken off it.
std::string_view take_part(std::string_view* text, char mark) {
  const size_t at = text->find(mark);
  const std::string_view part = without_blanks(text->substr(0, at));
  text->remove_prefix(at == std::string_view::npos ? text->size() : at + 1);
  return part;
}

}  // namespace

Result<UnhealthyDevices> parse_unhealthy(std::string_view text) {
  if (text.size() > kMaxUnhealthy) return invalid_argument("unhealthy devices: more than 65536 bytes");
  UnhealthyDevices out;
  while (!without_blanks(text).empty()) {
    std::string_view item = take_part(&text, ';');
    if (item.empty()) continue;
    const std::string_view resource = take_part(&item, '=');
    std::vector<uint32_t> indexes;
    while (!item.empty()) {
      const std::string_view number = take_part(&item, ',');
      uint32_t index = 0;
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
      if (error != std::errc() || end != number.data() + number.size() || index >= DeviceTable::kMost) {
        return invalid_argument(fmt::format(
            "unhealthy devices of {}: \"{}\": the number of a device, from 0, is expected", resource, number));
      }
      indexes.push_back(index);
    }
    if (resource.find('/') == std::string_view::npos || indexes.empty()) {
      return invalid_argument(fmt::format(
          "unhealthy devices: \"{}\": RESOURCE=NUMBER,... is expected, as in nvidia.com/gpu=0,3", resource));
    }
    std::sort(indexes.begin(), indexes.end());
    indexes.erase(std::unique(indexes.begin(), indexes.end()), indexes.end());
    out.emplace_back(resource, std::move(indexes));
  }
  return out;
}

std::vector<uint32_t> DeviceTable::take(std::string_view resource, uint32_t count, uint32_t capacity,
                                        std::string* why) {
  capacity = std::min(capacity, kMost);
  auto at = held_.find(resource);
  if (at == held_.end()) at = held_.emplace(std::string(resource), std::vector<bool>()).first;
  std::vector<bool>& held = at->second;
  if (held.size() < capacity) held.resize(capacity);
  std::vector<uint32_t> out;
  uint32_t good = 0;
  for (uint32_t i = 0; i < capacity; ++i) {
    if (!healthy(resource, i)) continue;
    ++good;
    if (!held[i] && out.size() < count) out.push_back(i);
  }
  if (good == 0) {
    *why = fmt::format("no healthy devices present; cannot allocate unhealthy devices {}", resource);
    return {};
  }
  if (out.size() < count) {
    *why = fmt::format("requested number of devices unavailable for {}. Requested: {}, Available: {}", resource, count,
                       out.size());
    return {};
  }
  for (const uint32_t i : out) held[i] = true;
  return out;
}

void DeviceTable::hold(std::string_view resource, const std::vector<uint32_t>& indexes) {
  auto at = held_.find(resource);
  if (at == held_.end()) at = held_.emplace(std::string(resource), std::vector<bool>()).first;
  for (const uint32_t i : indexes) {
    if (i >= kMost) continue;
    if (at->second.size() <= i) at->second.resize(i + 1);
    at->second[i] = true;
  }
}

void DeviceTable::give_back(std::string_view resource, const std::vector<uint32_t>& indexes) {
  const auto at = held_.find(resource);
  if (at == held_.end()) return;
  for (const uint32_t i : indexes) {
    if (i < at->second.size()) at->second[i] = false;
  }
}

bool DeviceTable::set_unhealthy(const UnhealthyDevices& unhealthy) {
  if (unhealthy_ == unhealthy) return false;
  unhealthy_ = unhealthy;
  return true;
}

bool DeviceTable::healthy(std::string_view resource, uint32_t index) const {
  return std::none_of(unhealthy_.begin(), unhealthy_.end(), [&](const auto& list) {
    return list.first == resource && std::find(list.second.begin(), list.second.end(), index) != list.second.end();
  });
}

std::string device_id(std::string_view node, std::string_view resource, uint32_t index) {
  const std::string_view kind = resource.substr(resource.find('/') + 1);
  if (resource != "nvidia.com/gpu") return fmt::format("{}-{}", kind, index);
  const uint64_t a = hash_text(node, hash_text(resource, index)), b = hash_mix(a, index + 1);
  return fmt::format("GPU-{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}", a >> 32, a >> 16 & 0xffff, a & 0xfff, b >> 48 & 0xfff,
                     b & 0xffffffffffff);
}

}  // namespace ghostfleet::agent
