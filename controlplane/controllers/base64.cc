#include "controlplane/controllers/base64.h"

#include <cstdint>

namespace ghostfleet::controlplane::controllers {

std::string base64(std::string_view bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = static_cast<unsigned char>(bytes[i]) << 16;
    if (i + 1 < bytes.size()) word |= static_cast<unsigned char>(bytes[i + 1]) << 8;
    if (i + 2 < bytes.size()) word |= static_cast<unsigned char>(bytes[i + 2]);
    out.push_back(kDigits[word >> 18]);
    out.push_back(kDigits[(word >> 12) & 63]);
    out.push_back(i + 1 < bytes.size() ? kDigits[(word >> 6) & 63] : '=');
    out.push_back(i + 2 < bytes.size() ? kDigits[word & 63] : '=');
  }
  return out;
}

}  // namespace ghostfleet::controlplane::controllers
