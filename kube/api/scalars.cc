#include "kube/api/scalars.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace ghostfleet::kube {

namespace {

constexpr std::string_view kLayout = "2006-01-02T15:04:05Z07:00";
constexpr std::string_view kMicroLayout = "2006-01-02T15:04:05.000000Z07:00";

bool digit(char c) { return c >= '0' && c <= '9'; }

// Days since 1970-01-01 of a date of the proleptic Gregorian calendar.
int64_t days_from_civil(int64_t y, int m, int d) {
  y -= m <= 2;
  const int64_t era = (y >= 0 ? y : y - 399) / 400;
  const int64_t yoe = y - era * 400;
  const int64_t doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
  const int64_t doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
  return era * 146097 + doe - 719468;
}

void civil_from_days(int64_t z, int64_t* y, int* m, int* d) {
  z += 719468;
  const int64_t era = (z >= 0 ? z : z - 146096) / 146097;
  const int64_t doe = z - era * 146097;
  const int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
  const int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  const int64_t mp = (5 * doy + 2) / 153;
  *d = static_cast<int>(doy - (153 * mp + 2) / 5 + 1);
  *m = static_cast<int>(mp < 10 ? mp + 3 : mp - 9);
  *y = yoe + era * 400 + (*m <= 2);
}

int days_in(int64_t year, int month) {
  static constexpr std::array<int, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return kDays[static_cast<size_t>(month - 1)] + (month == 2 && leap ? 1 : 0);
}

// Reads a time by the layout, one element after the other, and keeps Go's words for what is wrong.
class TimeParser {
 public:
  TimeParser(std::string_view text, bool micro) : text_(text), rest_(text), micro_(micro) {}

  Result<ApiTime> run() {
    int year = 0;
    int month = 0;
    int day = 0;
    int hour = 0;
    int minute = 0;
    int second = 0;
    const bool shape = number(4, "2006", &year) && literal("-") && number(2, "01", &month) &&
                       range(month, 1, 12, "month") && literal("-") && number(2, "02", &day) && literal("T") &&
                       number(2, "15", &hour) && range(hour, 0, 23, "hour") && literal(":") &&
                       number(2, "04", &minute) && range(minute, 0, 59, "minute") && literal(":") &&
                       number(2, "05", &second) && range(second, 0, 59, "second") && fraction() && zone();
    if (!shape) return Status(Code::kInvalidArgument, error_);
    if (!rest_.empty()) return fail("extra text: " + quote(rest_));
    if (day < 1 || day > days_in(year, month)) return fail("day out of range");
    ApiTime t;
    t.seconds = days_from_civil(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - offset_;
    t.nanos = nanos_;
    return t;
  }

 private:
  static std::string quote(std::string_view s) { return fmt::format("\"{}\"", s); }

  Status fail(const std::string& why) {
    return Status(Code::kInvalidArgument, fmt::format("parsing time {}: {}", quote(text_), why));
  }

  bool cannot(std::string_view element) {
    error_ = fmt::format("parsing time {} as {}: cannot parse {} as {}", quote(text_),
                         quote(micro_ ? kMicroLayout : kLayout), quote(rest_), quote(element));
    return false;
  }

  bool number(size_t digits, std::string_view element, int* out) {
    if (rest_.size() < digits) return cannot(element);
    *out = 0;
    for (size_t i = 0; i < digits; ++i) {
      if (!digit(rest_[i])) return cannot(element);
      *out = *out * 10 + (rest_[i] - '0');
    }
    rest_.remove_prefix(digits);
    return true;
  }

  bool range(int value, int low, int high, std::string_view what) {
    if (value >= low && value <= high) return true;
    error_ = fail(std::string(what) + " out of range").message();
    return false;
  }

  bool literal(std::string_view element) {
    if (rest_.substr(0, 1) != element) return cannot(element);
    rest_.remove_prefix(1);
    return true;
  }

  bool fraction() {
    if (rest_.empty() || (rest_[0] != '.' && rest_[0] != ',')) return micro_ ? cannot(".000000") : true;
    size_t n = 1;
    int64_t value = 0;
    for (; n < rest_.size() && digit(rest_[n]); ++n) {
      if (n <= 9) value = value * 10 + (rest_[n] - '0');
    }
    if (micro_ ? n != 7 : n < 2) return cannot(micro_ ? ".000000" : "Z07:00");
    for (size_t i = n; i <= 9; ++i) value *= 10;
    nanos_ = static_cast<int32_t>(value);
    rest_.remove_prefix(n);
    return true;
  }

  bool zone() {
    if (!rest_.empty() && rest_[0] == 'Z') {
      rest_.remove_prefix(1);
      return true;
    }
    if (rest_.size() < 6 || (rest_[0] != '+' && rest_[0] != '-') || rest_[3] != ':') return cannot("Z07:00");
    for (const size_t i : {1, 2, 4, 5}) {
      if (!digit(rest_[i])) return cannot("Z07:00");
    }
    const int hours = (rest_[1] - '0') * 10 + (rest_[2] - '0');
    const int minutes = (rest_[4] - '0') * 10 + (rest_[5] - '0');
    if (!range(hours, 0, 24, "time zone offset hour") || !range(minutes, 0, 60, "time zone offset minute"))
      return false;
    offset_ = (hours * 3600 + minutes * 60) * (rest_[0] == '-' ? -1 : 1);
    rest_.remove_prefix(6);
    return true;
  }

  std::string_view text_;
  std::string_view rest_;
  bool micro_;
  int32_t nanos_ = 0;
  int offset_ = 0;
  std::string error_;
};

// The unit a duration text goes on with, in nanoseconds; 0 when there is none. Removes it.
int64_t take_unit(std::string_view* text) {
  static constexpr std::array<std::pair<std::string_view, int64_t>, 8> kUnits = {{{"ns", 1},
                                                                                  {"us", 1'000},
                                                                                  {"\xC2\xB5s", 1'000},
                                                                                  {"\xCE\xBCs", 1'000},
                                                                                  {"ms", 1'000'000},
                                                                                  {"s", 1'000'000'000},
                                                                                  {"m", 60'000'000'000},
                                                                                  {"h", 3'600'000'000'000}}};
  for (const auto& [name, size] : kUnits) {
    const size_t n = name.size();
    const bool whole = text->size() == n || (text->size() > n && (digit((*text)[n]) || (*text)[n] == '.'));
    if (text->substr(0, n) != name || !whole) continue;
    text->remove_prefix(n);
    return size;
  }
  return 0;
}

}  // namespace

Result<ApiTime> parse_time(std::string_view text, bool micro) { return TimeParser(text, micro).run(); }

std::string format_time(const ApiTime& time, bool micro) {
  int64_t days = time.seconds / 86400;
  int64_t left = time.seconds % 86400;
  if (left < 0) {
    left += 86400;
    --days;
  }
  int64_t y;
  int m;
  int d;
  civil_from_days(days, &y, &m, &d);
  std::array<char, 40> b;
  auto* p = b.data();
  const auto put = [&p](int64_t value, int digits) {
    for (int i = digits - 1; i >= 0; --i, value /= 10) p[i] = static_cast<char>('0' + value % 10);
    p += digits;
  };
  put(y < 0 ? 0 : y % 10000, 4);
  *p++ = '-';
  put(m, 2);
  *p++ = '-';
  put(d, 2);
  *p++ = 'T';
  put(left / 3600, 2);
  *p++ = ':';
  put(left / 60 % 60, 2);
  *p++ = ':';
  put(left % 60, 2);
  if (micro) {
    *p++ = '.';
    put(time.nanos < 0 ? 0 : time.nanos / 1000, 6);
  }
  *p++ = 'Z';
  return std::string(b.data(), p);
}

Result<int64_t> parse_duration(std::string_view text) {
  const std::string_view whole = text;
  const auto invalid = [&] {
    return Status(Code::kInvalidArgument, fmt::format("time: invalid duration \"{}\"", whole));
  };
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  if (text == "0") return int64_t{0};
  if (text.empty()) return invalid();
  double total = 0;
  while (!text.empty()) {
    size_t n = 0;
    double value = 0;
    double place = 1;
    bool point = false;
    bool any = false;
    for (; n < text.size() && (digit(text[n]) || (text[n] == '.' && !point)); ++n) {
      if (text[n] == '.') {
        point = true;
        continue;
      }
      any = true;
      if (point) place /= 10;
      value = point ? value + place * (text[n] - '0') : value * 10 + (text[n] - '0');
    }
    if (!any) return invalid();
    text.remove_prefix(n);
    if (text.empty())
      return Status(Code::kInvalidArgument, fmt::format("time: missing unit in duration \"{}\"", whole));
    const int64_t unit = take_unit(&text);
    if (unit == 0) return invalid();
    total += value * static_cast<double>(unit);
    if (total > 9.2e18) return invalid();
  }
  const auto ns = static_cast<int64_t>(std::llround(total));
  return negative ? -ns : ns;
}

std::string format_duration(int64_t ns) {
  if (ns == 0) return "0s";
  const bool negative = ns < 0;
  uint64_t u = negative ? 0 - static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
  const auto decimal = [](uint64_t value, uint64_t unit) {
    std::string text = std::to_string(value / unit);
    std::string fraction = std::to_string(unit + value % unit).substr(1);
    while (!fraction.empty() && fraction.back() == '0') fraction.pop_back();
    return fraction.empty() ? text : text + "." + fraction;
  };
  std::string out = negative ? "-" : "";
  if (u < 1'000) return out + std::to_string(u) + "ns";
  if (u < 1'000'000) return out + decimal(u, 1'000) + "\xC2\xB5s";
  if (u < 1'000'000'000) return out + decimal(u, 1'000'000) + "ms";
  constexpr uint64_t kSecond = 1'000'000'000;
  const uint64_t hours = u / (3600 * kSecond);
  const uint64_t minutes = u / (60 * kSecond) % 60;
  if (hours > 0) out += std::to_string(hours) + "h";
  if (hours > 0 || minutes > 0) out += std::to_string(minutes) + "m";
  return out + decimal(u % (60 * kSecond), kSecond) + "s";
}

namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<int8_t, 256> make_values() {
  std::array<int8_t, 256> t{};
  for (auto& v : t) v = -1;
  for (size_t i = 0; i < kAlphabet.size(); ++i) t[static_cast<unsigned char>(kAlphabet[i])] = static_cast<int8_t>(i);
  return t;
}
constexpr std::array<int8_t, 256> kValues = make_values();

Status corrupt(size_t at) {
  return Status(Code::kInvalidArgument, fmt::format("illegal base64 data at input byte {}", at));
}

}  // namespace

Result<std::string> decode_base64(std::string_view text) {
  std::string out;
  out.reserve(text.size() / 4 * 3);
  uint32_t group = 0;
  int have = 0;
  int padding = 0;
  size_t group_start = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\r' || c == '\n') continue;
    if (have == 0) group_start = i;
    if (c == '=' && have >= 2) {
      ++padding;
    } else if (const int8_t v = kValues[static_cast<unsigned char>(c)]; v >= 0 && padding == 0) {
      group |= static_cast<uint32_t>(v) << (18 - 6 * have);
    } else {
      return corrupt(i);
    }
    if (++have < 4) continue;
    const int bytes = 3 - padding;
    for (int b = 0; b < bytes; ++b) out.push_back(static_cast<char>(group >> (16 - 8 * b)));
    group = 0;
    have = 0;
    if (padding > 0) {
      for (++i; i < text.size(); ++i) {
        if (text[i] != '\r' && text[i] != '\n') return corrupt(i);
      }
    }
  }
  if (have != 0) return corrupt(padding > 0 ? text.size() : group_start);
  return out;
}

}  // namespace ghostfleet::kube
