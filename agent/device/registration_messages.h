// Messages of the plugin registration API (pluginregistration.Registration): a plugin that has a socket in a kubelet's
// plugins_registry is asked what it is, and told whether it was taken.
//
// Field numbers are those of Kubernetes' k8s.io/kubelet 0.36. Thread rule: plain values. Errors and limits:
// kube/api/protobuf_fields.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ghostfleet::agent {

// Answer of GetInfo, whose request is empty.
struct PluginInfo {
  std::string type;      // "DRAPlugin", "DevicePlugin", "CSIPlugin"
  std::string name;      // of the driver or the extended resource
  std::string endpoint;  // absolute path of the socket that it serves on; empty: the one it was asked on
  std::vector<std::string> versions;
};
std::string encode_plugin_info(const PluginInfo& info);
Result<PluginInfo> decode_plugin_info(std::string_view bytes);

// NotifyRegistrationStatus; its answer is empty.
struct RegistrationStatus {
  bool registered = false;
  std::string error;
};
std::string encode_registration_status(const RegistrationStatus& status);
Result<RegistrationStatus> decode_registration_status(std::string_view bytes);

}  // namespace ghostfleet::agent
