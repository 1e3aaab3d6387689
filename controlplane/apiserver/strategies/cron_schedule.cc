#include "controlplane/apiserver/strategies/cron_schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <filesystem>
#include <vector>

#include "base/clock.h"
#include "controlplane/apiserver/strategies/validation.h"

namespace ghostfleet::controlplane {

namespace {

struct Bounds {
  int min, max;
  const std::array<std::string_view, 12>* names;
  int first_name;
};

constexpr std::array<std::string_view, 12> kMonths = {"jan", "feb", "mar", "apr", "may", "jun",
                                                      "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr std::array<std::string_view, 12> kDays = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};
constexpr std::array<Bounds, 5> kFields = {Bounds{0, 59, nullptr, 0}, Bounds{0, 23, nullptr, 0},
                                           Bounds{1, 31, nullptr, 0}, Bounds{1, 12, &kMonths, 1},
                                           Bounds{0, 6, &kDays, 0}};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  size_t start = 0;
  while (true) {
    size_t end = text.find(separator, start);
    out.push_back(text.substr(start, end == std::string_view::npos ? end : end - start));
    if (end == std::string_view::npos) return out;
    start = end + 1;
  }
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> out;
  for (std::string_view word : split(text, ' ')) {
    if (!word.empty()) out.push_back(word);
  }
  return out;
}

std::string read_number(std::string_view text, int* out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  if (error != std::errc() || end != text.data() + text.size()) {
    return fmt::format("failed to parse int from {}: strconv.Atoi: parsing {}: invalid syntax", text, quoted(text));
  }
  if (*out < 0) return fmt::format("negative number ({}) not allowed: {}", *out, text);
  return {};
}

std::string read_value(std::string_view text, const Bounds& bounds, int* out) {
  if (bounds.names != nullptr) {
    std::string lower(text);
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    for (size_t i = 0; i < bounds.names->size(); ++i) {
      if (!(*bounds.names)[i].empty() && (*bounds.names)[i] == lower) {
        *out = static_cast<int>(i) + bounds.first_name;
        return {};
      }
    }
  }
  return read_number(text, out);
}

std::string check_range(std::string_view expression, const Bounds& bounds) {
  std::vector<std::string_view> range_and_step = split(expression, '/');
  std::vector<std::string_view> low_high = split(range_and_step[0], '-');
  bool single = low_high.size() == 1;
  int start = bounds.min;
  int end = bounds.max;
  if (low_high[0] != "*" && low_high[0] != "?") {
    if (std::string error = read_value(low_high[0], bounds, &start); !error.empty()) return error;
    end = start;
    if (low_high.size() == 2) {
      if (std::string error = read_value(low_high[1], bounds, &end); !error.empty()) return error;
    } else if (low_high.size() > 2) {
      return fmt::format("too many hyphens: {}", expression);
    }
  }
  int step = 1;
  if (range_and_step.size() == 2) {
    if (std::string error = read_number(range_and_step[1], &step); !error.empty()) return error;
    if (single) end = bounds.max;
  } else if (range_and_step.size() > 2) {
    return fmt::format("too many slashes: {}", expression);
  }
  if (start < bounds.min)
    return fmt::format("beginning of range ({}) below minimum ({}): {}", start, bounds.min, expression);
  if (end > bounds.max) return fmt::format("end of range ({}) above maximum ({}): {}", end, bounds.max, expression);
  if (start > end) return fmt::format("beginning of range ({}) beyond end of range ({}): {}", start, end, expression);
  if (step == 0) return fmt::format("step of range should be a positive number: {}", expression);
  return {};
}

std::string check_descriptor(std::string_view text) {
  if (one_of(text, {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})) return {};
  constexpr std::string_view kEvery = "@every ";
  if (text.starts_with(kEvery)) {
    Duration duration;
    if (parse_duration(text.substr(kEvery.size()), &duration)) return {};
    return fmt::format("failed to parse duration {}: time: invalid duration {}", text,
                       quoted(text.substr(kEvery.size())));
  }
  return fmt::format("unrecognized descriptor: {}", text);
}

}  // namespace

std::string check_cron_schedule(std::string_view schedule) {
  if (schedule.empty()) return "empty spec string";
  if (schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=")) {
    size_t space = schedule.find(' ');
    schedule = space == std::string_view::npos ? std::string_view() : schedule.substr(space + 1);
  }
  if (schedule.starts_with('@')) return check_descriptor(schedule);
  std::vector<std::string_view> fields = words_of(schedule);
  if (fields.size() != kFields.size()) {
    return fmt::format("expected exactly 5 fields, found {}: [{}]", fields.size(), fmt::join(fields, " "));
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    for (std::string_view expression : split(fields[i], ',')) {
      if (std::string error = check_range(expression, kFields[i]); !error.empty()) return error;
    }
  }
  return {};
}

bool is_known_time_zone(std::string_view name) {
  if (name.empty()) return false;
  for (std::string_view part : split(name, '/')) {
    if (part.empty() || part == "." || part == ".." || part.starts_with('-')) return false;
    for (char c : part) {
      bool fine = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-' || c == '+';
      if (!fine) return false;
    }
  }
  if (name == "UTC") return true;
  const std::filesystem::path root = "/usr/share/zoneinfo";
  std::error_code error;
  if (!std::filesystem::is_directory(root, error)) return true;  // nothing to compare with
  return std::filesystem::is_regular_file(root / std::string(name), error);
}

}  // namespace ghostfleet::controlplane
