#include "controlplane/controllers/meta.h"

#include <charconv>

#include "base/log.h"

namespace ghostfleet::controlplane::controllers {

using kube::get_array;
using kube::get_string;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

std::string text_of(const JsonObject& object, std::string_view key) {
  const Json* v = object.if_contains(key);
  return v != nullptr && v->is_string() ? std::string(v->get_string()) : std::string();
}

bool flag_of(const JsonObject& object, std::string_view key) {
  const Json* v = object.if_contains(key);
  return v != nullptr && v->is_bool() && v->get_bool();
}

std::string_view map_text(const Json& object, std::string_view path, std::string_view key) {
  const JsonObject* map = kube::get_object(object, path);
  const Json* v = map == nullptr ? nullptr : map->if_contains(key);
  return v != nullptr && v->is_string() ? std::string_view(v->get_string()) : std::string_view();
}

}  // namespace

std::vector<OwnerRef> owners_of(const Json& object) {
  std::vector<OwnerRef> owners;
  const JsonArray* refs = get_array(object, "metadata.ownerReferences");
  if (refs == nullptr) return owners;
  for (const Json& ref : *refs) {
    const JsonObject* o = ref.if_object();
    if (o == nullptr) continue;
    owners.push_back({text_of(*o, "apiVersion"), text_of(*o, "kind"), text_of(*o, "name"), text_of(*o, "uid"),
                      flag_of(*o, "controller"), flag_of(*o, "blockOwnerDeletion")});
  }
  return owners;
}

std::optional<OwnerRef> controller_of(const Json& object) {
  for (OwnerRef& owner : owners_of(object)) {
    if (owner.controller) return std::move(owner);
  }
  return std::nullopt;
}

JsonObject controller_ref_to(const Json& owner) {
  return JsonObject{{"apiVersion", get_string(owner, "apiVersion")},
                    {"kind", get_string(owner, "kind")},
                    {"name", get_string(owner, "metadata.name")},
                    {"uid", get_string(owner, "metadata.uid")},
                    {"controller", true},
                    {"blockOwnerDeletion", true}};
}

bool is_deleting(const Json& object) { return !get_string(object, "metadata.deletionTimestamp").empty(); }

bool has_finalizer(const Json& object, std::string_view finalizer) {
  const JsonArray* list = get_array(object, "metadata.finalizers");
  if (list == nullptr) return false;
  for (const Json& f : *list) {
    if (f.is_string() && std::string_view(f.get_string()) == finalizer) return true;
  }
  return false;
}

bool remove_finalizer(Json& object, std::string_view finalizer) {
  if (!has_finalizer(object, finalizer)) return false;
  JsonArray& list = kube::ensure_array(object, "metadata.finalizers");
  JsonArray kept;
  for (Json& f : list) {
    if (!f.is_string() || std::string_view(f.get_string()) != finalizer) kept.push_back(std::move(f));
  }
  if (kept.empty()) {
    kube::erase_path(object, "metadata.finalizers");
  } else {
    list = std::move(kept);
  }
  return true;
}

std::string_view annotation(const Json& object, std::string_view key) {
  return map_text(object, "metadata.annotations", key);
}
std::string_view label(const Json& object, std::string_view key) { return map_text(object, "metadata.labels", key); }

void set_annotation(Json& object, std::string_view key, std::string_view value) {
  kube::ensure_object(object, "metadata.annotations")[key] = value;
}
void set_label(Json& object, std::string_view key, std::string_view value) {
  kube::ensure_object(object, "metadata.labels")[key] = value;
}

int64_t annotation_int(const Json& object, std::string_view key, int64_t fallback) {
  const std::string_view text = annotation(object, key);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() ? value : fallback;
}

int64_t time_at(const Json& object, std::string_view path) {
  WallTime t;
  const std::string_view text = get_string(object, path);
  return !text.empty() && parse_time(text, &t) ? t.ns : 0;
}

const JsonObject* find_condition(const Json& object, std::string_view type) {
  const JsonArray* conditions = get_array(object, "status.conditions");
  if (conditions == nullptr) return nullptr;
  for (const Json& c : *conditions) {
    const JsonObject* o = c.if_object();
    if (o == nullptr) continue;
    const Json* t = o->if_contains("type");
    if (t != nullptr && t->is_string() && std::string_view(t->get_string()) == type) return o;
  }
  return nullptr;
}

std::string_view condition_text(const Json& object, std::string_view type, std::string_view field) {
  const JsonObject* condition = find_condition(object, type);
  const Json* v = condition == nullptr ? nullptr : condition->if_contains(field);
  return v != nullptr && v->is_string() ? std::string_view(v->get_string()) : std::string_view();
}

bool set_condition(Json& object, std::string_view type, std::string_view status, std::string_view reason,
                   std::string_view message, WallTime now, bool with_update_time) {
  const std::string when = format_time(now);
  if (JsonObject* c = const_cast<JsonObject*>(find_condition(object, type))) {
    const bool flipped = text_of(*c, "status") != status;
    if (!flipped && text_of(*c, "reason") == reason && text_of(*c, "message") == message) return false;
    (*c)["status"] = status;
    if (flipped || !c->contains("lastTransitionTime")) (*c)["lastTransitionTime"] = when;
    if (with_update_time) (*c)["lastUpdateTime"] = when;
    (*c)["reason"] = reason;
    (*c)["message"] = message;
    return true;
  }
  JsonObject c{{"type", type}, {"status", status}};
  if (with_update_time) c["lastUpdateTime"] = when;
  c["lastTransitionTime"] = when;
  c["reason"] = reason;
  c["message"] = message;
  kube::ensure_array(object, "status.conditions").push_back(std::move(c));
  return true;
}

bool remove_condition(Json& object, std::string_view type) {
  if (find_condition(object, type) == nullptr) return false;
  JsonArray& conditions = kube::ensure_array(object, "status.conditions");
  for (auto it = conditions.begin(); it != conditions.end(); ++it) {
    if (get_string(*it, "type") == type) {
      conditions.erase(it);
      return true;
    }
  }
  return false;
}

const std::string* label_of(const Object& object, std::string_view key) {
  for (const auto& [k, v] : object.labels) {
    if (k == key) return &v;
  }
  return nullptr;
}

bool matches(const kube::LabelSelector& selector, const Object& object) {
  return selector.matches_lookup([&](std::string_view key) { return label_of(object, key); });
}

kube::LabelSelector selector_of(const Json* selector) {
  auto parsed = kube::LabelSelector::from_json(selector);
  return parsed.ok() ? std::move(*parsed) : kube::LabelSelector::nothing();
}

kube::LabelSelector selector_from_map(const JsonObject* labels) {
  if (labels == nullptr || labels->empty()) return kube::LabelSelector::nothing();
  const Json selector = JsonObject{{"matchLabels", *labels}};
  return selector_of(&selector);
}

std::string key_of(std::string_view ns, std::string_view name) {
  std::string key;
  key.reserve(ns.size() + name.size() + 1);
  if (!ns.empty()) key.append(ns).push_back('/');
  key.append(name);
  return key;
}

std::pair<std::string_view, std::string_view> split_key(std::string_view key) {
  const size_t slash = key.find('/');
  if (slash == std::string_view::npos) return {std::string_view(), key};
  return {key.substr(0, slash), key.substr(slash + 1)};
}

int64_t int_or_percent(const Json* value, int64_t total, bool round_up, int64_t fallback) {
  if (value == nullptr) return fallback;
  if (value->is_int64()) return value->get_int64();
  if (!value->is_string()) return fallback;
  const std::string_view text = value->get_string();
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return fallback;
  if (end == text.data() + text.size()) return number;
  if (*end != '%') return fallback;
  return (number * total + (round_up ? 99 : 0)) / 100;
}

Json parse_object(const ObjectRef& object) {
  if (!object) return nullptr;
  auto parsed = kube::parse_json(object->json);
  if (parsed.ok()) return std::move(*parsed);
  log_error("controllers", "object " + object->key + ": " + parsed.error().to_string());
  return nullptr;
}

std::string random_suffix(uint64_t random, int n) {
  static constexpr std::string_view kAlphabet = "bcdfghjklmnpqrstvwxz2456789";
  std::string out;
  for (int i = 0; i < n; ++i) {
    out.push_back(kAlphabet[random % kAlphabet.size()]);
    random /= kAlphabet.size();
  }
  return out;
}

}  // namespace ghostfleet::controlplane::controllers
