#include "agent/node/lease_message.h"

#include <gtest/gtest.h>

#include "kube/api/codec.h"

namespace ghostfleet::agent {
namespace {

constexpr std::string_view kUid = "01234567-89ab-cdef-0123-456789abcdef";

std::string message(uint64_t version) {
  NodeUid uid;
  EXPECT_TRUE(NodeUid::parse(kUid, &uid));
  return lease_message("node-1", uid, version, 40, WallTime{1767607200123456789});
}

kube::Json decoded(const std::string& bytes) {
  auto object = kube::decode_protobuf(bytes, *kube::find_type("coordination.k8s.io", "v1", "Lease"));
  EXPECT_TRUE(object.ok()) << object.error().message;
  return object.ok() ? *object : kube::Json();
}

TEST(LeaseMessage, IsReadAsTheLeaseItIs) {
  const kube::Json lease = decoded(message(77));
  const std::string text = kube::encode_json(lease, kube::find_type("coordination.k8s.io", "v1", "Lease"));
  const auto expected = kube::parse_json(
      R"({"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"node-1","namespace":)"
      R"("kube-node-lease","resourceVersion":"77","ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"node-1",)"
      R"("uid":"01234567-89ab-cdef-0123-456789abcdef"}]},"spec":{"holderIdentity":"node-1","leaseDurationSeconds":40,)"
      R"("renewTime":"2026-01-05T10:00:00.123456Z"}})");
  EXPECT_TRUE(kube::json_equal(*kube::parse_json(text), *expected)) << text;
}

TEST(LeaseMessage, VersionsAreReadBackAndNothingElseIsTaken) {
  EXPECT_EQ(version_of_message(message(18446744073709551615u)), 18446744073709551615u);
  EXPECT_EQ(version_of_message(message(0)), 0u);
  EXPECT_EQ(version_of_message(""), 0u);
  EXPECT_EQ(version_of_message("{\"metadata\":{\"resourceVersion\":\"1\"}}"), 0u);
  const std::string whole = message(123456);
  for (size_t cut = 0; cut < whole.size(); ++cut) {
    const uint64_t version = version_of_message(whole.substr(0, cut));
    EXPECT_TRUE(version == 0 || version == 123456) << cut;
  }
}

}  // namespace
}  // namespace ghostfleet::agent
