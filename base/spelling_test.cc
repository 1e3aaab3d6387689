#include "base/spelling.h"

#include <gtest/gtest.h>

namespace ghostfleet {
namespace {

TEST(Spelling, Distances) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("Web", "web"), 1u);
}

TEST(Spelling, OfShortWordsMostMustBeRight) {
  EXPECT_TRUE(looks_like("contaner", "container"));
  EXPECT_TRUE(looks_like("a", "b")) << "one letter is always forgiven";
  EXPECT_FALSE(looks_like("a", "bc"));
  EXPECT_FALSE(looks_like("trainer", "mainframe"));
}

}  // namespace
}  // namespace ghostfleet
