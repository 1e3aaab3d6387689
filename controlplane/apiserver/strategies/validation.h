// Helpers of validation: paths of fields, findings with the words of a real API server, and the checks many kinds
// share (metadata, labels, selectors, numbers, quantities).
//
// A Path lives on the stack and points to its parent: building one costs nothing; text is made only for a finding.
// Thread rule: plain values.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "kube/api/api_error.h"
#include "kube/api/json.h"

namespace ghostfleet::controlplane {

// The parent must outlive the child: keep each one that is used twice in a variable.
class Path {
 public:
  constexpr explicit Path(std::string_view name) : name_(name) {}

  // ".name"; may hold dots itself.
  constexpr Path child(std::string_view name) const { return Path(this, name, -1, {}); }
  // ".name[i]"
  constexpr Path child(std::string_view name, size_t i) const { return Path(this, name, static_cast<long>(i), {}); }
  // "[i]"
  constexpr Path index(size_t i) const { return Path(this, {}, static_cast<long>(i), {}); }
  // "[key]"
  constexpr Path key(std::string_view key) const { return Path(this, {}, -1, key, true); }

  std::string to_string() const;

 private:
  constexpr Path(const Path* parent, std::string_view name, long index, std::string_view key, bool keyed = false)
      : parent_(parent), name_(name), key_(key), index_(index), keyed_(keyed) {}
  void append(std::string* out) const;

  const Path* parent_ = nullptr;
  std::string_view name_, key_;
  long index_ = -1;
  bool keyed_ = false;
};

// "\"text\"", as Go's %q writes plain texts.
std::string quoted(std::string_view text);

class Findings {
 public:
  void required(const Path& path, std::string_view detail = {});
  void forbidden(const Path& path, std::string_view detail);
  // `value` as it is printed.
  void invalid(const Path& path, std::string value, std::string_view detail);
  void invalid_text(const Path& path, std::string_view value, std::string_view detail);
  void invalid_number(const Path& path, int64_t value, std::string_view detail);
  void not_supported(const Path& path, std::string_view value, std::initializer_list<std::string_view> supported);
  // `value` and `detail` as they are printed.
  void not_supported_value(const Path& path, std::string value, std::string_view detail);
  void type_invalid(const Path& path, std::string value, std::string_view detail);
  void duplicate(const Path& path, std::string_view text);
  void duplicate_value(const Path& path, std::string value);
  void not_found(const Path& path, std::string_view text, std::string detail = {});
  void too_long(const Path& path, size_t max);
  void too_many(const Path& path, size_t given, size_t max);
  // One "Invalid value" for each message.
  void messages(const Path& path, std::string_view value, const std::vector<std::string>& messages);

  // Adds the findings from number `first` on once more.
  void repeat_from(size_t first);

  bool empty() const { return errors_.empty(); }
  size_t size() const { return errors_.size(); }
  std::vector<kube::FieldError> take() { return std::move(errors_); }

 private:
  std::vector<kube::FieldError> errors_;
};

// ---- reading ------------------------------------------------------------------------------------------------------

// The member when `value` is an object and has it; null pointer else. JSON null counts as missing.
const kube::Json* member(const kube::Json& value, std::string_view key);
kube::Json* member(kube::Json& value, std::string_view key);
const kube::Json* member(const kube::Json* value, std::string_view key);
std::string_view text_of(const kube::Json& value, std::string_view key);  // "" when missing
const kube::JsonArray* array_of(const kube::Json& value, std::string_view key);
const kube::JsonObject* object_of(const kube::Json& value, std::string_view key);
int64_t int_of(const kube::Json& value, std::string_view key, int64_t fallback = 0);
bool bool_of(const kube::Json& value, std::string_view key);
bool is_integer(const kube::Json* value);
int64_t as_int(const kube::Json& value, int64_t fallback = 0);
std::string_view as_text(const kube::Json& value);
// Go's fmt of a map or slice of texts as JSON: {"a":"b"}.
std::string json_text(const kube::Json& value);

// ---- shared checks ------------------------------------------------------------------------------------------------

inline constexpr std::string_view kImmutable = "field is immutable";

// Metadata of a create; `name_messages` are the findings of the kind's own rule for the name.
void check_metadata(const kube::Json& object, bool namespaced, const std::vector<std::string>& name_messages,
                    Findings& out);
// A real server looks at the metadata of an update twice for all kinds, as at that of a new object and for what must
// not change; and then the kind does so itself in one of these ways. A finding is named each time.
enum class OwnMetadata : unsigned char { kUpdate, kFull, kBoth };
// Metadata of an update: what must not change, and all of check_metadata that can change.
void check_metadata_update(const kube::Json& object, const kube::Json& old, OwnMetadata own, Findings& out);

void check_labels(const kube::Json* labels, const Path& path, Findings& out);
void check_annotations(const kube::Json* annotations, const Path& path, Findings& out);
void check_label_selector(const kube::Json* selector, const Path& path, Findings& out);
bool selector_is_empty(const kube::Json* selector);

// Missing is fine.
void check_not_negative(const kube::Json& parent, std::string_view key, const Path& path, Findings& out);
void check_positive(const kube::Json& parent, std::string_view key, const Path& path, Findings& out);
void check_port(const kube::Json& value, const Path& path, Findings& out);
// Number or percentage ("25%") that is not negative.
void check_int_or_percent(const kube::Json* value, const Path& path, Findings& out);
void check_immutable(const kube::Json& object, const kube::Json& old, std::string_view key, const Path& path,
                     Findings& out);
bool equal_members(const kube::Json& a, const kube::Json& b, std::string_view key);
bool one_of(std::string_view value, std::initializer_list<std::string_view> allowed);

}  // namespace ghostfleet::controlplane
