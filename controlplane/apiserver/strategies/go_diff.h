// The differences of two objects as a real API server shows them in refusals of updates: a unified diff of its internal
// form, pretty-printed with the internal names and order of fields.
//
// Thread rule: pure function.
#pragma once

#include <string>
#include <string_view>

#include "kube/api/json.h"

namespace ghostfleet::controlplane {

// `type` as in the field table ("core/v1.PodSpec"); the objects are of that type.
std::string go_diff(std::string_view type, const kube::Json& before, const kube::Json& after);

// The pretty-printed internal form.
std::string go_dump(std::string_view type, const kube::Json& value);

// The same on one line, as values are printed in findings.
std::string go_text(std::string_view type, const kube::Json& value);

// Unified diff of two texts with three lines of context, without file names.
std::string unified_diff(std::string_view before, std::string_view after);

}  // namespace ghostfleet::controlplane
