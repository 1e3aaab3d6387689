#include "kube/api/managed_entries.h"

#include <algorithm>
#include <tuple>

namespace ghostfleet::kube {
namespace {

constexpr const char* kAncient = "ancient-changes";

bool decode_entry(const Json& json, ManagedEntry* e) {
  const std::string_view operation = get_string(json, "operation");
  if (operation != "Apply" && operation != "Update") return false;
  e->manager = std::string(get_string(json, "manager"));
  e->apply = operation == "Apply";
  e->api_version = std::string(get_string(json, "apiVersion"));
  e->subresource = std::string(get_string(json, "subresource"));
  e->time = std::string(get_string(json, "time"));
  const Json* fields = find_key(json, "fieldsV1");
  return fields == nullptr || FieldSet::from_fields_v1(*fields, &e->set);
}

Json encode_entry(const ManagedEntry& e) {
  JsonObject out{{"manager", e.manager}, {"operation", e.apply ? "Apply" : "Update"}, {"apiVersion", e.api_version}};
  if (!e.time.empty()) out["time"] = e.time;
  out["fieldsType"] = "FieldsV1";
  out["fieldsV1"] = e.set.to_fields_v1();
  if (!e.subresource.empty()) out["subresource"] = e.subresource;
  return out;
}

}  // namespace

std::string ManagedEntry::title() const {
  std::string out;
  append_json_string(manager, &out);
  if (!subresource.empty()) {
    out += " with subresource ";
    append_json_string(subresource, &out);
  }
  return apply ? out : out + " using " + api_version;
}

bool decode_entries(const Json& object, std::vector<ManagedEntry>* entries) {
  const JsonArray* list = get_array(object, "metadata.managedFields");
  if (list == nullptr) return true;
  std::vector<ManagedEntry> out;
  for (const Json& json : *list) {
    ManagedEntry e;
    if (!decode_entry(json, &e)) return false;
    out.push_back(std::move(e));
  }
  *entries = std::move(out);
  return true;
}

void encode_entries(std::vector<ManagedEntry> entries, Json* object) {
  // "Apply" before "Update", then by time (none first), then by name.
  std::stable_sort(entries.begin(), entries.end(), [](const ManagedEntry& a, const ManagedEntry& b) {
    const int left = a.apply ? 0 : 1, right = b.apply ? 0 : 1;
    return std::tie(left, a.time, a.manager, a.api_version, a.subresource) <
           std::tie(right, b.time, b.manager, b.api_version, b.subresource);
  });
  JsonArray list;
  for (const ManagedEntry& e : entries) list.push_back(encode_entry(e));
  if (list.empty()) {
    erase_path(*object, "metadata.managedFields");
    return;
  }
  set_path(*object, "metadata.managedFields", std::move(list));
}

ManagedEntry* find_entry(std::vector<ManagedEntry>* entries, const ManagedEntry& like) {
  for (ManagedEntry& e : *entries) {
    if (e.same_identity(like)) return &e;
  }
  return nullptr;
}

void drop_empty_entries(std::vector<ManagedEntry>* entries) {
  entries->erase(std::remove_if(entries->begin(), entries->end(), [](const ManagedEntry& e) { return e.set.empty(); }),
                 entries->end());
}

void cap_update_entries(std::vector<ManagedEntry>* entries, size_t limit) {
  for (;;) {
    std::vector<size_t> updates;
    for (size_t i = 0; i < entries->size(); ++i) {
      if (!(*entries)[i].apply) updates.push_back(i);
    }
    if (updates.size() <= limit) return;
    std::stable_sort(updates.begin(), updates.end(),
                     [&](size_t a, size_t b) { return (*entries)[a].time < (*entries)[b].time; });
    // The oldest becomes the bucket, or goes into the bucket of its version.
    ManagedEntry& oldest = (*entries)[updates[0]];
    const auto bucket = std::find_if(updates.begin() + 1, updates.end(),
                                     [&](size_t i) { return (*entries)[i].api_version == oldest.api_version; });
    if (bucket == updates.end()) return;
    ManagedEntry& into = (*entries)[*bucket];
    into.set.add(oldest.set);
    into.manager = kAncient;
    into.subresource.clear();
    entries->erase(entries->begin() + static_cast<std::ptrdiff_t>(updates[0]));
  }
}

}  // namespace ghostfleet::kube
