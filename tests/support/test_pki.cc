#include "tests/support/test_pki.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <cstdlib>

namespace ghostfleet::testing {
namespace {

// A test that cannot make its certificates has nothing to say.
void check(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "test_pki: %s failed\n", what);
  std::abort();
}

std::string drain(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string out(data, static_cast<size_t>(size));
  BIO_free(bio);
  return out;
}

std::string pem_of(X509* certificate) {
  BIO* bio = BIO_new(BIO_s_mem());
  check(PEM_write_bio_X509(bio, certificate) == 1, "PEM_write_bio_X509");
  return drain(bio);
}

std::string pem_of(EVP_PKEY* key) {
  BIO* bio = BIO_new(BIO_s_mem());
  check(PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr) == 1, "PEM_write_bio_PrivateKey");
  return drain(bio);
}

void add_entry(X509_NAME* name, const char* field, const std::string& value) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(value.data());
  check(X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8, bytes, static_cast<int>(value.size()), -1, 0) == 1,
        "X509_NAME_add_entry_by_txt");
}

void add_extension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  check(extension != nullptr, "X509V3_EXT_conf_nid");
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

X509* blank(EVP_PKEY* key, long not_before, long not_after) {
  static long serial = 1000;
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate), not_before);
  X509_gmtime_adj(X509_getm_notAfter(certificate), not_after);
  X509_set_pubkey(certificate, key);
  return certificate;
}

}  // namespace

struct TestPki::Impl {
  EVP_PKEY* key = nullptr;
  X509* certificate = nullptr;
  ~Impl() {
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
};

TestPki::TestPki(const std::string& name) : impl_(std::make_unique<Impl>()) {
  impl_->key = EVP_EC_gen("P-256");
  check(impl_->key != nullptr, "EVP_EC_gen");
  X509* ca = impl_->certificate = blank(impl_->key, -3600, 10L * 24 * 3600);
  add_entry(X509_get_subject_name(ca), "CN", name);
  X509_set_issuer_name(ca, X509_get_subject_name(ca));
  add_extension(ca, ca, NID_basic_constraints, "critical,CA:TRUE");
  add_extension(ca, ca, NID_key_usage, "critical,keyCertSign,cRLSign,digitalSignature");
  add_extension(ca, ca, NID_subject_key_identifier, "hash");
  check(X509_sign(ca, impl_->key, EVP_sha256()) > 0, "X509_sign");
  ca_pem_ = pem_of(ca);
}

TestPki::~TestPki() = default;

CertificateAndKey TestPki::issue(const CertificateSpec& spec) const {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = blank(key, spec.not_before_seconds, spec.not_after_seconds);
  X509_NAME* subject = X509_get_subject_name(certificate);
  for (const std::string& organization : spec.organizations) add_entry(subject, "O", organization);
  if (!spec.uid.empty()) add_entry(subject, "1.3.6.1.4.1.57683.2", spec.uid);
  add_entry(subject, "CN", spec.common_name);
  X509_set_issuer_name(certificate, X509_get_subject_name(impl_->certificate));
  std::string names;
  for (const std::string& name : spec.dns_names) names += (names.empty() ? "DNS:" : ",DNS:") + name;
  for (const std::string& name : spec.ip_names) names += (names.empty() ? "IP:" : ",IP:") + name;
  if (!names.empty()) add_extension(certificate, impl_->certificate, NID_subject_alt_name, names);
  add_extension(certificate, impl_->certificate, NID_ext_key_usage, spec.client ? "clientAuth" : "serverAuth");
  add_extension(certificate, impl_->certificate, NID_authority_key_identifier, "keyid");
  check(X509_sign(certificate, impl_->key, EVP_sha256()) > 0, "X509_sign");
  CertificateAndKey out{pem_of(certificate), pem_of(key)};
  X509_free(certificate);
  EVP_PKEY_free(key);
  return out;
}

std::string TestPki::sign_request(const std::string& request_pem, bool client, long seconds) const {
  BIO* bio = BIO_new_mem_buf(request_pem.data(), static_cast<int>(request_pem.size()));
  X509_REQ* request = PEM_read_bio_X509_REQ(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  if (request == nullptr || X509_REQ_verify(request, X509_REQ_get0_pubkey(request)) != 1) return {};
  X509* certificate = blank(X509_REQ_get0_pubkey(request), 0, seconds);
  X509_set_subject_name(certificate, X509_REQ_get_subject_name(request));
  X509_set_issuer_name(certificate, X509_get_subject_name(impl_->certificate));
  STACK_OF(X509_EXTENSION)* names = X509_REQ_get_extensions(request);
  for (int i = 0; names != nullptr && i < sk_X509_EXTENSION_num(names); ++i) {
    X509_add_ext(certificate, sk_X509_EXTENSION_value(names, i), -1);
  }
  sk_X509_EXTENSION_pop_free(names, X509_EXTENSION_free);
  add_extension(certificate, impl_->certificate, NID_ext_key_usage, client ? "clientAuth" : "serverAuth");
  check(X509_sign(certificate, impl_->key, EVP_sha256()) > 0, "X509_sign");
  std::string pem = pem_of(certificate);
  X509_free(certificate);
  X509_REQ_free(request);
  return pem;
}

CertificateAndKey TestPki::server() const {
  return issue({.common_name = "server", .dns_names = {"localhost"}, .ip_names = {"127.0.0.1"}});
}

CertificateAndKey TestPki::client(const std::string& common_name, std::vector<std::string> organizations) const {
  return issue({.common_name = common_name, .organizations = std::move(organizations), .client = true});
}

}  // namespace ghostfleet::testing
