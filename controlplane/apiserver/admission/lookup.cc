#include "controlplane/apiserver/admission/lookup.h"

#include "controlplane/apiserver/strategies/kind_strategy.h"

namespace ghostfleet::controlplane {

using kube::Json;

namespace {

std::string key_of(std::string_view ns, std::string_view name) {
  std::string key(ns);
  if (!ns.empty()) key.push_back('/');
  key.append(name);
  return key;
}

Json parsed(const Object& object) {
  auto json = kube::parse_json(object.json);
  return json.ok() ? std::move(*json) : Json();
}

}  // namespace

ObjectRef stored(Api& api, KnownKind kind, std::string_view ns, std::string_view name) {
  const Resource* resource = api.cluster_state().known(api, kind);
  return resource == nullptr ? nullptr : api.store().get(resource->store_kind, key_of(ns, name));
}

Json stored_json(Api& api, KnownKind kind, std::string_view ns, std::string_view name) {
  ObjectRef object = stored(api, kind, ns, name);
  return object == nullptr ? Json() : parsed(*object);
}

std::vector<Json> stored_list(Api& api, KnownKind kind, std::string_view ns) {
  std::vector<Json> out;
  const Resource* resource = api.cluster_state().known(api, kind);
  if (resource == nullptr) return out;
  ListOptions options;
  if (!ns.empty()) options.prefix = key_of(ns, "");
  auto list = api.store().list(resource->store_kind, options);
  if (!list.ok()) return out;
  for (const ObjectRef& object : list->items) out.push_back(parsed(*object));
  return out;
}

Json stored_with(Api& api, KnownKind kind, std::string_view mark, bool (*fits)(const Json& object)) {
  const Resource* resource = api.cluster_state().known(api, kind);
  if (resource == nullptr) return {};
  auto list = api.store().list(resource->store_kind, {});
  if (!list.ok()) return {};
  for (const ObjectRef& object : list->items) {
    if (object->json.find(mark) == std::string::npos) continue;
    Json json = parsed(*object);
    if (fits(json)) return json;
  }
  return {};
}

bool none_stored(Api& api, KnownKind kind, std::string_view ns) {
  const Resource* resource = api.cluster_state().known(api, kind);
  return resource == nullptr || api.store().count(resource->store_kind, ns.empty() ? "" : key_of(ns, "")) == 0;
}

bool is_kind(const StrategyContext& ctx, std::string_view group, std::string_view resource) {
  return ctx.resource.info.resource == resource && ctx.resource.info.group == group;
}

kube::ApiError refuse(const StrategyContext& ctx, const Json& object, std::string_view why) {
  std::string_view name = name_of(object);
  if (name.empty()) name = text_of(metadata_of(object), "generateName");
  return kube::forbidden(ctx.resource.info, name, why);
}

}  // namespace ghostfleet::controlplane
