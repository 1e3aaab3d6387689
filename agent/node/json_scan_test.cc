#include "agent/node/json_scan.h"

#include <gtest/gtest.h>

#include <string>

namespace ghostfleet::agent {
namespace {

TEST(JsonScan, FindsMembersBesideNestedAndEscapedOnes) {
  constexpr std::string_view kText =
      R"( {"a" : {"b":[1,{"c":"}"},"\"]"],"uid":"x"}, "n":-1.5e3 ,"t":true,"metadata":{"uid":"u1","e":"a\\"}} )";
  EXPECT_EQ(scan_string(scan_path(kText, {"metadata", "uid"})), "u1");
  EXPECT_EQ(scan_member(kText, "n"), "-1.5e3");
  EXPECT_EQ(scan_member(kText, "t"), "true");
  EXPECT_EQ(scan_string(scan_path(kText, {"a", "uid"})), "x");
  EXPECT_EQ(scan_string(scan_path(kText, {"metadata", "e"})), "");  // escapes are not for it
  EXPECT_EQ(scan_member(kText, "missing"), "");
}

TEST(JsonScan, APathEndsWithItsObject) {
  EXPECT_EQ(scan_path(R"({"a":{},"uid":"x"})", {"a", "uid"}), "");
  EXPECT_EQ(scan_path(R"({"a":"{","uid":"x"})", {"a", "uid"}), "");
  EXPECT_EQ(scan_path(R"({"a":[{"uid":1}],"uid":"x"})", {"a", "uid"}), "");
  EXPECT_EQ(scan_path(R"({"b":{"a":{"uid":1}},"a":{"c":{"uid":2},"uid":3}})", {"a", "uid"}), "3");
  // What comes after the value is not looked at.
  EXPECT_EQ(scan_path(R"({"a":{"uid":7,"managedFields":[{"cut)", {"a", "uid"}), "7");
}

TEST(JsonScan, WalksArrays) {
  ArrayScan scan(R"([1, "two" ,{"three":[3]},[]])");
  std::string_view value;
  std::string all;
  while (scan.next(&value)) all += std::string(value) + ";";
  EXPECT_EQ(all, R"(1;"two";{"three":[3]};[];)");
}

TEST(JsonScan, ATextCutAnywhereIsSafe) {
  const std::string text = R"({"metadata":{"uid":"u1","l":{"a":"b\"c"}},"s":[{"x":1},null,"é"],"z":{"y":[[1]]}})";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const std::string part = text.substr(0, cut);
    ObjectScan scan(part);
    std::string_view key;
    std::string_view value;
    int members = 0;
    while (scan.next(&key, &value)) ++members;
    EXPECT_LE(members, 3);
    scan_path(part, {"z", "y"});
    value_length(part);
  }
  EXPECT_EQ(value_length(text + "tail"), text.size());
}

}  // namespace
}  // namespace ghostfleet::agent
