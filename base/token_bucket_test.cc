#include "base/token_bucket.h"

#include <gtest/gtest.h>

namespace ghostfleet {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kStart{1'000'000'000'000};

TEST(TokenBucket, ABurstThenATurnForEach) {
  TokenBucket limiter(50, 100);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(limiter.reserve(kStart), kStart);
  EXPECT_EQ(limiter.reserve(kStart), kStart + milliseconds(20));
  EXPECT_EQ(limiter.reserve(kStart), kStart + milliseconds(40));
  // Those turns are taken; a second brings 50 more.
  EXPECT_EQ(limiter.reserve(kStart + seconds(1)), kStart + seconds(1));
}

TEST(TokenBucket, WhoDoesNotWaitGoesWithout) {
  TokenBucket limiter(2, 3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(limiter.take(kStart));
  EXPECT_FALSE(limiter.take(kStart + milliseconds(400)));
  EXPECT_TRUE(limiter.take(kStart + milliseconds(500)));
  EXPECT_FALSE(limiter.take(kStart + milliseconds(500)));
  EXPECT_FALSE(limiter.take(kStart)) << "time does not go back";
}

TEST(TokenBucket, SeveralAtOnceOrNone) {
  TokenBucket bucket(10, 100);
  EXPECT_FALSE(bucket.has(kStart, 101));
  EXPECT_TRUE(bucket.take(kStart, 90));
  EXPECT_FALSE(bucket.take(kStart, 20));
  EXPECT_TRUE(bucket.has(kStart, 10)) << "nothing was taken";
  EXPECT_TRUE(bucket.take(kStart + seconds(1), 20));
}

TEST(TokenBucket, WithoutARateThereIsNoLimit) {
  TokenBucket bucket(0, 1);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(bucket.take(kStart));
  EXPECT_EQ(bucket.reserve(kStart), kStart);
}

}  // namespace
}  // namespace ghostfleet
