#include "kube/api/managed_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "kube/api/apply_walk.h"
#include "kube/api/managed_entries.h"

namespace ghostfleet::kube {
namespace {

constexpr const char* kBeforeFirstApply = "before-first-apply";
constexpr const char* kLastApplied = "kubectl.kubernetes.io/last-applied-configuration";

// What nobody owns: identity and bookkeeping.
const FieldSet& never_owned() {
  static const FieldSet set = [] {
    FieldSet out;
    for (const char* top : {"f:apiVersion", "f:kind", "f:metadata"}) out.insert({top});
    for (const char* name : {"name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation",
                             "managedFields", "resourceVersion"}) {
      out.insert({"f:metadata", std::string("f:") + name});
    }
    return out;
  }();
  return set;
}

ApiError typed_error(const Json& config, const KindInfo& kind, const std::vector<std::string>& problems) {
  std::string text = problems[0];
  if (problems.size() > 1) {
    text = "errors:";
    for (const std::string& p : problems) text += "\n  " + p;
  }
  ApiError e;
  e.code = 500;
  e.reason = "";
  e.message = fmt::format("failed to create typed patch object ({}/{}; {}/{}, Kind={}): {}",
                          get_string(config, "metadata.namespace"), get_string(config, "metadata.name"), kind.group,
                          kind.version, kind.kind, text);
  return e;
}

Json without_managed_fields(Json object) {
  erase_path(object, "metadata.managedFields");
  return object;
}

struct Conflict {
  std::string title;
  FieldPath path;
};

ApiError conflict_error(std::vector<Conflict> conflicts) {
  std::stable_sort(conflicts.begin(), conflicts.end(),
                   [](const Conflict& a, const Conflict& b) { return a.title < b.title; });
  ApiError e;
  e.code = 409;
  e.reason = "Conflict";
  for (const Conflict& c : conflicts) {
    e.causes.push_back({"FieldManagerConflict", "conflict with " + c.title, path_text(c.path)});
  }
  if (conflicts.size() == 1) {
    e.message = fmt::format("Apply failed with 1 conflict: conflict with {}: {}", conflicts[0].title,
                            path_text(conflicts[0].path));
    return e;
  }
  e.message = fmt::format("Apply failed with {} conflicts: ", conflicts.size());
  for (size_t i = 0; i < conflicts.size(); ++i) {
    if (i > 0) e.message += '\n';
    if (i == 0 || conflicts[i].title != conflicts[i - 1].title) {
      e.message += "conflicts with " + conflicts[i].title + ":\n";
    }
    e.message += "- " + path_text(conflicts[i].path);
  }
  return e;
}

std::string_view group_of(std::string_view api_version) {
  const size_t slash = api_version.find('/');
  return slash == std::string_view::npos ? std::string_view() : api_version.substr(0, slash);
}

// What was owned through another group's form of the object (an Event has two) cannot be told in this one's fields: the
// entry goes with the next write.
void drop_other_groups(const ManagedEntry& mine, std::vector<ManagedEntry>* entries) {
  const std::string_view group = group_of(mine.api_version);
  entries->erase(std::remove_if(entries->begin(), entries->end(),
                                [&](const ManagedEntry& e) { return group_of(e.api_version) != group; }),
                 entries->end());
}

// Takes what changed away from everybody but `mine`. Conflicts are what others owned of it.
std::vector<Conflict> take_from_others(const Comparison& change, const ManagedEntry& mine, bool only_look,
                                       std::vector<ManagedEntry>* entries) {
  FieldSet written = change.modified;
  written.add(change.added);
  std::vector<Conflict> conflicts;
  if (!only_look) drop_other_groups(mine, entries);
  for (ManagedEntry& e : *entries) {
    if (e.same_identity(mine)) continue;
    const FieldSet lost = e.set.common(written);
    for (FieldPath& path : lost.paths()) conflicts.push_back({e.title(), std::move(path)});
    if (!only_look) e.set = e.set.without(lost).without(change.removed);
  }
  return conflicts;
}

// One Update by `who`: the shared heart of record_update and of before-first-apply.
void note_update(const Json& before, const Json& after, const Shape& shape, const ManagedEntry& who,
                 std::vector<ManagedEntry>* entries) {
  const Comparison change = compare_values(before, after, shape);
  take_from_others(change, who, false, entries);
  FieldSet written = change.modified;
  written.add(change.added);
  written = written.without(change.removed).without(never_owned());
  ManagedEntry* mine = find_entry(entries, who);
  if (mine != nullptr) mine->set = mine->set.without(change.removed);
  if (!written.empty()) {
    if (mine == nullptr) {
      entries->push_back(who);
      mine = &entries->back();
    }
    mine->set.add(written);
    mine->time = who.time;
  }
  drop_empty_entries(entries);
  cap_update_entries(entries, kMaxUpdateManagers);
}

ManagedEntry entry_of(const ApplyOptions& options, bool apply) {
  ManagedEntry e;
  e.manager = options.manager;
  e.apply = apply;
  e.api_version = options.api_version;
  e.subresource = options.subresource;
  e.time = format_time(options.now);
  return e;
}

// Drops from `merged` what the manager owned by its last apply, leaves out now, and nobody else owns.
Json prune(const Json& merged, const FieldSet& last, const std::vector<ManagedEntry>& entries, const Shape& shape) {
  if (last.empty()) return merged;
  FieldSet managed;
  for (const ManagedEntry& e : entries) managed.add(e.set);
  const FieldSet last_named = with_named_parents(last, shape);
  const FieldSet everything = with_named_parents(field_set_of(merged, shape), shape);
  const auto named_set = [&](const Json& value) { return with_named_parents(field_set_of(value, shape), shape); };
  FieldSet keep = named_set(remove_fields(merged, last_named, shape));
  keep.add(with_named_parents(managed, shape));
  const Json with_owned = remove_fields(merged, everything.without(keep), shape);
  // What no longer hangs on anything, but was not this manager's, stays.
  const FieldSet gone = everything.without(named_set(with_owned)).common(last_named);
  return remove_fields(merged, gone, shape);
}

// Fields kubectl's own client-side apply set: its first server-side apply may take them over.
FieldSet last_applied_fields(const Json& live, const Shape& shape) {
  const JsonObject* annotations = get_object(live, "metadata.annotations");
  const Json* text = annotations != nullptr ? annotations->if_contains(kLastApplied) : nullptr;
  if (text == nullptr || !text->is_string()) return {};
  JsonParseOptions options;
  options.max_depth = 200;
  Result<Json> config = parse_json(text->get_string(), options);
  return config.ok() && config->is_object() ? field_set_of(*config, shape) : FieldSet();
}

void update_last_applied(const Json& live, const Json& config, Json* object) {
  const JsonObject* annotations = get_object(live, "metadata.annotations");
  if (annotations == nullptr || !annotations->contains(kLastApplied)) return;
  Json plain = without_managed_fields(config);
  if (JsonObject* own = const_cast<JsonObject*>(get_object(plain, "metadata.annotations"))) own->erase(kLastApplied);
  ensure_object(*object, "metadata.annotations")[kLastApplied] = to_json(plain) + "\n";
}

class Applier {
 public:
  Applier(const Json& live, const Json& config, const Shape& shape, const ApplyOptions& options)
      : live_(live), config_(config), shape_(shape), options_(options) {}

  ApiResult<Json> apply(const Json& zero) {
    const bool fresh = live_.is_null();
    const Json base = without_managed_fields(fresh ? zero : live_);
    if (!decode_entries(live_, &entries_)) entries_.clear();
    if (entries_.empty() && !fresh) adopt_unowned(zero, base);
    const ManagedEntry me = entry_of(options_, true);
    const ManagedEntry* previous = find_entry(&entries_, me);
    const FieldSet last = previous != nullptr ? previous->set : FieldSet();
    const std::string last_time = previous != nullptr ? previous->time : "";
    Json merged = merge_values(base, config_, shape_);
    ManagedEntry& mine = own_entry(me);
    mine.set = field_set_of(config_, shape_).without(never_owned());
    mine.api_version = options_.api_version;
    merged = prune(merged, last, entries_, shape_);
    if (merged.is_null()) merged = JsonObject();
    const Comparison change = compare_values(base, merged, shape_);
    if (std::vector<Conflict> conflicts = refused(change, me); !conflicts.empty()) {
      return conflict_error(std::move(conflicts));
    }
    // An apply that changes nothing leaves the entry's time as it was.
    const bool same = json_equal(base, merged);
    own_entry(me).time = same && !fresh ? last_time : me.time;
    take_from_others(change, me, false, &entries_);
    drop_empty_entries(&entries_);
    if (options_.manager == "kubectl" && options_.subresource.empty()) update_last_applied(base, config_, &merged);
    encode_entries(entries_, &merged);
    return merged;
  }

 private:
  // Fields set before anybody kept track belong to one entry.
  void adopt_unowned(const Json& zero, const Json& base) {
    ManagedEntry who = entry_of(options_, false);
    who.manager = kBeforeFirstApply;
    note_update(zero, base, shape_, who, &entries_);
  }

  ManagedEntry& own_entry(const ManagedEntry& me) {
    ManagedEntry* mine = find_entry(&entries_, me);
    if (mine == nullptr) {
      entries_.push_back(me);
      mine = &entries_.back();
    }
    return *mine;
  }

  // The conflicts that stand in the way.
  std::vector<Conflict> refused(const Comparison& change, const ManagedEntry& me) {
    if (options_.force) return {};
    std::vector<Conflict> conflicts = take_from_others(change, me, true, &entries_);
    if (conflicts.empty() || options_.manager != "kubectl") return conflicts;
    const FieldSet allowed = last_applied_fields(live_, shape_);
    conflicts.erase(std::remove_if(conflicts.begin(), conflicts.end(),
                                   [&](const Conflict& c) {
                                     FieldSet one;
                                     one.insert(c.path);
                                     return one.without(allowed).empty();
                                   }),
                    conflicts.end());
    return conflicts;
  }

  const Json& live_;
  const Json& config_;
  const Shape& shape_;
  const ApplyOptions& options_;
  std::vector<ManagedEntry> entries_;
};

// A request that sends [{}] asks for a clean slate.
bool is_reset(const Json& object) {
  const JsonArray* list = get_array(object, "metadata.managedFields");
  return list != nullptr && list->size() == 1 && (*list)[0].is_object() && (*list)[0].get_object().empty();
}

// Ownership so far: the request's own when it brings a valid one, else the live object's.
std::vector<ManagedEntry> entries_before(const Json& before, const Json& after, bool subresource) {
  std::vector<ManagedEntry> entries;
  if (!subresource) {
    if (is_reset(after)) return entries;
    if (decode_entries(after, &entries) && !entries.empty()) return entries;
    entries.clear();
  }
  if (!decode_entries(before, &entries)) entries.clear();
  return entries;
}

Json zero_of(const ApplySchema& schema, const Json& like) {
  Json zero = zero_object(schema.type);
  for (const char* key : {"apiVersion", "kind"}) {
    if (const Json* value = find_key(like, key)) zero.get_object().insert_or_assign(key, *value);
  }
  return zero;
}

}  // namespace

ApiResult<Json> server_side_apply(const Json& live, const Json& config, const KindInfo& kind, const ApplySchema& schema,
                                  const ApplyOptions& options) {
  const Shape shape = root_shape(schema);
  if (std::vector<std::string> problems = typed_problems(config, shape); !problems.empty()) {
    return typed_error(config, kind, problems);
  }
  return Applier(live, config, shape, options).apply(zero_of(schema, config));
}

void record_update(const Json& before, Json* after, const ApplySchema& schema, const ApplyOptions& options) {
  std::vector<ManagedEntry> entries = entries_before(before, *after, !options.subresource.empty());
  Json fresh = without_managed_fields(std::move(*after));
  const bool create = before.is_null();
  if (create || !entries.empty()) {
    const Json base = create ? zero_of(schema, fresh) : without_managed_fields(before);
    note_update(base, fresh, root_shape(schema), entry_of(options, false), &entries);
  }
  *after = std::move(fresh);
  encode_entries(std::move(entries), after);
}

}  // namespace ghostfleet::kube
