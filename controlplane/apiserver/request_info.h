// RequestInfo: what a path, a method and a query ask for.
//
// Thread rule: plain values, pure functions. Source: a real kube-apiserver 1.36.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ghostfleet::controlplane {

class Query {
 public:
  Query() = default;
  explicit Query(std::vector<std::pair<std::string, std::string>> items) : items_(std::move(items)) {}
  // The first value; empty when there is none.
  const std::string& get(std::string_view name) const;
  bool has(std::string_view name) const;
  std::vector<std::string> all(std::string_view name) const;
  const std::vector<std::pair<std::string, std::string>>& items() const { return items_; }
  // A flag as the API reads it: "false" and "0" are false, every other text (the empty one too) is true.
  bool flag(std::string_view name) const;

 private:
  std::vector<std::pair<std::string, std::string>> items_;
};

struct RequestInfo {
  bool is_resource = false;
  std::string method, path;  // path decoded
  // get, list, watch, create, update, patch, delete, deletecollection; for other paths the lower-case method.
  std::string verb;
  std::string group, version, ns, resource, name, subresource;
  std::vector<std::string> extra;  // parts after the subresource (proxy paths)
  bool watch_prefix = false;       // /api/v1/watch/...
  Query query;
};

RequestInfo parse_request_info(std::string_view method, std::string_view path, std::string_view query);

}  // namespace ghostfleet::controlplane
