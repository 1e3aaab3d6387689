#include "kube/api/patch.h"

#include <gtest/gtest.h>

namespace ghostfleet::kube {
namespace {

Json json(std::string_view text) {
  Result<Json> value = parse_json(text);
  EXPECT_TRUE(value.ok()) << text;
  return value.ok() ? *value : Json();
}

std::string json_patched(std::string_view target, std::string_view patch) {
  ApiResult<Json> r = apply_json_patch(json(target), json(patch));
  return r.ok() ? to_json(*r) : "error " + std::to_string(r.error().code) + ": " + r.error().message;
}

std::string merge_patched(std::string_view target, std::string_view patch) {
  return to_json(apply_merge_patch(json(target), json(patch)));
}

TEST(JsonPatchTest, Operations) {
  EXPECT_EQ(json_patched(R"({"a":1})", R"([{"op":"add","path":"/b","value":2}])"), R"({"a":1,"b":2})");
  EXPECT_EQ(
      json_patched(R"({"a":[1,2]})", R"([{"op":"add","path":"/a/-","value":3},{"op":"add","path":"/a/0","value":0}])"),
      R"({"a":[0,1,2,3]})");
  EXPECT_EQ(json_patched(R"({"a":{"b~/c":1}})", R"([{"op":"replace","path":"/a/b~0~1c","value":2}])"),
            R"({"a":{"b~/c":2}})");
  EXPECT_EQ(json_patched(R"({"a":1})", R"([{"op":"move","from":"/a","path":"/b"}])"), R"({"b":1})");
  EXPECT_EQ(json_patched(R"({"a":1})", R"([{"op":"copy","from":"/a","path":"/b"}])"), R"({"a":1,"b":1})");
  EXPECT_EQ(json_patched(R"({"a":[1,2,3]})", R"([{"op":"remove","path":"/a/-1"}])"), R"({"a":[1,2]})");
  EXPECT_EQ(json_patched(R"({"a":1})", "[]"), R"({"a":1})");
}

TEST(JsonPatchTest, ReplaceOfAnAbsentKeyAddsAndAddWithoutValueIsNull) {
  EXPECT_EQ(json_patched(R"({"a":1})", R"([{"op":"replace","path":"/b","value":2}])"), R"({"a":1,"b":2})");
  EXPECT_EQ(json_patched(R"({"a":1})", R"([{"op":"add","path":"/b"}])"), R"({"a":1,"b":null})");
}

TEST(JsonPatchTest, Failures) {
  const std::string refused = "error 422: the server rejected our request due to an error in our request";
  for (const char* patch : {R"([{"op":"test","path":"/a","value":2}])", R"([{"op":"remove","path":"/b"}])",
                            R"([{"op":"add","path":"/x/y","value":1}])", R"([{"op":"add","path":"/l/5","value":1}])",
                            R"([{"op":"replace","path":"/l/2","value":1}])", R"([{"op":"nosuch","path":"/a"}])",
                            R"([{"op":"add","path":""}])", R"([{"op":"copy","from":"/zz","path":"/b"}])",
                            R"([{"op":"test","path":"/b","value":1}])"}) {
    EXPECT_EQ(json_patched(R"({"a":1,"l":[1]})", patch), refused) << patch;
  }
  EXPECT_EQ(
      json_patched("{}", "{}"),
      "error 400: error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp");
  EXPECT_EQ(json_patched(R"({"a":1})", R"([{"op":"test","path":"/b","value":null}])"), R"({"a":1})");
}

TEST(JsonPatchTest, LimitOfOperations) {
  std::string patch = "[";
  for (size_t i = 0; i < kMaxJsonPatchOperations; ++i) patch += R"({"op":"test","path":"/a","value":1},)";
  std::string at_limit = patch;
  at_limit.back() = ']';
  EXPECT_EQ(json_patched(R"({"a":1})", at_limit), R"({"a":1})");
  EXPECT_EQ(json_patched(R"({"a":1})", patch + R"({"op":"test","path":"/a","value":1}])"),
            "error 413: Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001");
}

TEST(JsonPatchTest, CopiesCannotExplode) {
  std::string patch = "[";
  for (int i = 0; i < 60; ++i) patch += R"({"op":"copy","from":"/a","path":"/a/-"},)";
  patch.back() = ']';
  EXPECT_EQ(json_patched(R"({"a":["x"]})", patch).substr(0, 9), "error 422");
}

TEST(JsonPatchTest, UnknownFields) {
  EXPECT_EQ(unknown_json_patch_fields(json(R"([{"op":"add","path":"/a","colour":"red"},{"op":"x"}])")),
            std::vector<std::string>{"[0].colour"});
}

TEST(MergePatchTest, Rfc7386) {
  EXPECT_EQ(merge_patched(R"({"a":"b"})", R"({"a":"c"})"), R"({"a":"c"})");
  EXPECT_EQ(merge_patched(R"({"a":"b","b":"c"})", R"({"a":null})"), R"({"b":"c"})");
  EXPECT_EQ(merge_patched(R"({"a":["b"]})", R"({"a":"c"})"), R"({"a":"c"})");
  EXPECT_EQ(merge_patched(R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})"), R"({"a":{"b":"d"}})");
  EXPECT_EQ(merge_patched(R"({})", R"({"a":{"bb":{"ccc":null}}})"), R"({"a":{"bb":{}}})");
  EXPECT_EQ(merge_patched(R"({"a":[{"b":"c"}]})", R"({"a":[1]})"), R"({"a":[1]})");
}

TEST(PatchBodyTest, MustBeAnObject) {
  EXPECT_EQ(check_patch_body(json("[]"), false).error().message,
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}");
  EXPECT_EQ(check_patch_body(json("\"x\""), true).error().message,
            "json: cannot unmarshal string into Go value of type map[string]interface {}");
  EXPECT_EQ(check_patch_body(json("null"), false).error().message, "Invalid JSON Patch");
  EXPECT_TRUE(check_patch_body(json("{}"), false).ok());
}

TEST(PatchTextTest, AsGoPrints) {
  EXPECT_EQ(go_text(json(R"({"b":[1,"x",null],"a":{"c":true}})")), "map[a:map[c:true] b:[1 x <nil>]]");
  const ApiError e = invalid_patch_result("map[extra:1]", "strict decoding error: unknown field \"extra\"");
  EXPECT_EQ(e.code, 422);
  EXPECT_EQ(e.message,
            " \"\" is invalid: patch: Invalid value: \"map[extra:1]\": strict decoding error: unknown field \"extra\"");
}

}  // namespace
}  // namespace ghostfleet::kube
