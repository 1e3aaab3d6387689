// The small languages of the sandbox: patterns, sed, arithmetic.
#include <gtest/gtest.h>

#include "agent/behavior/shell_arithmetic.h"
#include "agent/kubelet_api/sandbox/pattern.h"
#include "agent/kubelet_api/sandbox/sed_script.h"

namespace ghostfleet::kubelet_api {
namespace {

using Syntax = Pattern::Syntax;

std::string first_match(const char* pattern, Syntax syntax, std::string_view text) {
  std::string error;
  const auto compiled = Pattern::compile(pattern, syntax, false, &error);
  if (!compiled) return "error: " + error;
  std::vector<std::string_view> groups;
  return compiled->find(text, 0, &groups) ? std::string(groups[0]) : "none";
}

TEST(Pattern, BasicAndExtendedDifferInWhatABackslashDoes) {
  EXPECT_EQ(first_match("a+", Syntax::kBasic, "aa a+"), "a+");
  EXPECT_EQ(first_match("a\\+", Syntax::kBasic, "aa a+"), "aa");
  EXPECT_EQ(first_match("a+", Syntax::kExtended, "aa a+"), "aa");
  EXPECT_EQ(first_match("(b)", Syntax::kBasic, "b (b)"), "(b)");
  EXPECT_EQ(first_match("\\(b\\|c\\)\\{2\\}", Syntax::kBasic, "b bc"), "bc");
  EXPECT_EQ(first_match("(b|c){2}", Syntax::kExtended, "b bc"), "bc");
  EXPECT_EQ(first_match("*a", Syntax::kBasic, "a*a"), "*a");
  EXPECT_EQ(first_match("a^b$c", Syntax::kBasic, "a^b$c"), "a^b$c");
  EXPECT_EQ(first_match("^b", Syntax::kBasic, "ab"), "none");
  EXPECT_EQ(first_match("[]\\x[:digit:]]*", Syntax::kBasic, "]\\x9y"), "]\\x9");
  EXPECT_EQ(first_match("a.c", Syntax::kFixed, "abc a.c"), "a.c");
  EXPECT_EQ(first_match("ab|abc", Syntax::kExtended, "abcd"), "abc");  // the longest
}

TEST(Pattern, WhatIsWrongIsSaid) {
  EXPECT_EQ(first_match("[a", Syntax::kBasic, ""), "error: unmatched [");
  EXPECT_EQ(first_match("a\\", Syntax::kBasic, ""), "error: trailing backslash (\\)");
  EXPECT_NE(first_match("\\(a\\)\\1", Syntax::kBasic, "").find("back references"), std::string::npos);
  EXPECT_NE(first_match("(a", Syntax::kExtended, "").find("error"), std::string::npos);
  EXPECT_NE(first_match(std::string(2000, 'a').c_str(), Syntax::kBasic, "").find("too long"), std::string::npos);
}

std::string sed(std::string_view script, std::string_view input, bool quiet = false) {
  std::string error;
  const auto parsed = SedScript::parse(script, Syntax::kBasic, &error);
  return parsed ? parsed->run(input, quiet) : "error: " + error;
}

TEST(Sed, Substitutes) {
  EXPECT_EQ(sed("s/a/b/", "aa\nca\n"), "ba\ncb\n");
  EXPECT_EQ(sed("s/a/b/g", "aa\n"), "bb\n");
  EXPECT_EQ(sed("s/a/b/2", "aaa"), "aba");  // and no newline is added
  EXPECT_EQ(sed("s/a/b/2g", "aaa"), "abb");
  EXPECT_EQ(sed("s|/usr|&/local|", "/usr/bin\n"), "/usr/local/bin\n");
  EXPECT_EQ(sed("s/\\(.*\\)=\\(.*\\)/\\2=\\1/", "k=v\n"), "v=k\n");
  EXPECT_EQ(sed("s/A/x/I", "a\n"), "x\n");
  EXPECT_EQ(sed("s/x*/-/g", "abc\n"), "-a-b-c-\n");
  EXPECT_EQ(sed("s/b*/-/g", "abc\n"), "-a-c-\n");
  EXPECT_EQ(sed("s/[/]/,/;s/,/\\n/", "a/b\n"), "a\nb\n");
}

TEST(Sed, ChoosesLines) {
  const char* text = "1\n2\n3\n4\n";
  EXPECT_EQ(sed("2p", text, true), "2\n");
  EXPECT_EQ(sed("2,3p", text, true), "2\n3\n");
  EXPECT_EQ(sed("$p", text, true), "4\n");
  EXPECT_EQ(sed("/2/,/3/d", text), "1\n4\n");
  EXPECT_EQ(sed("3,1p", text, true), "3\n");
  EXPECT_EQ(sed("2!d", text), "2\n");
  EXPECT_EQ(sed("2q", text), "1\n2\n");
  EXPECT_EQ(sed("$=", text, true), "4\n");
  EXPECT_EQ(sed("s/[23]/x/p", text, true), "x\nx\n");
}

TEST(Sed, WhatIsWrongIsSaid) {
  EXPECT_EQ(sed("s/a/b", ""), "error: unterminated `s' command");
  EXPECT_EQ(sed("y/a/b/", ""), "error: unknown command: `y'");
  EXPECT_EQ(sed("s/a/\\1/", ""), "error: invalid reference \\1 on `s' command's RHS");
  EXPECT_EQ(sed("s/a/b/gx", ""), "error: extra characters after command");
  EXPECT_EQ(sed("2", ""), "error: missing command");
  EXPECT_EQ(sed("1,p", ""), "error: unexpected `,'");
  EXPECT_EQ(sed("/a", ""), "error: unterminated address regex");
}

TEST(Sed, ALineThatGrowsIsCut) {
  std::string script;
  for (int i = 0; i < 30; ++i) script += "s/.*/&&/;";
  EXPECT_LE(sed(script, "xxxx\n").size(), SedScript::kMaxSpace + 1);
}

std::string value_of(std::string_view text) {
  std::string error;
  const auto variable = [](std::string_view name) { return name == "x" ? std::string("5") : std::string(); };
  const auto value = agent::shell::evaluate(text, variable, &error);
  return value ? std::to_string(*value) : error;
}

TEST(Arithmetic, AsInC) {
  EXPECT_EQ(value_of("1 + 2*3"), "7");
  EXPECT_EQ(value_of("(1+2) * 3"), "9");
  EXPECT_EQ(value_of("10 - 3 - 2"), "5");
  EXPECT_EQ(value_of("-7 / 2"), "-3");
  EXPECT_EQ(value_of("7 % 3 << 2"), "4");
  EXPECT_EQ(value_of("x > 3 && y == 0"), "1");
  EXPECT_EQ(value_of("x ? 0x10 : 010"), "16");
  EXPECT_EQ(value_of("0 ? 1/0 : 010"), "8");
  EXPECT_EQ(value_of("1 || 1/0"), "1");
  EXPECT_EQ(value_of("!x + ~0"), "-1");
  EXPECT_EQ(value_of("6 & 3 | 8 ^ 1"), "11");
  EXPECT_EQ(value_of("9223372036854775807 + 1"), "-9223372036854775808");
  EXPECT_EQ(value_of("(-9223372036854775807 - 1) / -1"), "-9223372036854775808");
}

TEST(Arithmetic, WhatIsWrongIsSaid) {
  for (const char* bad : {"", "1 +", "1 2", "(1", "1 ? 2", "x = 3", "08", "a b", "1x"})
    EXPECT_EQ(value_of(bad), "arithmetic syntax error") << bad;
  EXPECT_EQ(value_of("1 / y"), "divide by zero");
  EXPECT_EQ(value_of(std::string(1000, '(') + "1" + std::string(1000, ')')), "arithmetic syntax error");
}

}  // namespace
}  // namespace ghostfleet::kubelet_api
