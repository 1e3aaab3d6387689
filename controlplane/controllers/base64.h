// Base64 with padding, as JSON writes bytes.
#pragma once

#include <string>
#include <string_view>

namespace ghostfleet::controlplane::controllers {

std::string base64(std::string_view bytes);

}  // namespace ghostfleet::controlplane::controllers
