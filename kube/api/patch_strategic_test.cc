#include <gtest/gtest.h>

#include "kube/api/patch.h"

namespace ghostfleet::kube {
namespace {

Json json(std::string_view text) {
  Result<Json> value = parse_json(text);
  EXPECT_TRUE(value.ok()) << text;
  return value.ok() ? *value : Json();
}

const TypeInfo& type(std::string_view name) {
  const TypeInfo* found = find_type(name);
  EXPECT_NE(found, nullptr) << name;
  return *found;
}

std::string patched(std::string_view target, std::string_view patch, std::string_view type_name = "core/v1.Pod") {
  ApiResult<Json> r = apply_strategic_merge_patch(json(target), json(patch), type(type_name));
  return r.ok() ? to_json(*r)
                : "error " + std::to_string(r.error().code) + " " + r.error().reason + ": " + r.error().message;
}

std::string names(std::string_view target, std::string_view patch) {
  ApiResult<Json> r = apply_strategic_merge_patch(json(target), json(patch), type("core/v1.Pod"));
  if (!r.ok()) return r.error().message;
  std::string out;
  for (const Json& c : *get_array(*r, "spec.containers")) out += std::string(get_string(c, "name")) + " ";
  return out;
}

constexpr const char* kTwo = R"({"spec":{"containers":[{"name":"one","image":"i1"},{"name":"two","image":"i2"}]}})";

TEST(StrategicMergeTest, ListsMergeByKeyOrAreReplaced) {
  EXPECT_EQ(patched(kTwo, R"({"spec":{"containers":[{"name":"two","image":"x"}]}})"),
            R"({"spec":{"containers":[{"name":"one","image":"i1"},{"name":"two","image":"x"}]}})");
  EXPECT_EQ(patched(R"({"spec":{"tolerations":[{"key":"a"}]}})", R"({"spec":{"tolerations":[{"key":"b"}]}})"),
            R"({"spec":{"tolerations":[{"key":"b"}]}})");
  EXPECT_EQ(patched(R"({"metadata":{"finalizers":["a"]}})", R"({"metadata":{"finalizers":["b","a"]}})"),
            R"({"metadata":{"finalizers":["b","a"]}})");
  EXPECT_EQ(patched(R"({"metadata":{"labels":{"a":"1","b":"2"}}})", R"({"metadata":{"labels":{"a":null,"c":"3"}}})"),
            R"({"metadata":{"labels":{"b":"2","c":"3"}}})");
}

TEST(StrategicMergeTest, Directives) {
  EXPECT_EQ(names(kTwo, R"({"spec":{"containers":[{"name":"one","$patch":"delete"}]}})"), "two ");
  EXPECT_EQ(names(kTwo, R"({"spec":{"containers":[{"$patch":"replace"},{"name":"x"}]}})"), "x ");
  EXPECT_EQ(patched(R"({"metadata":{"labels":{"a":"1"}}})", R"({"metadata":{"labels":{"$patch":"replace","b":"2"}}})"),
            R"({"metadata":{"labels":{"b":"2"}}})");
  EXPECT_EQ(patched(R"({"metadata":{"labels":{"a":"1"}}})", R"({"metadata":{"labels":{"$patch":"delete"}}})"),
            R"({"metadata":{"labels":{}}})");
  EXPECT_EQ(patched(R"({"metadata":{"finalizers":["a","b"]}})",
                    R"({"metadata":{"$deleteFromPrimitiveList/finalizers":["a"]}})"),
            R"({"metadata":{"finalizers":["b"]}})");
  EXPECT_EQ(
      patched(R"({"spec":{"volumes":[{"name":"v","emptyDir":{}}]}})",
              R"({"spec":{"volumes":[{"$retainKeys":["name","hostPath"],"name":"v","hostPath":{"path":"/x"}}]}})"),
      R"({"spec":{"volumes":[{"name":"v","hostPath":{"path":"/x"}}]}})");
  EXPECT_EQ(patched("{}", R"({"spec":{"containers":[{"name":"a","$patch":"delete"},{"name":"b","env":null}]}})"),
            R"({"spec":{"containers":[{"name":"b"}]}})");
}

TEST(StrategicMergeTest, ElementOrder) {
  EXPECT_EQ(names(kTwo, R"({"spec":{"$setElementOrder/containers":[{"name":"two"},{"name":"one"}],
                           "containers":[{"name":"two","image":"x"}]}})"),
            "two one ");
  EXPECT_EQ(names(R"({"spec":{"containers":[{"name":"two"},{"name":"one"}]}})",
                  R"({"spec":{"$setElementOrder/containers":[{"name":"three"},{"name":"two"}],
                      "containers":[{"name":"three","image":"x"}]}})"),
            "three two one ");
  EXPECT_EQ(patched(kTwo, R"({"spec":{"$setElementOrder/containers":[{"name":"two"}],
                              "containers":[{"name":"four","image":"x"}]}})"),
            "error 500 : The order in patch list:\n[map[image:x name:four]]\n doesn't match $setElementOrder list:\n"
            "[map[name:two]]\n");
  EXPECT_EQ(
      patched(R"({"metadata":{}})", R"({"metadata":{"$setElementOrder/finalizers":["b","a"],"finalizers":["a","b"]}})")
          .substr(0, 9),
      "error 500");
}

TEST(StrategicMergeTest, Errors) {
  EXPECT_EQ(
      patched(kTwo, R"({"spec":{"containers":["text"]}})"),
      "error 500 : list element types are not identical: [[map[image:i1 name:one] map[image:i2 name:two]] [text]]");
  EXPECT_EQ(patched(kTwo, R"({"spec":{"containers":[{"image":"x"}]}})"),
            "error 500 : map: map[image:x] does not contain declared merge key: name");
  EXPECT_EQ(patched(kTwo, "[]"),
            "error 400 BadRequest: json: cannot unmarshal array into Go value of type map[string]interface {}");
  EXPECT_EQ(patched(R"({"metadata":{"labels":{"a":"b"}}})", R"({"metadata":{"labels":{"$patch":"merge"}}})"),
            "error 500 : unknown patch type: merge in map: map[$patch:merge]");
  EXPECT_EQ(patched(kTwo, "null"), kTwo);
}

TEST(StrategicMergeTest, ResultsThatDoNotFit) {
  const TypeInfo& pod = type("core/v1.Pod");
  EXPECT_EQ(conversion_problem(json(R"({"spec":{"containers":{"name":"one"}}})"), pod),
            "cannot restore slice from map");
  EXPECT_EQ(conversion_problem(json(R"({"spec":"text"})"), pod), "cannot restore struct from: string");
  EXPECT_EQ(conversion_problem(json(R"({"metadata":{"labels":{"a":1}}})"), pod), "cannot convert int64 to string");
  EXPECT_EQ(conversion_problem(json(kTwo), pod), "");
}

std::string diff(std::string_view before, std::string_view after, std::string_view type_name = "core/v1.Pod") {
  return to_json(make_strategic_merge_patch(json(before), json(after), type(type_name)));
}

// As a kubelet 1.36 sent it for a node's first heartbeat.
TEST(StrategicDiffTest, NodeHeartbeat) {
  EXPECT_EQ(diff(R"({"status":{"conditions":[
             {"type":"MemoryPressure","status":"False","lastHeartbeatTime":"2026-11-30T10:58:57Z"},
             {"type":"Ready","status":"False","lastHeartbeatTime":"2026-11-30T10:58:57Z","message":"not yet"}]}})",
                 R"({"status":{"conditions":[
             {"type":"MemoryPressure","status":"False","lastHeartbeatTime":"2026-11-30T10:58:58Z"},
             {"type":"Ready","status":"True","lastHeartbeatTime":"2026-11-30T10:58:58Z","message":"ready"}]}})",
                 "core/v1.Node"),
            R"({"status":{"$setElementOrder/conditions":[{"type":"MemoryPressure"},{"type":"Ready"}],"conditions":[)"
            R"({"lastHeartbeatTime":"2026-11-30T10:58:58Z","type":"MemoryPressure"},)"
            R"({"lastHeartbeatTime":"2026-11-30T10:58:58Z","message":"ready","status":"True","type":"Ready"}]}})");
}

TEST(StrategicDiffTest, NullsAtomicListsAndDeletes) {
  EXPECT_EQ(diff(R"({"status":{"reason":"x","phase":"Pending"}})", R"({"status":{"phase":"Running"}})"),
            R"({"status":{"phase":"Running","reason":null}})");
  EXPECT_EQ(diff(R"({"status":{"containerStatuses":[{"name":"c","ready":false}]}})",
                 R"({"status":{"containerStatuses":[{"ready":true,"name":"c"}]}})"),
            R"({"status":{"containerStatuses":[{"name":"c","ready":true}]}})");
  EXPECT_EQ(
      diff(R"({"status":{"conditions":[{"type":"A"},{"type":"B"}]}})", R"({"status":{"conditions":[{"type":"B"}]}})"),
      R"({"status":{"$setElementOrder/conditions":[{"type":"B"}],"conditions":[{"$patch":"delete","type":"A"}]}})");
  EXPECT_EQ(diff(R"({"status":{"conditions":[{"type":"A"},{"type":"B"}]}})",
                 R"({"status":{"conditions":[{"type":"B"},{"type":"A"}]}})"),
            R"({"status":{"$setElementOrder/conditions":[{"type":"B"},{"type":"A"}]}})");
  EXPECT_EQ(diff(R"({"metadata":{"finalizers":["a","b"]}})", R"({"metadata":{"finalizers":["b","c"]}})"),
            R"({"metadata":{"$deleteFromPrimitiveList/finalizers":["a"],"$setElementOrder/finalizers":["b","c"],)"
            R"("finalizers":["c"]}})");
  EXPECT_EQ(diff(R"({"status":{"conditions":[{"type":"A","lastProbeTime":null}]}})",
                 R"({"status":{"conditions":[{"type":"A","lastProbeTime":null}]}})"),
            "{}");
  EXPECT_EQ(diff("{}", R"({"status":{"conditions":[{"type":"A","lastProbeTime":null}]}})"),
            R"({"status":{"conditions":[{"lastProbeTime":null,"type":"A"}]}})");
}

// Quirks of client-go that are seen on the wire.
TEST(StrategicDiffTest, UnsortedScalarsAreToldInTheirOrder) {
  EXPECT_EQ(diff(R"({"metadata":{"finalizers":["b","a"]}})", R"({"metadata":{"finalizers":["b","a"]}})"),
            R"({"metadata":{"$setElementOrder/finalizers":["b","a"]}})");
  EXPECT_EQ(diff(R"({"metadata":{"finalizers":["b","a"]}})", R"({"metadata":{"finalizers":["a","b"]}})"), "{}");
}

TEST(StrategicMergeTest, NewElementsTakeThePlaceOfDeletedOnes) {
  EXPECT_EQ(names(R"({"spec":{"containers":[{"name":"three"},{"name":"two"},{"name":"four"}]}})",
                  R"({"spec":{"$setElementOrder/containers":[{"name":"one"}],
                      "containers":[{"name":"one"},{"$patch":"delete","name":"two"}]}})"),
            "three four one ");
}

// What a diff makes, a merge must undo.
TEST(StrategicDiffTest, RoundTrip) {
  const std::pair<const char*, const char*> cases[] = {
      {kTwo,
       R"({"spec":{"containers":[{"name":"three"},{"name":"two","image":"i9","env":[{"name":"A","value":"1"}]}]}})"},
      {R"({"spec":{"volumes":[{"name":"v","emptyDir":{}}]}})",
       R"({"spec":{"volumes":[{"name":"v","hostPath":{"path":"/x"}},{"name":"w","emptyDir":{}}]}})"},
      {R"({"metadata":{"labels":{"a":"1"},"finalizers":["x","y"]}})",
       R"({"metadata":{"labels":{"b":"1"},"finalizers":["y"]}})"},
  };
  for (const auto& [before, after] : cases) {
    const Json patch = make_strategic_merge_patch(json(before), json(after), type("core/v1.Pod"));
    ApiResult<Json> merged = apply_strategic_merge_patch(json(before), patch, type("core/v1.Pod"));
    ASSERT_TRUE(merged.ok()) << merged.error().message;
    EXPECT_TRUE(json_equal(*merged, json(after))) << to_json(patch) << "\n" << to_json(*merged);
  }
}

}  // namespace
}  // namespace ghostfleet::kube
