#include "kube/api/quantity.h"

#include <algorithm>
#include <array>
#include <optional>

namespace ghostfleet::kube {
namespace {

using Int = __int128;

constexpr Int kNano = 1000000000;
// Binary quantities are clamped to 2^63-1, as Go does; this is that bound in nano-units.
constexpr Int kMaxNano = Int(INT64_MAX) * kNano;
// Decimal ones have no bound in Go; here 10^28, the most that leaves 128 bits room for one more digit.
constexpr Int kMaxDecimalNano = Int(10000000000000000000ULL) * 1000000000000000000LL;

constexpr const char* kBadFormat =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
constexpr const char* kBadSuffix = "unable to parse quantity's suffix";

struct Suffix {
  Quantity::Format format;
  int base;
  int exponent;
};

struct NamedSuffix {
  std::string_view text;
  Suffix meaning;
};

using F = Quantity::Format;
constexpr std::array<NamedSuffix, 16> kSuffixes{{{"", {F::kDecimalSI, 10, 0}},
                                                 {"n", {F::kDecimalSI, 10, -9}},
                                                 {"u", {F::kDecimalSI, 10, -6}},
                                                 {"m", {F::kDecimalSI, 10, -3}},
                                                 {"k", {F::kDecimalSI, 10, 3}},
                                                 {"M", {F::kDecimalSI, 10, 6}},
                                                 {"G", {F::kDecimalSI, 10, 9}},
                                                 {"T", {F::kDecimalSI, 10, 12}},
                                                 {"P", {F::kDecimalSI, 10, 15}},
                                                 {"E", {F::kDecimalSI, 10, 18}},
                                                 {"Ki", {F::kBinarySI, 2, 10}},
                                                 {"Mi", {F::kBinarySI, 2, 20}},
                                                 {"Gi", {F::kBinarySI, 2, 30}},
                                                 {"Ti", {F::kBinarySI, 2, 40}},
                                                 {"Pi", {F::kBinarySI, 2, 50}},
                                                 {"Ei", {F::kBinarySI, 2, 60}}}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::optional<int> parse_exponent(std::string_view text) {
  bool negative = false;
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (text.empty()) return std::nullopt;
  int value = 0;
  for (char c : text) {
    if (!is_digit(c)) return std::nullopt;
    value = std::min(value * 10 + (c - '0'), 1000000);
  }
  return negative ? -value : value;
}

std::optional<Suffix> interpret(std::string_view suffix) {
  for (const NamedSuffix& s : kSuffixes) {
    if (s.text == suffix) return s.meaning;
  }
  if (suffix.size() < 2 || (suffix[0] != 'e' && suffix[0] != 'E')) return std::nullopt;
  const std::optional<int> exponent = parse_exponent(suffix.substr(1));
  if (!exponent) return std::nullopt;
  return Suffix{F::kDecimalExponent, 10, *exponent};
}

struct Parts {
  bool negative = false;
  std::string_view whole, fraction, suffix;
};

std::optional<Parts> split(std::string_view text) {
  if (text.empty()) return std::nullopt;
  Parts parts;
  size_t i = 0;
  if (text[0] == '+' || text[0] == '-') parts.negative = text[i++] == '-';
  while (i < text.size() && text[i] == '0') ++i;
  const size_t whole = i;
  while (i < text.size() && is_digit(text[i])) ++i;
  parts.whole = text.substr(whole, i - whole);
  if (i < text.size() && text[i] == '.') {
    const size_t fraction = ++i;
    while (i < text.size() && is_digit(text[i])) ++i;
    parts.fraction = text.substr(fraction, i - fraction);
  }
  const size_t suffix = i;
  while (i < text.size() && std::string_view("eEinumkKMGTP").find(text[i]) != std::string_view::npos) ++i;
  if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
  while (i < text.size() && is_digit(text[i])) ++i;
  if (i != text.size()) return std::nullopt;
  parts.suffix = text.substr(suffix);
  return parts;
}

// digits * 10^scale in nano-units, rounded up; saturates above kMaxDecimalNano.
Int decimal_nano(std::string_view whole, std::string_view fraction, int exponent) {
  Int value = 0;
  bool lost = false;  // something non-zero was cut off below the last digit kept
  int scale = exponent + 9;
  // Digits before the point are kept as far as 128 bits go; further ones only raise the scale.
  auto take = [&](char digit, bool is_fraction) {
    if (value > kMaxDecimalNano) {
      if (!is_fraction) ++scale;
      lost = lost || digit != '0';
      return;
    }
    value = value * 10 + (digit - '0');
    if (is_fraction) --scale;
  };
  for (char c : whole) take(c, false);
  for (char c : fraction) take(c, true);
  for (; scale > 0 && value != 0 && value <= kMaxDecimalNano; --scale) value *= 10;
  for (; scale < 0 && value != 0; ++scale) {
    lost = lost || value % 10 != 0;
    value /= 10;
  }
  if (lost) ++value;
  return std::min(value, kMaxDecimalNano);
}

// whole.fraction * 2^shift in nano-units, rounded up.
Int binary_nano(std::string_view whole, std::string_view fraction, int shift) {
  const Int integral = decimal_nano(whole, "", 0);
  if (integral > (kMaxNano >> shift)) return kMaxNano;
  // From the last digit to the first: flooring at every step gives the floor of the whole.
  const Int unit = kNano << shift;
  Int below = 0;
  bool lost = false;
  for (size_t i = fraction.size(); i > 0; --i) {
    const Int sum = below + unit * (fraction[i - 1] - '0');
    lost = lost || sum % 10 != 0;
    below = sum / 10;
  }
  const Int value = (integral << shift) + below + (lost ? 1 : 0);
  return std::min(value, kMaxNano);
}

int64_t clamp_to_int64(Int value) {
  if (value > INT64_MAX) return INT64_MAX;
  if (value < INT64_MIN) return INT64_MIN;
  return static_cast<int64_t>(value);
}

// Division that rounds away from zero, as Go's ScaledValue does.
Int divide_up(Int value, Int by) {
  Int result = value / by;
  if (value % by != 0) result += value < 0 ? -1 : 1;
  return result;
}

std::string digits_of(Int value) {
  if (value == 0) return "0";
  const bool negative = value < 0;
  std::string text;
  for (Int v = negative ? -value : value; v != 0; v /= 10) text += static_cast<char>('0' + static_cast<int>(v % 10));
  if (negative) text += '-';
  std::reverse(text.begin(), text.end());
  return text;
}

std::string_view suffix_text(Quantity::Format format, int exponent) {
  for (const NamedSuffix& s : kSuffixes) {
    if (s.meaning.format == format && s.meaning.exponent == exponent) return s.text;
  }
  return "";
}

std::string binary_text(Int nano) {
  Int whole = nano / kNano;
  int exponent = 0;
  while (exponent < 60 && whole % 1024 == 0) {
    whole /= 1024;
    exponent += 10;
  }
  std::string text = digits_of(whole);
  if (exponent > 0) text += suffix_text(F::kBinarySI, exponent);
  return text;
}

std::string decimal_text(Int nano, Quantity::Format format) {
  int exponent = -9;
  while (exponent < 18 && nano % 1000 == 0) {
    nano /= 1000;
    exponent += 3;
  }
  std::string text = digits_of(nano);
  if (format == F::kDecimalExponent) {
    if (exponent != 0) text += "e" + std::to_string(exponent);
    return text;
  }
  text += suffix_text(F::kDecimalSI, exponent);
  return text;
}

}  // namespace

Result<Quantity> Quantity::parse(std::string_view text) {
  const std::optional<Parts> parts = split(text);
  if (!parts) return invalid_argument(kBadFormat);
  const std::optional<Suffix> suffix = interpret(parts->suffix);
  if (!suffix) return invalid_argument(kBadSuffix);
  Quantity q;
  q.format_ = suffix->format;
  if (suffix->base == 10) {
    q.nano_ = decimal_nano(parts->whole, parts->fraction, suffix->exponent);
  } else {
    q.nano_ = binary_nano(parts->whole, parts->fraction, suffix->exponent);
    // Less than one unit cannot be written with a binary suffix.
    if (q.nano_ != 0 && q.nano_ < kNano) q.format_ = Format::kDecimalSI;
  }
  if (parts->negative) q.nano_ = -q.nano_;
  return q;
}

Quantity Quantity::from_value(int64_t value, Format format) {
  Quantity q;
  q.nano_ = Int(value) * kNano;
  q.format_ = format;
  return q;
}

Quantity Quantity::from_milli(int64_t milli, Format format) {
  Quantity q;
  q.nano_ = Int(milli) * (kNano / 1000);
  q.format_ = format;
  return q;
}

int64_t Quantity::value() const { return clamp_to_int64(divide_up(nano_, kNano)); }

int64_t Quantity::milli_value() const { return clamp_to_int64(divide_up(nano_, kNano / 1000)); }

std::string Quantity::to_string() const {
  if (nano_ == 0) return "0";
  const bool small = nano_ > -1024 * kNano && nano_ < 1024 * kNano;
  if (format_ == Format::kBinarySI && !small && nano_ % kNano == 0) return binary_text(nano_);
  return decimal_text(nano_, format_ == Format::kDecimalExponent ? format_ : Format::kDecimalSI);
}

Quantity& Quantity::operator+=(const Quantity& other) {
  if (nano_ == 0) format_ = other.format_;
  nano_ += other.nano_;
  return *this;
}

Quantity& Quantity::operator-=(const Quantity& other) {
  if (nano_ == 0) format_ = other.format_;
  nano_ -= other.nano_;
  return *this;
}

}  // namespace ghostfleet::kube
