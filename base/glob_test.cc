#include "base/glob.h"

#include <gtest/gtest.h>

namespace ghostfleet {
namespace {

TEST(Glob, AnyTextAndOneCharacter) {
  EXPECT_TRUE(glob_match("*missing*", "registry.example/missing:1"));
  EXPECT_TRUE(glob_match("a?c*", "abcd"));
  EXPECT_FALSE(glob_match("a?c", "ac"));
  EXPECT_TRUE(glob_match("**", ""));
  EXPECT_FALSE(glob_match("", "x"));
}

}  // namespace
}  // namespace ghostfleet
