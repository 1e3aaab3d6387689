// TypedReader: JSON text straight to the decoded form of a type (see codec.h), in one pass, as a real API server reads
// it: exact field names, null as "not given", the first wrong JSON type reported with Go's words and path, unknown and
// duplicate fields collected in the order of the text.
//
// Thread rule: one reader, one text, one call of read_*().
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "kube/api/field_table.h"
#include "kube/api/json.h"
#include "kube/api/json_scanner.h"
#include "kube/api/typed_object.h"

namespace ghostfleet::kube {

class TypedReader {
 public:
  explicit TypedReader(std::string_view text) : scan_(text) {}

  // The whole text as a value of `type`; a JSON null is an empty object. False when the text is no JSON:
  // syntax_error().
  bool read(const TypeInfo& type, Json* out);
  // The whole text as a custom resource: metadata is typed, the rest is kept.
  bool read_custom(Json* out);

  const std::string& syntax_error() const { return scan_.error(); }
  // Why apiVersion or kind could not be made out; empty: they could.
  const std::string& meta_error() const { return meta_error_; }
  // The first wrong JSON type or unreadable value; empty: none.
  const std::string& type_error() const { return fatal_error_.empty() ? saved_error_ : fatal_error_; }
  // `unknown field "x"`, `duplicate field "y"`: at most 100.
  std::vector<std::string>& strict_errors() { return strict_errors_; }
  std::vector<std::string>* unknown_paths = nullptr;  // when given: the paths of unknown fields

 private:
  // Where the reader is: a field, an array index or a map key.
  struct Step {
    const TypeInfo* type = nullptr;
    const FlatField* field = nullptr;
    int index = -1;
    std::string_view key;
  };

  bool read_struct(const TypeInfo& type, Json* out);
  bool read_members(const TypeInfo& type);
  bool read_member(const TypeInfo& type, std::string_view key, uint64_t* seen, size_t base);
  void put(int field, Json value, bool repeated, size_t base);
  bool read_root_meta(std::string_view key, Json* out);

  bool read_field(const FieldInfo& field, Json* out);
  bool read_list(const FieldInfo& field, Json* out);
  bool read_map(const FieldInfo& field, Json* out);
  bool read_map_value(const FieldInfo& field, Json* out);
  bool read_one(const FieldInfo& field, Json* out);
  bool read_any(Json* out);
  bool read_any_object(Json* out);
  bool read_any_array(Json* out);
  bool read_any_number(Json* out);

  // typed_scalars.cc
  bool read_scalar(const FieldInfo& field, Json* out);
  bool read_text(const FieldInfo& field, Json* out);
  bool read_bool(const FieldInfo& field, Json* out);
  bool read_integer(std::string_view go_type, bool wide, bool fatal, Json* out);
  bool read_double(const FieldInfo& field, Json* out);
  bool read_bytes(const FieldInfo& field, Json* out);
  bool read_time(bool micro, Json* out);
  bool read_duration(Json* out);
  bool read_quantity(Json* out);
  bool read_int_or_string(Json* out);
  bool read_schema(const FieldInfo& field, Json* out);

  bool null_next() { return scan_.peek() == 'n'; }
  bool skip_null(Json* out) {
    *out = nullptr;
    return scan_.read_word("null");
  }
  // Notes that the value at hand should have been a `go_type`, and passes over it.
  bool wrong_type(std::string_view go_type, bool fatal);
  bool wrong_number(std::string_view raw, std::string_view go_type, bool fatal);
  void note_error(std::string text, bool fatal);
  std::string found_here() const;
  std::string go_context(std::string_view go_type) const;
  std::string path() const;
  void strict(std::string_view what, std::string_view key);

  JsonScanner scan_;
  std::vector<Step> steps_;
  std::vector<FieldSlot> slots_;
  int depth_ = 0;
  int lenient_ = 0;           // > 0: inside a value whose unknown fields a real server does not look for
  bool custom_meta_ = false;  // inside a custom resource's metadata, whose findings are told last
  std::vector<std::string> meta_strict_errors_;
  std::string meta_error_;
  std::string saved_error_;
  std::string fatal_error_;
  std::vector<std::string> strict_errors_;
  std::unordered_set<std::string> seen_errors_;
};

}  // namespace ghostfleet::kube
