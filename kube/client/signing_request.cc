#include "kube/client/signing_request.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <ctime>
#include <memory>

#include "base/digest.h"
#include "kube/http/openssl_handles.h"

namespace ghostfleet::kube {
namespace {

using http::bio_of;
using http::bio_text;
using http::BioPtr;
using http::CertPtr;
using http::KeyPtr;
using http::no_password;
using http::RequestPtr;

struct NamesFree {
  void operator()(GENERAL_NAMES* n) const { GENERAL_NAMES_free(n); }
};
using NamesPtr = std::unique_ptr<GENERAL_NAMES, NamesFree>;

struct ExtensionsFree {
  void operator()(STACK_OF(X509_EXTENSION) * s) const { sk_X509_EXTENSION_pop_free(s, X509_EXTENSION_free); }
};
using ExtensionsPtr = std::unique_ptr<STACK_OF(X509_EXTENSION), ExtensionsFree>;

KeyPtr read_key(const std::string& pem) {
  return KeyPtr(PEM_read_bio_PrivateKey(bio_of(pem).get(), nullptr, no_password, nullptr));
}

// Not as MBSTRING: that has a limit of 64 characters for a common name, which node names may pass.
bool add_entry(X509_NAME* name, const char* field, const std::string& value) {
  return X509_NAME_add_entry_by_txt(name, field, V_ASN1_UTF8STRING,
                                    reinterpret_cast<const unsigned char*>(value.data()),
                                    static_cast<int>(value.size()), -1, 0) == 1;
}

bool push_name(GENERAL_NAMES* names, int type, const std::string& bytes) {
  GENERAL_NAME* name = GENERAL_NAME_new();
  ASN1_STRING* text = type == GEN_DNS ? static_cast<ASN1_STRING*>(ASN1_IA5STRING_new()) : ASN1_OCTET_STRING_new();
  ASN1_STRING_set(text, bytes.data(), static_cast<int>(bytes.size()));
  GENERAL_NAME_set0_value(name, type, text);
  return sk_GENERAL_NAME_push(names, name) > 0;
}

Status add_names(X509_REQ* request, const SigningSubject& subject) {
  if (subject.dns_names.empty() && subject.ip_addresses.empty()) return Status();
  const NamesPtr names(sk_GENERAL_NAME_new_null());
  for (const std::string& dns : subject.dns_names) push_name(names.get(), GEN_DNS, dns);
  for (const std::string& ip : subject.ip_addresses) {
    unsigned char bytes[16];
    const bool v4 = inet_pton(AF_INET, ip.c_str(), bytes) == 1;
    if (!v4 && inet_pton(AF_INET6, ip.c_str(), bytes) != 1) return invalid_argument("\"" + ip + "\" is no IP address");
    push_name(names.get(), GEN_IPADD, std::string(reinterpret_cast<char*>(bytes), v4 ? 4 : 16));
  }
  const ExtensionsPtr extensions(sk_X509_EXTENSION_new_null());
  sk_X509_EXTENSION_push(extensions.get(), X509V3_EXT_i2d(NID_subject_alt_name, 0, names.get()));
  if (X509_REQ_add_extensions(request, extensions.get()) != 1) return internal_error("signing request: names");
  return Status();
}

void read_subject(X509_NAME* name, SigningSubject* out) {
  for (int i = 0; i < X509_NAME_entry_count(name); ++i) {
    const X509_NAME_ENTRY* entry = X509_NAME_get_entry(name, i);
    unsigned char* utf8 = nullptr;
    const int size = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(entry));
    if (size < 0) continue;
    std::string text(reinterpret_cast<char*>(utf8), static_cast<size_t>(size));
    OPENSSL_free(utf8);
    const int nid = OBJ_obj2nid(X509_NAME_ENTRY_get_object(entry));
    if (nid == NID_commonName) out->common_name = std::move(text);
    if (nid == NID_organizationName) out->organizations.push_back(std::move(text));
  }
}

void read_names(const GENERAL_NAMES* names, SigningSubject* out) {
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
    if (name->type != GEN_DNS && name->type != GEN_IPADD) continue;
    const ASN1_STRING* value = name->type == GEN_DNS ? name->d.dNSName : name->d.iPAddress;
    const auto* bytes = ASN1_STRING_get0_data(value);
    const auto size = static_cast<size_t>(ASN1_STRING_length(value));
    if (name->type == GEN_DNS) {
      out->dns_names.emplace_back(reinterpret_cast<const char*>(bytes), size);
      continue;
    }
    char text[INET6_ADDRSTRLEN] = {};
    if (size == 4 || size == 16) inet_ntop(size == 4 ? AF_INET : AF_INET6, bytes, text, sizeof text);
    if (text[0] != '\0') out->ip_addresses.emplace_back(text);
  }
}

bool read_time(const ASN1_TIME* time, WallTime* out) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return false;
  out->ns = static_cast<int64_t>(timegm(&parts)) * 1000000000;
  return true;
}

}  // namespace

SigningSubject node_subject(std::string_view node_name) {
  return {"system:node:" + std::string(node_name), {"system:nodes"}, {}, {}};
}

Result<std::string> make_private_key() {
  const KeyPtr key(EVP_EC_gen("P-256"));
  const BioPtr out(BIO_new(BIO_s_mem()));
  if (!key || PEM_write_bio_PrivateKey_traditional(out.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return internal_error("a private key could not be made");
  }
  return bio_text(out.get());
}

Result<std::string> make_signing_request(const SigningSubject& subject, const std::string& key_pem) {
  const KeyPtr key = read_key(key_pem);
  if (!key) return invalid_argument("signing request: the key is no PEM private key");
  const RequestPtr request(X509_REQ_new());
  X509_REQ_set_version(request.get(), X509_REQ_VERSION_1);
  X509_NAME* name = X509_REQ_get_subject_name(request.get());
  for (const std::string& organization : subject.organizations) add_entry(name, "O", organization);
  if (!add_entry(name, "CN", subject.common_name)) {
    return internal_error("signing request: subject");
  }
  X509_REQ_set_pubkey(request.get(), key.get());
  GF_RETURN_IF_ERROR(add_names(request.get(), subject));
  if (X509_REQ_sign(request.get(), key.get(), EVP_sha256()) <= 0) return internal_error("signing request: signature");
  const BioPtr out(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509_REQ(out.get(), request.get());
  return bio_text(out.get());
}

Result<std::string> digested_request_name(const SigningSubject& subject, const std::vector<std::string>& usages,
                                          const std::string& key_pem) {
  const KeyPtr key = read_key(key_pem);
  if (!key) return invalid_argument("signing request: the key is no PEM private key");
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key.get(), &der);
  std::string text =
      base64url_encode(std::string_view(reinterpret_cast<char*>(der), static_cast<size_t>(std::max(size, 0))));
  OPENSSL_free(der);
  text += '|' + base64url_encode(subject.common_name) + '|';
  for (const std::string& organization : subject.organizations) text += base64url_encode(organization) + '|';
  for (const std::string& usage : usages) text += base64url_encode(usage) + '|';
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int digest_size = 0;
  if (EVP_Digest(text.data(), text.size(), digest, &digest_size, EVP_sha512_256(), nullptr) != 1) {
    return internal_error("signing request: digest");
  }
  return "node-csr-" + base64url_encode(std::string_view(reinterpret_cast<char*>(digest), digest_size));
}

Result<CertificateFacts> read_certificate(const std::string& pem) {
  const CertPtr certificate(PEM_read_bio_X509(bio_of(pem).get(), nullptr, no_password, nullptr));
  if (!certificate) return invalid_argument("no PEM block CERTIFICATE in it");
  CertificateFacts out;
  if (!read_time(X509_get0_notBefore(certificate.get()), &out.not_before) ||
      !read_time(X509_get0_notAfter(certificate.get()), &out.not_after)) {
    return invalid_argument("the certificate's times cannot be read");
  }
  read_subject(X509_get_subject_name(certificate.get()), &out.subject);
  const NamesPtr names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate.get(), NID_subject_alt_name, nullptr, nullptr)));
  read_names(names.get(), &out.subject);
  return out;
}

Result<SigningSubject> read_signing_request(const std::string& pem) {
  const RequestPtr request(PEM_read_bio_X509_REQ(bio_of(pem).get(), nullptr, no_password, nullptr));
  if (!request) return invalid_argument("no PEM block CERTIFICATE REQUEST in it");
  SigningSubject out;
  read_subject(X509_REQ_get_subject_name(request.get()), &out);
  const ExtensionsPtr extensions(X509_REQ_get_extensions(request.get()));
  if (!extensions) return out;
  const NamesPtr names(
      static_cast<GENERAL_NAMES*>(X509V3_get_d2i(extensions.get(), NID_subject_alt_name, nullptr, nullptr)));
  read_names(names.get(), &out);
  return out;
}

}  // namespace ghostfleet::kube
