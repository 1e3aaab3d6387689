#include "agent/pod/behavior.h"

#include <charconv>

namespace ghostfleet::agent {

namespace {

constexpr Duration kLongest = std::chrono::hours(24 * 365);

bool parse_code(std::string_view text, int* out) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > 255) return false;
  *out = value;
  return true;
}

bool parse_codes(std::string_view text, std::vector<int>* out) {
  std::vector<int> codes;
  while (true) {
    const size_t comma = text.find(',');
    int code = 0;
    if (!parse_code(text.substr(0, comma), &code) || codes.size() == 1000) return false;
    codes.push_back(code);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  *out = std::move(codes);
  return true;
}

bool parse_span(std::string_view text, Duration* out) {
  Duration value{0};
  if (!parse_duration(text, &value) || value < Duration(0) || value > kLongest) return false;
  *out = value;
  return true;
}

// What is wrong with a word; empty when it was understood.
std::string_view apply_word(std::string_view key, std::string_view value, Script* script) {
  constexpr std::string_view kBadCode = "not an exit code from 0 to 255";
  constexpr std::string_view kBadSpan = "not a duration such as 5s or 1m30s";
  if (key == "exit") return parse_codes(value, &script->exits) ? "" : kBadCode;
  if (key == "stop") return parse_code(value, &script->stop) ? "" : kBadCode;
  if (key == "after") return parse_span(value, &script->after) ? "" : kBadSpan;
  if (key == "ready") return parse_span(value, &script->ready) ? "" : kBadSpan;
  if (key == "live") return parse_span(value, &script->live) ? "" : kBadSpan;
  if (key == "started") return parse_span(value, &script->started) ? "" : kBadSpan;
  if (key == "stop-after") {
    Duration d{0};
    if (!parse_span(value, &d)) return kBadSpan;
    script->stop_after = d;
    return "";
  }
  return "unknown word; known are exit, after, stop, stop-after, ready, live, started";
}

}  // namespace

Script parse_script(std::string_view text, Script defaults, std::vector<std::string>* problems) {
  constexpr std::string_view kSpace = " \t\r\n";
  Script script = std::move(defaults);
  while (true) {
    const size_t from = text.find_first_not_of(kSpace);
    if (from == std::string_view::npos) return script;
    text.remove_prefix(from);
    const std::string_view word = text.substr(0, text.find_first_of(kSpace));
    text.remove_prefix(word.size());
    const size_t equals = word.find('=');
    const std::string_view value = equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
    const std::string_view wrong = apply_word(word.substr(0, equals), value, &script);
    if (!wrong.empty() && problems != nullptr && problems->size() < 8) {
      problems->push_back(std::string(word.substr(0, 64)) + ": " + std::string(wrong));
    }
  }
}

}  // namespace ghostfleet::agent
