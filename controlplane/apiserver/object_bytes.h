// From a decoded object to the store's bytes and back.
//
// Thread rule: pure functions.
#pragma once

#include "controlplane/store/store.h"
#include "kube/api/json.h"
#include "kube/api/kinds.h"

namespace ghostfleet::controlplane {

std::string object_key(std::string_view ns, std::string_view name);

inline kube::Json json_string(std::string_view text) { return kube::Json(kube::JsonString(text)); }

// Encodes in the kind's order with room for the revision. Kind, version and a mark for the revision are put into
// `object`, which is not to be shown to anybody after that.
EncodedObject encode_object(kube::Json& object, const kube::KindInfo& stored_kind);
// Null on bytes that are no JSON (which the store never holds).
kube::Json decode_stored(const Object& object);

// Whether the bytes say the same, whatever the revision.
bool same_content(const EncodedObject& encoded, const Object& object);
// An Object as it would have been stored (dry runs). `revision` 0: without metadata.resourceVersion.
ObjectRef unstored_object(std::string_view key, EncodedObject encoded, Revision revision);

}  // namespace ghostfleet::controlplane
