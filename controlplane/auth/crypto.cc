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

using kube::http::bio_of;
using kube::http::bio_text;

Status library_error(std::string_view what) {
  char text[256] = "unknown error";
  if (const unsigned long code = ERR_get_error(); code != 0) ERR_error_string_n(code, text, sizeof(text));
  ERR_clear_error();
  return internal_error(std::string(what) + ": " + text);
}

KeyPtr generate_ec_key() { return KeyPtr(EVP_EC_gen("P-256")); }

std::string private_key_pem(EVP_PKEY* key) {
  BioPtr bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) return "";
  return bio_text(bio.get());
}

Result<KeyPtr> read_private_key(std::string_view pem) {
  BioPtr bio = bio_of(pem);
  KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  if (!key) {
    ERR_clear_error();
    return Status(Code::kDataLoss, "not a PEM private key");
  }
  return key;
}

Result<CertPtr> read_certificate(std::string_view pem) {
  BioPtr bio = bio_of(pem);
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
  return bio_text(bio.get());
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
