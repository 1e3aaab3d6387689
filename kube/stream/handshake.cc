#include "kube/stream/handshake.h"

#include <algorithm>

#include "kube/stream/websocket.h"

namespace ghostfleet::kube::stream {
namespace {

// "[a b]", as Go prints a list.
std::string list_text(const std::vector<std::string>& items) {
  std::string out = "[";
  for (const std::string& item : items) out += (out.size() > 1 ? " " : "") + item;
  return out + "]";
}

std::shared_ptr<http::Tunnel> switch_to(http::Exchange& exchange, http::HeaderList headers) {
  auto tunnel = exchange.upgrade(101, std::move(headers));
  if (!tunnel) refuse(exchange, 500, "unable to upgrade: unable to hijack response");
  return tunnel;
}

}  // namespace

void refuse(http::Exchange& exchange, int status, std::string_view text, http::HeaderList headers) {
  headers.add("content-type", "text/plain; charset=utf-8");
  headers.add("x-content-type-options", "nosniff");
  exchange.respond(status, std::move(headers), share(std::string(text) + "\n"));
}

std::string first_common(const std::vector<std::string>& offered, const std::vector<std::string>& supported) {
  const auto at = std::find_first_of(offered.begin(), offered.end(), supported.begin(), supported.end());
  return at == offered.end() ? std::string() : *at;
}

std::shared_ptr<http::Tunnel> upgrade_websocket(http::Exchange& exchange, std::string_view subprotocol) {
  const http::Request& request = exchange.request();
  if (const Status bad = check_websocket_request(request); !bad.ok()) {
    if (request.method != "GET") {
      refuse(exchange, 405, bad.message());
    } else {
      http::HeaderList headers;
      if (bad.code() == Code::kUnimplemented) headers.add("sec-websocket-version", "13");
      refuse(exchange, 400, bad.message(), std::move(headers));
    }
    return nullptr;
  }
  http::HeaderList headers = {{"upgrade", "websocket"},
                              {"sec-websocket-accept", websocket_accept(request.headers.get("sec-websocket-key"))}};
  if (!subprotocol.empty()) headers.add("sec-websocket-protocol", std::string(subprotocol));
  return switch_to(exchange, std::move(headers));
}

std::shared_ptr<http::Tunnel> upgrade_spdy(http::Exchange& exchange, const std::vector<std::string>& supported,
                                           std::string* protocol) {
  const http::Request& request = exchange.request();
  std::vector<std::string> offered;
  for (const auto& [name, value] : request.headers) {
    if (name == "x-stream-protocol-version") split_list(value, &offered);
  }
  if (offered.empty()) {
    const bool there = request.headers.find("x-stream-protocol-version") != nullptr;
    refuse(exchange, 400,
           there ? "unable to upgrade: header X-Stream-Protocol-Version contains no valid protocols"
                 : "unable to upgrade: header X-Stream-Protocol-Version does not exist in request");
    return nullptr;
  }
  *protocol = first_common(offered, supported);
  if (protocol->empty()) {
    http::HeaderList headers;
    for (const std::string& name : supported) headers.add("x-accepted-stream-protocol-versions", name);
    refuse(exchange, 403,
           "unable to upgrade: unable to negotiate protocol: client supports " + list_text(offered) +
               ", server accepts " + list_text(supported),
           std::move(headers));
    return nullptr;
  }
  if (http::requested_upgrade(request).find("spdy/3.1") == std::string::npos) {
    refuse(exchange, 400, "unable to upgrade: missing upgrade headers in request: \"upgrade\" is not \"SPDY/3.1\"");
    return nullptr;
  }
  return switch_to(exchange, {{"upgrade", "SPDY/3.1"}, {"x-stream-protocol-version", *protocol}});
}

}  // namespace ghostfleet::kube::stream
