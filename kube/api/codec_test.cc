#include "kube/api/codec.h"

#include <gtest/gtest.h>

#include <fstream>

namespace ghostfleet::kube {
namespace {

// Kinds of the tests' own, so that they depend on the field table alone.
KindInfo kind_of(const std::string& group, const std::string& version, const std::string& kind) {
  KindInfo k;
  k.group = group;
  k.version = version;
  k.kind = kind;
  k.type = find_type(group, version, kind);
  return k;
}

const KindInfo kConfigMap = kind_of("", "v1", "ConfigMap");
const KindInfo kPod = kind_of("", "v1", "Pod");
const KindInfo kDeployment = kind_of("apps", "v1", "Deployment");
const KindInfo kWidget = kind_of("example.com", "v1", "Widget");

std::string decode(std::string_view body, const KindInfo& kind, FieldValidation validation = FieldValidation::kStrict,
                   MediaType media = MediaType::kJson, std::vector<std::string>* warnings = nullptr) {
  DecodeOptions options;
  options.validation = validation;
  options.warnings = warnings;
  auto r = decode_object(body, media, kind, options);
  return r.ok() ? encode_json(*r, kind.type) : r.error().message;
}

constexpr std::string_view kUnknown =
    R"({"metadata":{"name":"p","labels":{"a":"b"},"colour":"red"},"spec":{"contianers":[],"containers":[{"name":"c",)"
    R"("image":"i","imagee":"x","resources":{"limit":{"cpu":1}}}]},"foo":1})";

TEST(Codec, UnknownFieldsUnderStrict) {
  EXPECT_EQ(
      decode(kUnknown, kPod),
      "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: unknown field \"metadata.colour\", "
      "unknown field \"spec.contianers\", unknown field \"spec.containers[0].imagee\", unknown field "
      "\"spec.containers[0].resources.limit\", unknown field \"foo\"");
}

TEST(Codec, UnknownFieldsWarnAndAreDropped) {
  std::vector<std::string> warnings;
  EXPECT_EQ(decode(kUnknown, kPod, FieldValidation::kWarn, MediaType::kJson, &warnings),
            R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","labels":{"a":"b"}},"spec":{"containers":[)"
            R"({"name":"c","image":"i","resources":{}}]},"status":{}})");
  ASSERT_EQ(warnings.size(), 5u);
  EXPECT_EQ(warnings[0], "unknown field \"metadata.colour\"");
  warnings.clear();
  decode(kUnknown, kPod, FieldValidation::kIgnore, MediaType::kJson, &warnings);
  EXPECT_TRUE(warnings.empty());
}

TEST(Codec, DuplicatesInTheOrderOfTheText) {
  constexpr std::string_view kBody =
      R"({"metadata":{"name":"a","name":"b"},"data":{"k":"1","k":"2"},"data":{"z":"1"}})";
  EXPECT_EQ(decode(kBody, kConfigMap),
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: duplicate field "
            "\"metadata.name\", duplicate field \"data.k\", duplicate field \"data\"");
  EXPECT_EQ(decode(kBody, kConfigMap, FieldValidation::kIgnore),
            R"({"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"b"},"data":{"k":"2","z":"1"}})");
}

TEST(Codec, WrongJsonTypes) {
  const std::string pod = "Pod in version \"v1\" cannot be handled as a Pod: ";
  const std::pair<std::string, std::string> kCases[] = {
      {R"({"spec":{"containers":{"name":"c"}}})",
       "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container"},
      {R"({"spec":{"containers":[{"name":5}]}})",
       "json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string"},
      {R"({"spec":{"hostNetwork":"yes","containers":5}})",
       "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool"},
      {R"({"spec":{"terminationGracePeriodSeconds":"30"}})",
       "json: cannot unmarshal string into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type int64"},
      {R"({"spec":{"activeDeadlineSeconds":1e2}})",
       "json: cannot unmarshal number 1e2 into Go struct field PodSpec.spec.activeDeadlineSeconds of type int64"},
      {R"({"spec":{"activeDeadlineSeconds":9223372036854775808}})",
       "json: cannot unmarshal number 9223372036854775808 into Go struct field PodSpec.spec.activeDeadlineSeconds of "
       "type int64"},
      {R"({"spec":{"hostNetwork":5},"metadata":{"creationTimestamp":"yesterday"}})",
       "parsing time \"yesterday\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"yesterday\" as \"2006\""},
      {R"({"spec":{"containers":[{"livenessProbe":{"httpGet":{"port":1.5}}}]}})",
       "json: cannot unmarshal number 1.5 into Go struct field "
       "HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32"},
      {R"({"metadata":"x"})", "json: cannot unmarshal string into Go struct field Pod.metadata of type v1.ObjectMeta"},
      {R"({"spec":{"containers":[{"resources":{"limits":{"cpu":"x"}}}]}})",
       "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"},
  };
  for (const auto& [body, error] : kCases) EXPECT_EQ(decode(body, kPod), pod + error) << body;
  EXPECT_EQ(decode(R"({"data":{"flag":true}})", kConfigMap),
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal bool into Go struct "
            "field ConfigMap.data of type string");
}

TEST(Codec, UnrecognisedBodies) {
  EXPECT_EQ(
      decode("[1, 2]", kPod),
      "the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: json: "
      "cannot unmarshal array into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; "
      "Kind string \"json:\\\"kind,omitempty\\\"\" } (5b312c20325d)");
  EXPECT_EQ(
      decode("apiVersion: v1\nkind: ConfigMap\nmetadata:\n", kConfigMap),
      "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: "
      "invalid character 'a' looking for beginning of value "
      "(61706956657273696f6e3a2076310a6b696e643a20436f6e6669674d6170 ...)");
  EXPECT_EQ(decode("apiVersion: v1\n\tkind: [\n", kConfigMap, FieldValidation::kStrict, MediaType::kYaml),
            "the object provided is unrecognized (must be of type ConfigMap): yaml: line 2: found a tab character that "
            "violates indentation (61706956657273696f6e3a2076310a096b696e643a205b0a)");
}

TEST(Codec, WrongKinds) {
  EXPECT_EQ(decode(R"({"kind":"Pod","apiVersion":"v1"})", kConfigMap),
            "Pod in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Pod) to (core.ConfigMap): unknown "
            "conversion");
  EXPECT_EQ(
      decode(R"({"apiVersion":"v2"})", kConfigMap),
      "ConfigMap in version \"v2\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered for version "
      "\"v2\" in scheme \"pkg/runtime/scheme.go:111\"");
  EXPECT_EQ(
      decode(R"({"kind":"Nosuch"})", kConfigMap),
      "Nosuch in version \"v1\" cannot be handled as a ConfigMap: no kind \"Nosuch\" is registered for version \"v1\" "
      "in scheme \"pkg/runtime/scheme.go:111\"");
  EXPECT_EQ(decode(R"({"apiVersion":"extensions/v1beta1","kind":"Deployment"})", kDeployment),
            "the API version in the data (extensions/v1beta1) does not match the expected API version (apps/v1)");
}

TEST(Codec, NullsAreNotGiven) {
  EXPECT_EQ(decode(R"({"kind":null,"apiVersion":null,"metadata":{"name":"n","labels":null,"annotations":{"a":null}},)"
                   R"("data":{"k":null},"binaryData":null})",
                   kConfigMap),
            R"({"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"n","annotations":{"a":""}},"data":{"k":""}})");
  EXPECT_EQ(decode("null", kConfigMap), R"({"kind":"ConfigMap","apiVersion":"v1","metadata":{}})");
  EXPECT_EQ(decode(R"({"spec":{"containers":[null],"securityContext":null,"affinity":{}}})", kPod),
            R"({"kind":"Pod","apiVersion":"v1","metadata":{},"spec":{"containers":[{"name":"","resources":{}}],)"
            R"("affinity":{}},"status":{}})");
}

TEST(Codec, ZeroValuesAndOrder) {
  EXPECT_EQ(
      decode(R"({"spec":{"replicas":0,"paused":false,"minReadySeconds":0,"template":{"spec":{"containers":[],)"
             R"("hostPID":true,"activeDeadlineSeconds":0}}},"metadata":{"name":"d","creationTimestamp":null}})",
             kDeployment),
      R"({"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"d"},"spec":{"replicas":0,"selector":null,)"
      R"("template":{"metadata":{},"spec":{"containers":null,"activeDeadlineSeconds":0,"hostPID":true}},)"
      R"("strategy":{}},"status":{}})");
}

TEST(Codec, ScalarsBecomeCanonical) {
  EXPECT_EQ(
      decode(R"({"metadata":{"creationTimestamp":"2026-01-02T03:04:05.678+01:00"},"spec":{"containers":[{"name":"c",)"
             R"("resources":{"limits":{"memory":"1024Mi","cpu":0.5,"a":"1000"}},"ports":[{"containerPort":-0}],)"
             R"("livenessProbe":{"httpGet":{"port":"http","path":"<&>"}}}]}})",
             kPod),
      R"({"kind":"Pod","apiVersion":"v1","metadata":{"creationTimestamp":"2026-01-02T02:04:05Z"},"spec":{"containers":)"
      R"([{"name":"c","ports":[{"containerPort":0}],"resources":{"limits":{"a":"1k","cpu":"500m","memory":"1Gi"}},)"
      R"("livenessProbe":{"httpGet":{"path":"\u003c\u0026\u003e","port":"http"}}}]},"status":{}})");
}

TEST(Codec, DeepNesting) {
  const auto nest = [](int n) {
    return std::string(static_cast<size_t>(n), '[') + std::string(static_cast<size_t>(n), ']');
  };
  EXPECT_EQ(decode("{\"x\":" + nest(9999) + "}", kConfigMap, FieldValidation::kIgnore),
            R"({"kind":"ConfigMap","apiVersion":"v1","metadata":{}})");
  EXPECT_NE(decode("{\"x\":" + nest(10000) + "}", kConfigMap).find("exceeded max depth"), std::string::npos);
  EXPECT_NE(decode("{\"spec\":" + nest(5000) + "}", kWidget).find("exceeded max depth"), std::string::npos);
  EXPECT_NE(decode(nest(200000), kPod).find("exceeded max depth"), std::string::npos);
}

TEST(Codec, CustomResourcesKeepWhatTheyHave) {
  EXPECT_EQ(
      decode(R"({"spec":{"z":1,"a":[{"y":null,"x":""}]},"metadata":{"name":"w","labels":{},"generation":0},)"
             R"("kind":"Widget","apiVersion":"example.com/v1"})",
             kWidget),
      R"({"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"a":[{"x":"","y":null}],"z":1}})");
  EXPECT_EQ(
      decode(R"({"metadata":{"nmae":"w"},"spec":{"a":1,"a":2}})", kWidget),
      "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: duplicate field \"spec.a\", "
      "unknown field \"metadata.nmae\"");
}

TEST(Codec, YamlBodies) {
  EXPECT_EQ(
      decode("metadata: {name: p}\nspec:\n  activeDeadlineSeconds: 012\n  hostNetwork: yes\n  containers:\n  - {name: "
             "c}\n",
             kPod, FieldValidation::kStrict, MediaType::kYaml),
      R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","resources":{}}],)"
      R"("activeDeadlineSeconds":10,"hostNetwork":true},"status":{}})");
  constexpr std::string_view kTwice =
      "kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: one\ndata:\n  a: b\n  a: c\n";
  EXPECT_EQ(
      decode(kTwice, kConfigMap, FieldValidation::kStrict, MediaType::kYaml),
      "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: yaml: unmarshal errors:\n"
      "  line 7: key \"a\" already set in map");
  std::vector<std::string> warnings;
  EXPECT_EQ(decode(kTwice, kConfigMap, FieldValidation::kWarn, MediaType::kYaml, &warnings),
            R"({"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"one"},"data":{"a":"c"}})");
  EXPECT_EQ(warnings, std::vector<std::string>{"line 7: key \"a\" already set in map"});
  EXPECT_EQ(
      decode("data:\n  on: 'x'\n  null: 'z'\n", kConfigMap, FieldValidation::kStrict, MediaType::kYaml),
      "the object provided is unrecognized (must be of type ConfigMap): unsupported map key of type: %!s(<nil>), key: "
      "<nil>, value: \"z\" (646174613a0a20206f6e3a202778270a20206e756c6c3a20277a270a)");
}

TEST(Codec, TypesWithoutKind) {
  const TypeInfo& type = *find_type("meta/v1.DeleteOptions");
  auto r = decode_type(R"({"gracePeriodSeconds":"x"})", MediaType::kJson, type, {});
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().message,
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64");
  r = decode_type(R"({"kind":"DeleteOptions","gracePeriodSeconds":0,"propagationPolicy":"Foreground"})",
                  MediaType::kJson, type, {});
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(to_json(*r), R"({"kind":"DeleteOptions","gracePeriodSeconds":0,"propagationPolicy":"Foreground"})");
}

TEST(Codec, NormalizeNamesWhatItDrops) {
  std::vector<std::string> unknown;
  Json v =
      *parse_json(R"({"spec":{"nosuch":1,"containers":[{"name":"c","resources":{"limits":{"cpu":"0.1"}},"x":{}}]}})");
  auto r = normalize(v, *find_type("core/v1.Pod"), &unknown);
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(unknown, (std::vector<std::string>{"spec.nosuch", "spec.containers[0].x"}));
  EXPECT_EQ(get_string(*r, "spec.nodeName"), "");
  EXPECT_EQ(
      to_json(*r),
      R"({"metadata":{},"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"100m"}}}]},"status":{}})");
}

TEST(Codec, EncodingEditedObjects) {
  Json v = *parse_json(
      R"({"status":{"phase":"Running"},"spec":{"nodeName":"n","hostNetwork":false,"containers":[]},)"
      R"("metadata":{"labels":{},"name":"p","annotations":{"z":"1","a":"2"}},"apiVersion":"v1","newer":1,"kind":"Pod"})");
  EXPECT_EQ(encode_json(v, find_type("core/v1.Pod")),
            R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","annotations":{"a":"2","z":"1"}},)"
            R"("spec":{"containers":null,"nodeName":"n"},"status":{"phase":"Running"},"newer":1})");
}

// Bodies a real kube-apiserver 1.36 refused under Strict, one a line, with its words.
TEST(Codec, RefusesInTheWordsOfARealServer) {
  std::ifstream in(GF_SOURCE_DIR "/tests/data/decoding/refused.jsonl");
  std::string line;
  int cases = 0;
  while (std::getline(in, line)) {
    const Json c = *parse_json(line);
    const KindInfo kind = kind_of(std::string(get_string(c, "group")), std::string(get_string(c, "version")),
                                  std::string(get_string(c, "kind")));
    const MediaType media = get_string(c, "media") == "yaml" ? MediaType::kYaml : MediaType::kJson;
    EXPECT_EQ(decode(get_string(c, "body"), kind, FieldValidation::kStrict, media), get_string(c, "error"))
        << get_string(c, "body");
    ++cases;
  }
  EXPECT_GT(cases, 100);
}

}  // namespace
}  // namespace ghostfleet::kube
