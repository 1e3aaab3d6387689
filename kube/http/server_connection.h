// ServerConnection: one accepted connection: transport, protocol engine and the exchanges of its streams.
//
// Thread rule: one loop. Ownership: the listener's per-loop set owns it; exchanges hold it weakly. After an upgrade it
// only stands for the tunnel, so that the server counts and ends it.
#pragma once

#include <functional>
#include <memory>

#include "kube/http/loop_context.h"
#include "kube/http/server.h"
#include "kube/http/server_session.h"
#include "kube/http/transport.h"

namespace ghostfleet::kube::http {

class ServerConnection;

// Counters of one loop's share of a server; they live in the server's registry.
struct ServerMetrics {
  Counter* connections = nullptr;
  Counter* refused_connections = nullptr;
  Counter* requests = nullptr;
  Counter* tls_failures = nullptr;
  Counter* cut_streams = nullptr;
};

// What a connection needs from the server.
struct ServerShare {
  std::shared_ptr<LoopContext> context;
  std::shared_ptr<const TlsContext> tls;
  std::function<std::shared_ptr<const TlsContext>(const std::string&, uint16_t)> choose_tls;
  Limits limits;
  bool stream_bodies = false;
  Handler handler;
  ServerMetrics metrics;
  std::function<void(ServerConnection*)> on_gone;  // posted, never from inside a call
};

class ServerConnection : public TransportEvents,
                         public ServerSessionEvents,
                         public std::enable_shared_from_this<ServerConnection> {
 public:
  ServerConnection(std::shared_ptr<ServerShare> share, int fd);
  ~ServerConnection() override;

  void open();
  // GOAWAY; closes when its streams are done.
  void drain();
  void cut();
  // Looks at time-outs; called about once a second.
  void sweep(TimePoint now);

  // for exchanges
  ServerSession* session() { return session_.get(); }
  EventLoop& loop() { return share_->context->loop(); }
  const Limits& limits() const { return share_->limits; }
  void output_ready() {
    if (transport_) transport_->schedule_flush();
  }
  void stream_cut() { share_->metrics.cut_streams->add(); }
  // Gives the transport away. Null when the session cannot.
  std::shared_ptr<Tunnel> upgrade(ServerStream* stream, int status, HeaderList&& headers);
  void watch_backlog(std::weak_ptr<class StreamExchange> exchange) { draining_streams_.push_back(std::move(exchange)); }

  void on_open() override;
  Status on_bytes(std::string_view plain) override;
  void fill(std::string* plain, size_t limit) override;
  bool on_flushed() override;
  void on_closed(const Status& why) override;
  void on_request(ServerStream* stream, Request&& request) override;
  void on_body(ServerStream* stream, std::string_view piece) override;
  void on_body_end(ServerStream* stream) override;
  void on_closed(ServerStream* stream, bool clean) override;

 private:
  Status sniff(std::string_view plain);
  void begin(bool http2);
  Status feed(std::string_view plain);
  void end();

  std::shared_ptr<ServerShare> share_;
  std::shared_ptr<Transport> transport_;  // null after upgrade()
  std::weak_ptr<class SocketTunnel> tunnel_;
  std::unique_ptr<ServerSession> session_;
  std::string remote_address_, local_address_, early_;
  uint16_t local_port_ = 0;
  std::shared_ptr<const PeerCertificate> peer_;
  TimePoint opened_at_;
  bool tls_open_ = false, draining_ = false, gone_ = false;
  std::vector<std::weak_ptr<StreamExchange>> draining_streams_;
};

}  // namespace ghostfleet::kube::http
