// Owning handles of the crypto library and the few operations pki and tokens share. Internal to controlplane/auth.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

// The crypto library's own types; its headers stay in .cc files.
struct bio_st;
struct evp_md_ctx_st;
struct evp_pkey_st;
struct x509_st;
struct X509_req_st;

namespace ghostfleet::controlplane::crypto {

struct Deleter {
  void operator()(bio_st* p) const;
  void operator()(evp_md_ctx_st* p) const;
  void operator()(evp_pkey_st* p) const;
  void operator()(x509_st* p) const;
  void operator()(X509_req_st* p) const;
};

using KeyPtr = std::unique_ptr<evp_pkey_st, Deleter>;
using CertPtr = std::unique_ptr<x509_st, Deleter>;
using RequestPtr = std::unique_ptr<X509_req_st, Deleter>;
using BioPtr = std::unique_ptr<bio_st, Deleter>;
using MdPtr = std::unique_ptr<evp_md_ctx_st, Deleter>;

// The last error of the crypto library as a status.
Status library_error(std::string_view what);
BioPtr reader(std::string_view bytes);
std::string drain(bio_st* bio);

KeyPtr generate_ec_key();  // P-256; null on failure
std::string private_key_pem(evp_pkey_st* key);
Result<KeyPtr> read_private_key(std::string_view pem);
Result<CertPtr> read_certificate(std::string_view pem);
std::string certificate_pem(x509_st* cert);

std::string random_bytes(size_t count);
std::string sha256(std::string_view bytes);

}  // namespace ghostfleet::controlplane::crypto
