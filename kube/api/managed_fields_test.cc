#include "kube/api/managed_fields.h"

#include <gtest/gtest.h>

namespace ghostfleet::kube {
namespace {

Json json(std::string_view text) {
  Result<Json> value = parse_json(text);
  EXPECT_TRUE(value.ok()) << text;
  return value.ok() ? *value : Json();
}

class Api {
 public:
  explicit Api(std::string_view type) : type_(find_type(type)) {
    EXPECT_NE(type_, nullptr);
    kind_.version = "v1";
    kind_.kind = type_->short_name;
    kind_.group = type_->group == "core" ? "" : type_->group;
  }

  std::string apply(std::string_view manager, std::string_view config, bool force = false) {
    ApplyOptions options = options_for(manager);
    options.force = force;
    ApiResult<Json> merged = server_side_apply(live, json(config), kind_, {type_, nullptr}, options);
    if (!merged.ok()) return std::to_string(merged.error().code) + " " + merged.error().message;
    live = *merged;
    return "ok";
  }

  void update(std::string_view manager, std::string_view object) {
    Json after = json(object);
    record_update(live, &after, {type_, nullptr}, options_for(manager));
    live = after;
  }

  // "MANAGER OPERATION FIELDS", one an entry.
  std::string owners() const {
    std::string out;
    const JsonArray* list = get_array(live, "metadata.managedFields");
    if (list == nullptr) return "none";
    for (const Json& e : *list) {
      out += std::string(get_string(e, "manager")) + " " + std::string(get_string(e, "operation")) + " " +
             to_json(*find_key(e, "fieldsV1")) + (find_key(e, "time") ? "" : " timeless") + "\n";
    }
    return out;
  }

  Json live;
  WallTime now{1767607200000000000};

 private:
  ApplyOptions options_for(std::string_view manager) {
    ApplyOptions options;
    options.manager = std::string(manager);
    options.api_version = kind_.group.empty() ? "v1" : kind_.group + "/v1";
    options.now = now;
    now = now + std::chrono::seconds(1);
    return options;
  }

  const TypeInfo* type_;
  KindInfo kind_;
};

constexpr const char* kConfigMap = R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"})";
std::string config_map(std::string_view rest) { return std::string(kConfigMap) + std::string(rest) + "}"; }

TEST(ApplyTest, CreateAndUpdate) {
  Api api("core/v1.ConfigMap");
  EXPECT_EQ(api.apply("one", config_map(R"(,"data":{"a":"1"})")), "ok");
  EXPECT_EQ(api.owners(), "one Apply {\"f:data\":{\"f:a\":{}}}\n");
  const Json first = api.live;
  EXPECT_EQ(api.apply("one", config_map(R"(,"data":{"a":"1"})")), "ok");
  EXPECT_TRUE(json_equal(first, api.live));
  EXPECT_EQ(api.apply("one", config_map(R"(,"data":{"a":"2","b":"3"})")), "ok");
  EXPECT_EQ(api.owners(), "one Apply {\"f:data\":{\"f:a\":{},\"f:b\":{}}}\n");
  EXPECT_EQ(api.apply("one", config_map(R"(,"data":{"b":"3"})")), "ok");
  EXPECT_EQ(to_json(*find_key(api.live, "data")), R"({"b":"3"})");
}

TEST(ApplyTest, ConflictWithUpdate) {
  Api api("core/v1.ConfigMap");
  api.update("writer", config_map(R"(,"data":{"a":"1"})"));
  EXPECT_EQ(api.owners(), "writer Update {\"f:data\":{\".\":{},\"f:a\":{}}}\n");
  EXPECT_EQ(api.apply("one", config_map(R"(,"data":{"a":"2"})")),
            "409 Apply failed with 1 conflict: conflict with \"writer\" using v1: .data.a");
  EXPECT_EQ(api.apply("one", config_map(R"(,"data":{"a":"2"})"), true), "ok");
  EXPECT_EQ(api.owners(), "one Apply {\"f:data\":{\"f:a\":{}}}\nwriter Update {\"f:data\":{}}\n");
  Json changed = api.live;
  set_path(changed, "data.a", "3");
  api.update("writer", to_json(changed));
  EXPECT_EQ(api.owners(), "writer Update {\"f:data\":{\".\":{},\"f:a\":{}}}\n");
}

TEST(ApplyTest, SharedOwnershipAndRemoval) {
  Api api("core/v1.ConfigMap");
  const std::string with_label =
      R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","labels":{"l":"1"}},"data":{"a":"1","b":"1"}})";
  EXPECT_EQ(api.apply("one", with_label), "ok");
  EXPECT_EQ(api.apply("two", config_map(R"(,"data":{"a":"1"})")), "ok");
  EXPECT_EQ(api.owners(),
            "two Apply {\"f:data\":{\"f:a\":{}}} timeless\n"
            "one Apply {\"f:data\":{\"f:a\":{},\"f:b\":{}},\"f:metadata\":{\"f:labels\":{\"f:l\":{}}}}\n");
  EXPECT_EQ(api.apply("one", config_map("")), "ok");
  EXPECT_EQ(to_json(*find_key(api.live, "data")), R"({"a":"1"})");
  EXPECT_EQ(find_path(api.live, "metadata.labels"), nullptr);
  EXPECT_EQ(api.owners(), "two Apply {\"f:data\":{\"f:a\":{}}} timeless\n");
  Json bare = api.live;
  erase_path(bare, "data");
  api.update("api-diff", to_json(bare));
  EXPECT_EQ(api.owners(), "none");
}

constexpr const char* kDeployment =
    R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},)"
    R"("template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"one","image":"i1",)"
    R"("ports":[{"containerPort":80}]}]}}}})";

std::string deployment(std::string_view containers) {
  return R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"template":{"spec":{"containers":)" +
         std::string(containers) + "}}}}";
}

std::string container_names(const Json& object) {
  std::string out;
  const JsonArray* list = get_array(object, "spec.template.spec.containers");
  if (list == nullptr) return out;
  for (const Json& c : *list) out += std::string(get_string(c, "name")) + " ";
  return out;
}

TEST(ApplyTest, ListsByKey) {
  Api api("apps/v1.Deployment");
  EXPECT_EQ(api.apply("one", kDeployment), "ok");
  const std::string ones =
      "one Apply {\"f:spec\":{\"f:selector\":{},\"f:template\":{\"f:metadata\":{\"f:labels\":{\"f:a\":{}}},\"f:spec\":"
      "{\"f:containers\":{\"k:{\\\"name\\\":\\\"one\\\"}\":{\".\":{},\"f:image\":{},\"f:name\":{},\"f:ports\":{"
      "\"k:{\\\"containerPort\\\":80,\\\"protocol\\\":\\\"TCP\\\"}\":{\".\":{},\"f:containerPort\":{}}}}}}}}}\n";
  EXPECT_EQ(api.owners(), ones);
  set_path(api.live, "spec.template.spec.containers",
           json(R"([{"name":"one","image":"i1",)"
                R"("ports":[{"containerPort":80,"protocol":"TCP"}]}])"));
  EXPECT_EQ(
      api.apply("two", deployment(R"([{"name":"side","image":"s"},{"name":"one","ports":[{"containerPort":81}]}])")),
      "ok");
  EXPECT_EQ(container_names(api.live), "side one ");
  EXPECT_EQ(api.apply("two", deployment(R"([{"name":"side","image":"s"}])")), "ok");
  EXPECT_EQ(to_json(*find_key(find_path(api.live, "spec.template.spec.containers")->get_array()[1], "ports")),
            R"([{"containerPort":80,"protocol":"TCP"}])");
  EXPECT_EQ(api.apply("two", R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"}})"), "ok");
  EXPECT_EQ(container_names(api.live), "one ");
  EXPECT_EQ(api.owners(), ones);
  EXPECT_EQ(api.apply("one", deployment(R"([{"name":"x","image":"a"},{"name":"x","image":"b"}])")),
            "500 failed to create typed patch object (/d; apps/v1, Kind=Deployment): .spec.template.spec.containers: "
            "duplicate entries for key [name=\"x\"]");
}

TEST(ApplyTest, UndeclaredFields) {
  Api api("core/v1.ConfigMap");
  EXPECT_EQ(api.apply("m", config_map(R"(,"extra":1)")),
            "500 failed to create typed patch object (/c; /v1, Kind=ConfigMap): .extra: field not declared in schema");
}

TEST(ApplyTest, SeveralConflicts) {
  Api api("core/v1.ConfigMap");
  api.update("writer", config_map(R"(,"data":{"a":"1","b":"1"})"));
  EXPECT_EQ(api.apply("one", config_map(R"(,"data":{"a":"2","b":"2"})")),
            "409 Apply failed with 2 conflicts: conflicts with \"writer\" using v1:\n- .data.a\n- .data.b");
}

TEST(ApplyTest, ObjectsNobodyTracked) {
  Api api("core/v1.ConfigMap");
  api.live = json(config_map(R"(,"data":{"a":"1"})"));
  api.update("writer", config_map(R"(,"data":{"a":"2"})"));
  EXPECT_EQ(api.owners(), "none");
  EXPECT_EQ(api.apply("one", config_map(R"(,"data":{"b":"1"})")), "ok");
  EXPECT_EQ(api.owners(),
            "one Apply {\"f:data\":{\"f:b\":{}}}\nbefore-first-apply Update {\"f:data\":{\".\":{},\"f:a\":{}}}\n");
}

TEST(ApplyTest, KubectlTakesOverItsOwnClientSideFields) {
  Api api("core/v1.ConfigMap");
  const std::string annotated =
      R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","annotations":{)"
      R"("kubectl.kubernetes.io/last-applied-configuration":"{\"data\":{\"a\":\"1\"}}"}},"data":{"a":"1","z":"1"}})";
  api.update("kubectl-client-side-apply", annotated);
  EXPECT_EQ(api.apply("other", config_map(R"(,"data":{"a":"2"})")).substr(0, 3), "409");
  EXPECT_EQ(api.apply("kubectl", config_map(R"(,"data":{"a":"2"})")), "ok");
  EXPECT_EQ(api.apply("kubectl", config_map(R"(,"data":{"a":"2","z":"2"})")),
            "409 Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using v1: .data.z");
}

TEST(RecordUpdateTest, StructsThatAlwaysExistAreNotOwned) {
  Api api("apps/v1.Deployment");
  api.update("kubectl-create",
             R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":1,
    "selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[
    {"name":"c","image":"i","resources":{}}]}}}})");
  EXPECT_EQ(
      api.owners(),
      "kubectl-create Update {\"f:spec\":{\"f:replicas\":{},\"f:selector\":{},\"f:template\":{\"f:metadata\":"
      "{\"f:labels\":{\".\":{},\"f:a\":{}}},\"f:spec\":{\"f:containers\":{\"k:{\\\"name\\\":\\\"c\\\"}\":{\".\":{},"
      "\"f:image\":{},\"f:name\":{},\"f:resources\":{}}}}}}}\n");
}

TEST(RecordUpdateTest, FinalizersAreASet) {
  Api api("core/v1.ConfigMap");
  api.update("w", R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","finalizers":["example.com/a"]}})");
  EXPECT_EQ(api.owners(), "w Update {\"f:metadata\":{\"f:finalizers\":{\".\":{},\"v:\\\"example.com/a\\\"\":{}}}}\n");
}

TEST(RecordUpdateTest, ResetAndOwnEntries) {
  Api api("core/v1.ConfigMap");
  api.update("w", config_map(R"(,"data":{"a":"1"})"));
  api.update("x",
             R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","managedFields":[{}]},"data":{"a":"2"}})");
  EXPECT_EQ(api.owners(), "none");
}

TEST(RecordUpdateTest, OldUpdatersAreMerged) {
  Api api("core/v1.ConfigMap");
  std::string data;
  for (int i = 0; i < 14; ++i) {
    data += (i > 0 ? ",\"" : "\"") + std::string("k") + std::to_string(i) + "\":\"v\"";
    Json next = json(config_map(",\"data\":{" + data + "}"));
    record_update(api.live, &next, {find_type("core/v1.ConfigMap"), nullptr},
                  {"m" + std::to_string(i), "v1", "", false, api.now + std::chrono::seconds(i)});
    api.live = next;
  }
  const JsonArray& list = *get_array(api.live, "metadata.managedFields");
  EXPECT_EQ(list.size(), kMaxUpdateManagers);
  EXPECT_EQ(get_string(list[0], "manager"), "ancient-changes");
}

TEST(ManagedFieldsTest, AnotherGroupsOwnershipGoes) {
  const char* event = R"({"apiVersion":"v1","kind":"Event","metadata":{"name":"e"},"reason":"R"%s})";
  const auto with = [&](std::string_view more) {
    std::string text(event);
    return json(text.replace(text.find("%s"), 2, more));
  };
  const ApplySchema schema{find_type("core/v1.Event"), nullptr};
  Json live = with("");
  record_update(Json(), &live, {find_type("core/v1.Event"), nullptr},
                {"m", "events.k8s.io/v1", "", false, WallTime{1767607200000000000}});
  ASSERT_EQ(get_array(live, "metadata.managedFields")->size(), 1u);
  Json next = with(R"(,"count":9)");
  record_update(live, &next, schema, {"m", "v1", "", false, WallTime{1767607201000000000}});
  const JsonArray& entries = *get_array(next, "metadata.managedFields");
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(get_string(entries[0], "apiVersion"), "v1");
  EXPECT_EQ(to_json(*find_key(entries[0], "fieldsV1")), R"({"f:count":{}})");
}

TEST(CustomApplyTest, ByStructuralSchema) {
  const Json schema = json(R"({"type":"object","properties":{"spec":{"type":"object","properties":{
    "size":{"type":"integer"},"list":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],
    "items":{"type":"object","properties":{"name":{"type":"string"},"value":{"type":"integer"}}}}}}}})");
  KindInfo kind;
  kind.group = "example.com";
  kind.version = "v1";
  kind.kind = "Widget";
  const auto apply = [&](const Json& live, std::string_view manager, std::string_view spec) {
    const Json config = json(R"({"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":)" +
                             std::string(spec) + "}");
    return server_side_apply(live, config, kind, {nullptr, &schema},
                             {std::string(manager), "example.com/v1", "", false, WallTime{1767607200000000000}});
  };
  ApiResult<Json> first = apply(nullptr, "one", R"({"size":3,"list":[{"name":"x","value":1}]})");
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(to_json(*find_key(get_array(*first, "metadata.managedFields")->front(), "fieldsV1")),
            R"({"f:spec":{"f:list":{"k:{\"name\":\"x\"}":{".":{},"f:name":{},"f:value":{}}},"f:size":{}}})");
  ApiResult<Json> second = apply(*first, "two", R"({"size":3,"list":[{"name":"z","value":2}]})");
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(get_array(*second, "spec.list")->size(), 2u);
  EXPECT_EQ(apply(*second, "two", R"({"size":4})").error().message,
            "Apply failed with 1 conflict: conflict with \"one\": .spec.size");
  EXPECT_EQ(
      apply(*second, "two", R"({"unknown":4})").error().message,
      "failed to create typed patch object (/a; example.com/v1, Kind=Widget): .spec.unknown: field not declared in "
      "schema");
}

}  // namespace
}  // namespace ghostfleet::kube
