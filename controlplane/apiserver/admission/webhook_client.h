// One call to an admission webhook: an AdmissionReview out, its answer in.
//
// Thread rule: any thread; the calling thread waits, at most for the webhook's timeout.
#pragma once

#include <string>

#include "base/status.h"
#include "kube/api/json.h"

namespace ghostfleet::controlplane {

struct WebhookTarget {
  std::string url;     // "https://host:port/path"
  std::string ca_pem;  // empty: the system's store
  std::string server_name;
  int timeout_seconds = 10;
};

// The answer's JSON. Errors say why the webhook could not be asked, as a real API server does.
Result<kube::Json> post_review(const WebhookTarget& target, const kube::Json& review);

}  // namespace ghostfleet::controlplane
