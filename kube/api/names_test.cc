#include "kube/api/names.h"

#include <gtest/gtest.h>

namespace ghostfleet::kube {
namespace {

using List = std::vector<std::string>;

TEST(NamesTest, Labels) {
  EXPECT_EQ(check_dns1123_label("abc-1"), List{});
  EXPECT_EQ(check_dns1123_label("a.b"), List{"must not contain dots"});
  EXPECT_EQ(check_dns1123_label("Bad_Name"),
            List{"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
                 "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
                 "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"});
  EXPECT_EQ(check_dns1123_label(std::string(64, 'a')), List{"must be no more than 63 characters"});
  EXPECT_EQ(check_dns1123_label(std::string(63, 'a')), List{});
}

TEST(NamesTest, Subdomains) {
  EXPECT_EQ(check_dns1123_subdomain("a.b-c.d"), List{});
  EXPECT_EQ(check_dns1123_subdomain("a..b").size(), 1u);
  EXPECT_EQ(check_dns1123_subdomain("").size(), 1u);
  EXPECT_EQ(
      check_dns1123_subdomain("Upper"),
      List{"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
           "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
           "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"});
  EXPECT_EQ(check_dns1035_label("1digit").size(), 1u);
  EXPECT_EQ(check_dns1035_label("svc-1"), List{});
}

TEST(NamesTest, QualifiedNames) {
  EXPECT_EQ(check_qualified_name("example.com/MyName"), List{});
  EXPECT_EQ(check_qualified_name("a_b.c"), List{});
  EXPECT_EQ(check_qualified_name("/x"), List{"prefix part must be non-empty"});
  EXPECT_EQ(check_qualified_name("").front(), "name part must be non-empty");
  EXPECT_EQ(check_qualified_name("a/b/c").size(), 1u);
  EXPECT_EQ(check_qualified_name("x/" + std::string(64, 'a')), List{"name part must be no more than 63 bytes"});
  EXPECT_NE(check_qualified_name("a~b/c")[0].find("prefix part a lowercase RFC 1123 subdomain"), std::string::npos);
}

TEST(NamesTest, Others) {
  EXPECT_EQ(check_label_value(""), List{});
  EXPECT_EQ(check_label_value("-a").size(), 1u);
  EXPECT_EQ(check_path_segment_name(".."), List{"may not be '..'"});
  EXPECT_EQ(check_path_segment_name("a/b%"), (List{"may not contain '/'", "may not contain '%'"}));
  EXPECT_EQ(check_config_map_key("..a"), List{"must not start with '..'"});
  EXPECT_EQ(check_config_map_key("a b").size(), 1u);
  EXPECT_EQ(check_env_var_name("a b"), List{});
  EXPECT_EQ(check_env_var_name("a=b").size(), 1u);
  EXPECT_EQ(check_port_name("http"), List{});
  EXPECT_EQ(check_port_name("80"), List{"must contain at least one letter (a-z)"});
  EXPECT_TRUE(is_valid_ip("10.0.0.1"));
  EXPECT_TRUE(is_valid_ip("fe80::1"));
  EXPECT_FALSE(is_valid_ip("10.0.0"));
  EXPECT_TRUE(is_valid_cidr("10.0.0.0/8"));
  EXPECT_FALSE(is_valid_cidr("10.0.0.0/33"));
  EXPECT_FALSE(is_valid_cidr("10.0.0.0/"));
}

}  // namespace
}  // namespace ghostfleet::kube
