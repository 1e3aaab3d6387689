// The log: one line an entry, to standard error, "LEVEL component: text". Quiet by default (warnings and errors); -v
// and the variable GHOSTFLEET_LOG (error, warn, info, debug) say more. Secrets never go in: whoever logs a header or a
// kubeconfig field leaves tokens, keys and passwords out.
//
// Thread rule: any thread.
#pragma once

#include <string>
#include <string_view>

namespace ghostfleet {

enum class LogLevel : unsigned char { kDebug, kInfo, kWarn, kError };

void set_log_level(LogLevel level);
bool parse_log_level(std::string_view text, LogLevel* level);
bool log_enabled(LogLevel level);
void log_line(LogLevel level, std::string_view component, std::string_view text);

inline void log_debug(std::string_view component, std::string_view text) {
  log_line(LogLevel::kDebug, component, text);
}
inline void log_info(std::string_view component, std::string_view text) { log_line(LogLevel::kInfo, component, text); }
inline void log_warn(std::string_view component, std::string_view text) { log_line(LogLevel::kWarn, component, text); }
inline void log_error(std::string_view component, std::string_view text) {
  log_line(LogLevel::kError, component, text);
}

}  // namespace ghostfleet
