// Reference: the name of an image as users write it, "[REGISTRY/]REPOSITORY[:TAG][@DIGEST]".
//
// Thread rule: plain values. Limits: a repository has at most 255 characters, a tag 128.
// Source: OCI distribution-spec; names without a registry mean docker.io, and there a single word means library/WORD.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ghostfleet::image {

struct Reference {
  std::string registry;    // "docker.io", "127.0.0.1:5000"
  std::string repository;  // "library/busybox"
  std::string tag;         // "latest" when neither tag nor digest was given
  std::string digest;      // wins over the tag

  // In full, for messages and as the name in the store.
  std::string to_string() const;
  // What a manifest is asked for by.
  const std::string& target() const { return digest.empty() ? tag : digest; }
  // The host of the registry's API: docker.io has another one.
  std::string api_host() const;
};

Result<Reference> parse_reference(std::string_view text);

}  // namespace ghostfleet::image
