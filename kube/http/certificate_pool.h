// CertificatePool: the certificates that servers have shown to the connections of one TlsContext, each kept once. A
// decoded certificate takes 6 KB, and a connection holds it as long as it lives: a thousand nodes at one API server
// would have a thousand equal ones.
//
// Thread rule: any thread. Ownership: outlives the SSL_CTX it was given to.
#pragma once

#include <mutex>
#include <vector>

struct ssl_ctx_st;
struct x509_st;
struct x509_store_ctx_st;

namespace ghostfleet::kube::http {

class CertificatePool {
 public:
  static constexpr size_t kMost = 16;  // the eldest is forgotten first; who holds it keeps it

  CertificatePool() = default;
  ~CertificatePool();
  CertificatePool(const CertificatePool&) = delete;
  CertificatePool& operator=(const CertificatePool&) = delete;

  // From now on chains are verified, as OpenSSL does it, with certificates of this pool in the place of equal ones.
  void serve(ssl_ctx_st* context);

 private:
  static int verify(x509_store_ctx_st* context, void* pool);
  // One that equals `certificate`, a reference of the caller's; `certificate` itself when there was none.
  x509_st* shared(x509_st* certificate);

  std::mutex mutex_;
  std::vector<x509_st*> certificates_;
};

}  // namespace ghostfleet::kube::http
