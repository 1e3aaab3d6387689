// UserInfo: who makes a request, as authentication found it.
//
// Thread rule: plain value.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ghostfleet::controlplane {

struct UserInfo {
  std::string name;
  std::string uid;
  std::vector<std::string> groups;
  std::vector<std::pair<std::string, std::vector<std::string>>> extra;

  bool in_group(std::string_view group) const {
    for (const std::string& g : groups) {
      if (g == group) return true;
    }
    return false;
  }
};

inline constexpr const char* kAnonymousUser = "system:anonymous";
inline constexpr const char* kMastersGroup = "system:masters";

}  // namespace ghostfleet::controlplane
