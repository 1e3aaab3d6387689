// Numbers between text and Json.
#pragma once

#include <string>
#include <string_view>

#include "kube/api/json.h"

namespace ghostfleet::kube {

// The value of a JSON number literal: int64 or uint64 when it is whole and fits, else double. False when it is beyond
// a double.
bool number_from_text(std::string_view raw, bool integer, Json* out);

// A double as Go's encoding/json writes it.
void append_double(double value, std::string* out);
void append_int(int64_t value, std::string* out);

}  // namespace ghostfleet::kube
