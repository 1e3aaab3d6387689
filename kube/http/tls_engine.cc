// TlsEngine: one TLS connection without a socket. Bytes pass through a BIO of our own that reads from the view being
// fed and appends to the output string, so an idle connection holds no buffer besides OpenSSL's state.
#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cstring>

#include "kube/http/tls.h"
#include "kube/http/tls_impl.h"

namespace ghostfleet::kube::http {
namespace {

// What the BIO of an engine reads and writes.
struct Pipe {
  std::string_view in;  // only while feed() runs
  std::string pending;
  std::string* sink = &pending;
};

int pipe_read(BIO* bio, char* to, int size) {
  auto* pipe = static_cast<Pipe*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (pipe->in.empty()) {
    BIO_set_retry_read(bio);
    return -1;
  }
  const size_t n = std::min(static_cast<size_t>(size), pipe->in.size());
  std::memcpy(to, pipe->in.data(), n);
  pipe->in.remove_prefix(n);
  return static_cast<int>(n);
}

int pipe_write(BIO* bio, const char* from, int size) {
  BIO_clear_retry_flags(bio);
  static_cast<Pipe*>(BIO_get_data(bio))->sink->append(from, static_cast<size_t>(size));
  return size;
}

long pipe_control(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH || command == BIO_CTRL_DUP || command == BIO_CTRL_PUSH || command == BIO_CTRL_POP;
}

int pipe_create(BIO* bio) {
  BIO_set_init(bio, 1);
  return 1;
}

BIO_METHOD* pipe_method() {
  static BIO_METHOD* method = [] {
    BIO_METHOD* m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "ghostfleet pipe");
    BIO_meth_set_read(m, pipe_read);
    BIO_meth_set_write(m, pipe_write);
    BIO_meth_set_ctrl(m, pipe_control);
    BIO_meth_set_create(m, pipe_create);
    return m;
  }();
  return method;
}

bool is_ip_address(const std::string& host) {
  unsigned char buffer[16];
  return inet_pton(AF_INET, host.c_str(), buffer) == 1 || inet_pton(AF_INET6, host.c_str(), buffer) == 1;
}

constexpr size_t kRecordBytes = 16 * 1024;

// Remembers what a refused certificate is for: after the failure OpenSSL no longer has it.
int remember_names(int ok, X509_STORE_CTX* store) {
  const int error = X509_STORE_CTX_get_error(store);
  if (ok || (error != X509_V_ERR_HOSTNAME_MISMATCH && error != X509_V_ERR_IP_ADDRESS_MISMATCH)) return ok;
  const auto* ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* names = static_cast<std::string*>(SSL_get_app_data(ssl));
  X509* certificate = X509_STORE_CTX_get_current_cert(store);
  if (names && certificate) *names = names_of(certificate);
  return ok;
}

// Goes on with a client whose certificate is bad, and remembers that it is.
int remember_bad_client(int ok, X509_STORE_CTX* store) {
  const auto* ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  if (!ok) *static_cast<bool*>(SSL_get_app_data(ssl)) = true;
  return 1;
}

}  // namespace

struct TlsEngine::Impl {
  std::shared_ptr<const TlsContext> context;
  SSL* ssl = nullptr;
  Pipe pipe;
  std::string host;
  std::string peer_names;  // of a certificate that was refused for its names
  bool is_server = false, done = false, closed_by_peer = false, failed = false;
  bool bad_client = false;
  bool own_identity = false;  // a certificate of this connection alone, let go of after the handshake
  std::shared_ptr<const PeerCertificate> peer;

  ~Impl() { SSL_free(ssl); }
  void set_host();
  Status failure();
  std::string explain();
  Status handshake();
  Status read_records(std::string* plain);
};

TlsEngine::TlsEngine(std::shared_ptr<const TlsContext> context, bool is_server, std::string_view host,
                     const TlsIdentity* identity, std::string_view only_alpn)
    : impl_(std::make_unique<Impl>()) {
  Impl& i = *impl_;
  i.context = std::move(context);
  i.is_server = is_server;
  const TlsContext::Impl& shared = *i.context->impl_;
  i.host = shared.server_name.empty() ? std::string(host) : shared.server_name;
  i.ssl = SSL_new(shared.ctx);
  BIO* bio = BIO_new(pipe_method());
  BIO_set_data(bio, &i.pipe);
  SSL_set_bio(i.ssl, bio, bio);
  if (is_server) {
    SSL_set_accept_state(i.ssl);
    if (!shared.bad_client_is_none) return;
    SSL_set_app_data(i.ssl, &i.bad_client);
    SSL_set_verify(i.ssl, SSL_VERIFY_PEER, remember_bad_client);
    return;
  }
  SSL_set_connect_state(i.ssl);
  std::string alpn = shared.alpn_wire;
  if (!only_alpn.empty()) alpn = static_cast<char>(only_alpn.size()) + std::string(only_alpn);
  if (!alpn.empty()) {
    SSL_set_alpn_protos(i.ssl, reinterpret_cast<const unsigned char*>(alpn.data()), static_cast<unsigned>(alpn.size()));
  }
  i.set_host();
  if (identity) {
    i.own_identity = true;
    i.failed = !use_identity(i.ssl, *identity).ok();
    if (i.failed) return;
  }
  // The ClientHello waits in the output. A failure shows again in the first feed().
  if (!i.handshake().ok()) i.failed = true;
}

TlsEngine::~TlsEngine() = default;

void TlsEngine::Impl::set_host() {
  if (host.empty()) return;
  const bool ip = is_ip_address(host);
  if (!ip) SSL_set_tlsext_host_name(ssl, host.c_str());  // an address is no server name (RFC 6066)
  if (context->impl_->insecure) return;
  SSL_set_app_data(ssl, &peer_names);
  SSL_set_verify(ssl, SSL_VERIFY_PEER, remember_names);
  X509_VERIFY_PARAM* parameters = SSL_get0_param(ssl);
  if (ip) {
    X509_VERIFY_PARAM_set1_ip_asc(parameters, host.c_str());
  } else {
    X509_VERIFY_PARAM_set_hostflags(parameters, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    X509_VERIFY_PARAM_set1_host(parameters, host.c_str(), host.size());
  }
}

std::string TlsEngine::Impl::explain() {
  const long verify = SSL_get_verify_result(ssl);
  if (verify == X509_V_ERR_HOSTNAME_MISMATCH || verify == X509_V_ERR_IP_ADDRESS_MISMATCH) {
    ERR_clear_error();
    return "host name mismatch: the server's certificate is for " + peer_names + ", not for " + host;
  }
  if (verify != X509_V_OK) {
    ERR_clear_error();
    const std::string who = is_server ? "the client's certificate was refused: " : "the server's certificate: ";
    return who + X509_verify_cert_error_string(verify);
  }
  const unsigned long error = ERR_peek_error();
  const int reason = ERR_GET_REASON(error);
  std::string text = take_openssl_errors();
  if (ERR_GET_LIB(error) != ERR_LIB_SSL) return text;
  if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST) {
    return "the peer does not speak TLS here (" + text + ")";
  }
  if (reason > SSL_AD_REASON_OFFSET) return "the peer refused: " + text;
  return text;
}

// Unauthenticated: one side could not prove who it is, which trying again does not change.
Status TlsEngine::Impl::failure() {
  failed = true;
  const unsigned long error = ERR_peek_error();
  const bool alert = ERR_GET_LIB(error) == ERR_LIB_SSL && ERR_GET_REASON(error) > SSL_AD_REASON_OFFSET;
  const bool identity = alert || SSL_get_verify_result(ssl) != X509_V_OK;
  return Status(identity ? Code::kUnauthenticated : Code::kUnavailable, "TLS: " + explain());
}

Status TlsEngine::Impl::handshake() {
  ERR_clear_error();
  const int rc = SSL_do_handshake(ssl);
  if (rc != 1) return SSL_get_error(ssl, rc) == SSL_ERROR_WANT_READ ? Status() : failure();
  done = true;
  if (own_identity) SSL_certs_clear(ssl);
  const bool good = !bad_client && SSL_get_verify_result(ssl) == X509_V_OK;
  if (X509* certificate = SSL_get0_peer_certificate(ssl); certificate && good) {
    peer = subject_of(certificate);
  }
  return Status();
}

Status TlsEngine::Impl::read_records(std::string* plain) {
  static thread_local char scratch[kRecordBytes];
  while (true) {
    ERR_clear_error();
    const int n = SSL_read(ssl, scratch, sizeof scratch);
    if (n > 0) {
      plain->append(scratch, static_cast<size_t>(n));
      continue;
    }
    switch (SSL_get_error(ssl, n)) {
      case SSL_ERROR_WANT_READ: return Status();
      case SSL_ERROR_ZERO_RETURN: closed_by_peer = true; return Status();
      default: return failure();
    }
  }
}

Status TlsEngine::feed(std::string_view from_socket, std::string* plain) {
  Impl& i = *impl_;
  if (i.failed) return unavailable("TLS: the connection has failed already");
  i.pipe.in = from_socket;
  Status status = i.done ? Status() : i.handshake();
  if (status.ok() && i.done) status = i.read_records(plain);
  i.pipe.in = {};
  return status;
}

Status TlsEngine::write(std::string_view plain) {
  Impl& i = *impl_;
  if (i.failed || !i.done) return internal_error("TLS: write on a connection that is not open");
  while (!plain.empty()) {
    ERR_clear_error();
    const int n = SSL_write(i.ssl, plain.data(), static_cast<int>(std::min<size_t>(plain.size(), 1u << 30)));
    if (n <= 0) return i.failure();
    plain.remove_prefix(static_cast<size_t>(n));
  }
  return Status();
}

Status TlsEngine::encrypt(std::string_view plain, std::string* out) {
  take_output(out);
  impl_->pipe.sink = out;
  Status status = write(plain);
  impl_->pipe.sink = &impl_->pipe.pending;
  return status;
}

void TlsEngine::take_output(std::string* out) {
  std::string& pending = impl_->pipe.pending;
  if (pending.empty()) return;
  out->append(pending);
  std::string().swap(pending);  // rare after the handshake: an idle connection keeps nothing
}

void TlsEngine::close_notify() {
  if (impl_->failed || !impl_->done) return;
  ERR_clear_error();
  SSL_shutdown(impl_->ssl);
  ERR_clear_error();
}

bool TlsEngine::handshake_done() const { return impl_->done; }
bool TlsEngine::peer_closed() const { return impl_->closed_by_peer; }

std::string_view TlsEngine::alpn() const {
  if (!impl_->done) return {};
  const unsigned char* data = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(impl_->ssl, &data, &size);
  return std::string_view(reinterpret_cast<const char*>(data), size);
}

std::shared_ptr<const PeerCertificate> TlsEngine::peer_certificate() const { return impl_->peer; }

}  // namespace ghostfleet::kube::http
