#include "base/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ghostfleet {
namespace {

TEST(Histogram, EachRecordLiesInTheBucketWithTheNextUpperEdge) {
  for (int64_t ns = 1; ns < int64_t{1} << 40; ns += 1 + ns / 97) {
    Histogram h;
    h.record(Duration(ns));
    int bucket = 0;
    while (h.bucket(bucket) == 0) ++bucket;
    const double seconds = static_cast<double>(ns) * 1e-9;
    EXPECT_LE(seconds, Histogram::bucket_upper_seconds(bucket) * (1 + 1e-12)) << ns;
    if (bucket > 0) {
      EXPECT_GT(seconds, Histogram::bucket_upper_seconds(bucket - 1) * (1 - 1e-12)) << ns;
    }
  }
}

TEST(Histogram, EdgesBelongToTheBucketBelow) {
  for (const auto& [ns, bucket] :
       {std::pair{0, 0}, {1000, 0}, {1001, 1}, {2000, 4}, {2001, 5}, {4000, 8}, {1024000, 40}}) {
    Histogram h;
    h.record(Duration(ns));
    EXPECT_EQ(h.bucket(bucket), 1u) << ns;
  }
  Histogram longest;
  longest.record(std::chrono::hours(24 * 365));
  longest.record(Duration(-5));  // a clock that went back counts as nothing
  EXPECT_EQ(longest.bucket(Histogram::kBuckets - 1), 1u);
  EXPECT_EQ(longest.bucket(0), 1u);
}

TEST(Histogram, QuantilesAreUpperEdgesButNeverAboveTheMaximum) {
  Histogram h;
  EXPECT_EQ(h.quantile(0.5), 0);
  for (int i = 0; i < 99; ++i) h.record(std::chrono::milliseconds(1));
  h.record(std::chrono::milliseconds(700));
  EXPECT_NEAR(h.quantile(0.5), 1e-3, 0.2e-3);
  EXPECT_DOUBLE_EQ(h.quantile(1), 0.7);
  EXPECT_EQ(h.count(), 100u);
  Histogram both;
  h.merge_into(&both);
  h.merge_into(&both);
  EXPECT_EQ(both.count(), 200u);
  EXPECT_DOUBLE_EQ(both.max_seconds(), 0.7);
}

}  // namespace
}  // namespace ghostfleet
