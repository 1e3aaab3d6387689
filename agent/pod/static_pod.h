// Static pods: what a node makes of a manifest in a file, as a kubelet does it: a name with the
// node's behind it, a uid that is a hash of node, file and content, and the annotations that tell where it comes from.
//
// Thread rule: pure functions. Errors name the field and what is right.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "kube/api/json.h"

namespace ghostfleet::agent {

inline constexpr std::string_view kConfigHash = "kubernetes.io/config.hash";
inline constexpr std::string_view kConfigMirror = "kubernetes.io/config.mirror";

// The pod that the node runs; `manifest` as it was read, `source` the file it is from. With the same arguments but
// `now` the uid is the same.
Result<kube::Json> make_static_pod(const kube::Json& manifest, std::string_view source, std::string_view node_name,
                                   WallTime now);
// The pod that stands for it in the API: the same, with the hash as an annotation, owned by the node.
kube::Json make_mirror_pod(const kube::Json& static_pod, std::string_view node_name, std::string_view node_uid);
// Of which static pod an object of the API is the mirror: its hash; empty: it is none.
std::string_view mirror_hash(const kube::Json& pod);

}  // namespace ghostfleet::agent
