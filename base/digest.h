// SHA-256 of small inputs (hashes in discovery documents, ETags, stable names), without a crypto library below
// kube/http, and base64.
//
// Source: FIPS 180-4, RFC 4648. For bulk data use OpenSSL.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace ghostfleet {

std::array<uint8_t, 32> sha256(std::string_view data);
std::string sha256_hex(std::string_view data);
std::string base64_encode(std::string_view data);
// False when `text` is no base64 (padding required, as Go's StdEncoding).
bool base64_decode(std::string_view text, std::string* out);
// Refuses also a text whose last digit says more than the bytes hold.
bool base64_decode_strict(std::string_view text, std::string* out);
// With - and _, without padding.
std::string base64url_encode(std::string_view data);

}  // namespace ghostfleet
