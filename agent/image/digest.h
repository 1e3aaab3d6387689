// Digests of content: "sha256:" and 64 lower-case hexadecimal digits, computed on the fly with OpenSSL.
//
// Thread rule: plain functions; a Sha256 has one owner. Source: OCI image-spec, descriptor.md.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ghostfleet::image {

// Refuses other algorithms (Unimplemented) and what is no digest (InvalidArgument); the message names the text.
Status check_digest(std::string_view text);
// The 64 digits of a digest that was checked.
std::string_view hex_of(std::string_view digest);

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::string_view bytes);
  // "sha256:..." of everything so far; nothing may be added afterwards.
  std::string finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string digest_of(std::string_view bytes);

// OK, or DataLoss that names what was hashed and both digests.
Status compare_digests(std::string_view what, std::string_view wanted, std::string_view got);

}  // namespace ghostfleet::image
