// Owning handles of OpenSSL's objects, and what is done with memory BIOs everywhere. OpenSSL's types are named here,
// its headers stay in .cc files.
//
// Thread rule: as the object held.
#pragma once

#include <memory>
#include <string>
#include <string_view>

struct bio_st;
struct evp_md_ctx_st;
struct evp_pkey_st;
struct x509_st;
struct X509_req_st;

namespace ghostfleet::kube::http {

struct OpensslDeleter {
  void operator()(bio_st* p) const;
  void operator()(evp_md_ctx_st* p) const;
  void operator()(evp_pkey_st* p) const;
  void operator()(x509_st* p) const;
  void operator()(X509_req_st* p) const;
};

using BioPtr = std::unique_ptr<bio_st, OpensslDeleter>;
using CertPtr = std::unique_ptr<x509_st, OpensslDeleter>;
using KeyPtr = std::unique_ptr<evp_pkey_st, OpensslDeleter>;
using MdPtr = std::unique_ptr<evp_md_ctx_st, OpensslDeleter>;
using RequestPtr = std::unique_ptr<X509_req_st, OpensslDeleter>;

// Reads from `bytes`, which must outlive it.
BioPtr bio_of(std::string_view bytes);
// What was written to a memory BIO.
std::string bio_text(bio_st* bio);
// As the password callback of PEM readers: no pass phrase is ever asked on a terminal.
int no_password(char*, int, int, void*);

}  // namespace ghostfleet::kube::http
