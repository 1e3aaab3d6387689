#include "kube/http/openssl_handles.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

namespace ghostfleet::kube::http {

void OpensslDeleter::operator()(bio_st* p) const { BIO_free_all(p); }
void OpensslDeleter::operator()(evp_md_ctx_st* p) const { EVP_MD_CTX_free(p); }
void OpensslDeleter::operator()(evp_pkey_st* p) const { EVP_PKEY_free(p); }
void OpensslDeleter::operator()(x509_st* p) const { X509_free(p); }
void OpensslDeleter::operator()(X509_req_st* p) const { X509_REQ_free(p); }

BioPtr bio_of(std::string_view bytes) { return BioPtr(BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size()))); }

std::string bio_text(bio_st* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return size > 0 ? std::string(data, static_cast<size_t>(size)) : std::string();
}

int no_password(char*, int, int, void*) { return -1; }

}  // namespace ghostfleet::kube::http
