// Where the server of a node (its kubelet) listens, as its Node object says.
//
// Thread rule: any thread. Source: a real kube-apiserver with kubeadm's preference of addresses.
#pragma once

#include <string>
#include <string_view>

#include "controlplane/apiserver/api.h"
#include "controlplane/apiserver/subresources/subresources.h"

namespace ghostfleet::controlplane {

struct NodeLocation {
  std::string host;
  uint16_t port = 0;
};

// The first of InternalIP, ExternalIP, Hostname; the port the node reports, else 10250.
kube::ApiResult<NodeLocation> locate_node(Api& api, std::string_view node);

// "NAME", "NAME:PORT" and "SCHEME:NAME:PORT" of a proxied node, service or pod; false when it is none of these.
struct ProxiedName {
  std::string scheme, name, port;
};
bool split_proxied_name(std::string_view id, ProxiedName* out);

}  // namespace ghostfleet::controlplane
