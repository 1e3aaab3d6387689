#include <gtest/gtest.h>

#include "kube/cel/program.h"

namespace ghostfleet::kube::cel {
namespace {

// A device of the kind that selectors look at.
Value device() {
  Map gpu;
  gpu.emplace("type", Value(std::string("gpu")));
  gpu.emplace("index", Value(int64_t{3}));
  gpu.emplace("shared", Value(false));
  gpu.emplace("driverVersion", Value(Semver::parse("580.95.5").value()));
  Map attributes, capacity, out, memory;
  attributes.emplace("gpu.nvidia.com", Value::map(std::move(gpu)));
  memory.emplace("memory", Value(Quantity::parse("80Gi").value()));
  capacity.emplace("gpu.nvidia.com", Value::map(std::move(memory)));
  out.emplace("driver", Value(std::string("gpu.nvidia.com")));
  out.emplace("attributes", Value::map_of_maps(std::move(attributes)));
  out.emplace("capacity", Value::map_of_maps(std::move(capacity)));
  return Value::map(std::move(out));
}

// "true", "false", or the error.
std::string eval(std::string_view text, uint64_t cost = kMaxCost) {
  const auto program = Program::compile(text, {"device"});
  if (!program.ok()) return program.error().message();
  const auto result = (*program)->test({{"device", device()}}, cost);
  if (!result.ok()) return result.error().message();
  return *result ? "true" : "false";
}

#define HOLDS(text) EXPECT_EQ(eval(text), "true") << (text)
#define FAILS(text) EXPECT_EQ(eval(text), "false") << (text)

TEST(Cel, SelectsDevices) {
  HOLDS("device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'");
  FAILS("device.driver == \"neuron.aws.com\"");
  HOLDS("device.attributes[\"gpu.nvidia.com\"].index in [1, 3, 5]");
  HOLDS("!device.attributes['gpu.nvidia.com'].shared");
  HOLDS("device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0");
  HOLDS("device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('79Gi'))");
  FAILS("device.capacity['gpu.nvidia.com'].memory.isLessThan(quantity('80Gi'))");
  HOLDS("device.capacity['gpu.nvidia.com'].memory == quantity('81920Mi')");
  HOLDS("device.attributes['gpu.nvidia.com'].driverVersion.compareTo(semver('550.0.0')) > 0");
  HOLDS("device.attributes['gpu.nvidia.com'].driverVersion.major() == 580");
  HOLDS("has(device.attributes['gpu.nvidia.com'].type) && !has(device.attributes['gpu.nvidia.com'].model)");
  HOLDS("'gpu.nvidia.com' in device.attributes && !('other' in device.attributes)");
  FAILS("has(device.attributes['nobody'].x)");
  HOLDS("device.attributes['gpu.nvidia.com'].?model.orValue('none') == 'none'");
  HOLDS("device.attributes['gpu.nvidia.com'].?type.hasValue()");
  HOLDS("device.attributes[?'gpu.nvidia.com'].type.orValue('') == 'gpu'");
  HOLDS("cel.bind(a, device.attributes['gpu.nvidia.com'], a.type == 'gpu' && a.index > 2)");
  EXPECT_EQ(eval("device.attributes['gpu.nvidia.com'].model == 'x'"), "no such key: model");
}

TEST(Cel, AnErrorCountsOnlyWhenItMatters) {
  HOLDS("device.attributes['x'].y == 1 || true");
  HOLDS("true || device.attributes['x'].y == 1");
  FAILS("device.attributes['x'].y == 1 && false");
  EXPECT_EQ(eval("device.attributes['x'].y == 1 && true"), "no such key: y");
  EXPECT_EQ(eval("1 && true"), "no such overload");
  HOLDS("[1, 0].exists(i, 1 / i == 1)");
  EXPECT_EQ(eval("[0, 2].exists(i, 1 / i == 1)"), "division by zero");
}

TEST(Cel, Operators) {
  HOLDS("1 + 2 * 3 == 7 && (1 + 2) * 3 == 9 && 7 / 2 == 3 && -7 % 3 == -1 && 2 - 3 - 4 == -5");
  HOLDS("1 == 1.0 && 1 == 1u && 2u > 1 && -1 < 1u && 1.5 < 2 && !(1 == '1')");
  HOLDS("true ? true : false");
  HOLDS("false ? false : true ? true : false");
  HOLDS("'a' + 'b' == 'ab' && 'a' < 'b' && [1] + [2] == [1, 2] && {'a': 1} == {'a': 1.0}");
  HOLDS("!!true && --1 == 1 && -(-9223372036854775808 + 1) == 9223372036854775807");
  HOLDS("{'a': {'b': [1, 2]}}.a.b[1] == 2");
  EXPECT_EQ(eval("9223372036854775807 + 1 == 0"), "integer overflow");
  EXPECT_EQ(eval("1 / 0 == 0"), "division by zero");
  EXPECT_EQ(eval("[1][1] == 1"), "index out of bounds: 1");
  EXPECT_EQ(eval("'a' < 1"), "no such overload");
}

TEST(Cel, TextAndLoops) {
  HOLDS(
      "'gpu-0'.startsWith('gpu') && 'gpu-0'.endsWith('0') && 'gpu-0'.contains('u-') && 'gpu-0'.matches('^g.*[0-9]$')");
  HOLDS("'H100'.lowerAscii() == 'h100' && 'é'.size() == 1 && size([1, 2]) == 2 && size({'a': 1}) == 1");
  HOLDS("r'a\\d' == 'a\\\\d' && 'tab\\t\\x41\\u00e9\\101' == 'tab\\tAéA' && '''a'b''' == \"a'b\"");
  HOLDS("[1, 2, 3].all(i, i > 0) && [1, 2].exists(i, i == 2) && [1, 2, 2].exists_one(i, i == 1)");
  HOLDS("[1, 2, 3].filter(i, i > 1).map(i, i * 2) == [4, 6] && [1, 2].map(i, i > 1, i) == [2]");
  HOLDS("{'a': 1, 'b': 2}.all(k, k in ['a', 'b'])");
  HOLDS("int('7') == 7 && double('1.5') == 1.5 && string(3) == '3' && int(2.9) == 2");
  HOLDS("isQuantity('1Gi') && !isQuantity('x') && isSemver('1.2.3-rc.1') && !isSemver('1.2')");
  HOLDS("quantity('1Gi').add(quantity('1Gi')) == quantity('2Gi') && quantity('2').asInteger() == 2");
}

TEST(Cel, VersionsHaveTheirOrder) {
  const char* const order[] = {
      "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1",
      "1.0.0",       "1.0.1",         "1.10.0",           "2.0.0"};
  for (size_t i = 0; i + 1 < std::size(order); ++i) {
    EXPECT_EQ(Semver::parse(order[i])->compare(*Semver::parse(order[i + 1])), -1) << order[i];
    EXPECT_EQ(Semver::parse(order[i + 1])->compare(*Semver::parse(order[i])), 1) << order[i];
  }
  EXPECT_EQ(Semver::parse("1.0.0+a")->compare(*Semver::parse("1.0.0+b")), 0);
  for (const char* bad : {"1", "1.2", "01.2.3", "1.2.3.4", "v1.2.3", "1.2.3-", "1.2.3-01", "1.2.3+", ""})
    EXPECT_FALSE(Semver::parse(bad).ok()) << bad;
}

TEST(Cel, SaysWhatItDoesNotUnderstand) {
  EXPECT_EQ(eval("devise.driver == 'x'"), "1:1: undeclared reference to 'devise'");
  EXPECT_EQ(eval("duration('1h') > duration('1m')"),
            "1:1: undeclared reference to 'duration': the function is not known here");
  EXPECT_EQ(
      eval("true &&\n  'a'.startsWith()"),
      "2:6: startsWith(): it is called with too few or too many arguments, or as the wrong kind of call (x.f() or "
      "f(x))");
  EXPECT_EQ(eval("device.driver =="), "1:17: an expression is expected, not the end");
  EXPECT_EQ(eval("device.driver = 'x'"), "1:15: an operator or the end is expected, not '='");
  EXPECT_EQ(eval("(true"), "1:6: ')' is expected, not the end");
  EXPECT_EQ(eval("'abc"), "1:1: a string does not end");
  EXPECT_EQ(eval("true false"), "1:6: an operator or the end is expected, not 'false'");
  EXPECT_EQ(eval("device.driver"), "the expression comes to a string: true or false is expected");
  EXPECT_EQ(eval("[1].all(1, true)"), "1:4: all(variable, expression) is expected");
  EXPECT_EQ(eval("has(device)"), "1:1: has(object.field) is expected");
  EXPECT_EQ(eval("[1].exists(i, i == 1) && i == 1"), "1:26: undeclared reference to 'i'");
  EXPECT_EQ(eval("18446744073709551616 == 1"), "1:1: invalid number 18446744073709551616");
}

TEST(Cel, HasLimits) {
  EXPECT_NE(eval(std::string(200, '(') + "true" + std::string(200, ')')).find("levels of nesting"), std::string::npos);
  EXPECT_NE(eval(std::string(300, '!') + "true").find("levels of nesting"), std::string::npos);
  std::string chain = "true";
  for (int i = 0; i < 200; ++i) chain += " && true";
  EXPECT_NE(eval(chain).find("operators in a row"), std::string::npos);
  std::string deep = "1";
  for (int i = 0; i < 45; ++i) {
    deep = "(" + deep + ")";
    for (int k = 0; k < 99; ++k) deep += "+1";
  }
  EXPECT_EQ(eval(deep + " > 0"), "more than 500 levels of operators and brackets");
  EXPECT_NE(eval(std::string(kMaxCost, ' ')).find("at most 10240 are read"), std::string::npos);
  EXPECT_EQ(eval("[1, 2, 3].all(a, [1, 2, 3].all(b, [1, 2, 3].all(c, a * b * c > 0)))", 50),
            "operation cancelled: actual cost limit exceeded");
  HOLDS("[1, 2, 3].all(a, [1, 2, 3].all(b, [1, 2, 3].all(c, a * b * c > 0)))");
}

}  // namespace
}  // namespace ghostfleet::kube::cel
