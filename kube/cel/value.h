// Value: what an expression of CEL comes to. Lists and maps are shared and immutable, so that a value is cheap to copy.
//
// Beside CEL's own types there are those Kubernetes adds: Quantity, Semver, and optional values.
// Thread rule: plain values. Source: the CEL specification; k8s.io/apiserver/pkg/cel/library by its documentation.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "kube/api/json.h"
#include "kube/api/quantity.h"

namespace ghostfleet::kube::cel {

// A semantic version 2.0.0: major.minor.patch, pre-release; build metadata does not count.
class Semver {
 public:
  static Result<Semver> parse(std::string_view text);
  uint64_t major() const { return major_; }
  uint64_t minor() const { return minor_; }
  uint64_t patch() const { return patch_; }
  int compare(const Semver& other) const;  // -1, 0, 1: a pre-release comes before its version

 private:
  uint64_t major_ = 0, minor_ = 0, patch_ = 0;
  std::vector<std::string> pre_;
};

class Value;
using List = std::vector<Value>;
// Keys are strings here: maps with other keys are refused when they are made.
using Map = std::map<std::string, Value, std::less<>>;

class Value {
 public:
  struct Null {
    friend bool operator==(const Null&, const Null&) = default;
  };
  struct Optional {
    std::shared_ptr<const Value> value;  // null: there is none
  };

  Value() : data_(Null{}) {}
  explicit Value(bool v) : data_(v) {}
  explicit Value(int64_t v) : data_(v) {}
  explicit Value(uint64_t v) : data_(v) {}
  explicit Value(double v) : data_(v) {}
  explicit Value(std::string v) : data_(std::move(v)) {}
  explicit Value(Quantity v) : data_(v) {}
  explicit Value(Semver v) : data_(std::move(v)) {}
  static Value list(List items);
  static Value map(Map items);
  // A map whose missing keys are empty maps.
  static Value map_of_maps(Map items);
  static Value optional(std::optional<Value> v);
  // Null, booleans, numbers, strings, lists and objects.
  static Value from_json(const Json& json);

  template <typename T>
  const T* as() const {
    return std::get_if<T>(&data_);
  }
  const List* as_list() const;
  const Map* as_map() const;
  // Of a map: its value; null when there is none.
  const Value* find(std::string_view key) const;
  bool is_null() const { return std::holds_alternative<Null>(data_); }
  bool is_number() const;
  // "string", "int", "map", ... as messages name it.
  std::string_view type_name() const;

 private:
  struct Object {
    Map items;
    bool defaults_to_map = false;
  };
  std::variant<Null, bool, int64_t, uint64_t, double, std::string, std::shared_ptr<const List>,
               std::shared_ptr<const Object>, Quantity, Semver, Optional>
      data_;
};

// As == does: numbers by their value whatever their type, values of different types are not equal.
bool equals(const Value& a, const Value& b);
// -1, 0, 1; nothing: the types have no order, or not with each other (or one is no number).
std::optional<int> compare(const Value& a, const Value& b);

}  // namespace ghostfleet::kube::cel
