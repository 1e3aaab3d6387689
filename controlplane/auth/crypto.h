// Owning handles of the crypto library and the few operations pki and tokens share. Internal; only for .cc files.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ghostfleet::controlplane::crypto {

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* p) const {
    Free(p);
  }
};

using KeyPtr = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using CertPtr = std::unique_ptr<X509, Deleter<X509_free>>;
using RequestPtr = std::unique_ptr<X509_REQ, Deleter<X509_REQ_free>>;
using BioPtr = std::unique_ptr<BIO, Deleter<BIO_free_all>>;
using MdPtr = std::unique_ptr<EVP_MD_CTX, Deleter<EVP_MD_CTX_free>>;
using NamePtr = std::unique_ptr<X509_NAME, Deleter<X509_NAME_free>>;

// The last error of the crypto library as a status.
Status library_error(std::string_view what);
BioPtr reader(std::string_view bytes);
std::string drain(BIO* bio);

KeyPtr generate_ec_key();  // P-256; null on failure
std::string private_key_pem(EVP_PKEY* key);
Result<KeyPtr> read_private_key(std::string_view pem);
Result<CertPtr> read_certificate(std::string_view pem);
std::string certificate_pem(X509* cert);

std::string random_bytes(size_t count);
std::string sha256(std::string_view bytes);

}  // namespace ghostfleet::controlplane::crypto
