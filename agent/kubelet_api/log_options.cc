#include "agent/kubelet_api/log_options.h"

#include <fmt/format.h>

#include <charconv>

#include "kube/http/message.h"

namespace ghostfleet::kubelet_api {
namespace {

bool parse_number(std::string_view text, int64_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

// As an API server reads a boolean of a query: present without a value is true, "false" and "0" are not.
bool parse_flag(std::string_view text) { return text != "false" && text != "0"; }

struct Reader {
  LogOptions options;
  std::optional<int64_t> since_seconds;

  // False: the value is of the wrong type.
  bool take(std::string_view key, std::string_view value) {
    if (key == "follow") options.follow = parse_flag(value);
    if (key == "previous") options.previous = parse_flag(value);
    if (key == "timestamps") options.timestamps = parse_flag(value);
    if (key == "stream") return take_stream(value);
    if (key == "sinceTime") {
      WallTime t;
      if (!parse_time(value, &t)) return false;
      options.since = t;
    }
    if (key == "tailLines") return take_number(value, &options.tail_lines);
    if (key == "limitBytes") return take_number(value, &options.limit_bytes);
    if (key == "sinceSeconds") return take_number(value, &since_seconds);
    return true;
  }
  bool take_stream(std::string_view value) {
    options.out = value != "Stderr";
    options.err = value != "Stdout";
    return value == "All" || value == "Stdout" || value == "Stderr" || value.empty();
  }
  static bool take_number(std::string_view value, std::optional<int64_t>* out) {
    int64_t n = 0;
    if (!parse_number(value, &n)) return false;
    *out = n;
    return true;
  }
};

}  // namespace

Result<LogOptions> parse_log_options(std::string_view query, WallTime now, bool* unprocessable) {
  Reader reader;
  *unprocessable = false;
  for (const auto& [key, value] : kube::http::parse_query(query)) {
    if (reader.take(key, value)) continue;
    *unprocessable = key == "stream";
    return invalid_argument(fmt::format("{}: invalid value \"{}\"", key, value));
  }
  LogOptions& o = reader.options;
  *unprocessable = (o.tail_lines && *o.tail_lines < 0) || (o.limit_bytes && *o.limit_bytes < 1) ||
                   (reader.since_seconds && *reader.since_seconds < 1) || (reader.since_seconds && o.since) ||
                   ((!o.out || !o.err) && o.tail_lines);
  if (*unprocessable) return invalid_argument("Invalid request.");
  if (reader.since_seconds) {
    constexpr int64_t kLongest = 100LL * 365 * 24 * 3600;
    o.since = now - std::chrono::seconds(std::min(*reader.since_seconds, kLongest));
  }
  return o;
}

}  // namespace ghostfleet::kubelet_api
