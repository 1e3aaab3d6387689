#include "kube/client/protobuf_bridge.h"

#include <gtest/gtest.h>

#include <vector>

#include "kube/api/codec.h"

namespace ghostfleet::kube {
namespace {

constexpr const char* kLease =
    R"({"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"n","namespace":"kube-node-lease",)"
    R"("uid":"5b0c1c7e-0000-4000-8000-000000000001","resourceVersion":"7"},)"
    R"("spec":{"holderIdentity":"n","leaseDurationSeconds":40,"renewTime":"2026-01-05T10:00:10.123456Z"}})";

TEST(ProtobufBridge, ThereAndBack) {
  const auto binary = protobuf_of_json(kLease);
  ASSERT_TRUE(binary.ok()) << binary.error().message();
  EXPECT_TRUE(binary->starts_with(std::string("k8s\0", 4)));
  const auto text = json_of_protobuf(*binary);
  ASSERT_TRUE(text.ok()) << text.error().message();
  EXPECT_TRUE(json_equal(*parse_json(*text), *parse_json(kLease))) << *text;
}

TEST(ProtobufBridge, OptionsAndStatusAreKnown) {
  for (const std::string json :
       {R"({"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0})",
        R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","code":404})"}) {
    const auto binary = protobuf_of_json(json);
    ASSERT_TRUE(binary.ok()) << binary.error().message();
    EXPECT_TRUE(json_equal(*parse_json(*json_of_protobuf(*binary)), *parse_json(json)));
  }
  EXPECT_FALSE(protobuf_of_json(R"({"kind":"Ghost","apiVersion":"v1"})").ok());
  EXPECT_FALSE(protobuf_of_json("<html>").ok());
  EXPECT_FALSE(json_of_protobuf("<html>").ok());
}

TEST(ProtobufBridge, MetadataAlone) {
  const auto text = metadata_of_protobuf(*protobuf_of_json(kLease));
  ASSERT_TRUE(text.ok()) << text.error().message();
  const auto object = parse_json(*text);
  EXPECT_EQ(get_string(*object, "metadata.name"), "n");
  EXPECT_EQ(get_string(*object, "metadata.resourceVersion"), "7");
  EXPECT_EQ(find_path(*object, "spec"), nullptr);
}

TEST(ProtobufBridge, FramesComeInPieces) {
  std::string stream;
  append_protobuf_watch_frame("ADDED", *protobuf_of_json(kLease), &stream);
  append_protobuf_watch_frame("BOOKMARK", *protobuf_of_json(kLease), &stream);
  for (const size_t piece : {size_t{1}, size_t{7}, stream.size()}) {
    ProtobufWatchDecoder decoder(4096);
    std::vector<std::string> types;
    for (size_t at = 0; at < stream.size(); at += piece) {
      const Status status = decoder.feed(stream.substr(at, piece), [&](std::string_view type, std::string_view object) {
        types.emplace_back(type);
        EXPECT_TRUE(json_of_protobuf(object).ok());
        return true;
      });
      ASSERT_TRUE(status.ok());
    }
    EXPECT_EQ(types, (std::vector<std::string>{"ADDED", "BOOKMARK"}));
    EXPECT_FALSE(decoder.partial());
  }
}

TEST(ProtobufBridge, LongAndBrokenFramesAreErrors) {
  const auto take = [](std::string_view, std::string_view) { return true; };
  ProtobufWatchDecoder decoder(16);
  EXPECT_TRUE(decoder.feed(std::string("\0\0\0\x10", 4), take).ok());
  EXPECT_TRUE(decoder.partial());
  decoder.reset();
  EXPECT_EQ(decoder.feed(std::string("\0\0\0\x11", 4), take).code(), Code::kResourceExhausted);
  decoder.reset();
  EXPECT_EQ(decoder.feed(std::string("\0\0\0\x02\xff\xff", 6), take).code(), Code::kDataLoss);
}

}  // namespace
}  // namespace ghostfleet::kube
