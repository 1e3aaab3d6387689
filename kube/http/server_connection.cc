#include "kube/http/server_connection.h"

#include "base/log.h"
#include "kube/http/h1_message.h"
#include "kube/http/h2_core.h"
#include "kube/http/socket_tunnel.h"

namespace ghostfleet::kube::http {

std::shared_ptr<Tunnel> Exchange::upgrade(int, HeaderList) { return nullptr; }

void Exchange::finish_with(HeaderList) { finish(); }

std::string requested_upgrade(const Request& request) {
  if (!has_token(request.headers, "connection", "upgrade")) return {};
  std::string out(request.headers.get("upgrade"));
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return out;
}

// An exchange of a stream. The stream may end before it (the peer went away) and after it (the handler dropped it).
class StreamExchange final : public Exchange, public std::enable_shared_from_this<StreamExchange> {
 public:
  StreamExchange(std::shared_ptr<ServerConnection> connection, ServerStream* stream, Request&& request)
      : connection_(connection), loop_(connection->loop()), stream_(stream), request_(std::move(request)) {}
  ~StreamExchange() override {
    // A handler that forgot to answer: the peer must not wait for ever.
    if (stream_) stream_->owner = nullptr;
    if (stream_ && !stream_->finished) abort_stream();
  }

  const Request& request() const override { return request_; }
  EventLoop& loop() override { return loop_; }

  void respond(int status, HeaderList headers, SharedBytes body) override {
    if (!open() || stream_->started) return;
    session()->respond(stream_, status, std::move(headers), std::move(body));
    output_ready();
  }
  void start(int status, HeaderList headers) override {
    if (!open() || stream_->started) return;
    session()->start(stream_, status, std::move(headers));
    output_ready();
  }
  bool write(SharedBytes piece) override {
    if (!open() || !stream_->started) return false;
    session()->write(stream_, std::move(piece));
    if (stream_ && stream_->backlog > max_backlog()) {
      if (const auto connection = connection_.lock()) connection->stream_cut();
      abort();
      return false;
    }
    output_ready();
    return true;
  }
  void finish() override {
    if (!open() || !stream_->started) return;
    session()->finish(stream_);
    output_ready();
  }
  void finish_with(HeaderList trailers) override {
    if (!open() || !stream_->started) return;
    session()->finish_with(stream_, std::move(trailers));
    output_ready();
  }
  void abort() override {
    if (open()) abort_stream();
  }

  void read_body(BodyReader* reader) override { reader_ = reader; }
  void consume(size_t bytes, size_t kept) override {
    if (!stream_) return;
    session()->consume(stream_, bytes, kept);
    output_ready();
  }

  size_t backlog() const override { return stream_ ? stream_->backlog : 0; }
  void when_drained(size_t low_water, std::function<void()> callback) override;
  void on_close(std::function<void()> callback) override {
    if (!stream_) return loop_.post(std::move(callback));
    on_close_ = std::move(callback);
  }
  bool closed() const override { return stream_ == nullptr; }
  std::shared_ptr<Tunnel> upgrade(int status, HeaderList headers) override {
    const auto connection = connection_.lock();
    if (!open() || stream_->started || !connection) return nullptr;
    ServerStream* stream = stream_;
    auto tunnel = connection->upgrade(stream, status, std::move(headers));
    if (!tunnel) return nullptr;
    stream->owner = nullptr;
    stream_ = nullptr;
    on_close_ = on_drained_ = nullptr;
    return tunnel;
  }

  void stream_closed(bool clean);
  void body(std::string_view piece) {
    if (reader_)
      reader_->on_data(piece);
    else
      consume(piece.size(), 0);
  }
  void body_end() {
    if (BodyReader* reader = std::exchange(reader_, nullptr)) reader->on_end();
  }
  // True when nothing waits for the backlog any longer.
  bool check_backlog();

 private:
  bool open() const { return stream_ != nullptr && !stream_->finished; }
  ServerSession* session() { return connection_.lock()->session(); }
  size_t max_backlog() const { return connection_.lock()->limits().max_backlog_bytes; }
  void output_ready() {
    if (const auto connection = connection_.lock()) connection->output_ready();
  }
  void abort_stream() {
    const auto connection = connection_.lock();
    if (!connection || !connection->session()) return;
    connection->session()->abort(stream_);
    connection->output_ready();
  }

  std::weak_ptr<ServerConnection> connection_;
  EventLoop& loop_;
  ServerStream* stream_;  // null when closed; while it is not, connection and session live
  Request request_;
  BodyReader* reader_ = nullptr;
  std::function<void()> on_close_, on_drained_;
  size_t low_water_ = 0;
};

void StreamExchange::when_drained(size_t low_water, std::function<void()> callback) {
  if (backlog() < low_water || !stream_) return loop_.post(std::move(callback));
  on_drained_ = std::move(callback);
  low_water_ = low_water;
  if (const auto connection = connection_.lock()) connection->watch_backlog(weak_from_this());
}

bool StreamExchange::check_backlog() {
  if (!on_drained_) return true;
  if (backlog() >= low_water_) return false;
  const auto callback = std::exchange(on_drained_, nullptr);
  callback();
  return !on_drained_;
}

void StreamExchange::stream_closed(bool clean) {
  stream_ = nullptr;
  reader_ = nullptr;
  // The callbacks may hold the last reference to this exchange: they run, and die, from the loop.
  std::function<void()> on_close = std::exchange(on_close_, nullptr);
  std::function<void()> on_drained = std::exchange(on_drained_, nullptr);
  if (!on_close && !on_drained) return;
  loop_.post([clean, on_close = std::move(on_close), on_drained = std::move(on_drained)] {
    if (!clean && on_close) on_close();
  });
}

ServerConnection::ServerConnection(std::shared_ptr<ServerShare> share, int fd) : share_(std::move(share)) {
  transport_ = Transport::create(share_->context, fd, this);
  opened_at_ = share_->context->now();
  remote_address_ = transport_->remote_address();
  local_address_ = transport_->local_address(&local_port_);
}

ServerConnection::~ServerConnection() {
  if (!gone_ && transport_) transport_->close();  // else it may linger, and goes by itself
  if (session_) session_->close_all();
}

void ServerConnection::open() {
  std::shared_ptr<const TlsContext> context;
  if (share_->choose_tls) context = share_->choose_tls(local_address_, local_port_);
  if (!context) context = share_->tls;
  std::unique_ptr<TlsEngine> tls;
  if (context) tls = std::make_unique<TlsEngine>(std::move(context), true, "");
  transport_->open(std::move(tls), {});
}

void ServerConnection::on_open() {
  tls_open_ = true;
  const TlsEngine* tls = transport_->tls();
  if (!tls) return;  // the first bytes tell the protocol
  peer_ = tls->peer_certificate();
  begin(tls->alpn() == "h2");
}

void ServerConnection::begin(bool http2) {
  const TimePoint now = share_->context->now();
  session_ = http2 ? make_h2_server_session(share_->limits, this, now, share_->stream_bodies)
                   : make_h1_server_session(share_->limits, this, now);
  if (draining_) session_->go_away();
}

// Without TLS a client may begin with HTTP/2's preface.
Status ServerConnection::sniff(std::string_view plain) {
  early_.append(plain);
  const bool could_be_h2 = kH2Preface.substr(0, early_.size()) == std::string_view(early_).substr(0, kH2Preface.size());
  if (could_be_h2 && early_.size() < kH2Preface.size()) return Status();
  begin(could_be_h2);
  const std::string early = std::move(early_);
  return feed(early);
}

Status ServerConnection::on_bytes(std::string_view plain) {
  if (!session_) return sniff(plain);
  const auto self = shared_from_this();  // a handler may end it
  const Status status = feed(plain);
  if (transport_ && !session_->wants_read()) transport_->set_reading(false);
  return status;
}

Status ServerConnection::feed(std::string_view plain) {
  const Status status = session_->feed(plain, share_->context->now());
  if (transport_) return status;
  if (const auto tunnel = tunnel_.lock()) tunnel->add_early(session_->take_rest());
  return Status();
}

void ServerConnection::fill(std::string* plain, size_t limit) {
  if (!session_) return;
  session_->pull(plain, limit);
  while (transport_ && session_->has_pending_input() && plain->size() < limit) {
    (void)feed({});
    if (transport_) session_->pull(plain, limit);
  }
  if (transport_ && session_->wants_read()) transport_->set_reading(true);
}

std::shared_ptr<Tunnel> ServerConnection::upgrade(ServerStream* stream, int status, HeaderList&& headers) {
  if (!transport_ || !session_->upgrade(stream, status, std::move(headers))) return nullptr;
  std::string head;
  session_->pull(&head, SIZE_MAX);
  const auto tunnel = std::make_shared<SocketTunnel>(share_->context, std::move(transport_),
                                                     share_->limits.max_backlog_bytes, [weak = weak_from_this()] {
                                                       if (const auto self = weak.lock()) self->end();
                                                     });
  transport_ = nullptr;
  tunnel_ = tunnel;
  tunnel->begin(std::move(head));
  tunnel->add_early(session_->take_rest());
  return tunnel->handle();
}

bool ServerConnection::on_flushed() {
  for (size_t i = 0; i < draining_streams_.size();) {
    const auto exchange = draining_streams_[i].lock();
    if (exchange && !exchange->check_backlog()) {
      ++i;
      continue;
    }
    draining_streams_[i] = draining_streams_.back();
    draining_streams_.pop_back();
  }
  if (!session_) return false;
  if (session_->broken()) {
    cut();
    return false;
  }
  if (!session_->finished()) return false;
  session_->close_all();
  end();
  return true;
}

// The listener forgets the connection once the loop comes round.
void ServerConnection::end() {
  if (std::exchange(gone_, true)) return;
  share_->context->loop().post([share = share_, self = shared_from_this()] { share->on_gone(self.get()); });
}

void ServerConnection::on_closed(const Status& why) {
  if (!tls_open_) {
    share_->metrics.tls_failures->add();
    if (log_enabled(LogLevel::kDebug)) log_debug("http", remote_address_ + ": " + why.message());
  }
  if (session_) session_->close_all();
  end();
}

void ServerConnection::on_request(ServerStream* stream, Request&& request) {
  request.peer_certificate = peer_;
  request.remote_address = remote_address_;
  request.local_address = local_address_;
  request.local_port = local_port_;
  request.tls = transport_->tls() != nullptr;
  share_->metrics.requests->add();
  auto exchange = std::make_shared<StreamExchange>(shared_from_this(), stream, std::move(request));
  stream->owner = exchange.get();
  if (!share_->stream_bodies) return share_->handler(std::move(exchange));
  share_->handler(exchange);
  if (exchange->request().http2) return;
  exchange->body(exchange->request().body);
  exchange->body_end();
}

void ServerConnection::on_body(ServerStream* stream, std::string_view piece) {
  if (auto* exchange = static_cast<StreamExchange*>(stream->owner)) return exchange->body(piece);
  session_->consume(stream, piece.size(), 0);
}

void ServerConnection::on_body_end(ServerStream* stream) {
  if (auto* exchange = static_cast<StreamExchange*>(stream->owner)) exchange->body_end();
}

void ServerConnection::on_closed(ServerStream* stream, bool clean) {
  if (auto* exchange = static_cast<StreamExchange*>(stream->owner)) exchange->stream_closed(clean);
}

void ServerConnection::drain() {
  draining_ = true;
  if (!transport_) return;  // a tunnel ends by itself, or is cut
  if (session_)
    session_->go_away();
  else if (!tls_open_)
    return cut();
  transport_->schedule_flush();
}

void ServerConnection::cut() {
  if (const auto tunnel = tunnel_.lock()) tunnel->cut(Status(Code::kCancelled, "the server is closing"));
  if (transport_) transport_->close();
  if (session_) session_->close_all();
  end();
}

void ServerConnection::sweep(TimePoint now) {
  if (gone_ || !transport_) return;
  if (!session_) {
    if (now - opened_at_ > std::chrono::milliseconds(share_->limits.header_timeout_ms)) cut();
    return;
  }
  if (!session_->sweep(now).ok()) return cut();
  transport_->schedule_flush();
}

}  // namespace ghostfleet::kube::http
