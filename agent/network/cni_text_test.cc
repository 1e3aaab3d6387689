#include "agent/network/cni_text.h"

#include <gtest/gtest.h>

namespace ghostfleet::agent {
namespace {

TEST(CniText, IsWhatAClusterShows) {
  EXPECT_EQ(
      sandbox_failure("14bffa77", AddOutcome::kNoAddress),
      "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "
      "\"14bffa77\": plugin type=\"aws-cni\" name=\"aws-cni\" failed (add): add cmd: failed to assign an IP address "
      "to container");
  EXPECT_EQ(cni_add_error(AddOutcome::kOk), "");
  EXPECT_EQ(cni_add_error(AddOutcome::kNotSaved), cni_add_error(AddOutcome::kNoAddress));
  EXPECT_NE(cni_add_error(AddOutcome::kNotReady).find("ipamd.sock: connect: connection refused"), std::string::npos);
}

}  // namespace
}  // namespace ghostfleet::agent
