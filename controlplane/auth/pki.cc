#include "controlplane/auth/pki.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "controlplane/auth/crypto.h"
#include "controlplane/auth/tokens.h"

namespace ghostfleet::controlplane {
namespace {

using crypto::CertPtr;
using crypto::KeyPtr;

// Certificates begin a little in the past: clocks differ.
constexpr Duration kBackdate = std::chrono::minutes(5);
constexpr Duration kRenewBefore = std::chrono::hours(24 * 30);
constexpr const char* kNoFit = "a key and its certificate do not fit";

bool is_address(std::string_view text) {
  ASN1_OCTET_STRING* octets = a2i_IPADDRESS(std::string(text).c_str());
  ERR_clear_error();
  ASN1_OCTET_STRING_free(octets);
  return octets != nullptr;
}

bool add_name(X509_NAME* name, const char* field, const std::string& value) {
  return X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(value.data()),
                                    static_cast<int>(value.size()), -1, 0) == 1;
}

bool set_subject(X509* cert, const CertificateSubject& subject) {
  X509_NAME* name = X509_get_subject_name(cert);
  for (const std::string& organization : subject.organizations) {
    if (!add_name(name, "O", organization)) return false;
  }
  return add_name(name, "CN", subject.common_name);
}

bool add_extension(X509* cert, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, cert, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  if (extension == nullptr) return false;
  const bool added = X509_add_ext(cert, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return added;
}

// Built without the configuration syntax: a name from outside may hold anything.
bool add_alternative_names(X509* cert, const CertificateUse& use) {
  if (use.dns_names.empty() && use.ips.empty()) return true;
  GENERAL_NAMES* names = sk_GENERAL_NAME_new_null();
  for (const std::string& dns : use.dns_names) {
    ASN1_IA5STRING* text = ASN1_IA5STRING_new();
    ASN1_STRING_set(text, dns.data(), static_cast<int>(dns.size()));
    GENERAL_NAME* name = GENERAL_NAME_new();
    GENERAL_NAME_set0_value(name, GEN_DNS, text);
    sk_GENERAL_NAME_push(names, name);
  }
  for (const std::string& ip : use.ips) {
    ASN1_OCTET_STRING* octets = a2i_IPADDRESS(ip.c_str());
    if (octets == nullptr) continue;
    GENERAL_NAME* name = GENERAL_NAME_new();
    GENERAL_NAME_set0_value(name, GEN_IPADD, octets);
    sk_GENERAL_NAME_push(names, name);
  }
  const bool added = X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0, 0) == 1;
  GENERAL_NAMES_free(names);
  return added;
}

bool set_serial_and_time(X509* cert, WallTime now, Duration lifetime) {
  const std::string serial = crypto::random_bytes(16);
  BIGNUM* number = BN_bin2bn(reinterpret_cast<const unsigned char*>(serial.data()), 16, nullptr);
  BN_clear_bit(number, 127);
  const bool set = BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) != nullptr;
  BN_free(number);
  return set && ASN1_TIME_set(X509_getm_notBefore(cert), (now - kBackdate).seconds()) != nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(cert), (now + lifetime).seconds()) != nullptr;
}

struct Authority {
  X509* cert = nullptr;  // null: signs itself
  EVP_PKEY* key = nullptr;
};

Result<CertPtr> build_certificate(EVP_PKEY* public_key, const CertificateSubject& subject, const CertificateUse* use,
                                  const Authority& authority, WallTime now, Duration lifetime) {
  CertPtr cert(X509_new());
  X509* c = cert.get();
  X509* issuer = authority.cert != nullptr ? authority.cert : c;
  bool ok = X509_set_version(c, 2) == 1 && set_serial_and_time(c, now, lifetime) && set_subject(c, subject) &&
            X509_set_issuer_name(c, X509_get_subject_name(issuer)) == 1 && X509_set_pubkey(c, public_key) == 1;
  if (use == nullptr) {
    ok = ok && add_extension(c, issuer, NID_basic_constraints, "critical,CA:TRUE") &&
         add_extension(c, issuer, NID_key_usage, "critical,digitalSignature,keyEncipherment,keyCertSign,cRLSign") &&
         add_extension(c, issuer, NID_subject_key_identifier, "hash");
  } else {
    std::string purposes = use->server_auth ? "serverAuth" : "";
    if (use->client_auth) purposes += purposes.empty() ? "clientAuth" : ",clientAuth";
    ok = ok && add_extension(c, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
         add_extension(c, issuer, NID_key_usage, "critical,digitalSignature,keyEncipherment") &&
         (purposes.empty() || add_extension(c, issuer, NID_ext_key_usage, purposes)) &&
         add_extension(c, issuer, NID_authority_key_identifier, "keyid") && add_alternative_names(c, *use);
  }
  if (!ok || X509_sign(c, authority.key, EVP_sha256()) == 0) return crypto::library_error("making a certificate");
  return cert;
}

Result<KeyAndCertificate> issue_by(const KeyAndCertificate& ca, const CertificateSubject& subject,
                                   const CertificateUse& use, WallTime now, Duration lifetime) {
  Result<KeyPtr> ca_key = crypto::read_private_key(ca.key_pem);
  if (!ca_key.ok()) return ca_key.error().with_context("authority");
  Result<CertPtr> ca_cert = crypto::read_certificate(ca.cert_pem);
  if (!ca_cert.ok()) return ca_cert.error().with_context("authority");
  KeyPtr key = crypto::generate_ec_key();
  if (!key) return crypto::library_error("making a key");
  Result<CertPtr> cert = build_certificate(key.get(), subject, &use, {ca_cert->get(), ca_key->get()}, now, lifetime);
  if (!cert.ok()) return cert.error();
  return KeyAndCertificate{crypto::private_key_pem(key.get()), crypto::certificate_pem(cert->get())};
}

CertificateUse server_use(const PkiOptions& options) {
  CertificateUse use;
  use.server_auth = true;
  use.dns_names = {"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
                   "kubernetes.default.svc.cluster.local"};
  use.ips = {"127.0.0.1", "::1", options.service_ip};
  char host[256] = "";
  std::vector<std::string> more = options.extra_names;
  if (gethostname(host, sizeof(host) - 1) == 0 && host[0] != '\0') more.emplace_back(host);
  for (const std::string& name : more) {
    std::vector<std::string>& list = is_address(name) ? use.ips : use.dns_names;
    if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
  }
  return use;
}

Result<KeyAndCertificate> issue_server(const KeyAndCertificate& ca, const PkiOptions& options, WallTime now) {
  return issue_by(ca, {"kube-apiserver", {}}, server_use(options), now, options.lifetime);
}

std::string asn1_text(const ASN1_STRING* text) {
  return std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                     static_cast<size_t>(ASN1_STRING_length(text)));
}

std::string address_text(const ASN1_OCTET_STRING* octets) {
  const unsigned char* b = ASN1_STRING_get0_data(octets);
  const int size = ASN1_STRING_length(octets);
  char text[64] = "";
  if (size == 4) snprintf(text, sizeof(text), "%d.%d.%d.%d", b[0], b[1], b[2], b[3]);
  if (size == 16) {
    std::string out;
    for (int i = 0; i < 16; i += 2) {
      snprintf(text, sizeof(text), "%s%x", i > 0 ? ":" : "", b[i] << 8 | b[i + 1]);
      out += text;
    }
    return out;
  }
  return text;
}

void read_alternative_names(GENERAL_NAMES* names, CertificateRequest* out) {
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    int type = 0;
    const void* value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);
    const auto* text = static_cast<const ASN1_STRING*>(value);
    if (type == GEN_DNS) out->dns_names.push_back(asn1_text(text));
    if (type == GEN_IPADD) out->ips.push_back(address_text(static_cast<const ASN1_OCTET_STRING*>(value)));
    if (type == GEN_EMAIL) out->emails.push_back(asn1_text(text));
    if (type == GEN_URI) out->uris.push_back(asn1_text(text));
  }
}

Result<crypto::RequestPtr> read_request(std::string_view pem) {
  crypto::BioPtr bio = kube::http::bio_of(pem);
  crypto::RequestPtr request(PEM_read_bio_X509_REQ(bio.get(), nullptr, nullptr, nullptr));
  if (!request) {
    ERR_clear_error();
    return invalid_argument("PEM block type must be CERTIFICATE REQUEST");
  }
  return request;
}

CertificateRequest describe_request(X509_REQ* request) {
  CertificateRequest out;
  X509_NAME* name = X509_REQ_get_subject_name(request);
  for (int i = 0; i < X509_NAME_entry_count(name); ++i) {
    X509_NAME_ENTRY* entry = X509_NAME_get_entry(name, i);
    const int nid = OBJ_obj2nid(X509_NAME_ENTRY_get_object(entry));
    const std::string text = asn1_text(X509_NAME_ENTRY_get_data(entry));
    if (nid == NID_commonName) out.subject.common_name = text;
    if (nid == NID_organizationName) out.subject.organizations.push_back(text);
  }
  STACK_OF(X509_EXTENSION)* extensions = X509_REQ_get_extensions(request);
  auto* names = static_cast<GENERAL_NAMES*>(X509V3_get_d2i(extensions, NID_subject_alt_name, nullptr, nullptr));
  if (names != nullptr) read_alternative_names(names, &out);
  GENERAL_NAMES_free(names);
  sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
  return out;
}

// ---- files

struct NamedFile {
  const char* name;
  std::string* text;
};

Status write_file(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return internal_error(path + ": " + std::strerror(errno));
  ::fchmod(fd, 0600);
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int error = errno;
      ::close(fd);
      return Status(error == ENOSPC ? Code::kResourceExhausted : Code::kInternal, path + ": " + std::strerror(error));
    }
    done += static_cast<size_t>(n);
  }
  ::close(fd);
  return Status();
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return not_found(path + ": " + std::strerror(errno));
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

bool matches_key(const KeyAndCertificate& pair) {
  Result<KeyPtr> key = crypto::read_private_key(pair.key_pem);
  Result<CertPtr> cert = crypto::read_certificate(pair.cert_pem);
  return key.ok() && cert.ok() && X509_check_private_key(cert->get(), key->get()) == 1;
}

bool lasts(const KeyAndCertificate& pair, WallTime now) {
  Result<WallTime> expiry = certificate_expiry(pair.cert_pem);
  return expiry.ok() && *expiry >= now + kRenewBefore;
}

CertificateUse client_use() {
  CertificateUse use;
  use.client_auth = true;
  return use;
}

Result<KeyAndCertificate> make_authority(const char* name, const PkiOptions& options, WallTime now) {
  KeyPtr key = crypto::generate_ec_key();
  if (!key) return crypto::library_error("making a key");
  Result<CertPtr> cert =
      build_certificate(key.get(), {name, {}}, nullptr, {nullptr, key.get()}, now, options.ca_lifetime);
  if (!cert.ok()) return cert.error();
  return KeyAndCertificate{crypto::private_key_pem(key.get()), crypto::certificate_pem(cert->get())};
}

bool serves(const KeyAndCertificate& server, const PkiOptions& options, WallTime now) {
  if (!lasts(server, now)) return false;
  Result<CertPtr> cert = crypto::read_certificate(server.cert_pem);
  if (!cert.ok()) return false;
  const CertificateUse use = server_use(options);
  const bool names = std::all_of(use.dns_names.begin(), use.dns_names.end(), [&](const std::string& n) {
    return X509_check_host(cert->get(), n.c_str(), n.size(), 0, nullptr) == 1;
  });
  return names && std::all_of(use.ips.begin(), use.ips.end(), [&](const std::string& ip) {
           return X509_check_ip_asc(cert->get(), ip.c_str(), 0) == 1;
         });
}

}  // namespace

std::string generate_key_pem() {
  KeyPtr key = crypto::generate_ec_key();
  return key ? crypto::private_key_pem(key.get()) : "";
}

Result<CertificateRequest> parse_certificate_request(std::string_view pem) {
  Result<crypto::RequestPtr> request = read_request(pem);
  if (!request.ok()) return request.error();
  return describe_request(request->get());
}

bool has_certificate_block(std::string_view pem) { return crypto::read_certificate(pem).ok(); }

Result<WallTime> certificate_expiry(std::string_view pem) {
  Result<CertPtr> cert = crypto::read_certificate(pem);
  if (!cert.ok()) return cert.error();
  tm time{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(cert->get()), &time) != 1) return crypto::library_error("certificate time");
  return WallTime{static_cast<int64_t>(timegm(&time)) * 1000000000};
}

Result<Pki> Pki::create(const PkiOptions& options, WallTime now) {
  Pki pki;
  Result<KeyAndCertificate> ca = make_authority("ghostfleet-ca", options, now);
  if (!ca.ok()) return ca.error();
  pki.ca_ = std::move(*ca);
  Result<KeyAndCertificate> server = issue_server(pki.ca_, options, now);
  if (!server.ok()) return server.error();
  pki.server_ = std::move(*server);
  Result<KeyAndCertificate> admin =
      pki.issue({options.admin_name, {"system:masters"}}, client_use(), options.lifetime, now);
  if (!admin.ok()) return admin.error();
  pki.admin_ = std::move(*admin);
  bool added = false;
  if (Status status = pki.complete(options, now, &added); !status.ok()) return status;
  pki.service_account_key_ = generate_key_pem();
  pki.admin_token_ = random_token();
  return pki;
}

// Makes what the API server is a client with, where that is missing or about to expire.
Status Pki::complete(const PkiOptions& options, WallTime now, bool* added) {
  if (front_proxy_ca_.cert_pem.empty()) {
    Result<KeyAndCertificate> ca = make_authority("front-proxy-ca", options, now);
    if (!ca.ok()) return ca.error();
    front_proxy_ca_ = std::move(*ca);
    front_proxy_client_ = {};
    *added = true;
  }
  struct Wanted {
    KeyAndCertificate* made;
    const KeyAndCertificate& ca;
    const char* name;
  };
  for (const Wanted& wanted : {Wanted{&kubelet_client_, ca_, kKubeletClientName},
                               Wanted{&front_proxy_client_, front_proxy_ca_, kFrontProxyClientName}}) {
    if (lasts(*wanted.made, now)) continue;
    Result<KeyAndCertificate> made = issue_by(wanted.ca, {wanted.name, {}}, client_use(), now, options.lifetime);
    if (!made.ok()) return made.error();
    *wanted.made = std::move(*made);
    *added = true;
  }
  return Status();
}

Result<KeyAndCertificate> Pki::issue(const CertificateSubject& subject, const CertificateUse& use, Duration lifetime,
                                     WallTime now) const {
  return issue_by(ca_, subject, use, now, lifetime);
}

Result<Pki> Pki::load(const std::string& directory) {
  Pki pki;
  const NamedFile files[] = {{"ca.key", &pki.ca_.key_pem},          {"ca.crt", &pki.ca_.cert_pem},
                             {"server.key", &pki.server_.key_pem},  {"server.crt", &pki.server_.cert_pem},
                             {"admin.key", &pki.admin_.key_pem},    {"admin.crt", &pki.admin_.cert_pem},
                             {"sa.key", &pki.service_account_key_}, {"admin.token", &pki.admin_token_}};
  for (const NamedFile& file : files) {
    Result<std::string> text = read_file(directory + "/" + file.name);
    if (!text.ok()) return text.error();
    *file.text = std::move(*text);
  }
  const NamedFile later[] = {{"apiserver-kubelet-client.key", &pki.kubelet_client_.key_pem},
                             {"apiserver-kubelet-client.crt", &pki.kubelet_client_.cert_pem},
                             {"front-proxy-ca.key", &pki.front_proxy_ca_.key_pem},
                             {"front-proxy-ca.crt", &pki.front_proxy_ca_.cert_pem},
                             {"front-proxy-client.key", &pki.front_proxy_client_.key_pem},
                             {"front-proxy-client.crt", &pki.front_proxy_client_.cert_pem}};
  for (const NamedFile& file : later) {
    Result<std::string> text = read_file(directory + "/" + file.name);
    if (!text.ok() && text.error().code() != Code::kNotFound) return text.error();
    if (text.ok()) *file.text = std::move(*text);
  }
  for (const KeyAndCertificate* pair : {&pki.kubelet_client_, &pki.front_proxy_ca_, &pki.front_proxy_client_}) {
    const bool there = !pair->cert_pem.empty() || !pair->key_pem.empty();
    if (there && !matches_key(*pair)) return Status(Code::kDataLoss, directory + ": " + kNoFit);
  }
  for (const KeyAndCertificate* pair : {&pki.ca_, &pki.server_, &pki.admin_}) {
    if (!matches_key(*pair)) return Status(Code::kDataLoss, directory + ": " + kNoFit);
  }
  if (!crypto::read_private_key(pki.service_account_key_).ok()) {
    return Status(Code::kDataLoss, directory + "/sa.key: not a PEM private key");
  }
  return pki;
}

Status Pki::save(const std::string& directory) const {
  for (size_t at = directory.find('/', 1); at != std::string::npos; at = directory.find('/', at + 1)) {
    ::mkdir(directory.substr(0, at).c_str(), 0700);
  }
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return internal_error(directory + ": " + std::strerror(errno));
  }
  const std::pair<const char*, const std::string*> files[] = {
      {"ca.key", &ca_.key_pem},
      {"ca.crt", &ca_.cert_pem},
      {"server.key", &server_.key_pem},
      {"server.crt", &server_.cert_pem},
      {"admin.key", &admin_.key_pem},
      {"admin.crt", &admin_.cert_pem},
      {"sa.key", &service_account_key_},
      {"admin.token", &admin_token_},
      {"apiserver-kubelet-client.key", &kubelet_client_.key_pem},
      {"apiserver-kubelet-client.crt", &kubelet_client_.cert_pem},
      {"front-proxy-ca.key", &front_proxy_ca_.key_pem},
      {"front-proxy-ca.crt", &front_proxy_ca_.cert_pem},
      {"front-proxy-client.key", &front_proxy_client_.key_pem},
      {"front-proxy-client.crt", &front_proxy_client_.cert_pem}};
  for (const auto& [name, text] : files) GF_RETURN_IF_ERROR(write_file(directory + "/" + name, *text));
  return Status();
}

Result<Pki> Pki::load_or_create(const std::string& directory, const PkiOptions& options, WallTime now) {
  Result<Pki> pki = load(directory);
  if (!pki.ok() && pki.error().code() != Code::kNotFound) return pki;
  const bool fresh = !pki.ok();
  if (fresh) pki = create(options, now);
  if (!pki.ok()) return pki;
  bool added = fresh;
  if (Status status = pki->complete(options, now, &added); !status.ok()) return status;
  const bool server_serves = fresh || serves(pki->server_, options, now);
  if (!added && server_serves) return pki;
  if (!server_serves) {
    Result<KeyAndCertificate> server = issue_server(pki->ca_, options, now);
    if (!server.ok()) return server.error();
    pki->server_ = std::move(*server);
  }
  if (Status saved = pki->save(directory); !saved.ok()) return saved;
  return pki;
}

Result<std::string> Pki::sign_request(std::string_view request_pem, std::string_view signer,
                                      const std::vector<std::string>& usages, Duration lifetime, WallTime now) const {
  Result<crypto::RequestPtr> request = read_request(request_pem);
  if (!request.ok()) return request.error();
  EVP_PKEY* public_key = X509_REQ_get0_pubkey(request->get());
  if (public_key == nullptr || X509_REQ_verify(request->get(), public_key) != 1) {
    ERR_clear_error();
    return invalid_argument("the request's signature does not fit its key");
  }
  const CertificateRequest wanted = describe_request(request->get());
  if (std::string why = check_signer_rules(signer, wanted, usages); !why.empty()) return invalid_argument(why);
  CertificateUse use;
  use.client_auth = std::find(usages.begin(), usages.end(), "client auth") != usages.end();
  use.server_auth = std::find(usages.begin(), usages.end(), "server auth") != usages.end();
  use.dns_names = wanted.dns_names;
  use.ips = wanted.ips;
  Result<KeyPtr> ca_key = crypto::read_private_key(ca_.key_pem);
  Result<CertPtr> ca_cert = crypto::read_certificate(ca_.cert_pem);
  if (!ca_key.ok() || !ca_cert.ok()) return internal_error("the authority cannot be read");
  Result<CertPtr> cert =
      build_certificate(public_key, wanted.subject, &use, {ca_cert->get(), ca_key->get()}, now, lifetime);
  if (!cert.ok()) return cert.error();
  return crypto::certificate_pem(cert->get());
}

}  // namespace ghostfleet::controlplane
