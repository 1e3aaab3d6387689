#include "agent/node/node_uid.h"

namespace ghostfleet::agent {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_dash_place(size_t i) { return i == 8 || i == 13 || i == 18 || i == 23; }

}  // namespace

bool NodeUid::parse(std::string_view text, NodeUid* out) {
  if (text.size() != 36) return false;
  NodeUid uid;
  size_t digits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_dash_place(i)) {
      if (text[i] != '-') return false;
      continue;
    }
    const int v = hex_value(text[i]);
    if (v < 0) return false;
    uint8_t& byte = uid.bytes[digits / 2];
    byte = static_cast<uint8_t>((byte << 4) | v);
    ++digits;
  }
  *out = uid;
  return true;
}

void NodeUid::append_to(std::string* out) const {
  static constexpr char kHex[] = "0123456789abcdef";
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out->push_back('-');
    out->push_back(kHex[bytes[i] >> 4]);
    out->push_back(kHex[bytes[i] & 15]);
  }
}

std::string NodeUid::to_string() const {
  std::string out;
  if (!empty()) append_to(&out);
  return out;
}

}  // namespace ghostfleet::agent
