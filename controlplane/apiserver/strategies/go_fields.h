// Names and order of the fields of the API server's internal types, as they show in the differences of refused updates.
// Read from the type definitions of Kubernetes 1.36; facts only.
//
// Thread rule: constant data.
#pragma once

#include <string_view>

namespace ghostfleet::controlplane {

// One type per entry: "Type Field:jsonName:kind ..."; lines that begin with two spaces go on with the entry above. An
// empty jsonName is the field's name with a small first letter. Kinds: s text, i number, b bool, y bytes, q quantity,
// t time, x int-or-string, m a type that has JSON names of its own, M metadata laid flat, S<Type> struct; prefixes
// * pointer, [ list, { map.
extern const std::string_view kGoFields;

}  // namespace ghostfleet::controlplane
