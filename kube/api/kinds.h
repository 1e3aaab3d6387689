// The kind table: what is served under which path, with which names and verbs (built-in kinds; custom resources add
// theirs at run time as KindInfo of the same shape).
//
// Thread rule: immutable after start; pointers live for ever.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kube/api/field_table.h"

namespace ghostfleet::kube {

struct SubresourceInfo {
  std::string name;   // "status", "scale", "binding"
  std::string group;  // of the kind it takes and answers
  std::string version;
  std::string kind;
  std::vector<std::string> verbs;
};

struct KindInfo {
  std::string group;  // "" for core
  std::string version;
  std::string kind;      // "Pod"
  std::string resource;  // "pods"
  std::string singular;  // "pod"
  bool namespaced = true;
  std::vector<std::string> short_names;
  std::vector<std::string> categories;
  std::vector<std::string> verbs;  // as in discovery, sorted
  std::vector<SubresourceInfo> subresources;
  const TypeInfo* type = nullptr;  // null for custom resources
  // events.k8s.io/v1 events are v1 events under other field names: both share one storage.
  std::string storage_resource;  // "events" for both; else resource + "." + group
  // "GROUP/VERSION" in which objects are stored, when it is another than this one (only the hash in discovery shows
  // it).
  std::string storage_version;

  // Only POST, nothing stored: reviews, bindings.
  bool create_only() const { return verbs.size() == 1 && verbs[0] == "create"; }
  bool has_verb(std::string_view verb) const;
  const SubresourceInfo* find_subresource(std::string_view name) const;

  bool custom() const { return type == nullptr; }
  bool has_subresource(std::string_view name) const { return find_subresource(name) != nullptr; }
  std::string api_version() const { return group.empty() ? version : group + "/" + version; }
  std::string group_resource() const { return group.empty() ? resource : resource + "." + group; }
  std::string list_kind() const { return kind + "List"; }
  // "/api/v1" or "/apis/GROUP/VERSION"
  std::string root_path() const { return group.empty() ? "/api/" + version : "/apis/" + group + "/" + version; }
};

// All built-in kinds, in discovery order (core first).
const std::vector<KindInfo>& builtin_kinds();
const KindInfo* find_kind(std::string_view group, std::string_view version, std::string_view kind);
// A built-in resource by group, version and plural name; null pointer when there is none.
const KindInfo* find_resource(std::string_view group, std::string_view version, std::string_view resource);

}  // namespace ghostfleet::kube
