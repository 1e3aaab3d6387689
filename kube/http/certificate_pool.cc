#include "kube/http/certificate_pool.h"

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>

namespace ghostfleet::kube::http {

CertificatePool::~CertificatePool() {
  for (X509* certificate : certificates_) X509_free(certificate);
}

void CertificatePool::serve(ssl_ctx_st* context) { SSL_CTX_set_cert_verify_callback(context, &verify, this); }

// The chain that the peer has sent belongs to its connection, which takes its own certificate from there once it is
// verified.
int CertificatePool::verify(x509_store_ctx_st* context, void* pool) {
  auto& self = *static_cast<CertificatePool*>(pool);
  STACK_OF(X509)* const chain = X509_STORE_CTX_get0_untrusted(context);
  X509* const leaf = X509_STORE_CTX_get0_cert(context);
  for (int i = 0; i < sk_X509_num(chain); ++i) {
    X509* const shown = sk_X509_value(chain, i);
    X509* const kept = self.shared(shown);
    sk_X509_set(chain, i, kept);
    if (shown == leaf) X509_STORE_CTX_set_cert(context, kept);
    X509_free(shown);
  }
  return X509_verify_cert(context);
}

X509* CertificatePool::shared(X509* certificate) {
  const std::lock_guard lock(mutex_);
  const auto at = std::find_if(certificates_.begin(), certificates_.end(),
                               [&](const X509* kept) { return X509_cmp(kept, certificate) == 0; });
  if (at != certificates_.end()) {
    X509_up_ref(*at);
    return *at;
  }
  if (certificates_.size() == kMost) {
    X509_free(certificates_.front());
    certificates_.erase(certificates_.begin());
  }
  X509_up_ref(certificate);
  X509_up_ref(certificate);
  certificates_.push_back(certificate);
  return certificate;
}

}  // namespace ghostfleet::kube::http
