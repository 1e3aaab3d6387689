// Reading other objects while a write is admitted.
//
// Thread rule: any thread; what is answered is a copy.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "controlplane/apiserver/strategies/cluster_state.h"
#include "controlplane/apiserver/strategy.h"

namespace ghostfleet::controlplane {

// The stored bytes; null when there is no such object or kind.
ObjectRef stored(Api& api, KnownKind kind, std::string_view ns, std::string_view name);
// Decoded; a null Json when there is none.
kube::Json stored_json(Api& api, KnownKind kind, std::string_view ns, std::string_view name);
// All of a namespace (or of the cluster, with an empty one), decoded.
std::vector<kube::Json> stored_list(Api& api, KnownKind kind, std::string_view ns);
// The one of a cluster-wide kind whose bytes hold `mark` and that `fits` once it is decoded; a null Json when none
// does.
kube::Json stored_with(Api& api, KnownKind kind, std::string_view mark, bool (*fits)(const kube::Json& object));
// Cheap: no object of that kind in the namespace.
bool none_stored(Api& api, KnownKind kind, std::string_view ns);

// What admission works on.
enum class Phase : unsigned char { kMutating, kValidating };

bool is_kind(const StrategyContext& ctx, std::string_view group, std::string_view resource);
// `pods "x" is forbidden: WHY`
kube::ApiError refuse(const StrategyContext& ctx, const kube::Json& object, std::string_view why);

}  // namespace ghostfleet::controlplane
