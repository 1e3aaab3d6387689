#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>

namespace ghostfleet {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kWarn};

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>("ghostfleet", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
    made->set_level(spdlog::level::debug);
    return made;
  }();
  return *instance;
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarn: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

void set_log_level(LogLevel level) { g_level = level; }

bool parse_log_level(std::string_view text, LogLevel* level) {
  if (text == "debug")
    *level = LogLevel::kDebug;
  else if (text == "info")
    *level = LogLevel::kInfo;
  else if (text == "warn")
    *level = LogLevel::kWarn;
  else if (text == "error")
    *level = LogLevel::kError;
  else
    return false;
  return true;
}

bool log_enabled(LogLevel level) { return level >= g_level.load(std::memory_order_relaxed); }

void log_line(LogLevel level, std::string_view component, std::string_view text) {
  if (!log_enabled(level)) return;
  logger().log(spdlog_level(level), "{}: {}", component, text);
}

}  // namespace ghostfleet
