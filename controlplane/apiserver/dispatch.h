// Dispatch: what happens to a request before its handler: who asks, may he, is there room, which resource and verb.
//
// Thread rule: on the loop of the exchange.
#pragma once

#include "controlplane/apiserver/call.h"

namespace ghostfleet::controlplane {

struct DispatchOptions {
  // Plain HTTP for local trials: a request without credentials is an administrator's.
  bool anonymous_is_admin = false;
  size_t max_body_bytes = 3 * 1024 * 1024;  // 413 beyond, as a Status
};

void dispatch(ServerParts& parts, const DispatchOptions& options, std::shared_ptr<kube::http::Exchange> exchange);

}  // namespace ghostfleet::controlplane
