#include "agent/network/ip.h"

#include <gtest/gtest.h>

namespace ghostfleet::agent {
namespace {

Cidr cidr(std::string_view text) {
  Cidr c;
  EXPECT_TRUE(parse_cidr(text, &c)) << text;
  return c;
}

Ip ip(std::string_view text) {
  Ip i;
  EXPECT_TRUE(parse_ip(text, &i)) << text;
  return i;
}

TEST(Ip, BothFamiliesThereAndBack) {
  for (const char* text : {"0.0.0.0", "10.0.4.255", "255.255.255.255", "::", "::1", "fd00:10::ff", "2001:db8::1"})
    EXPECT_EQ(format_ip(ip(text)), text);
  EXPECT_TRUE(ip("10.0.0.1").is_v4());
  EXPECT_FALSE(ip("::1").is_v4());
  EXPECT_EQ(format_ip(ip("10.0.0.250").plus(6)), "10.0.1.0");
}

TEST(Ip, OtherTextsAreRefused) {
  Ip i;
  for (const char* text : {"", "10.0.0", "10.0.0.256", "10.0.0.1.2", "fd00:::1", "x", "10.0.0.1 "})
    EXPECT_FALSE(parse_ip(text, &i)) << text;
  EXPECT_FALSE(parse_ip(std::string_view("10.0.0.1\0x", 10), &i));
}

TEST(Cidr, ContainsAndOverlaps) {
  const Cidr wide = cidr("10.0.0.0/16"), narrow = cidr("10.0.4.16/28");
  EXPECT_TRUE(wide.contains(narrow));
  EXPECT_FALSE(narrow.contains(wide));
  EXPECT_TRUE(narrow.overlaps(wide));
  EXPECT_FALSE(narrow.overlaps(cidr("10.0.4.32/28")));
  EXPECT_TRUE(narrow.contains(ip("10.0.4.31")));
  EXPECT_FALSE(narrow.contains(ip("10.0.4.32")));
  EXPECT_FALSE(cidr("::/0").contains(ip("10.0.0.1")));
  EXPECT_EQ(narrow.size(), 16u);
  EXPECT_EQ(cidr("0.0.0.0/0").size(), uint64_t{1} << 32);
  EXPECT_EQ(format_cidr(cidr_around(ip("10.0.4.29"), 28)), "10.0.4.16/28");
  EXPECT_EQ(format_cidr(cidr_around(ip("fd00::1:0:0:1"), 80)), "fd00::1:0:0:0/80");
}

TEST(Cidr, OtherTextsAreRefused) {
  Cidr c;
  for (const char* text : {"10.0.0.0", "10.0.0.1/24", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "10.0.0.0/2x",
                           "::/129", "10.0.0.0/0024", "/8"})
    EXPECT_FALSE(parse_cidr(text, &c)) << text;
}

}  // namespace
}  // namespace ghostfleet::agent
