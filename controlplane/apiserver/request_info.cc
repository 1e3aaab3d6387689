#include "controlplane/apiserver/request_info.h"

#include <algorithm>

#include "kube/http/message.h"

namespace ghostfleet::controlplane {
namespace {

std::vector<std::string> split_path(std::string_view path) {
  while (!path.empty() && path.front() == '/') path.remove_prefix(1);
  while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  std::vector<std::string> parts;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    parts.push_back(kube::http::percent_decode(path.substr(0, slash), false));
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
    if (path.empty()) parts.emplace_back();
  }
  return parts;
}

std::string verb_of(const RequestInfo& info) {
  if (info.method == "POST") return "create";
  if (info.method == "PUT") return "update";
  if (info.method == "PATCH") return "patch";
  if (info.method == "DELETE") return info.name.empty() ? "deletecollection" : "delete";
  if (info.method != "GET" && info.method != "HEAD") return "";
  if (info.watch_prefix) return "watch";
  if (!info.name.empty()) return "get";
  return info.query.has("watch") && info.query.flag("watch") ? "watch" : "list";
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

// Takes the parts after the group version.
void parse_resource_parts(std::vector<std::string> parts, RequestInfo* info) {
  size_t at = 0;
  if (parts[0] == "watch") {
    info->watch_prefix = true;
    at++;
  }
  if (at < parts.size() && parts[at] == "namespaces" && at + 1 < parts.size()) {
    info->ns = parts[at + 1];
    const bool own_subresource = at + 2 < parts.size() && (parts[at + 2] == "status" || parts[at + 2] == "finalize");
    if (at + 2 < parts.size() && !own_subresource) at += 2;
  }
  if (at < parts.size()) info->resource = parts[at];
  if (at + 1 < parts.size()) info->name = parts[at + 1];
  if (at + 2 < parts.size()) info->subresource = parts[at + 2];
  for (size_t i = at + 3; i < parts.size(); i++) info->extra.push_back(parts[i]);
}

}  // namespace

const std::string& Query::get(std::string_view name) const {
  static const std::string kNone;
  for (const auto& [key, value] : items_) {
    if (key == name) return value;
  }
  return kNone;
}

bool Query::has(std::string_view name) const {
  return std::any_of(items_.begin(), items_.end(), [&](const auto& item) { return item.first == name; });
}

std::vector<std::string> Query::all(std::string_view name) const {
  std::vector<std::string> values;
  for (const auto& [key, value] : items_) {
    if (key == name) values.push_back(value);
  }
  return values;
}

bool Query::flag(std::string_view name) const {
  if (!has(name)) return false;
  const std::string value = lower(get(name));
  return value != "false" && value != "0";
}

RequestInfo parse_request_info(std::string_view method, std::string_view path, std::string_view query) {
  RequestInfo info;
  info.method = method;
  info.path = kube::http::percent_decode(path, false);
  info.query = Query(kube::http::parse_query(query));
  info.verb = lower(method);
  std::vector<std::string> parts = split_path(path);
  const bool core = parts.size() >= 3 && parts[0] == "api";
  const bool grouped = parts.size() >= 4 && parts[0] == "apis";
  if (!core && !grouped) return info;
  if (grouped) info.group = parts[1];
  info.version = parts[core ? 1 : 2];
  parts.erase(parts.begin(), parts.begin() + (core ? 2 : 3));
  if (parts[0] == "watch" && parts.size() == 1) return info;
  info.is_resource = true;
  parse_resource_parts(std::move(parts), &info);
  info.verb = verb_of(info);
  return info;
}

}  // namespace ghostfleet::controlplane
