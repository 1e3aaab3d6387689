// A serving certificate that nobody but itself vouches for, as a kubelet makes one when it is given none: a fresh ECDSA
// P-256 key and a certificate for a year. API servers that check their nodes' certificates want a signed one.
//
// Thread rule: a pure function, a millisecond.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace ghostfleet::kube::http {

struct SelfSigned {
  std::string cert_pem, key_pem;
};

// `ip_addresses` and `dns_names` become subject alternative names.
Result<SelfSigned> make_self_signed(const std::string& common_name, const std::vector<std::string>& dns_names,
                                    const std::vector<std::string>& ip_addresses);

}  // namespace ghostfleet::kube::http
