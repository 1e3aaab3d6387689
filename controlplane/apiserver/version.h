// What GET /version says: the Kubernetes version whose behaviour is served.
#pragma once

#include "kube/api/json.h"

namespace ghostfleet::controlplane {

inline constexpr const char* kMajor = "1";
inline constexpr const char* kMinor = "36";
inline constexpr const char* kGitVersion = "v1.36.3+ghostfleet";

inline kube::Json version_info() {
  return kube::JsonObject{{"major", kMajor},
                          {"minor", kMinor},
                          {"emulationMajor", kMajor},
                          {"emulationMinor", kMinor},
                          {"minCompatibilityMajor", kMajor},
                          {"minCompatibilityMinor", "35"},
                          {"gitVersion", kGitVersion},
                          {"gitCommit", ""},
                          {"gitTreeState", "clean"},
                          {"buildDate", "2026-01-01T00:00:00Z"},
                          {"goVersion", "none"},
                          {"compiler", "gcc"},
                          {"platform", "linux/amd64"}};
}

}  // namespace ghostfleet::controlplane
