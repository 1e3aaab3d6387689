#include "base/clock.h"

#include <time.h>

#include <charconv>
#include <cmath>
#include <cstring>

namespace ghostfleet {
namespace {

constexpr int64_t kSecond = 1000000000;

int64_t read_clock(clockid_t id) {
  timespec ts{};
  clock_gettime(id, &ts);
  return int64_t{ts.tv_sec} * kSecond + ts.tv_nsec;
}

struct Civil {
  int64_t year;
  unsigned month, day;
};

// Days since 1970-01-01 to a date and back, proleptic Gregorian (the usual era arithmetic: 400 years are 146,097 days).
Civil civil_from_days(int64_t days) {
  days += 719468;
  const int64_t era = (days >= 0 ? days : days - 146096) / 146097;
  const auto doe = static_cast<unsigned>(days - era * 146097);
  const unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
  const unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  const unsigned mp = (5 * doy + 2) / 153;
  const unsigned month = mp < 10 ? mp + 3 : mp - 9;
  return {static_cast<int64_t>(yoe) + era * 400 + (month <= 2 ? 1 : 0), month, doy - (153 * mp + 2) / 5 + 1};
}

int64_t days_from_civil(int64_t y, unsigned m, unsigned d) {
  y -= m <= 2;
  const int64_t era = (y >= 0 ? y : y - 399) / 400;
  const auto yoe = static_cast<unsigned>(y - era * 400);
  const unsigned doy = (153 * (m > 2 ? m - 3 : m + 9) + 2) / 5 + d - 1;
  const unsigned doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
  return era * 146097 + static_cast<int64_t>(doe) - 719468;
}

void put_digits(char* out, int64_t value, int width) {
  for (int i = width - 1; i >= 0; --i) {
    out[i] = static_cast<char>('0' + value % 10);
    value /= 10;
  }
}

// Writes "2006-01-02T15:04:05" (19 characters).
void put_seconds(char* out, int64_t seconds) {
  int64_t days = seconds / 86400;
  int64_t rest = seconds % 86400;
  if (rest < 0) {
    rest += 86400;
    --days;
  }
  const Civil c = civil_from_days(days);
  put_digits(out, c.year, 4);
  out[4] = '-';
  put_digits(out + 5, c.month, 2);
  out[7] = '-';
  put_digits(out + 8, c.day, 2);
  out[10] = 'T';
  put_digits(out + 11, rest / 3600, 2);
  out[13] = ':';
  put_digits(out + 14, rest / 60 % 60, 2);
  out[16] = ':';
  put_digits(out + 17, rest % 60, 2);
}

bool read_digits(std::string_view text, size_t pos, int width, int64_t* out) {
  if (pos + static_cast<size_t>(width) > text.size()) return false;
  int64_t v = 0;
  for (int i = 0; i < width; ++i) {
    const char c = text[pos + static_cast<size_t>(i)];
    if (c < '0' || c > '9') return false;
    v = v * 10 + (c - '0');
  }
  *out = v;
  return true;
}

// Days in a month of the Gregorian calendar.
int64_t days_in_month(int64_t year, int64_t month) {
  static constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return month == 2 && leap ? 29 : kDays[month - 1];
}

// "Z" or "+02:00"; the offset in seconds.
bool read_zone(std::string_view text, int64_t* offset) {
  if (text == "Z" || text == "z") {
    *offset = 0;
    return true;
  }
  int64_t hours = 0;
  int64_t minutes = 0;
  if (text.size() != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':') return false;
  if (!read_digits(text, 1, 2, &hours) || !read_digits(text, 4, 2, &minutes) || hours > 23 || minutes > 59)
    return false;
  *offset = (hours * 3600 + minutes * 60) * (text[0] == '-' ? -1 : 1);
  return true;
}

// The length of one unit of Go's duration text at the start of `text`; 0 when there is none.
int64_t read_unit(std::string_view text, size_t* length) {
  struct Unit {
    std::string_view name;
    int64_t ns;
  };
  static constexpr Unit kUnits[] = {{"ns", 1},       {"us", 1000},   {"\xC2\xB5s", 1000}, {"\xCE\xBCs", 1000},
                                    {"ms", 1000000}, {"s", kSecond}, {"m", 60 * kSecond}, {"h", 3600 * kSecond}};
  for (const Unit& u : kUnits) {
    if (text.substr(0, u.name.size()) != u.name) continue;
    *length = u.name.size();
    return u.ns;
  }
  return 0;
}

std::string trim_decimals(int64_t whole, int64_t fraction, int width, std::string_view unit) {
  std::string text = std::to_string(whole);
  if (fraction != 0) {
    std::string digits(static_cast<size_t>(width), '0');
    put_digits(digits.data(), fraction, width);
    while (digits.back() == '0') digits.pop_back();
    text += "." + digits;
  }
  return text + std::string(unit);
}

}  // namespace

TimePoint SystemClock::now() const { return {read_clock(CLOCK_MONOTONIC)}; }
WallTime SystemClock::wall_now() const { return {read_clock(CLOCK_REALTIME)}; }
SystemClock& SystemClock::instance() {
  static SystemClock clock;
  return clock;
}

ManualClock::ManualClock(WallTime start) : wall_(start) {}

void ManualClock::advance(Duration d) {
  now_ = now_ + d;
  wall_ = wall_ + d;
}

std::string format_time(WallTime t) {
  std::string out(20, 'Z');
  int64_t s = t.ns / kSecond;
  if (t.ns % kSecond < 0) --s;
  put_seconds(out.data(), s);
  return out;
}

void format_micro_time_to(WallTime t, char* out) {
  int64_t s = t.ns / kSecond;
  int64_t rest = t.ns % kSecond;
  if (rest < 0) {
    rest += kSecond;
    --s;
  }
  put_seconds(out, s);
  out[19] = '.';
  put_digits(out + 20, rest / 1000, 6);
  out[26] = 'Z';
}

std::string format_micro_time(WallTime t) {
  std::string out(27, ' ');
  format_micro_time_to(t, out.data());
  return out;
}

bool parse_time(std::string_view text, WallTime* out) {
  int64_t y = 0, mo = 0, d = 0, h = 0, mi = 0, s = 0;
  if (text.size() < 20 || !read_digits(text, 0, 4, &y) || text[4] != '-' || !read_digits(text, 5, 2, &mo) ||
      text[7] != '-' || !read_digits(text, 8, 2, &d) || (text[10] != 'T' && text[10] != 't') ||
      !read_digits(text, 11, 2, &h) || text[13] != ':' || !read_digits(text, 14, 2, &mi) || text[16] != ':' ||
      !read_digits(text, 17, 2, &s)) {
    return false;
  }
  if (mo < 1 || mo > 12 || d < 1 || d > days_in_month(y, mo) || h > 23 || mi > 59 || s > 59) return false;
  size_t pos = 19;
  int64_t ns = 0;
  if (text[pos] == '.') {
    ++pos;
    int64_t scale = kSecond / 10;
    const size_t start = pos;
    for (; pos < text.size() && text[pos] >= '0' && text[pos] <= '9'; ++pos) {
      ns += (text[pos] - '0') * scale;
      scale /= 10;
    }
    if (pos == start) return false;
  }
  int64_t offset = 0;
  if (!read_zone(text.substr(pos), &offset)) return false;
  const int64_t days = days_from_civil(y, static_cast<unsigned>(mo), static_cast<unsigned>(d));
  out->ns = (days * 86400 + h * 3600 + mi * 60 + s - offset) * kSecond + ns;
  return true;
}

std::string format_duration(Duration d) {
  int64_t ns = d.count();
  if (ns == 0) return "0s";
  const std::string sign = ns < 0 ? "-" : "";
  if (ns < 0) ns = -ns;
  if (ns < 1000) return sign + std::to_string(ns) + "ns";
  if (ns < 1000000) return sign + trim_decimals(ns / 1000, ns % 1000, 3, "\xC2\xB5s");
  if (ns < kSecond) return sign + trim_decimals(ns / 1000000, ns % 1000000, 6, "ms");
  const int64_t seconds = ns / kSecond;
  std::string text = sign;
  if (seconds >= 3600) text += std::to_string(seconds / 3600) + "h";
  if (seconds >= 60) text += std::to_string(seconds / 60 % 60) + "m";
  return text + trim_decimals(seconds % 60, ns % kSecond, 9, "s");
}

bool parse_duration(std::string_view text, Duration* out) {
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (text == "0") {
    *out = Duration(0);
    return true;
  }
  if (text.empty()) return false;
  long double total = 0;
  while (!text.empty()) {
    size_t n = 0;
    long double value = 0;
    long double scale = 0;
    bool digits = false;
    for (; n < text.size(); ++n) {
      const char c = text[n];
      if (c >= '0' && c <= '9') {
        digits = true;
        if (scale == 0) {
          value = value * 10 + (c - '0');
        } else {
          value += (c - '0') * scale;
          scale /= 10;
        }
      } else if (c == '.' && scale == 0) {
        scale = 0.1L;
      } else {
        break;
      }
    }
    if (!digits) return false;
    text.remove_prefix(n);
    size_t length = 0;
    const int64_t unit = read_unit(text, &length);
    if (unit == 0) return false;
    text.remove_prefix(length);
    total += value * static_cast<long double>(unit);
  }
  if (total > 9.2e18L) return false;
  const auto ns = static_cast<int64_t>(std::llroundl(total));
  *out = Duration(negative ? -ns : ns);
  return true;
}

}  // namespace ghostfleet
