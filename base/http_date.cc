#include "base/http_date.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <string>

namespace ghostfleet {

std::optional<int64_t> parse_http_date(std::string_view text) {
  std::tm parts{};
  const std::string copy(text);
  const char* end = strptime(copy.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return timegm(&parts);
}

std::optional<Duration> retry_after_of(std::string_view text, WallTime now) {
  const int64_t longest = kLongestRetryAfter / std::chrono::seconds(1);
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (!text.empty() && error == std::errc() && end == text.data() + text.size()) {
    if (seconds < 0) return std::nullopt;
    return std::chrono::seconds(std::min(seconds, longest));
  }
  const std::optional<int64_t> at = parse_http_date(text);
  if (!at) return std::nullopt;
  const Duration whole = std::chrono::seconds(std::clamp(*at - now.seconds(), int64_t{0}, longest));
  return std::max(whole - Duration(now.ns % 1000000000), Duration(0));
}

}  // namespace ghostfleet
