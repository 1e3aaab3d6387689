// The few operations of the crypto library that pki and tokens share. Internal to controlplane/auth.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "kube/http/openssl_handles.h"

namespace ghostfleet::controlplane::crypto {

using kube::http::BioPtr;
using kube::http::CertPtr;
using kube::http::KeyPtr;
using kube::http::MdPtr;
using kube::http::RequestPtr;

// The last error of the crypto library as a status.
Status library_error(std::string_view what);

KeyPtr generate_ec_key();  // P-256; null on failure
std::string private_key_pem(evp_pkey_st* key);
Result<KeyPtr> read_private_key(std::string_view pem);
Result<CertPtr> read_certificate(std::string_view pem);
std::string certificate_pem(x509_st* cert);

std::string random_bytes(size_t count);
std::string sha256(std::string_view bytes);

}  // namespace ghostfleet::controlplane::crypto
