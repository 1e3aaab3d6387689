#include "emulator/fleet/second_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ghostfleet::emulator {
namespace {

using ::testing::HasSubstr;

TEST(SecondNetwork, PodsBelowNodesAbove) {
  const auto net = SecondNetwork::parse("fd00:10:64::7/48", 1000);
  ASSERT_TRUE(net.ok()) << net.error().message();
  EXPECT_EQ(net->pod_ip(0, 0), "fd00:10:64::2");
  EXPECT_EQ(net->pod_ip(0, 9), "fd00:10:64::b");
  EXPECT_EQ(net->pod_ip(3, 0), "fd00:10:64::3:2");
  EXPECT_EQ(net->node_ip(0), "fd00:10:64:8000::1");
  EXPECT_EQ(net->node_ip(999), "fd00:10:64:8000::3e8");
}

TEST(SecondNetwork, AsManyNodesAsThereIsRoomFor) {
  EXPECT_TRUE(SecondNetwork::parse("fd00::/107", 8).ok());
  const auto said = [](std::string_view text, uint32_t nodes) {
    const auto net = SecondNetwork::parse(text, nodes);
    return net.ok() ? std::string() : std::string(net.error().message());
  };
  EXPECT_THAT(said("fd00::/107", 16), HasSubstr("no room for 16 nodes; at most a prefix of /106"));
  for (const char* text : {"", "fd00::", "10.0.0.0/8", "fd00::/x", "fd00::/4", "fd00::/113", "fd00::g/64"}) {
    EXPECT_THAT(said(text, 1), HasSubstr("an IPv6 network like fd00:10:64::/48")) << text;
  }
}

}  // namespace
}  // namespace ghostfleet::emulator
