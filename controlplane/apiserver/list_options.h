// What a list or watch asks for beside the path: selectors, versions, pages (kubernetes.io, API concepts).
//
// Thread rule: plain values, pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "controlplane/apiserver/kind_fields.h"
#include "controlplane/apiserver/request_info.h"
#include "controlplane/store/store.h"
#include "kube/api/api_error.h"

namespace ghostfleet::controlplane {

struct ListQuery {
  ObjectFilter filter;
  size_t limit = 0;
  std::string continue_token, resource_version, version_match;
  bool allow_bookmarks = false;
  std::optional<bool> send_initial_events;
  std::optional<int64_t> timeout_seconds;
};

// Selectors that cannot be parsed: 400; options that do not fit together: 422.
kube::ApiResult<ListQuery> parse_list_query(const Resource& r, const KindConfig& config, const Query& query,
                                            bool watch);

// A resourceVersion; empty and "0" are 0. On failure `*error` has the words of strconv.
bool parse_version(std::string_view text, Revision* revision, std::string* error);
kube::ApiError too_large_version(Revision asked, Revision current);

struct ContinueToken {
  int64_t revision = 0;  // -1: go on at the current state
  std::string start;     // key after which to go on, relative to the list's prefix
};
std::string encode_continue(const ContinueToken& token);
kube::ApiResult<ContinueToken> decode_continue(std::string_view text);

}  // namespace ghostfleet::controlplane
