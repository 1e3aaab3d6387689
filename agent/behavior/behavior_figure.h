// Figure: what a behaviour says where a duration or an amount is wanted: always the same, or drawn for each attempt of
// a container.
//
//   5s                        this
//   uniform(5s, 20s)          between the two
//   exponential(30s)          exponentially distributed with this mean; exponential(30s, max=5m) is cut at the maximum
//   histogram(NAME)           as often as a recorded histogram says
//
// A histogram is a text of lines "FROM TO WEIGHT" (durations or numbers; # begins a comment): a line is drawn as often
// as its weight says, and a value between FROM and TO, all equally likely.
// A draw is a pure function of a number from 0 to 1: whoever holds the seed holds the outcome.
//
// Thread rule: immutable after parsing. Units: seconds for durations, cores, bytes; shares of a request as 0.5 for 50%.
// Errors: texts that say what is right. Limits: kMaxLines lines and kMaxText bytes of a histogram; kLongest.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace ghostfleet::agent {

// The longest duration that a behaviour may name.
inline constexpr Duration kLongestBehavior = std::chrono::hours(24 * 365);

class ValueHistogram {
 public:
  static constexpr size_t kMaxText = 1 << 20, kMaxLines = 10000;

  // InvalidArgument names file, line, value and what is right.
  static Result<ValueHistogram> parse(std::string_view text, std::string_view file);
  double at(double u) const;
  bool durations() const { return durations_; }

 private:
  struct Bucket {
    double from = 0, to = 0;
    double below = 0, share = 0;  // of all weight: before this bucket, in it
  };
  std::vector<Bucket> buckets_;
  bool durations_ = false;
};
using Histograms = std::map<std::string, std::shared_ptr<const ValueHistogram>, std::less<>>;

// What the numbers in the text of a figure mean.
enum class FigureUnit : unsigned char { kDuration, kCores, kBytes };

class Figure {
 public:
  Figure() = default;
  static Figure constant(double value);

  // What is wrong with the text; empty: `out` is set.
  static std::string parse(std::string_view text, FigureUnit unit, const Histograms& known, Figure* out);

  // The value at `u` of its distribution, 0 <= u < 1.
  double at(double u) const;
  bool is_constant() const { return shape_ == Shape::kConstant; }
  bool is_share() const { return share_; }  // of what the container requests

 private:
  enum class Shape : unsigned char { kConstant, kUniform, kExponential, kHistogram };
  Shape shape_ = Shape::kConstant;
  bool share_ = false;
  double a_ = 0, b_ = 0;  // the value; from and to; mean and maximum (0: none)
  std::shared_ptr<const ValueHistogram> histogram_;
};

// One number of a figure. What is wrong with it; empty: `value` is set, and `share` when it was a percentage.
std::string parse_figure_number(std::string_view text, FigureUnit unit, double* value, bool* share);
// A duration from 0 to kLongestBehavior; what is wrong with it, or empty.
std::string parse_behavior_duration(std::string_view text, Duration* out);

Duration to_duration(double seconds);

// A number from 0 to 1 that belongs to these three alone: the seed of a container, what is drawn, and which time.
double draw_unit(uint64_t seed, std::string_view what, uint64_t time);

// The parts of "a, b, c", trimmed; commas inside parentheses do not part.
std::vector<std::string_view> comma_parts(std::string_view text);

}  // namespace ghostfleet::agent
