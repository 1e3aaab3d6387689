#include "controlplane/controllers/cron.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <fstream>
#include <sstream>

namespace ghostfleet::controlplane::controllers {
namespace {

constexpr size_t kMaxZoneFile = 1U << 20;
constexpr size_t kHeaderBytes = 44;
constexpr int64_t kDay = 86400, kHour = 3600, kMinute = 60;
constexpr int64_t kHorizon = 5 * 366 * kDay;
constexpr const char* kZoneFolder = "/usr/share/zoneinfo/";

// ---- TZif

uint64_t big_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (const char c : bytes) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

struct ZoneCounts {
  size_t is_ut, is_standard, leaps, transitions, types, characters;
};

bool read_counts(std::string_view header, ZoneCounts* out) {
  if (header.size() < kHeaderBytes || header.substr(0, 4) != "TZif") return false;
  size_t* const fields[] = {&out->is_ut,       &out->is_standard, &out->leaps,
                            &out->transitions, &out->types,       &out->characters};
  for (size_t i = 0; i < std::size(fields); ++i) *fields[i] = big_endian(header.substr(20 + 4 * i, 4));
  return out->types > 0 && out->types <= 256 && out->transitions <= 100000 && out->leaps <= 1000 &&
         out->characters <= 10000 && out->is_ut <= out->types && out->is_standard <= out->types;
}

size_t block_bytes(const ZoneCounts& c, size_t time_bytes) {
  return c.transitions * (time_bytes + 1) + c.types * 6 + c.characters + c.leaps * (time_bytes + 4) + c.is_standard +
         c.is_ut;
}

// ---- fields of a schedule

using Names = std::array<std::string_view, 12>;
constexpr Names kMonths = {"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr Names kDays = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

struct Field {
  int min, max;
  const Names* names;
  int first_name;
};
constexpr Field kFields[] = {
    {0, 59, nullptr, 0}, {0, 23, nullptr, 0}, {1, 31, nullptr, 0}, {1, 12, &kMonths, 1}, {0, 6, &kDays, 0}};

bool read_value(std::string_view text, const Field& field, int* out) {
  if (field.names) {
    std::string lower(text);
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    for (size_t i = 0; i < field.names->size(); ++i) {
      if ((*field.names)[i].empty() || (*field.names)[i] != lower) continue;
      *out = static_cast<int>(i) + field.first_name;
      return true;
    }
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

// One of "*", "5", "1-5", "*/10", "1-5/2"; every value of it goes to `add`.
template <class Add>
bool read_range(std::string_view text, const Field& field, bool* star, Add add) {
  int step = 1, low = field.min, high = field.max;
  const size_t slash = text.find('/');
  const std::string_view range = text.substr(0, slash);
  if (slash != std::string_view::npos && (!read_value(text.substr(slash + 1), {0, 0, nullptr, 0}, &step) || step < 1)) {
    return false;
  }
  if (range == "*" || range == "?") {
    *star = *star || step == 1;
  } else {
    const size_t hyphen = range.find('-');
    if (!read_value(range.substr(0, hyphen), field, &low)) return false;
    if (hyphen != std::string_view::npos) {
      if (!read_value(range.substr(hyphen + 1), field, &high)) return false;
    } else if (slash == std::string_view::npos) {
      high = low;
    }
  }
  if (low < field.min || high > field.max || low > high) return false;
  for (int64_t v = low; v <= high; v += step) add(static_cast<size_t>(v));
  return true;
}

template <size_t N>
bool read_field(std::string_view text, const Field& field, std::bitset<N>* out, bool* star) {
  *star = false;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    if (!read_range(text.substr(at, comma - at), field, star, [&](size_t v) { out->set(v); })) return false;
    at = comma + 1;
  }
  return true;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    if (space > 0) words.push_back(text.substr(0, space));
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  return words;
}

std::string_view expand(std::string_view text) {
  static constexpr std::pair<std::string_view, std::string_view> kDescriptors[] = {
      {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"}, {"@weekly", "0 0 * * 0"},
      {"@daily", "0 0 * * *"},  {"@midnight", "0 0 * * *"}, {"@hourly", "0 * * * *"}};
  for (const auto& [name, fields] : kDescriptors) {
    if (name == text) return fields;
  }
  return text;
}

int64_t floor_to(int64_t value, int64_t unit) {
  const int64_t rest = value % unit;
  return value - (rest < 0 ? rest + unit : rest);
}

// A day that lost an hour ends early: then the step went too far.
int64_t start_of_next_day(int64_t t, int64_t of_day, const TimeZone& zone) {
  const int64_t there = t + kDay - of_day;
  const int64_t local = there + zone.offset_at(there), over = local - floor_to(local, kDay);
  const int64_t back = there - over;
  const bool same_day = over < kDay / 2 && floor_to(back + zone.offset_at(back), kDay) == floor_to(local, kDay);
  return same_day ? back : there;
}

}  // namespace

Result<TimeZone> TimeZone::parse(std::string_view file) {
  const Status bad = invalid_argument("not a time zone file");
  ZoneCounts counts{};
  if (!read_counts(file, &counts)) return bad;
  size_t time_bytes = 4;
  std::string_view block = file.substr(kHeaderBytes);
  if (file[4] >= '2') {  // a second block with wider times follows the first
    const size_t skip = kHeaderBytes + block_bytes(counts, 4);
    if (file.size() < skip || !read_counts(file.substr(skip), &counts)) return bad;
    time_bytes = 8;
    block = file.substr(skip + kHeaderBytes);
  }
  if (block.size() < block_bytes(counts, time_bytes)) return bad;
  const std::string_view indexes = block.substr(counts.transitions * time_bytes, counts.transitions);
  const std::string_view types = block.substr(counts.transitions * (time_bytes + 1), counts.types * 6);
  const auto offset_of = [&](size_t type) { return static_cast<int32_t>(big_endian(types.substr(type * 6, 4))); };
  TimeZone zone;
  zone.first_offset_ = offset_of(0);
  for (size_t i = 0; i < counts.transitions; ++i) {
    const uint64_t raw = big_endian(block.substr(i * time_bytes, time_bytes));
    const int64_t at = time_bytes == 8 ? static_cast<int64_t>(raw) : static_cast<int32_t>(raw);
    const size_t type = static_cast<unsigned char>(indexes[i]);
    const bool ordered = zone.transitions_.empty() || zone.transitions_.back().at < at;
    if (type >= counts.types || !ordered) return bad;
    zone.transitions_.push_back({at, offset_of(type)});
  }
  for (const Transition& t : zone.transitions_) {
    if (t.offset < -2 * kDay || t.offset > 2 * kDay) return bad;
  }
  return zone;
}

Result<TimeZone> TimeZone::load(const std::string& name) {
  if (name.empty() || name == "UTC") return TimeZone();
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '/' || c == '_' || c == '-' || c == '+';
  });
  if (!plain || name.front() == '/') return invalid_argument(fmt::format("\"{}\" is no time zone", name));
  std::ifstream in(kZoneFolder + name, std::ios::binary);
  std::string bytes(kMaxZoneFile, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(std::max<std::streamsize>(0, in.gcount())));
  if (bytes.empty()) return not_found(fmt::format("unknown time zone {}", name));
  Result<TimeZone> zone = parse(bytes);
  if (!zone.ok()) return zone.error().with_context(kZoneFolder + name);
  return zone;
}

int64_t TimeZone::offset_at(int64_t utc) const {
  const auto after = std::upper_bound(transitions_.begin(), transitions_.end(), utc,
                                      [](int64_t t, const Transition& transition) { return t < transition.at; });
  return after == transitions_.begin() ? first_offset_ : std::prev(after)->offset;
}

Result<CronSchedule> CronSchedule::parse(std::string_view text) {
  CronSchedule out;
  const Status bad = invalid_argument(fmt::format("\"{}\" is no cron schedule", text.substr(0, 100)));
  if (text.starts_with("TZ=") || text.starts_with("CRON_TZ=")) {
    const size_t equals = text.find('='), space = std::min(text.find(' '), text.size());
    out.zone_name_ = text.substr(equals + 1, space - equals - 1);
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  constexpr std::string_view kEvery = "@every ";
  if (text.starts_with(kEvery)) {
    if (!parse_duration(text.substr(kEvery.size()), &out.every_)) return bad;
    out.every_ = std::max<Duration>(std::chrono::seconds(1), out.every_);
    return out;
  }
  const std::vector<std::string_view> words = words_of(expand(text));
  bool star = false;
  if (words.size() != 5 || !read_field(words[0], kFields[0], &out.minutes_, &star) ||
      !read_field(words[1], kFields[1], &out.hours_, &star) ||
      !read_field(words[2], kFields[2], &out.days_, &out.any_day_) ||
      !read_field(words[3], kFields[3], &out.months_, &star) ||
      !read_field(words[4], kFields[4], &out.weekdays_, &out.any_weekday_)) {
    return bad;
  }
  return out;
}

bool CronSchedule::day_matches(unsigned day, unsigned weekday) const {
  const bool by_day = days_.test(day), by_weekday = weekdays_.test(weekday);
  return any_day_ || any_weekday_ ? by_day && by_weekday : by_day || by_weekday;
}

std::optional<WallTime> CronSchedule::next(WallTime after, const TimeZone& zone) const {
  const int64_t from = floor_to(after.ns, 1000000000) / 1000000000;
  if (every_.count() > 0) return WallTime{from * 1000000000} + every_;
  int64_t t = floor_to(from, kMinute) + kMinute;
  while (t < from + kHorizon) {
    const int64_t local = t + zone.offset_at(t);
    const int64_t of_day = local - floor_to(local, kDay);
    const std::chrono::sys_days date{std::chrono::days(floor_to(local, kDay) / kDay)};
    const std::chrono::year_month_day civil(date);
    const bool right_day = months_.test(static_cast<unsigned>(civil.month())) &&
                           day_matches(static_cast<unsigned>(civil.day()), std::chrono::weekday(date).c_encoding());
    if (!right_day) {
      t = start_of_next_day(t, of_day, zone);
    } else if (!hours_.test(static_cast<size_t>(of_day / kHour))) {
      t += kHour - of_day % kHour;
    } else if (!minutes_.test(static_cast<size_t>(of_day % kHour / kMinute))) {
      t += kMinute;
    } else {
      return WallTime{t * 1000000000};
    }
  }
  return std::nullopt;
}

}  // namespace ghostfleet::controlplane::controllers
