// The HTTP side of a streaming request, common to exec, attach and port-forward: which protocol the client gets, and
// the refusals when there is none.
//
// Thread rule: the exchange's loop.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kube/http/server.h"
#include "kube/http/tunnel.h"

namespace ghostfleet::kube::stream {

// A text answer as Go's http.Error gives it.
void refuse(http::Exchange& exchange, int status, std::string_view text, http::HeaderList headers = {});

// 101 for a WebSocket with that subprotocol (empty: none). Null when it was refused.
std::shared_ptr<http::Tunnel> upgrade_websocket(http::Exchange& exchange, std::string_view subprotocol);

// SPDY: negotiates X-Stream-Protocol-Version (the first of the client's that is in `supported`) and answers 101. Null
// when it was refused.
std::shared_ptr<http::Tunnel> upgrade_spdy(http::Exchange& exchange, const std::vector<std::string>& supported,
                                           std::string* protocol);

// The first of `offered` that is in `supported`; empty when none is.
std::string first_common(const std::vector<std::string>& offered, const std::vector<std::string>& supported);

}  // namespace ghostfleet::kube::stream
