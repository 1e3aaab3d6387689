// OpenAPI v3 documents, made from the field table (built-in kinds) and from the schemas of custom resources. kubectl
// needs them to apply, create and replace (it looks whether an endpoint lists `fieldValidation` and `dryRun`) and to
// explain.
//
// Descriptions are short and our own. Format: OpenAPI v2 and v3 as a real kube-apiserver 1.36 sends them.
// Thread rule: pure functions; a document of the core group is about 400 KB, so callers keep it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kube/api/discovery.h"
#include "kube/api/json.h"
#include "kube/api/kinds.h"

namespace ghostfleet::kube {

struct OpenApiDocument {
  std::string json;
  std::string hash;  // upper-case hex of SHA-256: the ETag and the hash in the index
};

// The document of one group version: `kinds` are all of that group version. `schema_of` gives the openAPIV3Schema of a
// custom resource (null: none).
OpenApiDocument openapi_document(const KindList& kinds, const std::function<const Json*(const KindInfo&)>& schema_of);

// "api/v1" or "apis/GROUP/VERSION": the key of a document in the index.
std::string openapi_path(const KindInfo& kind);
// The index /openapi/v3: {"paths":{"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1?hash=H"}}}
std::string openapi_index(const std::vector<std::pair<std::string, std::string>>& path_and_hash);

// OpenAPI v2 in protobuf (openapi.v2.Document), which kubectl before 1.31 asks for: only what its checks read, which
// endpoints take PATCH and with which query parameters. Field numbers: the published OpenAPI v2 message set.
OpenApiDocument openapi_v2_document(const KindList& kinds);
inline constexpr std::string_view kOpenApiV2MediaType = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

}  // namespace ghostfleet::kube
