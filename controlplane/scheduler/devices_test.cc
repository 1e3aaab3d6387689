#include "controlplane/scheduler/devices.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ghostfleet::controlplane::scheduling {
namespace {

using kube::get_array;
using kube::get_string;
using kube::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Json json(const std::string& text) {
  auto parsed = kube::parse_json(text);
  EXPECT_TRUE(parsed.ok()) << text;
  return std::move(*parsed);
}

std::shared_ptr<const std::string> text(const std::string& json) { return std::make_shared<const std::string>(json); }

class DeviceBookTest : public ::testing::Test {
 protected:
  DeviceBookTest() {
    book_.set_class("gpu", json(R"({"spec":{"selectors":[{"cel":{"expression":"device.driver == 'd.io'"}}]}})"));
    slice("n1", 4);
  }
  // Devices g0, g1, ... with attributes numa (two of each), index and model, and a memory that grows.
  void slice(const std::string& node, int count, const std::string& taints = "", int64_t generation = 1) {
    std::string devices;
    for (int i = 0; i < count; ++i) {
      devices += fmt::format(
          R"({}{{"name":"g{}","attributes":{{"numa":{{"int":{}}},"index":{{"int":{}}},"model":{{"string":"m"}},)"
          R"("fw":{{"version":"1.{}.0"}}}},"capacity":{{"memory":{{"value":"{}Gi"}}}}{}}})",
          i == 0 ? "" : ",", i, i / 2, i, i, 10 * (i + 1), i == 0 ? taints : "");
    }
    book_.set_slice(
        "slice-" + node,
        text(fmt::format(R"({{"spec":{{"driver":"d.io","nodeName":"{0}","pool":{{"name":"{0}","generation":{1},)"
                         R"("resourceSliceCount":1}},"devices":[{2}]}}}})",
                         node, generation, devices)));
  }
  static Json claim(const std::string& requests, const std::string& more = "", const std::string& name = "c") {
    return json(R"({"metadata":{"namespace":"t","name":")" + name + R"("},"spec":{"devices":{"requests":[)" + requests +
                "]" + more + "}}}");
  }
  static std::string exactly(const std::string& more = "", const std::string& name = "r") {
    return R"({"name":")" + name + R"(","exactly":{"deviceClassName":"gpu")" + more + "}}";
  }
  static std::string selector(const std::string& expression) {
    return R"(,"selectors":[{"cel":{"expression":")" + expression + R"("}}])";
  }
  // "r:g0", or the error.
  std::vector<std::string> got(const std::vector<Json>& claims, const std::string& node = "n1") {
    std::vector<const Json*> list;
    for (const Json& c : claims) list.push_back(&c);
    last_ = DeviceSearch(book_, list).on(node);
    if (!last_.error.empty()) return {last_.error};
    std::vector<std::string> out;
    for (const Json& a : last_.allocations) {
      for (const Json& r : *get_array(a, "devices.results"))
        out.push_back(fmt::format("{}:{}", get_string(r, "request"), get_string(r, "device")));
    }
    return out;
  }
  std::vector<std::string> got(const Json& one, const std::string& node = "n1") {
    return got(std::vector<Json>{one}, node);
  }
  // The last allocation is the claim's from now on.
  void keep(const std::string& key) {
    book_.set_claim(key, Json(kube::JsonObject{{"status", kube::JsonObject{{"allocation", last_.allocations.at(0)}}}}));
  }

  DeviceBook book_;
  DeviceBook::Outcome last_;
};

TEST_F(DeviceBookTest, GivesWhatIsAskedFor) {
  EXPECT_THAT(got(claim(exactly())), ElementsAre("r:g0"));
  EXPECT_THAT(got(claim(exactly(R"(,"count":3)"))), ElementsAre("r:g0", "r:g1", "r:g2"));
  EXPECT_THAT(got(claim(exactly(R"(,"count":5)"))), IsEmpty());
  EXPECT_FALSE(last_.fits);
  EXPECT_THAT(got(claim(exactly()), "n2"), IsEmpty()) << "there is nothing on that node";
  EXPECT_THAT(got(claim(exactly("", "a") + "," + exactly("", "b"))), ElementsAre("a:g0", "b:g1"));
  EXPECT_THAT(got(std::vector<Json>{claim(exactly(), "", "x"), claim(exactly(), "", "y")}),
              ElementsAre("r:g0", "r:g1"));
  EXPECT_EQ(get_string(last_.allocations[0], "devices.results").size(), 0u);
  EXPECT_TRUE(DeviceBook::usable_on(
      Json(kube::JsonObject{{"status", kube::JsonObject{{"allocation", last_.allocations[0]}}}}), "n1"));
  EXPECT_FALSE(DeviceBook::usable_on(
      Json(kube::JsonObject{{"status", kube::JsonObject{{"allocation", last_.allocations[0]}}}}), "n2"));
}

TEST_F(DeviceBookTest, WhatSomebodyHasIsNotGivenAgain) {
  EXPECT_THAT(got(claim(exactly(R"(,"count":3)"))), ElementsAre("r:g0", "r:g1", "r:g2"));
  keep("t/a");
  EXPECT_THAT(got(claim(exactly())), ElementsAre("r:g3"));
  EXPECT_THAT(got(claim(exactly(R"(,"allocationMode":"All")"))), IsEmpty()) << "all means all";
  EXPECT_THAT(got(claim(exactly(R"(,"allocationMode":"All","adminAccess":true)"))),
              ElementsAre("r:g0", "r:g1", "r:g2", "r:g3"));
  EXPECT_TRUE(kube::get_bool(get_array(last_.allocations[0], "devices.results")->at(0), "adminAccess"));
  keep("t/admin");
  book_.remove_claim("t/a");
  EXPECT_THAT(got(claim(exactly(R"(,"allocationMode":"All")"))), ElementsAre("r:g0", "r:g1", "r:g2", "r:g3"))
      << "who administrates takes nothing away";
}

TEST_F(DeviceBookTest, SelectorsPickDevices) {
  EXPECT_THAT(got(claim(exactly(selector("device.attributes['d.io'].index == 2")))), ElementsAre("r:g2"));
  EXPECT_THAT(got(claim(exactly(selector("device.capacity['d.io'].memory.compareTo(quantity('35Gi')) > 0")))),
              ElementsAre("r:g3"));
  EXPECT_THAT(got(claim(exactly(selector("device.attributes['d.io'].fw.isGreaterThan(semver('1.1.5'))")))),
              ElementsAre("r:g2"));
  EXPECT_THAT(got(claim(exactly(selector("device.attributes['d.io'].size == 2")))),
              ElementsAre("request r: device d.io/n1/g0: CEL runtime error: no such key: size"));
  EXPECT_THAT(
      got(claim(exactly(selector("nonsense")))),
      ElementsAre("claim t/c: request r: selector #0: CEL compile error: 1:1: undeclared reference to 'nonsense'"));
  EXPECT_THAT(got(claim(R"({"name":"r","exactly":{"deviceClassName":"other"}})")),
              ElementsAre("request r: device class other does not exist"));
  book_.set_class("bad", json(R"({"spec":{"selectors":[{"cel":{"expression":"1 +"}}]}})"));
  EXPECT_THAT(got(claim(R"({"name":"r","exactly":{"deviceClassName":"bad"}})")),
              ElementsAre(HasSubstr("class bad: selector #0: CEL compile error: 1:4: an expression is expected")));
}

TEST_F(DeviceBookTest, TheFirstWayThatWorksIsTaken) {
  const std::string first = R"({"name":"r","firstAvailable":[{"name":"many","deviceClassName":"gpu","count":9},)"
                            R"({"name":"two","deviceClassName":"gpu","count":2}]})";
  EXPECT_THAT(got(claim(first)), ElementsAre("r/two:g0", "r/two:g1"));
}

TEST_F(DeviceBookTest, ConstraintsHoldAmongTheDevices) {
  EXPECT_THAT(got(claim(exactly())), ElementsAre("r:g0"));
  keep("t/a");
  EXPECT_THAT(got(claim(exactly(R"(,"count":2)"), R"(,"constraints":[{"matchAttribute":"d.io/numa"}])")),
              ElementsAre("r:g2", "r:g3"));
  EXPECT_THAT(got(claim(exactly("", "a") + "," + exactly("", "b"),
                        R"(,"constraints":[{"requests":["a","b"],"distinctAttribute":"d.io/numa"}])")),
              ElementsAre("a:g1", "b:g2"));
  EXPECT_THAT(got(claim(exactly(R"(,"count":3)"), R"(,"constraints":[{"matchAttribute":"d.io/numa"}])")), IsEmpty());
  EXPECT_THAT(got(claim(exactly(R"(,"count":2)"), R"(,"constraints":[{"matchAttribute":"d.io/unknown"}])")), IsEmpty());
}

TEST_F(DeviceBookTest, TaintsKeepOffWhoDoesNotTolerateThem) {
  slice("n1", 2, R"(,"taints":[{"key":"k","value":"v","effect":"NoSchedule"}])");
  EXPECT_THAT(got(claim(exactly())), ElementsAre("r:g1"));
  for (const char* tolerated : {R"({"key":"k","operator":"Exists"})",
                                R"({"key":"k","value":"v","effect":"NoSchedule"})", R"({"operator":"Exists"})"}) {
    EXPECT_THAT(got(claim(exactly(std::string(R"(,"tolerations":[)") + tolerated + "]"))), ElementsAre("r:g0"))
        << tolerated;
  }
  EXPECT_THAT(got(claim(exactly(R"(,"tolerations":[{"key":"k","value":"other"}])"))), ElementsAre("r:g1"));
  slice("n1", 2, R"(,"taints":[{"key":"k","effect":"None"}])");
  EXPECT_THAT(got(claim(exactly())), ElementsAre("r:g0"));
}

TEST_F(DeviceBookTest, APoolCountsWhenItIsWhole) {
  const auto half = [](int generation, const std::string& device) {
    return text(fmt::format(R"({{"spec":{{"driver":"d.io","nodeName":"n2","pool":{{"name":"p","generation":{},)"
                            R"("resourceSliceCount":2}},"devices":[{{"name":"{}"}}]}}}})",
                            generation, device));
  };
  book_.set_slice("a", half(1, "a1"));
  EXPECT_THAT(got(claim(exactly()), "n2"), IsEmpty());
  book_.set_slice("b", half(1, "b1"));
  EXPECT_THAT(got(claim(exactly(R"(,"count":2)")), "n2"), ElementsAre("r:a1", "r:b1"));
  book_.set_slice("a", half(2, "a2"));
  EXPECT_THAT(got(claim(exactly()), "n2"), IsEmpty()) << "half of the new generation is there";
  book_.set_slice("b", half(2, "b2"));
  EXPECT_THAT(got(claim(exactly()), "n2"), ElementsAre("r:a2"));
  book_.remove_slice("a");
  EXPECT_THAT(got(claim(exactly()), "n2"), IsEmpty());
}

TEST_F(DeviceBookTest, DevicesOfAllNodesAreNotBoundToOne) {
  book_.set_slice("net", text(R"({"spec":{"driver":"net.io","allNodes":true,"pool":{"name":"p","generation":1,)"
                              R"("resourceSliceCount":1},"devices":[{"name":"x"}]}})"));
  book_.set_class("net", json(R"({"spec":{"selectors":[{"cel":{"expression":"device.driver == 'net.io'"}}],)"
                              R"("config":[{"opaque":{"driver":"net.io","parameters":{"a":1}}}]}})"));
  EXPECT_THAT(got(claim(R"({"name":"r","exactly":{"deviceClassName":"net"}})"), "n9"), ElementsAre("r:x"));
  EXPECT_EQ(kube::find_path(last_.allocations[0], "nodeSelector"), nullptr);
  const Json& config = get_array(last_.allocations[0], "devices.config")->at(0);
  EXPECT_EQ(get_string(config, "source"), "FromClass");
  EXPECT_EQ(get_string(config, "opaque.driver"), "net.io");
}

TEST_F(DeviceBookTest, ASearchWithoutEndIsGivenUp) {
  slice("n1", 40);
  EXPECT_THAT(got(claim(exactly(R"(,"count":20)"), R"(,"constraints":[{"distinctAttribute":"d.io/index"},)"
                                                   R"({"matchAttribute":"d.io/model"}])")),
              ::testing::SizeIs(20));
  EXPECT_THAT(got(claim(exactly(R"(,"count":21)"), R"(,"constraints":[{"distinctAttribute":"d.io/numa"}])")),
              ElementsAre("the search for devices was given up: too many combinations"));
}

}  // namespace
}  // namespace ghostfleet::controlplane::scheduling
