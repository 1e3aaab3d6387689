// What drivers are asked and answer, and the file of claims, byte for byte where others read them.
#include "agent/dra/driver_messages.h"

#include <gtest/gtest.h>

#include "agent/dra/claim_cache.h"

namespace ghostfleet::agent {
namespace {

TEST(DriverMessages, AreReadAsTheyWereWritten) {
  const std::vector<ClaimName> claims{{"ns", "u1", "one"}, {"ns", "u2", "two"}};
  EXPECT_EQ(decode_claim_names(encode_claim_names(claims)).value(), claims);
  EXPECT_EQ(encode_claim_names({{"n", "u", "c"}}), std::string("\x0a\x09\x0a\x01n\x12\x01u\x1a\x01"
                                                               "c"));
  const ClaimAnswers answers{{"u1", {"", {{{"r", "s"}, "p", "d", {"x/y=1", "x/y=2"}, "share"}, {}}}},
                             {"u2", {"bad", {}}}};
  EXPECT_EQ(decode_prepare_answers(encode_prepare_answers(answers)).value(), answers);
  const ClaimAnswers errors{{"u1", {}}, {"u2", {"bad", {}}}};
  EXPECT_EQ(decode_unprepare_answers(encode_unprepare_answers(errors)).value(), errors);
  const std::vector<HealthReport> health{{"p", "d", DeviceHealth::kUnhealthy, 7, "hot"},
                                         {"p", "e", DeviceHealth::kHealthy, 0, ""},
                                         {"p", "f", DeviceHealth::kUnknown, -1, ""}};
  EXPECT_EQ(decode_health(encode_health(health)).value(), health);
}

TEST(DriverMessages, WhatIsNoMessage) {
  EXPECT_EQ(decode_prepare_answers(std::string("\x0a\x05u", 3)).ok(), false);
  EXPECT_EQ(decode_prepare_answers("\x0a\x04\x0a\x02\xff\xff").error().message(),
            "field 1: string field contains invalid UTF-8");
  EXPECT_EQ(decode_health("\x08\x01").value().size(), 0u) << "a field of another type is passed over";
}

// The checksum is that of Go's hash/crc32 (IEEE) over the text in Data.
TEST(ClaimCheckpoint, IsTheFileOfAKubelet) {
  ClaimCache cache;
  EXPECT_EQ(render_claim_checkpoint(cache),
            R"({"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",)"
            R"(\"ClaimInfoStateList\":null}","Checksum":4010664294})");
  cache.add("ns", "one") = {
      "u1", {"p1", "p2"}, {"gpu.example.com"}, {{"gpu.example.com", "n1", "gpu-0", {"r"}, {"x/y=1"}, ""}}, true};
  cache.add("ns", "two") = {"u2", {}, {}, {}, false};
  const std::string text = render_claim_checkpoint(cache);
  EXPECT_NE(text.find(R"({\"ClaimUID\":\"u1\",\"ClaimName\":\"one\",\"Namespace\":\"ns\",\"PodUIDs\":{\"p1\":{},)"
                      R"(\"p2\":{}},\"DriverState\":{\"gpu.example.com\":{\"Devices\":[{\"PoolName\":\"n1\",)"
                      R"(\"DeviceName\":\"gpu-0\",\"ShareID\":null,\"RequestNames\":[\"r\"],)"
                      R"(\"CDIDeviceIDs\":[\"x/y=1\"]}]}}})"),
            std::string::npos)
      << text;
  const ClaimCache read = parse_claim_checkpoint(text).value();
  ASSERT_EQ(read.size(), 2u);
  ClaimCache::Entry expected = *cache.find("ns", "one");
  expected.prepared = false;
  EXPECT_EQ(*read.find("ns", "one"), expected);
}

}  // namespace
}  // namespace ghostfleet::agent
