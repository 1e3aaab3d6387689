// JSON for people: two spaces of indentation, as Go's MarshalIndent writes it.
#pragma once

#include <string>

#include "kube/api/json.h"

namespace ghostfleet::controlplane {

std::string pretty_json(const kube::Json& value);

}  // namespace ghostfleet::controlplane
