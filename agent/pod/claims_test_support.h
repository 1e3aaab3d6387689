// What tests of pods with claims of devices share: where claims are read, what a failed try says, and the pods' uids.
#pragma once

#include <gmock/gmock.h>

#include <string>
#include <string_view>

namespace ghostfleet::test {

inline constexpr std::string_view kClaims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/";
// Of the first and the second pod of a cluster.
inline const std::string kA = "00000001-0000-4000-8000-000000000001", kB = "00000002-0000-4000-8000-000000000001";

// An event that says why claims could not be prepared.
inline auto failed(const std::string& why) {
  return ::testing::AllOf(
      ::testing::StartsWith("Warning FailedPrepareDynamicResources x"),
      ::testing::EndsWith(" -: Failed to prepare dynamic resources: prepare dynamic resources: " + why));
}

}  // namespace ghostfleet::test
