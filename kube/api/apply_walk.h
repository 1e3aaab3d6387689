// Walks over values by their Shape: sets of owned fields, comparison, merging, removal. Internal to kube/api.
#pragma once

#include <string>
#include <vector>

#include "kube/api/apply_shape.h"
#include "kube/api/field_set.h"

namespace ghostfleet::kube {

// The element of a keyed list or set a value is: `k:{...}`, `v:...`. Empty with `error` set when it has no key.
std::string list_element(const Shape& list, const Json& value, size_t index, std::string* error);

// What is wrong with a configuration: undeclared fields, duplicate or keyless elements; empty: nothing.
std::vector<std::string> typed_problems(const Json& value, const Shape& shape);

// Every field the value has an opinion on.
FieldSet field_set_of(const Json& value, const Shape& shape);

struct Comparison {
  FieldSet added, modified, removed;
};
Comparison compare_values(const Json& before, const Json& after, const Shape& shape);

// `live` overlaid with `config`.
Json merge_values(const Json& live, const Json& config, const Shape& shape);

// Without the fields in `set`; what becomes empty by that is null and dropped.
Json remove_fields(const Json& value, const FieldSet& set, const Shape& shape);

// The same set with every named field on the way to a path in it.
FieldSet with_named_parents(const FieldSet& set, const Shape& shape);

}  // namespace ghostfleet::kube
