// How `ghostfleet agent` comes to the identity of its node, as a kubelet does: from a kubeconfig that holds one, or
// from a bootstrap kubeconfig with which it requests a certificate.
//
// Thread rule: main thread; blocks while it asks the server.
// Source: kubernetes.io, TLS bootstrapping; docs/identity.md.
#pragma once

#include <string>

#include "base/status.h"
#include "emulator/fleet/fleet.h"
#include "kube/client/kubeconfig.h"

namespace CLI {
class App;
}

namespace ghostfleet::cmd {

struct BootstrapFlags {
  std::string bootstrap_kubeconfig, cert_dir;
  bool rotate = false, rotate_server = false, approve_serving = false;
};
void add_bootstrap_flags(CLI::App& command, BootstrapFlags* flags);

// The cluster and who the node is; `identity` gets what the node needs to request and renew certificates. With a
// bootstrap kubeconfig and no valid certificate in `kubeconfig`, that file is written first, as a kubelet does: it
// names the certificate that is still to come.
Result<kube::LoadedConfig> node_config(const kube::KubeconfigFlags& kubeconfig, const BootstrapFlags& flags,
                                       const kube::Environment& environment, emulator::IdentityOptions* identity);

}  // namespace ghostfleet::cmd
