// TlsContext: PEM in, SSL_CTX out, with every failure said in words a user can act on.
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <vector>

#include "kube/http/openssl_handles.h"
#include "kube/http/tls.h"
#include "kube/http/tls_impl.h"

namespace ghostfleet::kube::http {
namespace {

Result<std::vector<CertPtr>> parse_certificates(const std::string& pem, std::string_view what) {
  std::vector<CertPtr> out;
  const BioPtr bio = bio_of(pem);
  while (X509* certificate = PEM_read_bio_X509(bio.get(), nullptr, no_password, nullptr)) out.emplace_back(certificate);
  const unsigned long error = ERR_peek_last_error();
  const bool only_end = ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
  const std::string reasons = take_openssl_errors();
  if (out.empty() && only_end) return invalid_argument(std::string(what) + ": no PEM block CERTIFICATE in it");
  if (!only_end) return invalid_argument(std::string(what) + ": bad PEM: " + reasons);
  return out;
}

// A certificate with its chain and its key, parsed; they belong together.
struct ParsedIdentity {
  std::vector<CertPtr> chain;
  KeyPtr key;
};

Result<ParsedIdentity> parse_identity(const std::string& cert_pem, const std::string& key_pem, std::string_view what) {
  auto chain = parse_certificates(cert_pem, std::string(what) + " certificate");
  if (!chain.ok()) return chain.error();
  const BioPtr bio = bio_of(key_pem);
  KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
  if (!key) return invalid_argument(std::string(what) + " key: bad PEM: " + take_openssl_errors());
  if (X509_check_private_key((*chain)[0].get(), key.get()) != 1) {
    take_openssl_errors();
    return invalid_argument(std::string(what) + " key does not match the certificate");
  }
  return ParsedIdentity{std::move(*chain), std::move(key)};
}

Status use_certificates(SSL_CTX* ctx, const std::string& cert_pem, const std::string& key_pem, std::string_view what) {
  auto parsed = parse_identity(cert_pem, key_pem, what);
  if (!parsed.ok()) return parsed.error();
  if (SSL_CTX_use_certificate(ctx, parsed->chain[0].get()) != 1) {
    return invalid_argument(std::string(what) + " certificate cannot be used: " + take_openssl_errors());
  }
  for (size_t i = 1; i < parsed->chain.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(ctx, parsed->chain[i].get()) != 1) {
      return invalid_argument(std::string(what) + " certificate chain: " + take_openssl_errors());
    }
  }
  if (SSL_CTX_use_PrivateKey(ctx, parsed->key.get()) != 1) {
    return invalid_argument(std::string(what) + " key cannot be used: " + take_openssl_errors());
  }
  return Status();
}

Status trust(SSL_CTX* ctx, const std::string& ca_pem, std::string_view what, bool name_to_peer) {
  auto certificates = parse_certificates(ca_pem, what);
  if (!certificates.ok()) return certificates.error();
  X509_STORE* store = SSL_CTX_get_cert_store(ctx);
  for (const CertPtr& certificate : *certificates) {
    if (X509_STORE_add_cert(store, certificate.get()) != 1) {
      return invalid_argument(std::string(what) + ": " + take_openssl_errors());
    }
    if (name_to_peer) SSL_CTX_add_client_CA(ctx, certificate.get());
  }
  // A CA bundle may hold an intermediate alone: it is trusted as it stands, as Go does.
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(ctx), X509_V_FLAG_PARTIAL_CHAIN);
  return Status();
}

std::string alpn_wire_form(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) {
    if (name.empty() || name.size() > 255) continue;
    out += static_cast<char>(name.size());
    out += name;
  }
  return out;
}

// The server's order decides.
int select_alpn(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in, unsigned int in_size,
                void* argument) {
  const auto* impl = static_cast<const std::string*>(argument);
  unsigned char* chosen = nullptr;
  const int rc = SSL_select_next_proto(&chosen, out_size, reinterpret_cast<const unsigned char*>(impl->data()),
                                       static_cast<unsigned>(impl->size()), in, in_size);
  *out = chosen;
  return rc == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

// Memory per connection is what counts: buffers are given back while nothing flows, and no session is remembered.
void common_settings(SSL_CTX* ctx) {
  SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
  SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_NO_AUTO_CHAIN);
  SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(ctx, 0);
}

}  // namespace

std::string take_openssl_errors() {
  std::string out;
  while (const unsigned long error = ERR_get_error()) {
    const char* reason = ERR_reason_error_string(error);
    if (!out.empty()) out += "; ";
    out += reason ? reason : "error " + std::to_string(error);
  }
  return out.empty() ? "unknown reason" : out;
}

Status check_identity(const TlsIdentity& identity) {
  auto parsed = parse_identity(identity.cert_pem, identity.key_pem, "client");
  return parsed.ok() ? Status() : parsed.error();
}

Status use_identity(ssl_st* ssl, const TlsIdentity& identity) {
  auto parsed = parse_identity(identity.cert_pem, identity.key_pem, "client");
  if (!parsed.ok()) return parsed.error();
  bool good = SSL_use_certificate(ssl, parsed->chain[0].get()) == 1;
  for (size_t i = 1; good && i < parsed->chain.size(); ++i) {
    good = SSL_add1_chain_cert(ssl, parsed->chain[i].get()) == 1;
  }
  good = good && SSL_use_PrivateKey(ssl, parsed->key.get()) == 1;
  return good ? Status() : invalid_argument("client certificate cannot be used: " + take_openssl_errors());
}

TlsContext::Impl::~Impl() { SSL_CTX_free(ctx); }
TlsContext::TlsContext() : impl_(std::make_unique<Impl>()) {}
TlsContext::~TlsContext() = default;

Result<std::shared_ptr<const TlsContext>> TlsContext::client(const TlsClientConfig& config) {
  std::shared_ptr<TlsContext> context(new TlsContext());
  Impl& impl = *context->impl_;
  impl.ctx = SSL_CTX_new(TLS_client_method());
  if (!impl.ctx) return internal_error("TLS: " + take_openssl_errors());
  common_settings(impl.ctx);
  impl.insecure = config.insecure;
  impl.server_name = config.server_name;
  impl.alpn_wire = alpn_wire_form(config.alpn);
  SSL_CTX_set_verify(impl.ctx, config.insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
  impl.certificates.serve(impl.ctx);
  if (!config.ca_pem.empty()) {
    GF_RETURN_IF_ERROR(trust(impl.ctx, config.ca_pem, "certificate authority", false));
  } else if (!config.insecure) {
    SSL_CTX_set_default_verify_paths(impl.ctx);
  }
  if (config.client_cert_pem.empty() != config.client_key_pem.empty()) {
    return invalid_argument(config.client_cert_pem.empty() ? "a client key without a client certificate"
                                                           : "a client certificate without a client key");
  }
  if (!config.client_cert_pem.empty()) {
    GF_RETURN_IF_ERROR(use_certificates(impl.ctx, config.client_cert_pem, config.client_key_pem, "client"));
  }
  return std::shared_ptr<const TlsContext>(context);
}

Result<std::shared_ptr<const TlsContext>> TlsContext::server(const TlsServerConfig& config) {
  std::shared_ptr<TlsContext> context(new TlsContext());
  Impl& impl = *context->impl_;
  impl.ctx = SSL_CTX_new(TLS_server_method());
  if (!impl.ctx) return internal_error("TLS: " + take_openssl_errors());
  common_settings(impl.ctx);
  SSL_CTX_set_options(impl.ctx, SSL_OP_CIPHER_SERVER_PREFERENCE);
  impl.alpn_wire = alpn_wire_form(config.alpn);
  if (!impl.alpn_wire.empty()) SSL_CTX_set_alpn_select_cb(impl.ctx, select_alpn, &impl.alpn_wire);
  GF_RETURN_IF_ERROR(use_certificates(impl.ctx, config.cert_pem, config.key_pem, "server"));
  if (!config.client_ca_pem.empty()) {
    GF_RETURN_IF_ERROR(trust(impl.ctx, config.client_ca_pem, "client certificate authority", true));
    SSL_CTX_set_verify(impl.ctx, SSL_VERIFY_PEER, nullptr);
  }
  impl.bad_client_is_none = config.bad_client_is_none && !config.client_ca_pem.empty();
  return std::shared_ptr<const TlsContext>(context);
}

std::shared_ptr<const PeerCertificate> subject_of(x509_st* certificate) {
  static const ASN1_OBJECT* uid_object = OBJ_txt2obj("1.3.6.1.4.1.57683.2", 1);
  auto out = std::make_shared<PeerCertificate>();
  X509_NAME* subject = X509_get_subject_name(certificate);
  for (int i = 0; i < X509_NAME_entry_count(subject); ++i) {
    const X509_NAME_ENTRY* entry = X509_NAME_get_entry(subject, i);
    const ASN1_OBJECT* object = X509_NAME_ENTRY_get_object(entry);
    unsigned char* utf8 = nullptr;
    const int size = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(entry));
    if (size < 0) continue;
    std::string text(reinterpret_cast<char*>(utf8), static_cast<size_t>(size));
    OPENSSL_free(utf8);
    const int nid = OBJ_obj2nid(object);
    if (nid == NID_commonName)
      out->common_name = std::move(text);
    else if (nid == NID_organizationName)
      out->organizations.push_back(std::move(text));
    else if (OBJ_cmp(object, uid_object) == 0)
      out->uid = std::move(text);
  }
  return out;
}

std::string names_of(x509_st* certificate) {
  const int at = X509_get_ext_by_NID(certificate, NID_subject_alt_name, -1);
  if (at < 0) return "no name";
  const BioPtr bio(BIO_new(BIO_s_mem()));
  X509V3_EXT_print(bio.get(), X509_get_ext(certificate, at), 0, 0);
  return bio_text(bio.get());
}

}  // namespace ghostfleet::kube::http
