#include "cmd/node_server_flags.h"

#include <CLI/CLI.hpp>

#include "base/files.h"

namespace ghostfleet::cmd {

void add_node_server_flags(CLI::App& command, NodeServerFlags* flags) {
  command
      .add_option(
          "--kubelet-server", flags->mode,
          "the nodes' own HTTPS servers (logs, exec, port-forward, metrics): loopback: for an API server on this "
          "machine; ports: a port of --kubelet-address for each node; off; auto (default): loopback when the "
          "API server is on this machine, else off")
      ->check(CLI::IsMember({"auto", "loopback", "ports", "off"}));
  command
      .add_option("--kubelet-port", flags->port,
                  "port of the nodes' servers (default 10250, or a free one when that is taken); with ports: of the "
                  "first node. 0: any free port")
      ->check(CLI::Range(0, 65535))
      ->each([flags](const std::string&) { flags->port_given = true; });
  command.add_option("--kubelet-address", flags->address,
                     "with ports: where to listen, and the InternalIP of all nodes");
  command.add_option("--node-cidr", flags->node_cidr,
                     "with loopback: the network of the nodes' addresses (default 127.64.0.0/10; others need `ip route "
                     "add local NETWORK dev lo`)");
  command.add_option("--client-ca-file", flags->client_ca_file,
                     "CA of the clients' certificates (default: what the API server publishes)");
  command.add_option("--tls-cert-file", flags->tls_cert_file, "serving certificate (default: a self-signed one)");
  command.add_option("--tls-private-key-file", flags->tls_key_file, "its key");
}

Result<emulator::NodeServerOptions> node_server_options(const NodeServerFlags& flags, uint32_t nodes) {
  using Mode = emulator::NodeServerMode;
  emulator::NodeServerOptions o;
  o.mode = flags.mode == "loopback" ? Mode::kLoopback
           : flags.mode == "ports"  ? Mode::kPorts
           : flags.mode == "off"    ? Mode::kOff
                                    : Mode::kAuto;
  o.port = flags.port;
  o.port_given = flags.port_given && flags.port != 0;
  o.address = flags.address;
  o.node_cidr = flags.node_cidr;
  o.client_ca_file = expand_home(flags.client_ca_file);
  o.tls_cert_file = expand_home(flags.tls_cert_file);
  o.tls_key_file = expand_home(flags.tls_key_file);
  if (!o.address.empty() && o.mode != Mode::kPorts)
    return invalid_argument("--kubelet-address: only with --kubelet-server ports");
  if (!o.node_cidr.empty() && o.mode != Mode::kLoopback && o.mode != Mode::kAuto)
    return invalid_argument("--node-cidr: only with --kubelet-server loopback");
  GF_RETURN_IF_ERROR(emulator::check_node_server(o, nodes));
  return o;
}

}  // namespace ghostfleet::cmd
