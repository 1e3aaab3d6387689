// Small helpers of the node machine's parts: the tags of its requests, how requests are made, and how long to wait
// after a failure. Not for others.
//
// Thread rule: pure functions.
#pragma once

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "agent/node/json_scan.h"
#include "agent/node/node_machine.h"

namespace ghostfleet::agent {

enum NodeTag : Tag {
  kTagPost = 16,
  kTagRead,
  kTagReconcile,
  kTagCsiPoll,
  kTagCsiGetNode,
  kTagCsiGet,
  kTagCsiPost,
  kTagCsiDelete,
  kTagCsiQuiet,  // made on the side: its answer changes nothing
  kTagStatus,
  kTagReread,
  kTagLease,
  kTagEvent,
  kTagGone,
  kTagDevices,
};

inline constexpr Duration kHeartbeatTimeout = std::chrono::seconds(10);
inline constexpr Duration kRequestTimeout = std::chrono::seconds(30);

inline ApiRequest get_request(Tag tag, std::string target, Priority priority = Priority::kNormal) {
  return {Verb::kGet, BodyType::kNone, priority, tag, std::move(target), {}, kRequestTimeout};
}

inline ApiRequest post_request(Tag tag, std::string target, std::string body, Priority priority = Priority::kNormal) {
  return {Verb::kPost, BodyType::kJson, priority, tag, std::move(target), std::move(body), kRequestTimeout};
}

inline uint64_t scan_version(std::string_view object) {
  const std::string_view text = scan_string(scan_path(object, {"metadata", "resourceVersion"}));
  uint64_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  return error == std::errc() && end == text.data() + text.size() ? version : 0;
}

inline bool scan_uid(std::string_view object, NodeUid* uid) {
  return NodeUid::parse(scan_string(scan_path(object, {"metadata", "uid"})), uid);
}

// base, doubled with each try, at most cap; times [0.5, 1) with `jitter`. A Retry-After is never undercut.
inline Duration backoff(NodeHost& host, unsigned tries, const ApiResponse& r, Duration base, Duration cap,
                        bool jitter) {
  Duration wait = std::min(base * (int64_t{1} << std::min(tries, 20u)), cap);
  if (jitter) wait = host.rng().between(wait / 2, wait);
  if (r.retry_after > Duration(0)) {
    wait = std::max(wait, jitter ? host.rng().between(r.retry_after, r.retry_after * 3 / 2) : r.retry_after);
  }
  return wait;
}

}  // namespace ghostfleet::agent
