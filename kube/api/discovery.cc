#include "kube/api/discovery.h"

#include <algorithm>

#include "base/digest.h"

namespace ghostfleet::kube {
namespace {

JsonArray strings(const std::vector<std::string>& list) {
  JsonArray out;
  for (const std::string& s : list) out.emplace_back(s);
  return out;
}

std::string group_version(const KindInfo& k) { return k.api_version(); }

// Group names in the order they are met; "" left out.
std::vector<std::string> groups_of(const KindList& kinds) {
  std::vector<std::string> groups;
  for (const KindInfo* k : kinds) {
    if (!k->group.empty() && std::find(groups.begin(), groups.end(), k->group) == groups.end())
      groups.push_back(k->group);
  }
  return groups;
}

std::vector<std::string> versions_of(const KindList& kinds, std::string_view group) {
  std::vector<std::string> versions;
  for (const KindInfo* k : kinds) {
    if (k->group == group && std::find(versions.begin(), versions.end(), k->version) == versions.end())
      versions.push_back(k->version);
  }
  return versions;
}

KindList kinds_of(const KindList& kinds, std::string_view group, std::string_view version) {
  KindList out;
  for (const KindInfo* k : kinds) {
    if (k->group == group && k->version == version) out.push_back(k);
  }
  return out;
}

JsonObject version_entry(std::string_view group, std::string_view version) {
  return JsonObject{{"groupVersion", std::string(group) + "/" + std::string(version)}, {"version", version}};
}

JsonObject group_entry(const KindList& kinds, std::string_view group) {
  const std::vector<std::string> versions = versions_of(kinds, group);
  JsonArray list;
  for (const std::string& v : versions) list.emplace_back(version_entry(group, v));
  return JsonObject{
      {"name", group}, {"versions", std::move(list)}, {"preferredVersion", version_entry(group, versions.front())}};
}

JsonObject legacy_resource(const KindInfo& k) {
  JsonObject r{{"name", k.resource},
               {"singularName", k.singular},
               {"namespaced", k.namespaced},
               {"kind", k.kind},
               {"verbs", strings(k.verbs)}};
  if (!k.short_names.empty()) r["shortNames"] = strings(k.short_names);
  if (!k.categories.empty()) r["categories"] = strings(k.categories);
  if (k.has_verb("get") && k.kind != "ComponentStatus") r["storageVersionHash"] = storage_version_hash(k);
  return r;
}

JsonObject legacy_subresource(const KindInfo& k, const SubresourceInfo& sub) {
  JsonObject r{{"name", k.resource + "/" + sub.name}, {"singularName", ""}, {"namespaced", k.namespaced}};
  if (!sub.group.empty()) {
    r["group"] = sub.group;
    r["version"] = sub.version;
  }
  r["kind"] = sub.kind;
  r["verbs"] = strings(sub.verbs);
  return r;
}

JsonObject response_kind(std::string_view group, std::string_view version, std::string_view kind) {
  return JsonObject{{"group", group}, {"version", version}, {"kind", kind}};
}

JsonObject aggregated_resource(const KindInfo& k) {
  // A built-in kind of the group version itself is named without them; custom resources are named in full.
  const bool named = k.custom();
  JsonObject r{{"resource", k.resource},
               {"responseKind", response_kind(named ? k.group : "", named ? k.version : "", k.kind)},
               {"scope", k.namespaced ? "Namespaced" : "Cluster"},
               {"singularResource", k.singular},
               {"verbs", strings(k.verbs)}};
  if (!k.short_names.empty()) r["shortNames"] = strings(k.short_names);
  if (!k.categories.empty()) r["categories"] = strings(k.categories);
  JsonArray subs;
  for (const SubresourceInfo& sub : k.subresources) {
    const bool own = sub.group.empty() && named;
    subs.emplace_back(
        JsonObject{{"subresource", sub.name},
                   {"responseKind", response_kind(own ? k.group : sub.group, own ? k.version : sub.version, sub.kind)},
                   {"verbs", strings(sub.verbs)}});
  }
  if (!subs.empty()) r["subresources"] = std::move(subs);
  return r;
}

JsonObject aggregated_group(const KindList& kinds, std::string_view group) {
  JsonArray versions;
  for (const std::string& v : versions_of(kinds, group)) {
    JsonArray resources;
    for (const KindInfo* k : kinds_of(kinds, group, v)) resources.emplace_back(aggregated_resource(*k));
    versions.emplace_back(JsonObject{{"version", v}, {"resources", std::move(resources)}, {"freshness", "Current"}});
  }
  JsonObject metadata;
  if (!group.empty()) metadata["name"] = group;
  return JsonObject{{"metadata", std::move(metadata)}, {"versions", std::move(versions)}};
}

}  // namespace

Json legacy_api_versions(std::string_view server_address) {
  JsonArray cidrs{JsonObject{{"clientCIDR", "0.0.0.0/0"}, {"serverAddress", server_address}}};
  return JsonObject{
      {"kind", "APIVersions"}, {"versions", JsonArray{"v1"}}, {"serverAddressByClientCIDRs", std::move(cidrs)}};
}

Json legacy_group_list(const KindList& kinds) {
  JsonArray groups;
  for (const std::string& g : groups_of(kinds)) groups.emplace_back(group_entry(kinds, g));
  return JsonObject{{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", std::move(groups)}};
}

Json legacy_group(const KindList& kinds, std::string_view group) {
  if (group.empty() || versions_of(kinds, group).empty()) return Json();
  JsonObject out{{"kind", "APIGroup"}, {"apiVersion", "v1"}};
  for (auto& [key, value] : group_entry(kinds, group)) out[key] = value;
  return out;
}

Json legacy_resource_list(const KindList& kinds, std::string_view group, std::string_view version) {
  JsonArray resources;
  const KindList list = kinds_of(kinds, group, version);
  if (list.empty()) return Json();
  for (const KindInfo* k : list) {
    resources.emplace_back(legacy_resource(*k));
    for (const SubresourceInfo& sub : k->subresources) resources.emplace_back(legacy_subresource(*k, sub));
  }
  JsonObject out{{"kind", "APIResourceList"}};
  if (!group.empty()) out["apiVersion"] = "v1";  // the core group's list is written without it
  out["groupVersion"] = group_version(*list.front());
  out["resources"] = std::move(resources);
  return out;
}

Json aggregated_discovery(const KindList& kinds, bool core) {
  JsonArray items;
  if (core) {
    items.emplace_back(aggregated_group(kinds, ""));
  } else {
    for (const std::string& g : groups_of(kinds)) items.emplace_back(aggregated_group(kinds, g));
  }
  return JsonObject{{"kind", "APIGroupDiscoveryList"},
                    {"apiVersion", "apidiscovery.k8s.io/v2"},
                    {"metadata", JsonObject{}},
                    {"items", std::move(items)}};
}

std::string storage_version_hash(const KindInfo& kind) {
  const std::string stored = kind.storage_version.empty() ? kind.group + "/" + kind.version : kind.storage_version;
  const auto digest = sha256(stored + "/" + kind.kind);
  return base64_encode(std::string_view(reinterpret_cast<const char*>(digest.data()), 8));
}

}  // namespace ghostfleet::kube
