// The flags of the nodes' own HTTPS servers, for `up`, `fleet` and `agent`.
//
// Thread rule: main thread.
#pragma once

#include <string>

#include "base/status.h"
#include "emulator/fleet/node_server.h"

namespace CLI {
class App;
}

namespace ghostfleet::cmd {

struct NodeServerFlags {
  std::string mode = "auto", address, node_cidr, client_ca_file, tls_cert_file, tls_key_file;
  int port = 10250;
  bool port_given = false;
};

void add_node_server_flags(CLI::App& command, NodeServerFlags* flags);
Result<emulator::NodeServerOptions> node_server_options(const NodeServerFlags& flags, uint32_t nodes);

}  // namespace ghostfleet::cmd
