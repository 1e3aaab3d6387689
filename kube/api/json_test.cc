#include "kube/api/json.h"

#include <gtest/gtest.h>

#include "kube/api/json_scanner.h"

namespace ghostfleet::kube {
namespace {

std::string error_of(std::string_view text) {
  auto r = parse_json(text);
  return r.ok() ? "no error: " + to_json(*r) : r.error().message();
}

std::string again(std::string_view text) {
  auto r = parse_json(text);
  return r.ok() ? to_json(*r) : r.error().message();
}

TEST(Json, KeepsOrderAndTypes) {
  EXPECT_EQ(again(R"( {"b":1,"a":[true,false,null,-0,1.5,"x"],"c":{}} )"),
            R"({"b":1,"a":[true,false,null,0,1.5,"x"],"c":{}})");
  EXPECT_TRUE(parse_json("9223372036854775807")->is_int64());
  EXPECT_TRUE(parse_json("9223372036854775808")->is_uint64());
  EXPECT_TRUE(parse_json("18446744073709551616")->is_double());
  EXPECT_TRUE(parse_json("1.0")->is_double());
}

TEST(Json, WritesNumbersAsGoDoes) {
  EXPECT_EQ(again("1e20"), "100000000000000000000");
  EXPECT_EQ(again("1e21"), "1e+21");
  EXPECT_EQ(again("1e-7"), "1e-7");
  EXPECT_EQ(again("0.000001"), "0.000001");
  EXPECT_EQ(again("10.0"), "10");
  EXPECT_EQ(error_of("1e999"), "json: cannot unmarshal number 1e999 into Go value of type float64");
}

TEST(Json, EscapesAsGoDoes) {
  EXPECT_EQ(to_json(Json("<a>&\"\\\n\b\f\x01/\x7f")), "\"\\u003ca\\u003e\\u0026\\\"\\\\\\n\\b\\f\\u0001/\x7f\"");
  EXPECT_EQ(to_json(Json("\xE2\x80\xA8\xE2\x80\xA9\xE2\x82\xAC")), "\"\\u2028\\u2029\xE2\x82\xAC\"");
}

TEST(Json, StringsBecomeValidUtf8) {
  EXPECT_EQ(again("\"\\u00e9\\ud83d\\ude00\\/\""), "\"\xC3\xA9\xF0\x9F\x98\x80/\"");
  EXPECT_EQ(again("\"a\xFFz\""), "\"a\xEF\xBF\xBDz\"");
  EXPECT_EQ(again("\"\\ud800x\""), "\"\xEF\xBF\xBDx\"");
  EXPECT_EQ(again("\"\\ud800\\u0041\""),
            "\"\xEF\xBF\xBD"
            "A\"");
  EXPECT_EQ(again("\"\xED\xA0\x80\""), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

TEST(Json, SyntaxErrorsInTheWordsOfARealServer) {
  EXPECT_EQ(error_of("apiVersion: v1"), "invalid character 'a' looking for beginning of value");
  EXPECT_EQ(error_of("{bad"), "invalid character 'b' looking for beginning of object key string");
  EXPECT_EQ(error_of("{\"a\":1,}"), "invalid character '}' looking for beginning of object key string");
  EXPECT_EQ(error_of("{\"a\" 1}"), "invalid character '1' after object key");
  EXPECT_EQ(error_of("{\"a\":1 2}"), "invalid character '2' after object key:value pair");
  EXPECT_EQ(error_of("[1 2]"), "invalid character '2' after array element");
  EXPECT_EQ(error_of("[1,]"), "invalid character ']' looking for beginning of value");
  EXPECT_EQ(error_of("{} x"), "invalid character 'x' after top-level value");
  EXPECT_EQ(error_of("01"), "invalid character '1' after top-level value");
  EXPECT_EQ(error_of("-x"), "invalid character 'x' in numeric literal");
  EXPECT_EQ(error_of("1.x"), "invalid character 'x' after decimal point in numeric literal");
  EXPECT_EQ(error_of("1ex"), "invalid character 'x' in exponent of numeric literal");
  EXPECT_EQ(error_of("trux"), "invalid character 'x' in literal true (expecting 'e')");
  EXPECT_EQ(error_of("\"\\x\""), "invalid character 'x' in string escape code");
  EXPECT_EQ(error_of("\"\\u12g4\""), "invalid character 'g' in \\u hexadecimal character escape");
  EXPECT_EQ(error_of("\"a\nb\""), "invalid character '\\n' in string literal");
  for (const char* cut :
       {"", " ", "{", "[", "{\"a\"", "{\"a\":", "{\"a\":1", "[1", "\"a", "\"\\", "\"\\u1", "-", "tr"}) {
    EXPECT_EQ(error_of(cut), "unexpected end of JSON input") << cut;
  }
}

TEST(Json, SkippingFindsTheSameErrorsAsParsing) {
  for (std::string_view text : {"{\"a\":[1,{\"b\":null}],\"c\":\"\\n\"}", "[[],{}]", "{\"a\":1,}", "[1 2]", "{\"a\" 1}",
                                "\"\\x\"", "[01]", "{\"a\":tru}", "[1"}) {
    JsonScanner scan(text);
    const bool ok = scan.skip_value(0) && scan.finish();
    auto parsed = parse_json(text);
    EXPECT_EQ(ok, parsed.ok()) << text;
    if (ok || parsed.ok()) continue;
    EXPECT_EQ(scan.error(), parsed.error().message()) << text;
  }
}

TEST(Json, DuplicatesAreReportedOnceAndTheLastWins) {
  std::vector<std::string> duplicates;
  JsonParseOptions options;
  options.duplicates = &duplicates;
  auto r = parse_json(R"({"a":{"x":1,"x":2,"x":3},"b":[{"c":1,"c":2}],"a":5})", options);
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(to_json(*r), R"({"a":5,"b":[{"c":2}]})");
  EXPECT_EQ(duplicates, (std::vector<std::string>{"a.x", "b[0].c", "a"}));
}

TEST(Json, DepthIsLimited) {
  auto nested = [](int n) {
    return std::string(static_cast<size_t>(n), '[') + std::string(static_cast<size_t>(n), ']');
  };
  EXPECT_TRUE(parse_json(nested(kMaxJsonTreeDepth)).ok());
  EXPECT_EQ(error_of(nested(kMaxJsonTreeDepth + 1)), "invalid character '[' exceeded max depth");
  EXPECT_EQ(error_of(nested(1'000'000)), "invalid character '[' exceeded max depth");
  const std::string deepest = nested(kMaxJsonTextDepth);
  EXPECT_TRUE(JsonScanner(deepest).skip_value(0));
  const std::string deeper = nested(kMaxJsonTextDepth + 1);
  EXPECT_FALSE(JsonScanner(deeper).skip_value(0));
}

TEST(Json, Paths) {
  Json v = *parse_json(R"({"a":{"b":[1],"n":null,"s":"x","i":5,"t":true}})");
  EXPECT_EQ(get_string(v, "a.s"), "x");
  EXPECT_EQ(get_string(v, "a.i"), "");
  EXPECT_EQ(get_int(v, "a.i"), 5);
  EXPECT_EQ(get_int(v, "a.x", 7), 7);
  EXPECT_TRUE(get_bool(v, "a.t"));
  EXPECT_EQ(get_array(v, "a.b")->size(), 1u);
  EXPECT_EQ(get_object(v, "a.b"), nullptr);
  set_path(v, "a.n.deep", 3);
  EXPECT_EQ(get_int(v, "a.n.deep"), 3);
  erase_path(v, "a.b");
  erase_path(v, "x.y.z");
  ensure_array(v, "l").emplace_back(1);
  ensure_object(v, "a.o")["k"] = 1;
  EXPECT_EQ(to_json(v), R"({"a":{"n":{"deep":3},"s":"x","i":5,"t":true,"o":{"k":1}},"l":[1]})");
}

TEST(Json, Equality) {
  EXPECT_TRUE(json_equal(*parse_json(R"({"a":1,"b":[1.0]})"), *parse_json(R"({"b":[1],"a":1.0})")));
  EXPECT_FALSE(json_equal(*parse_json(R"({"a":1})"), *parse_json(R"({"a":1,"b":null})")));
  EXPECT_FALSE(json_equal(*parse_json("[1,2]"), *parse_json("[2,1]")));
  EXPECT_FALSE(json_equal(Json(true), Json(false)));
  EXPECT_FALSE(json_equal(Json(-1), Json(uint64_t{18446744073709551615ULL})));
}

}  // namespace
}  // namespace ghostfleet::kube
