// NodeUid: a UUID in 16 bytes. A fleet keeps one for each of its nodes, so it is not kept as text.
//
// Thread rule: plain value.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace ghostfleet::agent {

struct NodeUid {
  std::array<uint8_t, 16> bytes{};

  bool empty() const { return bytes == std::array<uint8_t, 16>{}; }
  friend bool operator==(const NodeUid&, const NodeUid&) = default;

  // "5b0c1c7e-0000-4000-8000-000000000000", lower or upper case; false for anything else.
  static bool parse(std::string_view text, NodeUid* out);
  std::string to_string() const;  // empty when empty()
  void append_to(std::string* out) const;
};

}  // namespace ghostfleet::agent
