#include "base/text.h"

#include <gtest/gtest.h>

namespace ghostfleet {
namespace {

TEST(Text, Trimmed) {
  EXPECT_EQ(trimmed(" \t a b\r\n"), "a b");
  EXPECT_EQ(trimmed(" \n"), "");
  EXPECT_EQ(trimmed(""), "");
  EXPECT_EQ(trimmed("\n a ", " "), "\n a");
}

TEST(Text, PartsAreTakenOff) {
  std::string_view text = " a = 1; b,c";
  EXPECT_EQ(take_part(&text, "="), "a");
  EXPECT_EQ(take_part(&text, ";,"), "1");
  EXPECT_EQ(take_part(&text, ";,"), "b");
  EXPECT_EQ(take_part(&text, ";,"), "c");
  EXPECT_EQ(text, "");
  EXPECT_EQ(take_part(&text, ";,"), "");
}

TEST(Text, AsGoQuotes) {
  EXPECT_EQ(go_quote("plain <é>"), "\"plain <é>\"");
  EXPECT_EQ(go_quote("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(go_quote("\a\b\f\n\r\t\v\x01\x7f"), R"("\a\b\f\n\r\t\v\x01\x7f")");
}

}  // namespace
}  // namespace ghostfleet
