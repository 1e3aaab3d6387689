// FieldSet: a set of paths into an object, as managedFields names them, and its FieldsV1 form. Internal to kube/api.
//
// A path is a row of elements written as FieldsV1 writes them: "f:spec", `k:{"name":"c"}`, `v:"x"`, "i:0".
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kube/api/json.h"

namespace ghostfleet::kube {

using FieldPath = std::vector<std::string>;

class FieldSet {
 public:
  bool empty() const;  // holds no path at all
  void insert(const FieldPath& path);
  bool has(const std::string& element) const;               // the path of that one element
  const FieldSet* child(const std::string& element) const;  // what lies below; null: nothing
  void add(const FieldSet& other);
  FieldSet without(const FieldSet& other) const;
  FieldSet common(const FieldSet& other) const;
  // All paths, in order.
  std::vector<FieldPath> paths() const;

  const std::map<std::string, FieldSet>& children() const { return children_; }
  bool member() const { return member_; }
  FieldSet& below(const std::string& element) { return children_[element]; }
  void set_member(bool member) { member_ = member; }

  Json to_fields_v1() const;
  // False when the text is no FieldsV1 (nothing is taken then).
  static bool from_fields_v1(const Json& fields, FieldSet* out);

 private:
  void tidy();  // drops children that hold nothing

  bool member_ = false;  // the path that leads here is in the set
  std::map<std::string, FieldSet> children_;
};

// `.spec.containers[name="c"].image`
std::string path_text(const FieldPath& path);

}  // namespace ghostfleet::kube
