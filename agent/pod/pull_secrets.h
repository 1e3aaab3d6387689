// What a pull secret says: the users of registries, as a docker config file has them.
//
// Thread rule: pure functions. Secrets: what comes out is one; it goes into no message.
// Source: types kubernetes.io/dockerconfigjson and kubernetes.io/dockercfg (kubernetes.io, Secrets).
#pragma once

#include <string>
#include <string_view>

#include "agent/pod/image_puller.h"
#include "kube/api/json.h"

namespace ghostfleet::agent {

// By the Secret as it was answered; what was not, or is none, gives one without a config.
PullSecret pull_secret_of(std::string_view ns, std::string_view name, bool found, std::string_view object);

// {"auths":{...}}; empty: the object is no pull secret, or cannot be read (a kubelet passes over it then).
std::string docker_config_of(const kube::Json& secret);

}  // namespace ghostfleet::agent
