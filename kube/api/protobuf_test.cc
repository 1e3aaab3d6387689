#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "kube/api/codec.h"
#include "kube/api/kinds.h"
#include "kube/api/protobuf_wire.h"

namespace ghostfleet::kube {
namespace {

std::string unhex(std::string_view text) {
  std::string out;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    out.push_back(static_cast<char>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  }
  return out;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

const TypeInfo* type_of(std::string_view api_version, std::string_view kind) {
  const size_t slash = api_version.find('/');
  const std::string_view group = slash == api_version.npos ? std::string_view() : api_version.substr(0, slash);
  const std::string_view version = slash == api_version.npos ? api_version : api_version.substr(slash + 1);
  if (kind == "Status") return find_type("meta/v1.Status");
  return find_type(group, version, kind);
}

// Pairs of answers of a real kube-apiserver 1.36 for the same object: NAME.json and NAME.pb.
std::vector<std::filesystem::path> pairs() {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(GF_SOURCE_DIR "/tests/data/protobuf")) {
    if (entry.path().extension() == ".json") found.push_back(entry.path());
  }
  return found;
}

TEST(Protobuf, AgreesWithARealServer) {
  ASSERT_GT(pairs().size(), 30u);
  for (auto path : pairs()) {
    SCOPED_TRACE(path.filename().string());
    std::string json = read_file(path);
    while (!json.empty() && json.back() == '\n') json.pop_back();
    const std::string binary = read_file(path.replace_extension(".pb"));
    const Json given = *parse_json(json);
    const std::string api_version(get_string(given, "apiVersion"));
    const std::string kind(get_string(given, "kind"));
    const TypeInfo* type = type_of(api_version, kind);
    ASSERT_NE(type, nullptr) << api_version << " " << kind;
    auto from_json = decode_type(json, MediaType::kJson, *type, {FieldValidation::kStrict, nullptr, true});
    ASSERT_TRUE(from_json.ok()) << from_json.error().message;
    EXPECT_EQ(encode_json(*from_json, type), json);
    auto from_binary = decode_type(binary, MediaType::kProtobuf, *type, {});
    ASSERT_TRUE(from_binary.ok()) << from_binary.error().message;
    EXPECT_EQ(encode_json(*from_binary, type), json);
    std::string message;
    append_protobuf_message(*from_json, *type, &message);
    EXPECT_EQ(protobuf_envelope(api_version, kind, message), binary);
    for (size_t cut = 0; cut < binary.size(); cut += 1 + cut / 16) {
      (void)decode_type(binary.substr(0, cut), MediaType::kProtobuf, *type, {});
    }
  }
}

TEST(Protobuf, BodiesOfRealClients) {
  const std::string space = unhex(
      "6b3873000a0f0a02763112094e616d657370616365121a0a120a027a7a12001a0022002a0032003800420012001a020a001a002200");
  auto r = decode_type(space, MediaType::kProtobuf, *find_type("core/v1.Namespace"), {});
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ(encode_json(*r, find_type("core/v1.Namespace")),
            R"({"kind":"Namespace","apiVersion":"v1","metadata":{"name":"zz"},"spec":{},"status":{}})");
  const std::string review = unhex(
      "6b3873000a320a17617574686f72697a6174696f6e2e6b38732e696f2f7631121753656c665375626a656374416363657373526576696577"
      "12"
      "3f0a100a0012001a0022002a0032003800420012210a1f0a0764656661756c7412066372656174651a0022002a04706f647332003a001a08"
      "08"
      "0012001a0020001a002200");
  r = decode_type(review, MediaType::kProtobuf, *find_type("authorization.k8s.io/v1.SelfSubjectAccessReview"), {});
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ(get_string(*r, "spec.resourceAttributes.verb"), "create");
  EXPECT_EQ(get_string(*r, "spec.resourceAttributes.resource"), "pods");
}

TEST(Protobuf, WrongBodies) {
  KindInfo kind;
  kind.version = "v1";
  kind.kind = "Pod";
  kind.type = find_type("core/v1.Pod");
  const auto error = [&](std::string_view body) {
    auto r = decode_object(body, MediaType::kProtobuf, kind, {});
    return r.ok() ? std::string("ok") : r.error().message;
  };
  EXPECT_EQ(error(""), "the object provided is unrecognized (must be of type Pod): empty data (<empty>)");
  EXPECT_EQ(error("{}"),
            "the object provided is unrecognized (must be of type Pod): provided data does not appear to be a protobuf "
            "message, expected prefix [107 56 115 0] ({})");
  EXPECT_EQ(error(std::string_view("k8s\0", 4)),
            "the object provided is unrecognized (must be of type Pod): empty body (6b387300)");
  EXPECT_EQ(error(std::string_view("k8s\0\x0a\x05", 6)),
            "the object provided is unrecognized (must be of type Pod): unexpected EOF (6b3873000a05)");
  EXPECT_EQ(error(protobuf_envelope("v1", "Pod", "\x0a\x05xx")),
            "Pod in version \"v1\" cannot be handled as a Pod: unexpected EOF");
  EXPECT_EQ(
      error(protobuf_envelope("v1", "Secret", "")),
      "Secret in version \"v1\" cannot be handled as a Pod: converting (v1.Secret) to (core.Pod): unknown conversion");
  std::string deep;
  for (int i = 0; i < 3000; ++i) {
    std::string outer;
    append_bytes_field(18, deep, &outer);  // JSONSchemaProps.not
    deep = std::move(outer);
  }
  std::string wrapped = protobuf_envelope("v1", "X", deep);
  auto r = decode_type(wrapped, MediaType::kProtobuf, *find_type("apiextensions.k8s.io/v1.JSONSchemaProps"), {});
  EXPECT_FALSE(r.ok());
}

TEST(Protobuf, UnknownFieldsAreSkippedAndLaterValuesWin) {
  std::string message;
  append_varint_field(900, 5, &message);
  append_bytes_field(901, "x", &message);
  append_tag(902, WireType::kGroup, &message);
  append_varint_field(1, 1, &message);
  append_tag(902, WireType::kEndGroup, &message);
  append_message_field(1, &message, [&] { append_bytes_field(1, "old", &message); });
  append_message_field(1, &message, [&] { append_bytes_field(1, "new", &message); });
  auto r = decode_type(protobuf_envelope("v1", "ConfigMap", message), MediaType::kProtobuf,
                       *find_type("core/v1.ConfigMap"), {});
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ(get_string(*r, "metadata.name"), "new");
}

TEST(Protobuf, WatchFrames) {
  std::string out;
  append_protobuf_watch_frame("ADDED", "abc", &out);
  EXPECT_EQ(out, std::string("\0\0\0\x0e\x0a\x05"
                             "ADDED\x12\x05\x0a\x03"
                             "abc",
                             18));
}

}  // namespace
}  // namespace ghostfleet::kube
