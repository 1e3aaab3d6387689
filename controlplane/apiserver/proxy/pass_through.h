// Passing a request on to a Backend and its answer back: as an answer in pieces, or, when the request upgrades its
// connection (exec, attach, portforward, WebSockets), as raw bytes both ways. Whoever does not read makes the other
// wait.
//
// Thread rule: everything on the loop of the call's exchange. Ownership: a transfer keeps itself alive until it is
// over; it ends when either side goes away, and when the server stops. Limits: kMaxTransfers at a time for the whole
// server, then 429; bodies of refused logs are read up to 50,000 bytes.
#pragma once

#include <functional>
#include <string>

#include "controlplane/apiserver/call.h"
#include "controlplane/apiserver/proxy/backend.h"
#include "controlplane/apiserver/subresources/subresources.h"

namespace ghostfleet::controlplane {

inline constexpr int kMaxTransfers = 20000;

// How failures are told to the client.
enum class PassStyle : unsigned char {
  kLog,         // text/plain; anything but success becomes a Status, as a real server reads a kubelet's refusals
  kProxy,       // the answer as it is; "error trying to reach service" when there is none
  kAggregated,  // the answer as it is; a plain text 503 when there is none
};

struct PassPlan {
  Backend backend;
  PassStyle style = PassStyle::kProxy;
  bool upgrade = false;  // the connection is to be upgraded
  std::string method, target;
  kube::http::HeaderList headers;  // of the request to the backend
  // For redirects of the backend: its "location: /x" is seen by the client as "location: PREFIX/x".
  std::string location_prefix;
};

void pass_through(const CallRef& call, PassPlan plan);

// The request's headers as they may be passed on: without those of the connection and the credentials, and with
// x-forwarded-for.
kube::http::HeaderList forwarded_headers(const kube::http::Request& request, bool upgrade);

// What serve_subresource does with an answer that names a backend.
void serve_forward(const CallRef& call, const Forward& forward);

}  // namespace ghostfleet::controlplane
