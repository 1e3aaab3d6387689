#include "kube/http/self_signed.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

#include "kube/http/openssl_handles.h"

namespace ghostfleet::kube::http {
namespace {

struct ExtensionFree {
  void operator()(X509_EXTENSION* e) const { X509_EXTENSION_free(e); }
};
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, ExtensionFree>;

constexpr long kHour = 3600, kYear = 365L * 24 * kHour;

bool set_serial(X509* cert) {
  int64_t serial = 0;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) != 1) return false;
  return ASN1_INTEGER_set_uint64(X509_get_serialNumber(cert), static_cast<uint64_t>(serial) >> 1) == 1;
}

bool add_extension(X509* cert, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, cert, cert, nullptr, nullptr, 0);
  const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  return extension && X509_add_ext(cert, extension.get(), -1) == 1;
}

std::string alternative_names(const std::vector<std::string>& dns_names, const std::vector<std::string>& ip_addresses) {
  std::string out;
  for (const std::string& name : dns_names) out += (out.empty() ? "DNS:" : ",DNS:") + name;
  for (const std::string& ip : ip_addresses) out += (out.empty() ? "IP:" : ",IP:") + ip;
  return out;
}

bool fill(X509* cert, EVP_PKEY* key, const std::string& common_name, const std::string& names) {
  X509_NAME* subject = X509_get_subject_name(cert);
  const auto* text = reinterpret_cast<const unsigned char*>(common_name.data());
  const bool basics = X509_set_version(cert, 2) == 1 && set_serial(cert) &&
                      X509_gmtime_adj(X509_getm_notBefore(cert), -kHour) != nullptr &&
                      X509_gmtime_adj(X509_getm_notAfter(cert), kYear) != nullptr && X509_set_pubkey(cert, key) == 1 &&
                      X509_NAME_add_entry_by_txt(subject, "CN", V_ASN1_UTF8STRING, text,
                                                 static_cast<int>(common_name.size()), -1, 0) == 1 &&
                      X509_set_issuer_name(cert, subject) == 1;
  return basics && add_extension(cert, NID_basic_constraints, "critical,CA:TRUE") &&
         add_extension(cert, NID_key_usage, "critical,digitalSignature,keyEncipherment,keyCertSign") &&
         add_extension(cert, NID_ext_key_usage, "serverAuth") &&
         (names.empty() || add_extension(cert, NID_subject_alt_name, names)) && X509_sign(cert, key, EVP_sha256()) > 0;
}

}  // namespace

Result<SelfSigned> make_self_signed(const std::string& common_name, const std::vector<std::string>& dns_names,
                                    const std::vector<std::string>& ip_addresses) {
  const KeyPtr key(EVP_EC_gen("P-256"));
  const CertPtr cert(X509_new());
  if (!key || !cert || !fill(cert.get(), key.get(), common_name, alternative_names(dns_names, ip_addresses))) {
    return internal_error("no self-signed certificate could be made for " + common_name);
  }
  const BioPtr cert_out(BIO_new(BIO_s_mem()));
  const BioPtr key_out(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(cert_out.get(), cert.get()) != 1 ||
      PEM_write_bio_PKCS8PrivateKey(key_out.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return internal_error("a self-signed certificate could not be written");
  }
  return SelfSigned{bio_text(cert_out.get()), bio_text(key_out.get())};
}

}  // namespace ghostfleet::kube::http
