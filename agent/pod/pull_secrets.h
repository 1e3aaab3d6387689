// What a pull secret says: the users of registries, as a docker config file has them.
//
// Thread rule: pure functions. Secrets: what comes out is one; it goes into no message.
// Source: types kubernetes.io/dockerconfigjson and kubernetes.io/dockercfg (kubernetes.io, Secrets).
#pragma once

#include <string>

#include "kube/api/json.h"

namespace ghostfleet::agent {

// {"auths":{...}}; empty: the object is no pull secret, or cannot be read (a kubelet passes over it then).
std::string docker_config_of(const kube::Json& secret);

}  // namespace ghostfleet::agent
