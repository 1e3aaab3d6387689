// The objects a cluster has before anybody does anything: namespaces, the service `kubernetes` and its endpoints,
// priority classes, the service range, RBAC roles and bindings, the authentication config map.
//
// Thread rule: once, before requests are served. What exists is left as it is.
#pragma once

#include <string>

#include "base/status.h"
#include "controlplane/apiserver/api.h"
#include "controlplane/auth/pki.h"

namespace ghostfleet::controlplane {

// `pki` null: nothing is published for aggregated API servers.
Status create_boot_objects(Api& api, const std::string& service_cidr, const Pki* pki);
// Once the port is known: the endpoints of the service `kubernetes`.
Status create_api_endpoints(Api& api, const std::string& address, uint16_t port);

}  // namespace ghostfleet::controlplane
