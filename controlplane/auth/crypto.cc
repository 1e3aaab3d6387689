#include "controlplane/auth/crypto.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <openssl/x509.h>

#include <cstdlib>

namespace ghostfleet::controlplane::crypto {

void Deleter::operator()(bio_st* p) const { BIO_free_all(p); }
void Deleter::operator()(evp_md_ctx_st* p) const { EVP_MD_CTX_free(p); }
void Deleter::operator()(evp_pkey_st* p) const { EVP_PKEY_free(p); }
void Deleter::operator()(x509_st* p) const { X509_free(p); }
void Deleter::operator()(X509_req_st* p) const { X509_REQ_free(p); }

Status library_error(std::string_view what) {
  char text[256] = "unknown error";
  if (const unsigned long code = ERR_get_error(); code != 0) ERR_error_string_n(code, text, sizeof(text));
  ERR_clear_error();
  return internal_error(std::string(what) + ": " + text);
}

BioPtr reader(std::string_view bytes) { return BioPtr(BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size()))); }

std::string drain(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return size > 0 ? std::string(data, static_cast<size_t>(size)) : std::string();
}

KeyPtr generate_ec_key() { return KeyPtr(EVP_EC_gen("P-256")); }

std::string private_key_pem(EVP_PKEY* key) {
  BioPtr bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) return "";
  return drain(bio.get());
}

Result<KeyPtr> read_private_key(std::string_view pem) {
  BioPtr bio = reader(pem);
  KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  if (!key) {
    ERR_clear_error();
    return Status(Code::kDataLoss, "not a PEM private key");
  }
  return key;
}

Result<CertPtr> read_certificate(std::string_view pem) {
  BioPtr bio = reader(pem);
  CertPtr cert(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  if (!cert) {
    ERR_clear_error();
    return Status(Code::kDataLoss, "not a PEM certificate");
  }
  return cert;
}

std::string certificate_pem(X509* cert) {
  BioPtr bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_X509(bio.get(), cert) != 1) return "";
  return drain(bio.get());
}

std::string random_bytes(size_t count) {
  std::string bytes(count, '\0');
  // Without randomness no secret can be made: there is nothing to go on with.
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) != 1) std::abort();
  return bytes;
}

std::string sha256(std::string_view bytes) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

}  // namespace ghostfleet::controlplane::crypto
