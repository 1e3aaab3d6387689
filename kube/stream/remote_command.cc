#include "kube/stream/remote_command.h"

#include <algorithm>

#include "kube/api/json.h"
#include "kube/stream/handshake.h"
#include "kube/stream/remote_session.h"
#include "kube/stream/websocket.h"

namespace ghostfleet::kube::stream {
namespace {

const std::string kVersion5 = "v5.channel.k8s.io";

const std::vector<std::string>& spdy_protocols() {
  static const std::vector<std::string> names = {"v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io",
                                                 "channel.k8s.io"};
  return names;
}

const std::vector<std::string>& websocket_protocols() {
  static const std::vector<std::string> names = {"channel.k8s.io", "base64.channel.k8s.io", "v4.channel.k8s.io",
                                                 "v4.base64.channel.k8s.io"};
  return names;
}

// A client that offers v5 gets v5, wherever it stands in the list; one that offers nothing gets the unnamed protocol.
bool choose_websocket_protocol(const http::Request& request, bool v5, std::string* protocol) {
  const std::vector<std::string> offered = offered_subprotocols(request.headers);
  if (offered.empty()) return true;
  if (v5 && std::find(offered.begin(), offered.end(), kVersion5) != offered.end()) {
    *protocol = kVersion5;
    return true;
  }
  *protocol = first_common(offered, websocket_protocols());
  return !protocol->empty();
}

}  // namespace

RemoteExit RemoteExit::exit_code(int code, std::string text) { return {Kind::kExitCode, code, std::move(text)}; }
RemoteExit RemoteExit::internal_error(std::string text) { return {Kind::kInternalError, 0, std::move(text)}; }

std::string remote_exit_status(const RemoteExit& exit) {
  std::string out = "{\"metadata\":{}";
  const auto field = [&out](std::string_view name, std::string_view value) {
    out.append(",\"").append(name).append("\":");
    append_json_string(value, &out);
  };
  if (exit.kind == RemoteExit::Kind::kSuccess) {
    field("status", "Success");
    return out + "}";
  }
  field("status", "Failure");
  if (exit.kind == RemoteExit::Kind::kExitCode) {
    field("message", "command terminated with non-zero exit code: " + exit.text);
    field("reason", "NonZeroExitCode");
    return out + ",\"details\":{\"causes\":[{\"reason\":\"ExitCode\",\"message\":\"" + std::to_string(exit.code) +
           "\"}]}}";
  }
  field("message", "Internal error occurred: " + exit.text);
  field("reason", "InternalError");
  out += ",\"details\":{\"causes\":[{\"message\":";
  append_json_string(exit.text, &out);
  return out + "}]},\"code\":500}";
}

std::shared_ptr<RemoteSession> accept_remote_command(const std::shared_ptr<http::Exchange>& exchange,
                                                     const RemoteCommandOptions& options,
                                                     RemoteCommandHandler* handler) {
  const std::string wanted = http::requested_upgrade(exchange->request());
  if (wanted.empty()) {
    refuse(*exchange, 500, "Upgrade request required");
    return nullptr;
  }
  std::string protocol;
  std::shared_ptr<RemoteSessionBase> session;
  if (wanted == "websocket") {
    if (!choose_websocket_protocol(exchange->request(), options.websocket_v5, &protocol)) {
      exchange->respond(403, {}, nullptr);
      return nullptr;
    }
    auto tunnel = upgrade_websocket(*exchange, protocol);
    if (!tunnel) return nullptr;
    session = make_websocket_session(std::move(tunnel), std::move(protocol), options, handler);
  } else {
    auto tunnel = upgrade_spdy(*exchange, spdy_protocols(), &protocol);
    if (!tunnel) return nullptr;
    session = make_spdy_session(std::move(tunnel), std::move(protocol), options, handler);
  }
  session->begin();
  return session->handle();
}

Status parse_kubelet_streams(std::string_view query, RemoteCommandOptions* out) {
  // The first value of a name counts.
  const auto parameters = http::parse_query(query);
  const auto given = [&](std::string_view name) {
    const auto at = std::find_if(parameters.begin(), parameters.end(), [&](const auto& p) { return p.first == name; });
    return at != parameters.end() && at->second == "1";
  };
  out->tty = given("tty");
  out->in = given("input");
  out->out = given("output");
  out->err = given("error") && !out->tty;
  if (out->in || out->out || out->err) return Status();
  return invalid_argument("you must specify at least 1 of stdin, stdout, stderr");
}

}  // namespace ghostfleet::kube::stream
