#include "kube/http/client_connection.h"

#include "base/digest.h"
#include "kube/http/h1_message.h"
#include "kube/http/unix_address.h"

namespace ghostfleet::kube::http {
namespace {

constexpr size_t kMaxProxyAnswer = 16 * 1024;

}  // namespace

ClientConnection::ClientConnection(std::shared_ptr<LoopContext> context, const HttpClientOptions* options,
                                   const ClientSessionConfig* config, ClientSessionEvents* calls,
                                   ClientConnectionEvents* events)
    : context_(std::move(context)), options_(options), config_(config), calls_(calls), events_(events) {
  timer_ = context_->acquire_timer(this, 0);
}

ClientConnection::~ClientConnection() {
  close(Status(Code::kCancelled, "the client was closed"));
  context_->release_timer(timer_);
}

void ClientConnection::dial() {
  context_->arm(timer_, context_->now() + options_->connect_timeout);
  through_proxy_ = !options_->proxy.host.empty() && !is_unix_address(options_->host);
  const std::string& host = through_proxy_ ? options_->proxy.host : options_->host;
  const uint16_t port = through_proxy_ ? options_->proxy.port : options_->port;
  dialer_ = Dialer::dial(context_->loop(), host, port, [this](Result<int> fd) { dialed(std::move(fd)); });
}

void ClientConnection::dialed(Result<int> fd) {
  if (!fd.ok()) return end(through_proxy_ ? fd.error().with_context("proxy") : fd.error());
  transport_ = Transport::create(context_, *fd, this);
  std::unique_ptr<TlsEngine> tls;
  if (through_proxy_ && options_->proxy.tls) {
    // A proxy is verified as any server is, by the system's authorities.
    const auto context = TlsContext::client(TlsClientConfig{.alpn = {"http/1.1"}});
    if (!context.ok()) return end(context.error());
    tls = std::make_unique<TlsEngine>(*context, false, options_->proxy.host);
  } else if (!through_proxy_ && options_->use_tls) {
    tls = target_tls();
  }
  transport_->open(std::move(tls), {});
}

std::unique_ptr<TlsEngine> ClientConnection::target_tls() const {
  return std::make_unique<TlsEngine>(options_->tls, false, options_->host, options_->identity.get(),
                                     only_http1_ ? "http/1.1" : "");
}

std::shared_ptr<Transport> ClientConnection::release_transport() {
  state_ = State::kClosed;
  context_->disarm(timer_);
  return std::move(transport_);
}

void ClientConnection::on_open() {
  if (!through_proxy_) return begin_session();
  const std::string target = host_and_port(options_->host, options_->port);
  proxy_output_ = "CONNECT " + target + " HTTP/1.1\r\nhost: " + target + "\r\n";
  if (!options_->proxy.basic_auth.empty()) {
    proxy_output_ += "proxy-authorization: Basic " + base64_encode(options_->proxy.basic_auth) + "\r\n";
  }
  proxy_output_ += "\r\n";
  transport_->schedule_flush();
}

void ClientConnection::begin_session() {
  const TlsEngine* tls = transport_->tls();
  http2_ = !only_http1_ && (options_->use_tls ? tls->alpn() == "h2" : options_->http2_without_tls);
  session_ = http2_ ? make_h2_client_session(config_, calls_) : make_h1_client_session(config_, calls_);
  state_ = State::kOpen;
  dialer_.reset();
  last_input_ = context_->now();
  if (http2_ && options_->ping_after_idle.count() > 0)
    context_->arm(timer_, last_input_ + options_->ping_after_idle);
  else
    context_->disarm(timer_);
  events_->on_connected(this);
  transport_->set_read_coalescing(coalescing_);
  transport_->schedule_flush();
}

void ClientConnection::set_read_coalescing(Duration wait) {
  coalescing_ = wait;
  if (open()) transport_->set_read_coalescing(wait);
}

void ClientConnection::read_collected() {
  if (open()) transport_->read_collected();
}

Status ClientConnection::on_proxy_bytes(std::string_view plain) {
  proxy_input_.append(plain);
  const size_t end = proxy_input_.find("\r\n\r\n");
  if (end == std::string::npos) {
    return proxy_input_.size() > kMaxProxyAnswer ? unavailable("the proxy's answer is too long") : Status();
  }
  std::string_view head = proxy_input_;
  const std::string_view line = take_line(&head);
  const size_t space = line.find(' ');
  if (line.substr(0, 5) != "HTTP/" || space == std::string_view::npos) return unavailable("the proxy speaks no HTTP");
  if (line.substr(space + 1, 1) != "2") return unavailable("the proxy answered " + std::string(line.substr(space + 1)));
  if (proxy_input_.size() != end + 4) return unavailable("the proxy sent more than its answer");
  through_proxy_ = false;
  std::string().swap(proxy_input_);
  if (options_->use_tls) {
    transport_->start_tls(target_tls());
  } else {
    begin_session();
  }
  return Status();
}

Status ClientConnection::on_bytes(std::string_view plain) {
  if (through_proxy_) return on_proxy_bytes(plain);
  last_input_ = context_->now();
  answered_ = true;
  return session_->feed(plain);
}

void ClientConnection::on_eof() {
  if (session_) session_->on_eof();
}

void ClientConnection::fill(std::string* plain, size_t limit) {
  if (through_proxy_) {
    plain->append(proxy_output_);
    proxy_output_.clear();
  } else if (session_) {
    session_->pull(plain, limit);
  }
}

void ClientConnection::on_closed(const Status& why) { end(why); }

bool ClientConnection::submit(ClientCall* call) {
  if (!session_->submit(call)) return false;
  transport_->schedule_flush();
  return true;
}

void ClientConnection::cancel(ClientCall* call) {
  session_->cancel(call);
  transport_->schedule_flush();
}

// The clock of a connection: the connect time-out first, then PING when nothing came for a while.
void ClientConnection::on_timer(uint64_t) {
  if (state_ == State::kDialing) {
    const std::string seconds =
        std::to_string(std::chrono::duration_cast<std::chrono::seconds>(options_->connect_timeout).count());
    return end(Status(Code::kUnavailable, "connect to " + host_and_port(options_->host, options_->port) +
                                              ": no connection within " + seconds + " s"));
  }
  if (state_ == State::kOpen) check_alive();
}

void ClientConnection::check_alive() {
  const TimePoint now = context_->now();
  if (pinged_ && last_input_ < pinged_at_) return end(unavailable("the server does not answer PING"));
  pinged_ = false;
  const TimePoint due = last_input_ + options_->ping_after_idle;
  if (now < due) return context_->arm(timer_, due);
  pinged_ = session_->ping();
  pinged_at_ = now;
  transport_->schedule_flush();
  context_->arm(timer_, now + options_->ping_timeout);
}

void ClientConnection::close(const Status& why) {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  context_->disarm(timer_);
  if (dialer_) dialer_->cancel();
  if (transport_) transport_->close();
  if (session_) session_->fail_all(why);
}

void ClientConnection::close_idle() {
  if (!open()) return;
  state_ = State::kClosed;
  context_->disarm(timer_);
  session_->go_away();
  transport_->flush();
  if (!transport_->closed()) transport_->linger();
}

void ClientConnection::end(Status why) {
  if (state_ == State::kClosed) return;
  const bool was_open = state_ == State::kOpen;
  const std::string target = host_and_port(options_->host, options_->port);
  if (was_open) {
    why = why.with_context("connection to " + target);
  } else if (why.message().rfind("connect to ", 0) != 0 && why.message().rfind("look up ", 0) != 0) {
    why = why.with_context("connect to " + target);
  }
  close(why);
  events_->on_gone(this, why, was_open);
}

const TransportCounters& ClientConnection::counters() const {
  static const TransportCounters kNone;
  return transport_ ? transport_->counters() : kNone;
}

}  // namespace ghostfleet::kube::http
