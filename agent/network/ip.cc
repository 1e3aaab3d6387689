#include "agent/network/ip.h"

#include <arpa/inet.h>

#include <charconv>

namespace ghostfleet::agent {
namespace {

uint64_t read64(const unsigned char* bytes) {
  uint64_t v = 0;
  for (int i = 0; i < 8; ++i) v = v << 8 | bytes[i];
  return v;
}

void write64(uint64_t v, unsigned char* bytes) {
  for (int i = 7; i >= 0; --i, v >>= 8) bytes[i] = static_cast<unsigned char>(v);
}

// The first `bits` of 128 kept.
Ip masked(const Ip& ip, int bits) {
  if (bits >= 128) return ip;
  if (bits >= 64) return {ip.high, bits == 64 ? 0 : ip.low & ~uint64_t{0} << (128 - bits)};
  return {bits == 0 ? 0 : ip.high & ~uint64_t{0} << (64 - bits), 0};
}

int bits_of_128(const Cidr& c) { return c.base.is_v4() ? c.bits + 96 : c.bits; }

}  // namespace

std::string format_ip(const Ip& ip) {
  char text[INET6_ADDRSTRLEN] = {};
  if (ip.is_v4()) {
    const uint32_t net = htonl(ip.v4_value());
    inet_ntop(AF_INET, &net, text, sizeof text);
    return text;
  }
  unsigned char bytes[16];
  write64(ip.high, bytes);
  write64(ip.low, bytes + 8);
  inet_ntop(AF_INET6, bytes, text, sizeof text);
  return text;
}

bool parse_ip(std::string_view text, Ip* out) {
  if (text.size() >= INET6_ADDRSTRLEN) return false;
  const std::string copy(text);
  if (copy.find('\0') != std::string::npos) return false;
  uint32_t net = 0;
  if (inet_pton(AF_INET, copy.c_str(), &net) == 1) {
    *out = Ip::v4(ntohl(net));
    return true;
  }
  unsigned char bytes[16];
  if (inet_pton(AF_INET6, copy.c_str(), bytes) != 1) return false;
  *out = {read64(bytes), read64(bytes + 8)};
  return true;
}

bool Cidr::contains(const Ip& ip) const {
  if (ip.is_v4() != base.is_v4()) return false;
  return masked(ip, bits_of_128(*this)) == base;
}

std::string format_cidr(const Cidr& cidr) { return format_ip(cidr.base) + "/" + std::to_string(cidr.bits); }

bool parse_cidr(std::string_view text, Cidr* out) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return false;
  Ip base;
  if (!parse_ip(text.substr(0, slash), &base)) return false;
  const std::string_view digits = text.substr(slash + 1);
  int bits = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
  if (error != std::errc() || end != digits.data() + digits.size() || digits.empty() || digits.size() > 3) return false;
  if (digits.front() == '-' || bits < 0 || bits > (base.is_v4() ? 32 : 128)) return false;
  const Cidr cidr{base, static_cast<uint8_t>(bits)};
  if (!cidr.contains(base)) return false;
  *out = cidr;
  return true;
}

Cidr cidr_around(const Ip& ip, int bits) {
  Cidr c{ip, static_cast<uint8_t>(bits)};
  c.base = masked(ip, bits_of_128(c));
  return c;
}

}  // namespace ghostfleet::agent
