// Discovery documents, made from kinds: what kubectl and informers read first. Built-in kinds come in the kind table's
// order; custom kinds after them, groups sorted by name.
//
// Thread rule: pure functions. Formats: APIGroupList and apidiscovery.k8s.io/v2, as a real kube-apiserver 1.36 sends
// them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kube/api/json.h"
#include "kube/api/kinds.h"

namespace ghostfleet::kube {

using KindList = std::vector<const KindInfo*>;

// {"kind":"APIVersions",...} for /api; `server_address` is host:port.
Json legacy_api_versions(std::string_view server_address);
// APIGroupList for /apis.
Json legacy_group_list(const KindList& kinds);
// APIGroup for /apis/GROUP; null Json when there is no such group.
Json legacy_group(const KindList& kinds, std::string_view group);
// APIResourceList for /api/v1 and /apis/GROUP/VERSION; null Json when there is no such group version.
Json legacy_resource_list(const KindList& kinds, std::string_view group, std::string_view version);
// APIGroupDiscoveryList (apidiscovery.k8s.io/v2): the core group for /api, all others for /apis.
Json aggregated_discovery(const KindList& kinds, bool core);
// Base64 of the first 8 bytes of SHA-256 over "GROUP/VERSION/KIND" of the stored version.
std::string storage_version_hash(const KindInfo& kind);

}  // namespace ghostfleet::kube
