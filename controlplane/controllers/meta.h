// What controllers read from objects again and again: metadata, owners, conditions; and small builders.
//
// Thread rule: pure functions and plain values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "controlplane/store/store.h"
#include "kube/api/json.h"
#include "kube/api/selector.h"

namespace ghostfleet::controlplane::controllers {

struct OwnerRef {
  std::string api_version, kind, name, uid;
  bool controller = false;
  bool block = false;  // blockOwnerDeletion
};

std::vector<OwnerRef> owners_of(const kube::Json& object);
std::optional<OwnerRef> controller_of(const kube::Json& object);
// An ownerReferences entry that makes `owner` (decoded, with kind) the controller.
kube::JsonObject controller_ref_to(const kube::Json& owner);

bool is_deleting(const kube::Json& object);
bool has_finalizer(const kube::Json& object, std::string_view finalizer);
bool remove_finalizer(kube::Json& object, std::string_view finalizer);  // true when it was there
std::string_view annotation(const kube::Json& object, std::string_view key);
std::string_view label(const kube::Json& object, std::string_view key);
void set_annotation(kube::Json& object, std::string_view key, std::string_view value);
void set_label(kube::Json& object, std::string_view key, std::string_view value);
int64_t annotation_int(const kube::Json& object, std::string_view key, int64_t fallback);

// The text of a time at a path as nanoseconds since 1970; 0 when there is none.
int64_t time_at(const kube::Json& object, std::string_view path);

// The entry of status.conditions (or of any array with `type`s); null pointer when missing.
const kube::JsonObject* find_condition(const kube::Json& object, std::string_view type);
std::string_view condition_text(const kube::Json& object, std::string_view type, std::string_view field);
// Sets a condition; lastTransitionTime moves only when the status changes. True when anything changed. `micro`: extra
// fields are left to the caller.
bool set_condition(kube::Json& object, std::string_view type, std::string_view status, std::string_view reason,
                   std::string_view message, WallTime now, bool with_update_time = false);
bool remove_condition(kube::Json& object, std::string_view type);

// Matches a stored object's extracted labels.
bool matches(const kube::LabelSelector& selector, const Object& object);
const std::string* label_of(const Object& object, std::string_view key);
kube::LabelSelector selector_of(const kube::Json* selector);  // broken or missing ones match nothing
kube::LabelSelector selector_from_map(const kube::JsonObject* labels);

std::string key_of(std::string_view ns, std::string_view name);
std::pair<std::string_view, std::string_view> split_key(std::string_view key);

// "25%" of `total` or a number; rounding as asked. A missing or broken value is `fallback`.
int64_t int_or_percent(const kube::Json* value, int64_t total, bool round_up, int64_t fallback);

// Decodes stored bytes; null on our own corrupt bytes (logged).
kube::Json parse_object(const ObjectRef& object);

// A name suffix of `n` characters from the alphabet generateName uses.
std::string random_suffix(uint64_t random, int n = 5);

}  // namespace ghostfleet::controlplane::controllers
