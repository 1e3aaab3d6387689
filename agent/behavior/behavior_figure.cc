#include "agent/behavior/behavior_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/hash.h"
#include "base/text.h"
#include "kube/api/quantity.h"

namespace ghostfleet::agent {
namespace {

constexpr double kMostCores = 1e6, kMostBytes = 1e18, kMostShare = 100;

bool parse_number(std::string_view text, double* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out, std::chars_format::fixed);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(*out);
}

double seconds_of(Duration d) { return static_cast<double>(d.count()) * 1e-9; }

std::string_view what_is_right(FigureUnit unit) {
  switch (unit) {
    case FigureUnit::kDuration: return "not a duration such as 5s or 1m30s";
    case FigureUnit::kCores: return "not an amount of cpu such as 500m, 2 or 50%";
    case FigureUnit::kBytes: return "not an amount of memory such as 512Mi, 2Gi or 50%";
  }
  return "";
}

std::string forms(FigureUnit unit) {
  const auto [a, b] = unit == FigureUnit::kDuration ? std::pair("5s", "20s")
                      : unit == FigureUnit::kCores  ? std::pair("500m", "2")
                                                    : std::pair("1Gi", "4Gi");
  return fmt::format("{0}, uniform({0}, {1}), exponential({0}), exponential({0}, max={1}) or histogram(NAME)", a, b);
}

std::string names_of(const Histograms& known) {
  std::string out;
  for (const auto& [name, histogram] : known) out += (out.empty() ? "" : ", ") + name;
  return out.empty() ? "there are none; a fleet file names them under histograms" : "there are: " + out;
}

}  // namespace

std::vector<std::string_view> comma_parts(std::string_view text) {
  std::vector<std::string_view> out;
  int depth = 0;
  size_t from = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (c != ',' || (depth > 0 && i < text.size())) continue;
    out.push_back(trimmed(text.substr(from, i - from)));
    from = i + 1;
  }
  return out;
}

Duration to_duration(double seconds) {
  if (!(seconds > 0)) return Duration(0);
  return std::min(kLongestBehavior, Duration(std::llround(std::min(seconds, seconds_of(kLongestBehavior)) * 1e9)));
}

double draw_unit(uint64_t seed, std::string_view what, uint64_t time) {
  const uint64_t h = hash_mix(hash_mix(hash_text(what, seed), time), seed);
  return static_cast<double>(h >> 11) * 0x1p-53;
}

std::string parse_behavior_duration(std::string_view text, Duration* out) {
  Duration value{0};
  if (!parse_duration(text, &value) || value < Duration(0)) return std::string(what_is_right(FigureUnit::kDuration));
  if (value > kLongestBehavior) return "longer than a year (8760h)";
  *out = value;
  return "";
}

std::string parse_figure_number(std::string_view text, FigureUnit unit, double* value, bool* share) {
  *share = false;
  if (unit == FigureUnit::kDuration) {
    Duration d{0};
    std::string wrong = parse_behavior_duration(text, &d);
    *value = seconds_of(d);
    return wrong;
  }
  if (text.ends_with('%')) {
    if (!parse_number(text.substr(0, text.size() - 1), value) || *value < 0 || *value > kMostShare * 100)
      return "not a percentage from 0% to 10000%";
    *value /= 100;
    *share = true;
    return "";
  }
  const auto quantity = kube::Quantity::parse(text);
  if (!quantity.ok() || quantity->sign() < 0) return std::string(what_is_right(unit));
  const bool cores = unit == FigureUnit::kCores;
  *value = cores ? static_cast<double>(quantity->milli_value()) / 1000 : static_cast<double>(quantity->value());
  return *value > (cores ? kMostCores : kMostBytes) ? "more than any machine has" : "";
}

// ---- histograms

namespace {

// Of one field of a line; `durations` is what the first line said.
std::string read_edge(std::string_view text, bool first, bool* durations, double* out) {
  Duration d{0};
  double number = 0;
  const bool plain = parse_number(text, &number) && number >= 0;
  const bool timed = !plain && parse_behavior_duration(text, &d).empty();
  if (first) *durations = timed;
  if (!plain && !timed) return "a duration such as 5s or a number such as 0.5 is expected";
  // "0" is both.
  if (timed != *durations && !(plain && number == 0))
    return *durations ? "a duration is expected, as in the lines before"
                      : "a number is expected, as in the lines before";
  *out = timed ? seconds_of(d) : number;
  return "";
}

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> out;
  line = trimmed(line.substr(0, line.find('#')));
  while (!line.empty()) {
    const size_t end = std::min(line.find_first_of(kBlanks), line.size());
    out.push_back(line.substr(0, end));
    line = trimmed(line.substr(end));
  }
  return out;
}

}  // namespace

Result<ValueHistogram> ValueHistogram::parse(std::string_view text, std::string_view file) {
  if (text.size() > kMaxText) return invalid_argument(fmt::format("{}: longer than {} bytes", file, kMaxText));
  ValueHistogram h;
  double sum = 0;
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::vector<std::string_view> fields = fields_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (fields.empty()) continue;
    const auto wrong = [&](std::string_view value, std::string_view what) {
      return invalid_argument(fmt::format("{}:{}: {}: {}", file, number, value.substr(0, 40), what));
    };
    if (fields.size() != 3) return wrong(fields[0], "a line FROM TO WEIGHT is expected, e.g. 5s 10s 12");
    if (h.buckets_.size() == kMaxLines) return wrong(fields[0], "more than 10000 lines");
    Bucket bucket;
    const bool first = h.buckets_.empty();
    std::string bad = read_edge(fields[0], first, &h.durations_, &bucket.from);
    if (!bad.empty()) return wrong(fields[0], bad);
    // A first line that begins with 0 tells by its end what it holds.
    bad = read_edge(fields[1], first && bucket.from == 0, &h.durations_, &bucket.to);
    if (!bad.empty()) return wrong(fields[1], bad);
    if (bucket.to < bucket.from) return wrong(fields[1], fmt::format("TO is below FROM ({})", fields[0]));
    if (!parse_number(fields[2], &bucket.share) || bucket.share < 0 || bucket.share > 1e15)
      return wrong(fields[2], "a weight of 0 or more is expected");
    bucket.below = sum;
    sum += bucket.share;
    if (bucket.share > 0) h.buckets_.push_back(bucket);
  }
  if (h.buckets_.empty())
    return invalid_argument(fmt::format("{}: no line FROM TO WEIGHT with a weight above 0", file));
  for (Bucket& b : h.buckets_) {
    b.below /= sum;
    b.share /= sum;
  }
  return h;
}

double ValueHistogram::at(double u) const {
  auto it = std::upper_bound(buckets_.begin(), buckets_.end(), u,
                             [](double value, const Bucket& b) { return value < b.below; });
  const Bucket& b = it == buckets_.begin() ? *it : *std::prev(it);
  const double inside = std::clamp((u - b.below) / b.share, 0.0, 1.0);
  return b.from + (b.to - b.from) * inside;
}

// ---- figures

Figure Figure::constant(double value) {
  Figure f;
  f.a_ = value;
  return f;
}

double Figure::at(double u) const {
  switch (shape_) {
    case Shape::kConstant: return a_;
    case Shape::kUniform: return a_ + (b_ - a_) * u;
    case Shape::kExponential: {
      const double value = -a_ * std::log1p(-u);
      return b_ > 0 ? std::min(value, b_) : value;
    }
    case Shape::kHistogram: return histogram_->at(u);
  }
  return a_;
}

std::string Figure::parse(std::string_view text, FigureUnit unit, const Histograms& known, Figure* out) {
  Figure f;
  text = trimmed(text);
  const size_t open = text.find('(');
  if (open == std::string_view::npos) {
    std::string wrong = parse_figure_number(text, unit, &f.a_, &f.share_);
    if (wrong.empty()) *out = f;
    return wrong;
  }
  if (!text.ends_with(')')) return "the parenthesis is not closed";
  const std::string_view name = trimmed(text.substr(0, open));
  const std::vector<std::string_view> parts = comma_parts(text.substr(open + 1, text.size() - open - 2));
  const auto number = [&](std::string_view part, double* value) {
    bool share = false;
    std::string wrong = parse_figure_number(part, unit, value, &share);
    if (!wrong.empty()) return fmt::format("{}: {}", part, wrong);
    if (value == &f.b_ && share != f.share_) return fmt::format("{}: both percentages or none", part);
    f.share_ = share;
    return wrong;
  };
  std::string wrong;
  if (name == "uniform") {
    f.shape_ = Shape::kUniform;
    if (parts.size() != 2) return "uniform(FROM, TO) is expected";
    wrong = number(parts[0], &f.a_);
    if (wrong.empty()) wrong = number(parts[1], &f.b_);
    if (wrong.empty() && f.b_ < f.a_) wrong = fmt::format("{}: below {}", parts[1], parts[0]);
  } else if (name == "exponential") {
    f.shape_ = Shape::kExponential;
    const bool cut = parts.size() == 2 && parts[1].starts_with("max=");
    if (parts.size() != 1 && !cut) return "exponential(MEAN) or exponential(MEAN, max=MOST) is expected";
    wrong = number(parts[0], &f.a_);
    if (wrong.empty() && cut) wrong = number(parts[1].substr(4), &f.b_);
    if (wrong.empty() && cut && f.b_ <= 0) wrong = fmt::format("{}: more than 0 is expected", parts[1]);
  } else if (name == "histogram") {
    f.shape_ = Shape::kHistogram;
    const auto at = parts.size() == 1 ? known.find(parts[0]) : known.end();
    if (at == known.end()) return fmt::format("no histogram of that name ({})", names_of(known));
    f.histogram_ = at->second;
    if (f.histogram_->durations() != (unit == FigureUnit::kDuration))
      return fmt::format("histogram {} holds {}", parts[0], f.histogram_->durations() ? "durations" : "numbers");
  } else {
    return "none of the known forms: " + forms(unit);
  }
  if (wrong.empty()) *out = f;
  return wrong;
}

}  // namespace ghostfleet::agent
