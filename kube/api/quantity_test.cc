#include "kube/api/quantity.h"

#include <gtest/gtest.h>

namespace ghostfleet::kube {
namespace {

std::string canonical(std::string_view text) {
  Result<Quantity> q = Quantity::parse(text);
  return q.ok() ? q->to_string() : "error: " + q.error().message();
}

// The right-hand sides were printed by k8s.io/apimachinery's resource.Quantity.
TEST(QuantityTest, CanonicalForm) {
  const std::pair<const char*, const char*> cases[] = {
      {"0", "0"},
      {"0.5", "500m"},
      {"1024Mi", "1Gi"},
      {"1e3", "1e3"},
      {"1.5Gi", "1536Mi"},
      {"100", "100"},
      {"1000", "1k"},
      {"1500m", "1500m"},
      {"2000m", "2"},
      {"0.1n", "1n"},
      {"1.0000000001", "1000000001n"},
      {"12E", "12E"},
      {"100Gi", "100Gi"},
      {"1023Ki", "1023Ki"},
      {"0.5Ki", "512"},
      {"0.5Gi", "512Mi"},
      {"-1.5Gi", "-1536Mi"},
      {"1Ki", "1Ki"},
      {"0.25", "250m"},
      {"1100", "1100"},
      {"16Ei", "9223372036854775807"},
      {"007", "7"},
      {"+5", "5"},
      {".5", "500m"},
      {"5.", "5"},
      {"1E", "1E"},
      {"1e6", "1e6"},
      {"1E3", "1e3"},
      {"1e19", "10e18"},
      {"-16Ei", "-9223372036854775807"},
      {"1e-12", "1e-9"},
      {"0.0001Ki", "102400u"},
      {"1.23456789012Mi", "1294538259950470n"},
  };
  for (const auto& [in, out] : cases) EXPECT_EQ(canonical(in), out) << in;
}

TEST(QuantityTest, Errors) {
  const std::string format =
      "error: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
  EXPECT_EQ(canonical(""), format);
  EXPECT_EQ(canonical("abc"), format);
  EXPECT_EQ(canonical("1 Gi"), format);
  EXPECT_EQ(canonical("1.2.3"), format);
  EXPECT_EQ(canonical("1Kii"), "error: unable to parse quantity's suffix");
  EXPECT_EQ(canonical("1e"), "error: unable to parse quantity's suffix");
  EXPECT_EQ(canonical("1KM"), "error: unable to parse quantity's suffix");
}

TEST(QuantityTest, ValuesRoundUp) {
  EXPECT_EQ(Quantity::parse("1500m")->value(), 2);
  EXPECT_EQ(Quantity::parse("-1500m")->value(), -2);
  EXPECT_EQ(Quantity::parse("1u")->milli_value(), 1);
  EXPECT_EQ(Quantity::parse("64Gi")->value(), 64LL << 30);
  EXPECT_EQ(Quantity::parse("16Ei")->value(), INT64_MAX);
  EXPECT_EQ(Quantity::parse("9E")->milli_value(), INT64_MAX);
}

TEST(QuantityTest, SumTakesTheFormatOfTheFirst) {
  Quantity total;
  total += *Quantity::parse("512Mi");
  total += *Quantity::parse("512Mi");
  EXPECT_EQ(total.to_string(), "1Gi");
  total -= *Quantity::parse("1");
  EXPECT_EQ(total.to_string(), "1073741823");
  EXPECT_EQ(Quantity::from_milli(250).to_string(), "250m");
  EXPECT_LT(*Quantity::parse("999m"), *Quantity::parse("1"));
  EXPECT_EQ(*Quantity::parse("1000m"), *Quantity::parse("1"));
}

TEST(QuantityTest, ClampsWhatIsTooLarge) {
  EXPECT_EQ(canonical("99999999999999999999999999999999999999999999"), "10000000000E");
  EXPECT_EQ(Quantity::parse("1e1000000000")->value(), INT64_MAX);
  EXPECT_EQ(canonical("1e-1000000000"), "1e-9");
}

}  // namespace
}  // namespace ghostfleet::kube
