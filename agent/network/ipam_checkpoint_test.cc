#include "agent/network/ipam_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ghostfleet::agent {
namespace {

using testing::HasSubstr;

constexpr std::string_view kText =
    R"({"version":"vpc-cni-ipam/1","allocations":[{"networkName":"aws-cni","containerID":"abc","ifName":"eth0",)"
    R"("ipv4":"10.0.4.17","allocationTimestamp":1767607200000000000,"metadata":{"k8sPodNamespace":"default",)"
    R"("k8sPodName":"web-0","interfacesCount":1}},{"networkName":"aws-cni","containerID":"def","ifName":"eth0",)"
    R"("ipv6":"fd00:10::5","allocationTimestamp":5,"metadata":{"k8sPodNamespace":"kube-system","k8sPodName":"dns",)"
    R"("interfacesCount":2}}]})";

std::string complaint(std::string_view text) {
  auto c = parse_checkpoint(text);
  return c.ok() ? "" : c.error().message();
}

TEST(IpamCheckpoint, ThereAndBack) {
  auto c = parse_checkpoint(kText);
  ASSERT_TRUE(c.ok()) << c.error().message();
  ASSERT_EQ(c->allocations.size(), 2u);
  EXPECT_EQ(c->allocations[0].holder.pod_name, "web-0");
  EXPECT_EQ(format_ip(c->allocations[0].ip), "10.0.4.17");
  EXPECT_EQ(c->allocations[1].holder.interfaces, 2);
  EXPECT_EQ(render_checkpoint(*c), kText);
}

TEST(IpamCheckpoint, EntriesOfPodsThatAreGoneAreDropped) {
  auto c = parse_checkpoint(kText);
  ASSERT_TRUE(c.ok());
  prune_checkpoint(&*c, [](const std::string& ns, const std::string&) { return ns == "default"; });
  ASSERT_EQ(c->allocations.size(), 1u);
  c->allocations[0].holder.pod_name.clear();
  prune_checkpoint(&*c, [](const std::string&, const std::string&) { return false; });
  EXPECT_EQ(c->allocations.size(), 1u) << "an entry that names no pod stays";
}

TEST(IpamCheckpoint, ComplaintsNameFieldAndValue) {
  EXPECT_THAT(complaint("{}"), HasSubstr("version: \"\": vpc-cni-ipam/1 is expected"));
  EXPECT_THAT(complaint(R"({"version":"vpc-cni-ipam/2"})"), HasSubstr("\"vpc-cni-ipam/2\""));
  EXPECT_THAT(complaint("[1"), HasSubstr("checkpoint"));
  const auto entry = [](std::string_view fields) {
    return complaint(R"({"version":"vpc-cni-ipam/1","allocations":[{"containerID":"a",)" + std::string(fields) + "}]}");
  };
  EXPECT_THAT(entry(R"("ipv4":"10.0.0.300")"), HasSubstr("allocations[0].ipv4: \"10.0.0.300\": an address like"));
  EXPECT_THAT(entry(R"("ipv4":"::1")"), HasSubstr("allocations[0].ipv4"));
  EXPECT_THAT(entry(R"("x":1)"), HasSubstr("allocations[0].ipv6"));
  EXPECT_THAT(entry(R"("ipv4":"10.0.0.1","metadata":{"interfacesCount":100})"), HasSubstr("from 0 to 64"));
  EXPECT_THAT(complaint(R"({"version":"vpc-cni-ipam/1","allocations":{}})"), HasSubstr("allocations: a list"));
  EXPECT_THAT(complaint(R"({"version":"vpc-cni-ipam/1","allocations":[{"ipv4":"10.0.0.1"}]})"),
              HasSubstr("containerID"));
}

TEST(IpamCheckpoint, LimitsHold) {
  std::string many = R"({"version":"vpc-cni-ipam/1","allocations":[0)";
  for (size_t i = 0; i < IpamCheckpoint::kMaxAllocations; ++i) many += ",0";
  EXPECT_THAT(complaint(many + "]}"), HasSubstr("20001 entries: at most 20000"));
  EXPECT_THAT(complaint(std::string(IpamCheckpoint::kMaxBytes + 1, ' ')), HasSubstr("at most 4194304"));
}

}  // namespace
}  // namespace ghostfleet::agent
