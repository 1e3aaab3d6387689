#include "agent/device/allocate_response.h"

#include <fmt/format.h>

#include <cstdint>

namespace ghostfleet::agent {
namespace {

// Protobuf's wire types.
constexpr uint32_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

void put_varint(uint64_t value, std::string* out) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

void put_bytes(uint32_t field, std::string_view bytes, std::string* out) {
  put_varint(field << 3 | kBytes, out);
  put_varint(bytes.size(), out);
  out->append(bytes);
}

// As gogo's code does: a string that is empty is left out.
void put_text(uint32_t field, std::string_view text, std::string* out) {
  if (!text.empty()) put_bytes(field, text, out);
}

// Map entries have both members always.
void put_pairs(uint32_t field, const std::vector<std::pair<std::string, std::string>>& pairs, std::string* out) {
  for (const auto& [key, value] : pairs) {
    std::string entry;
    put_bytes(1, key, &entry);
    put_bytes(2, value, &entry);
    put_bytes(field, entry, out);
  }
}

// One field after the other of a message.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}
  // False at the end, or when the bytes make no sense: ok() tells which.
  bool next() {
    uint64_t tag = 0;
    value = 0;
    bytes = {};
    if (rest_.empty() || !varint(&tag)) return false;
    number = static_cast<uint32_t>(tag >> 3);
    switch (tag & 7) {
      case kVarint: return number > 0 && varint(&value);
      case kFixed64: return number > 0 && take(8);
      case kFixed32: return number > 0 && take(4);
      case kBytes: {
        uint64_t size = 0;
        return number > 0 && varint(&size) && take(size);
      }
      default: return broken();
    }
  }
  bool ok() const { return ok_; }

  uint32_t number = 0;
  uint64_t value = 0;
  std::string_view bytes;

 private:
  bool broken() {
    ok_ = false;
    return false;
  }
  bool varint(uint64_t* out) {
    *out = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const uint64_t byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      *out |= (byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return broken();
  }
  bool take(uint64_t size) {
    if (size > rest_.size()) return broken();
    bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }

  std::string_view rest_;
  bool ok_ = true;
};

bool read_pair(std::string_view bytes, std::vector<std::pair<std::string, std::string>>* out) {
  std::string key, value;
  Fields f(bytes);
  while (f.next()) {
    if (f.number == 1) key = f.bytes;
    if (f.number == 2) value = f.bytes;
  }
  for (auto& [have, its] : *out) {
    if (have != key) continue;
    its = value;
    return f.ok();
  }
  out->emplace_back(std::move(key), std::move(value));
  return f.ok();
}

bool read_mount(std::string_view bytes, std::vector<AllocateResponse::Mount>* out) {
  AllocateResponse::Mount mount;
  Fields f(bytes);
  while (f.next()) {
    if (f.number == 1) mount.container_path = f.bytes;
    if (f.number == 2) mount.host_path = f.bytes;
    if (f.number == 3) mount.read_only = f.value != 0;
  }
  out->push_back(std::move(mount));
  return f.ok();
}

bool read_node(std::string_view bytes, std::vector<AllocateResponse::DeviceNode>* out) {
  AllocateResponse::DeviceNode node;
  Fields f(bytes);
  while (f.next()) {
    if (f.number == 1) node.container_path = f.bytes;
    if (f.number == 2) node.host_path = f.bytes;
    if (f.number == 3) node.permissions = f.bytes;
  }
  out->push_back(std::move(node));
  return f.ok();
}

bool read_cdi(std::string_view bytes, std::vector<std::string>* out) {
  std::string name;
  Fields f(bytes);
  while (f.next()) {
    if (f.number == 1) name = f.bytes;
  }
  out->push_back(std::move(name));
  return f.ok();
}

}  // namespace

std::string encode_response(const AllocateResponse& r) {
  std::string out;
  put_pairs(1, r.envs, &out);
  for (const AllocateResponse::Mount& mount : r.mounts) {
    std::string message;
    put_text(1, mount.container_path, &message);
    put_text(2, mount.host_path, &message);
    if (mount.read_only) message += std::string_view("\x18\x01", 2);
    put_bytes(2, message, &out);
  }
  for (const AllocateResponse::DeviceNode& node : r.nodes) {
    std::string message;
    put_text(1, node.container_path, &message);
    put_text(2, node.host_path, &message);
    put_text(3, node.permissions, &message);
    put_bytes(3, message, &out);
  }
  put_pairs(4, r.annotations, &out);
  for (const std::string& name : r.cdi_names) {
    std::string message;
    put_text(1, name, &message);
    put_bytes(5, message, &out);
  }
  return out;
}

Result<AllocateResponse> decode_response(std::string_view bytes) {
  if (bytes.size() > AllocateResponse::kMaxBytes) {
    return invalid_argument(fmt::format("ContainerAllocateResponse: {} bytes: at most {} are expected", bytes.size(),
                                        AllocateResponse::kMaxBytes));
  }
  AllocateResponse r;
  Fields f(bytes);
  bool good = true;
  while (good && f.next()) {
    switch (f.number) {
      case 1: good = read_pair(f.bytes, &r.envs); break;
      case 2: good = read_mount(f.bytes, &r.mounts); break;
      case 3: good = read_node(f.bytes, &r.nodes); break;
      case 4: good = read_pair(f.bytes, &r.annotations); break;
      case 5: good = read_cdi(f.bytes, &r.cdi_names); break;
      default: break;
    }
  }
  if (!good || !f.ok()) {
    return invalid_argument(
        fmt::format("ContainerAllocateResponse: field {} of {} bytes makes no sense", f.number, bytes.size()));
  }
  return r;
}

}  // namespace ghostfleet::agent
