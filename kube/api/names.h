// What Kubernetes accepts as names, labels and the like, with the words of apimachinery's validation for what it does
// not. Each function answers the findings (empty: fine).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ghostfleet::kube {

std::vector<std::string> check_dns1123_label(std::string_view value);      // at most 63
std::vector<std::string> check_dns1123_subdomain(std::string_view value);  // at most 253
std::vector<std::string> check_dns1035_label(std::string_view value);      // services
std::vector<std::string> check_qualified_name(std::string_view value);     // label and annotation keys, resource names
std::vector<std::string> check_label_value(std::string_view value);        // at most 63
std::vector<std::string> check_path_segment_name(std::string_view value);  // RBAC kinds
std::vector<std::string> check_config_map_key(std::string_view value);
std::vector<std::string> check_env_var_name(std::string_view value);
std::vector<std::string> check_port_name(std::string_view value);  // IANA service name
bool is_valid_ip(std::string_view value);
bool is_valid_cidr(std::string_view value);

}  // namespace ghostfleet::kube
