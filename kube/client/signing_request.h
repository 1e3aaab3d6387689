// Keys, certificate signing requests and certificates as a node needs them: ECDSA P-256 keys, requests with subject and
// names, and what a certificate says of itself.
//
// Thread rule: pure functions.
// Formats: PEM throughout. Sources: RFC 2986, RFC 5280; kubernetes.io, Certificates and
// certificate signing requests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace ghostfleet::kube {

struct SigningSubject {
  std::string common_name;
  std::vector<std::string> organizations;
  std::vector<std::string> dns_names, ip_addresses;  // subject alternative names
};

// The subject of every certificate of a node: O=system:nodes, CN=system:node:NAME.
SigningSubject node_subject(std::string_view node_name);

// A fresh ECDSA P-256 key ("EC PRIVATE KEY").
Result<std::string> make_private_key();
// A request for `subject`, signed with the key.
Result<std::string> make_signing_request(const SigningSubject& subject, const std::string& key_pem);
// "node-csr-" and a digest of public key, subject and usages: the same for the same, so that a request that was made
// already is found again.
Result<std::string> digested_request_name(const SigningSubject& subject, const std::vector<std::string>& usages,
                                          const std::string& key_pem);

struct CertificateFacts {
  WallTime not_before, not_after;
  SigningSubject subject;
};
// Of the first certificate in the text. InvalidArgument when there is none.
Result<CertificateFacts> read_certificate(const std::string& pem);
// The subject and names a request asks for.
Result<SigningSubject> read_signing_request(const std::string& pem);

}  // namespace ghostfleet::kube
