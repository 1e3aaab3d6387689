// resource.Quantity: exact decimal arithmetic on texts like "500m", "64Gi", "1e3", with the canonical form Kubernetes
// writes.
//
// Shape: an integer count of nano-units in 128 bits; values beyond that are clamped as Go does.
// Thread rule: plain value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ghostfleet::kube {

class Quantity {
 public:
  enum class Format : unsigned char { kDecimalSI, kBinarySI, kDecimalExponent };

  Quantity() = default;
  static Result<Quantity> parse(std::string_view text);
  static Quantity from_value(int64_t value, Format format = Format::kDecimalSI);
  static Quantity from_milli(int64_t milli, Format format = Format::kDecimalSI);

  // Rounded up, as Go's Value() and MilliValue().
  int64_t value() const;
  int64_t milli_value() const;
  bool is_zero() const { return nano_ == 0; }
  int sign() const { return nano_ < 0 ? -1 : nano_ > 0 ? 1 : 0; }
  // Canonical text: "500m", "64Gi", "1k".
  std::string to_string() const;

  Quantity& operator+=(const Quantity& other);
  Quantity& operator-=(const Quantity& other);
  friend bool operator==(const Quantity& a, const Quantity& b) { return a.nano_ == b.nano_; }
  friend auto operator<=>(const Quantity& a, const Quantity& b) { return a.nano_ <=> b.nano_; }
  Format format() const { return format_; }

 private:
  __extension__ __int128 nano_ = 0;
  Format format_ = Format::kDecimalSI;
};

}  // namespace ghostfleet::kube
