#include "agent/network/cni_text.h"

#include <fmt/format.h>

namespace ghostfleet::agent {
namespace {

constexpr std::string_view kNoAddress = "failed to assign an IP address to container";
constexpr std::string_view kNotRunning =
    "Error received from AddNetwork gRPC call: rpc error: code = Unavailable desc = connection error: desc = "
    "\"transport: Error while dialing: dial unix /var/run/aws-node/ipamd.sock: connect: connection refused\"";

}  // namespace

std::string cni_add_error(AddOutcome outcome) {
  if (outcome == AddOutcome::kOk) return {};
  return fmt::format("plugin type=\"aws-cni\" name=\"aws-cni\" failed (add): add cmd: {}",
                     outcome == AddOutcome::kNotReady ? kNotRunning : kNoAddress);
}

std::string sandbox_failure(std::string_view sandbox_id, AddOutcome outcome) {
  return fmt::format(
      "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox \"{}\": {}",
      sandbox_id, cni_add_error(outcome));
}

}  // namespace ghostfleet::agent
