// A PUT that renews a lease and changes nothing else: ten thousand a second with 100,000 nodes. Its answer can be told
// from the stored bytes, with the time put in place, without decoding, defaulting or validating what is known already.
//
// Thread rule: pure function. Whatever is not plainly such a renewal is no error: the general path takes it, so that
// there is one place that refuses.
#pragma once

#include <optional>
#include <string_view>

#include "controlplane/store/store.h"

namespace ghostfleet::controlplane {

struct RenewalContext {
  std::string_view field_manager;
  std::string_view now;  // metav1.Time, for the entry of this manager
  bool tracks_fields = true;
};

// The bytes to store; nothing when `body` differs from `stored` in anything but spec.renewTime (members only the server
// sets may be missing), is based on another version, or when others own what it writes.
std::optional<EncodedObject> renewed_lease(const Object& stored, std::string_view body, const RenewalContext& context);

}  // namespace ghostfleet::controlplane
