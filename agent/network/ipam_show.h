// What the address daemon shows of itself: the answers of its introspection endpoint (127.0.0.1:61679) as JSON, and its
// metrics (:61678/metrics) as Prometheus text. Rendered only; no server is here.
//
// Thread rule: pure functions. Source: amazon-vpc-cni-k8s v1.23, introspection endpoint and metrics.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/network/ipam_node.h"

namespace ghostfleet::agent {

// The body of GET `path`; any other path than the four known ones gives the list of them, as the daemon does.
std::string render_introspection(const IpamNode& node, std::string_view path, WallTime wall_now, TimePoint now);

std::string render_ipam_metrics(const IpamNode& node, TimePoint now);

}  // namespace ghostfleet::agent
