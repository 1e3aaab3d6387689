// What a pod is told when it gets no address: the error of the CNI plugin, and the message of the event
// FailedCreatePodSandBox around it.
//
// Thread rule: pure functions. Source: recordings of clusters; since version 1.23 the plugin asks the daemon over a
// unix socket.
#pragma once

#include <string>
#include <string_view>

#include "agent/network/ipam_node.h"

namespace ghostfleet::agent {

inline constexpr std::string_view kNoAddressReason = "FailedCreatePodSandBox";

// A pod on a node whose plugin has not been set up yet: the kubelet does not try to make a sandbox.
inline constexpr std::string_view kNetworkNotReadyReason = "NetworkNotReady";
inline constexpr std::string_view kNetworkNotReady =
    "network is not ready: container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
    "message:Network plugin returns error: cni plugin not initialized";

// As the container runtime passes it on; empty for kOk.
std::string cni_add_error(AddOutcome outcome);
// The event's message; `sandbox_id`: 64 hexadecimal digits, others with each try.
std::string sandbox_failure(std::string_view sandbox_id, AddOutcome outcome);

}  // namespace ghostfleet::agent
