#include "kube/api/protobuf_wire.h"

#include <cstring>

namespace ghostfleet::kube {

bool WireReader::fail(std::string error) {
  if (error_.empty()) error_ = std::move(error);
  return false;
}

bool WireReader::advance(size_t n) {
  if (static_cast<size_t>(end_ - p_) < n) return fail("unexpected EOF");
  p_ += n;
  return true;
}

bool WireReader::read_varint(uint64_t* out) {
  *out = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (at_end()) return fail("unexpected EOF");
    const auto byte = static_cast<unsigned char>(*p_++);
    *out |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return true;
  }
  return fail("proto: integer overflow");
}

bool WireReader::read_tag(uint32_t* number, WireType* type) {
  uint64_t tag;
  if (!read_varint(&tag)) return false;
  *number = static_cast<uint32_t>(tag >> 3);
  *type = static_cast<WireType>(tag & 7);
  if (static_cast<int32_t>(*number) <= 0) {
    return fail("proto: illegal tag " + std::to_string(static_cast<int32_t>(*number)) + " (wire type " +
                std::to_string(tag) + ")");
  }
  if (*type == WireType::kEndGroup) return fail("proto: wiretype end group for non-group");
  if (static_cast<int>(*type) > 5) return fail("proto: illegal wireType " + std::to_string(tag & 7));
  return true;
}

bool WireReader::read_fixed64(uint64_t* out) {
  const char* from = p_;
  if (!advance(8)) return false;
  std::memcpy(out, from, 8);
  return true;
}

bool WireReader::read_bytes(std::string_view* out) {
  uint64_t size;
  if (!read_varint(&size)) return false;
  if (static_cast<int64_t>(size) < 0) return fail("proto: negative length found during unmarshaling");
  if (size > static_cast<uint64_t>(end_ - p_)) return fail("unexpected EOF");
  *out = {p_, static_cast<size_t>(size)};
  p_ += size;
  return true;
}

bool WireReader::skip(WireType type) {
  uint64_t ignored;
  std::string_view bytes;
  switch (type) {
    case WireType::kVarint: return read_varint(&ignored);
    case WireType::kFixed64: return advance(8);
    case WireType::kFixed32: return advance(4);
    case WireType::kBytes: return read_bytes(&bytes);
    case WireType::kGroup: return skip_group();
    case WireType::kEndGroup: break;
  }
  return fail("proto: unexpected end of group");
}

// Groups are long out of use; they may nest, so they are counted.
bool WireReader::skip_group() {
  for (int depth = 1; depth > 0;) {
    uint64_t tag;
    if (!read_varint(&tag)) return false;
    const auto type = static_cast<WireType>(tag & 7);
    if (static_cast<int>(type) > 5) return fail("proto: illegal wireType " + std::to_string(tag & 7));
    if (type == WireType::kGroup) {
      ++depth;
    } else if (type == WireType::kEndGroup) {
      --depth;
    } else if (!skip(type)) {
      return false;
    }
  }
  return true;
}

}  // namespace ghostfleet::kube
