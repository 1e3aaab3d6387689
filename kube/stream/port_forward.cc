#include "kube/stream/port_forward.h"

#include <algorithm>
#include <charconv>

#include "kube/stream/forward_session.h"
#include "kube/stream/handshake.h"
#include "kube/stream/websocket.h"

namespace ghostfleet::kube::stream {
namespace {

constexpr std::string_view kInsideWebSocket = "SPDY/3.1+";  // before the name of the protocol
constexpr size_t kMaxPorts = 127, kMaxBase64Ports = 39;     // a channel is a byte, or a digit and what follows it

bool is_tunnelling(std::string_view protocol) {
  return protocol.substr(0, kInsideWebSocket.size()) == kInsideWebSocket &&
         protocol.size() > 7 + kInsideWebSocket.size() && protocol.substr(protocol.size() - 7) == ".k8s.io";
}

const std::vector<std::string>& spdy_protocols() {
  static const std::vector<std::string> names = {"portforward.k8s.io"};
  return names;
}

const std::vector<std::string>& websocket_protocols() {
  static const std::vector<std::string> names = {"v4.channel.k8s.io", "v4.base64.channel.k8s.io"};
  return names;
}

std::shared_ptr<ForwardSessionBase> accept_spdy(http::Exchange& exchange, const PortForwardOptions& options,
                                                PortForwardHandler* handler) {
  std::string protocol;
  auto tunnel = upgrade_spdy(exchange, spdy_protocols(), &protocol);
  if (!tunnel) return nullptr;
  return make_spdy_forward(std::move(tunnel), false, std::move(protocol), options, handler);
}

// A real kubelet asks its runtime for the SPDY protocol and answers what that answers.
std::shared_ptr<ForwardSessionBase> accept_tunnelled(http::Exchange& exchange, const std::vector<std::string>& offered,
                                                     const PortForwardOptions& options, PortForwardHandler* handler) {
  const std::string protocol = first_common(offered, {std::string(kInsideWebSocket) + spdy_protocols().front()});
  if (protocol.empty()) {
    refuse(exchange, 403, "unable to upgrade: unable to negotiate protocol: server accepts [portforward.k8s.io]",
           {{"x-accepted-stream-protocol-versions", spdy_protocols().front()}});
    return nullptr;
  }
  auto tunnel = upgrade_websocket(exchange, protocol);
  if (!tunnel) return nullptr;
  return make_spdy_forward(std::move(tunnel), true, protocol, options, handler);
}

std::shared_ptr<ForwardSessionBase> accept_websocket(http::Exchange& exchange, const std::vector<std::string>& offered,
                                                     const PortForwardOptions& options, PortForwardHandler* handler) {
  if (options.ports.empty()) {
    refuse(exchange, 400, "query parameter \"port\" is required");
    return nullptr;
  }
  const std::string protocol = offered.empty() ? std::string() : first_common(offered, websocket_protocols());
  if (!offered.empty() && protocol.empty()) {
    exchange.respond(403, {}, nullptr);
    return nullptr;
  }
  const size_t most = protocol.find("base64.") == std::string::npos ? kMaxPorts : kMaxBase64Ports;
  if (options.ports.size() > most) {
    refuse(exchange, 400, "query parameter \"port\" names more than " + std::to_string(most) + " ports");
    return nullptr;
  }
  auto tunnel = upgrade_websocket(exchange, protocol);
  if (!tunnel) return nullptr;
  return make_websocket_forward(std::move(tunnel), protocol, options, handler);
}

Status add_ports(const std::string& value, std::vector<uint16_t>* out) {
  std::string_view rest = value;
  while (true) {
    const std::string_view item = rest.substr(0, rest.find(','));
    unsigned port = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), port);
    if (error != std::errc() || end != item.data() + item.size() || port > UINT16_MAX) {
      return invalid_argument("unable to parse \"" + value + "\" as a port: a number from 1 to 65535 is wanted");
    }
    if (port < 1) return invalid_argument("port \"" + value + "\" must be > 0");
    out->push_back(static_cast<uint16_t>(port));
    if (item.size() == rest.size()) return Status();
    rest.remove_prefix(item.size() + 1);
  }
}

}  // namespace

std::shared_ptr<PortForwardSession> accept_port_forward(const std::shared_ptr<http::Exchange>& exchange,
                                                        const PortForwardOptions& options,
                                                        PortForwardHandler* handler) {
  const std::string wanted = http::requested_upgrade(exchange->request());
  if (wanted.empty()) {
    refuse(*exchange, 500, "Upgrade request required");
    return nullptr;
  }
  std::shared_ptr<ForwardSessionBase> session;
  if (wanted == "websocket") {
    const std::vector<std::string> offered = offered_subprotocols(exchange->request().headers);
    const bool tunnelled = std::any_of(offered.begin(), offered.end(), is_tunnelling);
    session = tunnelled ? accept_tunnelled(*exchange, offered, options, handler)
                        : accept_websocket(*exchange, offered, options, handler);
  } else {
    session = accept_spdy(*exchange, options, handler);
  }
  if (!session) return nullptr;
  session->begin();
  return session->handle();
}

Result<std::vector<uint16_t>> parse_forward_ports(std::string_view query) {
  std::vector<uint16_t> out;
  for (const auto& [name, value] : http::parse_query(query)) {
    if (name != "port") continue;
    if (value.empty()) return invalid_argument("query parameter \"port\" cannot be empty");
    GF_RETURN_IF_ERROR(add_ports(value, &out));
  }
  return out;
}

}  // namespace ghostfleet::kube::stream
