#include <gtest/gtest.h>

#include "kube/api/codec.h"

namespace ghostfleet::kube {
namespace {

std::string read(std::string_view text) {
  auto r = parse_yaml(text);
  return r.ok() ? to_json(*r) : r.error().message();
}

TEST(Yaml, WordsAndNumbersOfVersionOneOne) {
  EXPECT_EQ(read("[y, Yes, on, TRUE, n, No, off, False, ~, null, '', 'yes', \"no\"]"),
            R"([true,true,true,true,false,false,false,false,null,null,"","yes","no"])");
  EXPECT_EQ(read("[012, 0x1F, 0b101, 0o17, -5, +7, 1_000, 08, 1.5, .5, 1e3, 1e, 5., +1.5]"),
            R"([10,31,5,15,-5,7,1000,8,1.5,0.5,1000,"1e",5,1.5])");
  EXPECT_EQ(read("[2026-01-02, 2026-01-02T03:04:05Z, 1:30, v1, -, 1Gi, 100m]"),
            R"(["2026-01-02","2026-01-02T03:04:05Z","1:30","v1","-","1Gi","100m"])");
  EXPECT_EQ(read("[!!str 5, !!str yes, !!binary aGk=, ! 7]"), R"(["5","yes","hi","7"])");
  EXPECT_EQ(read("{1: a, yes: b, 1.5: c}"), R"({"1":"a","true":"b","1.5":"c"})");
}

TEST(Yaml, BlocksAndStructure) {
  EXPECT_EQ(read("a:\n- b: 1\n  c: |\n    x\n    y\n- >-\n  p\n  q\n"), R"({"a":[{"b":1,"c":"x\ny\n"},"p q"]})");
  EXPECT_EQ(read(""), "null");
  EXPECT_EQ(read("# only a comment\n"), "null");
  EXPECT_EQ(read("{\"a\": [1, {\"b\": null}]}"), R"({"a":[1,{"b":null}]})");
}

TEST(Yaml, AnchorsMergesAndBombs) {
  EXPECT_EQ(read("a: &x {p: 1, q: 2}\nb: *x\nc:\n  <<: *x\n  q: 3\nd:\n  <<: [{z: 1}, *x]\n"),
            R"({"a":{"p":1,"q":2},"b":{"p":1,"q":2},"c":{"q":3,"p":1},"d":{"z":1,"p":1,"q":2}})");
  EXPECT_EQ(read("a: *nosuch"), "yaml: unknown anchor 'nosuch' referenced");
  EXPECT_EQ(read("a: {<<: 5}"), "yaml: map merge requires map or sequence of maps as the value");
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int k = 0; k < 9; ++k) bomb += "," + before;
    bomb += "]\n";
  }
  EXPECT_EQ(read(bomb), "yaml: document contains excessive aliasing");
  const std::string large(1 << 20, 'x');
  std::string many = "a: &a " + large + "\nb: [";
  for (int i = 0; i < 100; ++i) many += "*a,";
  EXPECT_EQ(read(many + "]"), "yaml: document contains excessive aliasing");
}

TEST(Yaml, ErrorsNameTheLine) {
  EXPECT_EQ(read("apiVersion: v1\n\tkind: [\n"), "yaml: line 2: found a tab character that violates indentation");
  EXPECT_EQ(read("a: 1\nb: [1\n"), "yaml: line 1: did not find expected ',' or ']'");  // as go-yaml counts
  YamlLines lines;
  EXPECT_EQ(parse_yaml_with_lines("a: 1\nb: [1\n", &lines).error().message(),
            "yaml: line 2: did not find expected ',' or ']'");
  EXPECT_EQ(parse_yaml_documents("a: 1\nb: c: d\n").error().message(),
            "yaml: line 2: mapping values are not allowed in this context");
  EXPECT_EQ(read("a: 1\nb: c: d\n"), "yaml: line 2: mapping values are not allowed in this context");
  EXPECT_NE(read(std::string(3000, '[')).find("yaml: "), std::string::npos);
  const size_t n = 502;
  EXPECT_EQ(read(std::string(n, '[') + std::string(n, ']')), "yaml: exceeded max depth");
}

TEST(Yaml, Documents) {
  auto r = parse_yaml_documents("---\na: 1\n---\n# nothing\n---\nb: 2\n...\n");
  ASSERT_TRUE(r.ok());
  ASSERT_EQ(r->size(), 2u);
  EXPECT_EQ(to_json((*r)[0]), R"({"a":1})");
  EXPECT_EQ(to_json((*r)[1]), R"({"b":2})");
  EXPECT_FALSE(parse_yaml_documents("a: 1\n---\nb: [").ok());
}

TEST(Yaml, Lines) {
  YamlLines lines;
  auto r = parse_yaml_with_lines("kind: Fleet\nspec:\n  groups:\n  - count: 1\n  - name: b\n    count: x\n", &lines);
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(lines.line_of("kind"), 1);
  EXPECT_EQ(lines.line_of("spec.groups"), 3);
  EXPECT_EQ(lines.line_of("spec.groups[0].count"), 4);
  EXPECT_EQ(lines.line_of("spec.groups[1]"), 5);
  EXPECT_EQ(lines.line_of("spec.groups[1].count"), 6);
  EXPECT_EQ(lines.line_of("spec.nosuch"), 0);
}

TEST(Yaml, WritesAsKubectlDoes) {
  const Json v = *parse_json(
      R"({"metadata":{"creationTimestamp":"2026-01-02T03:04:05Z","name":"one","labels":{"a10":"x","a2":"y"}},"kind":"ConfigMap",)"
      R"("data":{"key":"yes","n":"5","text":"a\nb\n","plain":"some text: no","empty":"","cut":"x\ny","hash":"a #b"},)"
      R"("list":[{"b":1,"a":[]},"x",[1,[2]],{}],"none":null,"ok":true,"f":1.5})");
  EXPECT_EQ(
      to_yaml(v),
      "data:\n  cut: |-\n    x\n    y\n  empty: \"\"\n  hash: 'a #b'\n  key: \"yes\"\n  \"n\": \"5\"\n  plain: 'some "
      "text: no'\n"
      "  text: |\n    a\n    b\nf: 1.5\nkind: ConfigMap\nlist:\n- a: []\n  b: 1\n- x\n- - 1\n  - - 2\n- {}\n"
      "metadata:\n  creationTimestamp: \"2026-01-02T03:04:05Z\"\n  labels:\n    a2: \"y\"\n    a10: x\n  name: one\n"
      "none: null\nok: true\n");
}

TEST(Yaml, FoldsLongTexts) {
  const auto written = [](std::string_view text) { return to_yaml(Json(JsonObject{{"k", text}})); };
  // The first single space beyond column 80 becomes the line break; what holds none stays long.
  const std::string ten = "123456789 ";
  std::string plain, wide;
  for (int i = 0; i < 10; i++) plain += ten;
  plain += "end";
  EXPECT_EQ(written(plain), "k: " + plain.substr(0, 79) + "\n  " + plain.substr(80) + "\n");
  EXPECT_EQ(written(std::string(200, 'x')), "k: " + std::string(200, 'x') + "\n");
  EXPECT_EQ(written(std::string(90, 'x') + "  two " + "three"), "k: " + std::string(90, 'x') + "  two\n  three\n");
  // Quoted texts likewise; characters count, not bytes.
  EXPECT_EQ(written("a: " + plain), "k: 'a: " + plain.substr(0, 79) + "\n  " + plain.substr(80) + "'\n");
  EXPECT_EQ(written("\x01 " + plain), "k: \"\\x01 " + plain.substr(0, 79) + "\n  " + plain.substr(80) + "\"\n");
  for (int i = 0; i < 78; i++) wide += "é";
  EXPECT_EQ(written(wide + " b c"), "k: " + wide + "\n  b c\n");
  EXPECT_EQ(written(wide.substr(2) + " b c"), "k: " + wide.substr(2) + " b\n  c\n");
  // A key never does.
  EXPECT_EQ(to_yaml(Json(JsonObject{{plain, 1}})), plain + ": 1\n");
}

TEST(Yaml, WhatIsWrittenReadsBackTheSame) {
  for (std::string text : {"",
                           "a long text that is folded somewhere in its middle, and that is longer than the width of "
                           "a line   with some  spaces in a row, and at the end one ",
                           "a long: text that is folded somewhere in its middle, and that is longer than the width   "
                           "of  a line, once more and yet again until it is long enough to be folded twice, I hope ",
                           "\x02 long text that is folded somewhere in its middle, and that is longer than the width   "
                           "of  a line, once more and yet again until it is long enough to be folded twice, I hope ",
                           " ",
                           "a",
                           " a",
                           "a ",
                           "yes",
                           "-",
                           "- a",
                           "-a",
                           "?",
                           "a: b",
                           "a:",
                           ":a",
                           "#",
                           "a#",
                           "a #b",
                           "{",
                           "[x",
                           "*a",
                           "&a",
                           "!a",
                           "%a",
                           "@a",
                           "`",
                           "'",
                           "\"",
                           "a'b",
                           "x\ty",
                           "a\nb",
                           "a\n",
                           "\na",
                           "\n",
                           "a\n\nb\n\n",
                           " a\nb",
                           "0x1",
                           "1e3",
                           "1_0",
                           ".5",
                           ".",
                           "..",
                           "...",
                           "---",
                           "--- a",
                           "2026-01-02",
                           "~",
                           "null",
                           "=",
                           "<<",
                           "\x01",
                           "\x7f",
                           "é",
                           "a\r\nb",
                           "|",
                           ">",
                           "\\",
                           "a\\b\nc",
                           "12:30",
                           "0",
                           "-0",
                           "+1",
                           "9223372036854775808"}) {
    for (const Json& v :
         {Json(JsonString(text)), Json(JsonArray{JsonString(text)}), Json(JsonObject{{"k", JsonString(text)}}),
          Json(JsonArray{Json(JsonObject{{"k", JsonString(text)}, {"l", JsonArray{JsonString(text)}}})})}) {
      auto r = parse_yaml(to_yaml(v));
      ASSERT_TRUE(r.ok()) << to_yaml(v) << r.error().message();
      EXPECT_TRUE(json_equal(*r, v)) << to_yaml(v) << to_json(*r) << to_json(v);
    }
  }
}

}  // namespace
}  // namespace ghostfleet::kube
