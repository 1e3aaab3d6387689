#include "kube/api/selector.h"

#include <gtest/gtest.h>

namespace ghostfleet::kube {
namespace {

std::string parsed(std::string_view text) {
  ApiResult<LabelSelector> s = LabelSelector::parse(text);
  return s.ok() ? s->to_string() : "error: " + s.error().message;
}

bool matches(std::string_view selector, const JsonObject& labels) {
  ApiResult<LabelSelector> s = LabelSelector::parse(selector);
  return s.ok() && s->matches(&labels);
}

TEST(LabelSelectorTest, Parses) {
  EXPECT_EQ(parsed(""), "");
  EXPECT_EQ(parsed(" app = web , tier != back "), "app=web,tier!=back");
  EXPECT_EQ(parsed("a==b"), "a=b");
  EXPECT_EQ(parsed("x in (b,a),y notin (c),!z,w"), "w,x in (a,b),y notin (c),!z");
  EXPECT_EQ(parsed("n>3,m<4"), "m<4,n>3");
  EXPECT_EQ(parsed("app="), "app=");
  EXPECT_EQ(parsed("in in (in)"), "in in (in)");
  EXPECT_EQ(parsed("a in (,)"), "a in ()");
  EXPECT_EQ(parsed("a in ()"), "a in ()");
}

// Texts printed by k8s.io/apimachinery.
TEST(LabelSelectorTest, Errors) {
  EXPECT_EQ(parsed("!!a"), "error: unable to parse requirement: found '!', expected: identifier");
  EXPECT_EQ(parsed(",a"), "error: found ',', expected: !, identifier, or 'end of string'");
  EXPECT_EQ(parsed("a,,b"), "error: found ',', expected: identifier after ','");
  EXPECT_EQ(parsed("a,"), "error: found '', expected: identifier after ','");
  EXPECT_EQ(parsed("a b"), "error: unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt");
  EXPECT_EQ(parsed("a in b"), "error: unable to parse requirement: found 'b' expected: '('");
  EXPECT_EQ(parsed("a in (b c)"), "error: unable to parse requirement: found 'c', expected: ',' or ')'");
  EXPECT_EQ(parsed("a=b c"), "error: found 'c', expected: ',' or 'end of string'");
  EXPECT_EQ(parsed("a>b"),
            "error: unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value "
            "must be an integer");
  EXPECT_NE(parsed("-a").find("unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist"),
            std::string::npos);
  EXPECT_NE(parsed("a=-b").find("unable to parse requirement: values[0][a]: Invalid value: \"-b\": a valid label must"),
            std::string::npos);
}

TEST(LabelSelectorTest, Matches) {
  const JsonObject web = {{"app", "web"}, {"n", "30"}};
  EXPECT_TRUE(matches("app=web", web));
  EXPECT_TRUE(matches("app!=db", web));
  EXPECT_TRUE(matches("none!=x", web));
  EXPECT_FALSE(matches("none=x", web));
  EXPECT_FALSE(matches("app=", web));
  EXPECT_TRUE(matches("app in (db,web)", web));
  EXPECT_TRUE(matches("other notin (a)", web));
  EXPECT_TRUE(matches("app,!b", web));
  EXPECT_TRUE(matches("n>2", web));
  EXPECT_FALSE(matches("app>2", web));
  EXPECT_FALSE(LabelSelector::nothing().matches(&web));
  EXPECT_TRUE(LabelSelector::everything().matches(nullptr));
}

TEST(LabelSelectorTest, FromJson) {
  Json selector =
      *parse_json(R"({"matchLabels":{"a":"b"},"matchExpressions":[{"key":"c","operator":"NotIn","values":["d"]}]})");
  ApiResult<LabelSelector> s = LabelSelector::from_json(&selector);
  ASSERT_TRUE(s.ok());
  EXPECT_EQ(s->to_string(), "a=b,c notin (d)");
  EXPECT_TRUE(LabelSelector::from_json(nullptr)->matches_nothing());
  Json empty = JsonObject();
  EXPECT_TRUE(LabelSelector::from_json(&empty)->empty());
  Json bad = *parse_json(R"({"matchExpressions":[{"key":"c","operator":"Like"}]})");
  EXPECT_EQ(LabelSelector::from_json(&bad).error().message, "\"Like\" is not a valid label selector operator");
}

TEST(FieldSelectorTest, ParsesAndRefuses) {
  ApiResult<std::vector<FieldRequirement>> r =
      parse_field_selector("status.phase!=Failed,metadata.name==a\\,b,spec.nodeName=");
  ASSERT_TRUE(r.ok());
  ASSERT_EQ(r->size(), 3u);
  EXPECT_EQ((*r)[0].field, "metadata.name");
  EXPECT_EQ((*r)[0].value, "a,b");
  EXPECT_EQ((*r)[1].value, "");
  EXPECT_FALSE((*r)[2].equals);
  EXPECT_TRUE(parse_field_selector("")->empty());
  EXPECT_EQ(parse_field_selector("abc").error().message, "invalid selector: 'abc'; can't understand 'abc'");
  EXPECT_EQ(parse_field_selector("a=b=c").error().message, "invalid field selector: unescaped character in value: 61");
  EXPECT_EQ(parse_field_selector("a=b\\c").error().message, "invalid field selector: invalid escape sequence: \\c");
}

}  // namespace
}  // namespace ghostfleet::kube
