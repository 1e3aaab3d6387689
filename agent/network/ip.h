// Ip and Cidr: addresses and ranges of both families. An IPv4 address is kept as ::ffff:a.b.c.d, so that one type of 16
// bytes holds either; bits of a Cidr count in its own family (10.0.0.0/28, fd00::/80).
//
// Thread rule: plain values. Errors: the parsers say false.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace ghostfleet::agent {

struct Ip {
  uint64_t high = 0, low = 0;

  static constexpr uint64_t kV4Mark = uint64_t{0xffff} << 32;
  static Ip v4(uint32_t value) { return {0, kV4Mark | value}; }
  bool is_v4() const { return high == 0 && (low >> 32) == 0xffff; }
  uint32_t v4_value() const { return static_cast<uint32_t>(low); }
  // The address `n` further on; carries are not needed within a subnet.
  Ip plus(uint64_t n) const { return {high, low + n}; }
  friend auto operator<=>(const Ip&, const Ip&) = default;
};

std::string format_ip(const Ip& ip);
bool parse_ip(std::string_view text, Ip* out);

struct Cidr {
  Ip base;
  uint8_t bits = 32;

  // Bits in which addresses of the range differ.
  int host_bits() const { return (base.is_v4() ? 32 : 128) - bits; }
  // 2^63 for more than a number can say.
  uint64_t size() const { return host_bits() >= 63 ? uint64_t{1} << 63 : uint64_t{1} << host_bits(); }
  bool contains(const Ip& ip) const;
  bool contains(const Cidr& other) const { return other.bits >= bits && contains(other.base); }
  bool overlaps(const Cidr& other) const { return contains(other.base) || other.contains(base); }
  friend auto operator<=>(const Cidr&, const Cidr&) = default;
};

std::string format_cidr(const Cidr& cidr);
// Refuses a range whose base is not its first address (10.0.0.1/24).
bool parse_cidr(std::string_view text, Cidr* out);
// The range of that many bits around the address.
Cidr cidr_around(const Ip& ip, int bits);

}  // namespace ghostfleet::agent
