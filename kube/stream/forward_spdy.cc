// Port-forward over SPDY/3.1, on the connection itself or inside WebSocket messages. A forwarded connection is two
// streams of the client with the same requestID: data and error.
#include <charconv>
#include <string>

#include "kube/stream/forward_session.h"
#include "kube/stream/spdy.h"
#include "kube/stream/websocket.h"

namespace ghostfleet::kube::stream {
namespace {

constexpr uint16_t kNormalClosure = 1000, kUnsupportedData = 1003;

class SpdyForward final : public ForwardSessionBase, public SpdyEvents {
 public:
  SpdyForward(std::shared_ptr<http::Tunnel> tunnel, bool inside_websocket, std::string protocol,
              const PortForwardOptions& options, PortForwardHandler* handler)
      : ForwardSessionBase(std::move(tunnel), std::move(protocol), options, handler),
        spdy_(Spdy::create({.server = true, .limits = {.max_streams = 2 * options.max_connections + 2}}, this)) {
    if (inside_websocket) {
      websocket_ = std::make_unique<WebSocket>(WebSocket::Role::kServer, WebSocketLimits{}, &carrier_);
    }
  }
  ~SpdyForward() override {
    for (const auto& [id, pair] : pairs_) link_.timers().cancel(pair.timer);
  }

  void begin() override { link_.begin(); }
  bool write(uint32_t id, const SharedBytes& bytes) override {
    link_.touch();
    return spdy_->write(id, view(bytes), false) && !closed();
  }
  void finish(uint32_t id) override { spdy_->finish(id); }
  void end_connection(uint32_t id, std::string_view message) override;

  Status on_link_data(std::string_view bytes) override {
    link_.touch();
    return websocket_ ? websocket_->feed(bytes) : spdy_->feed(bytes);
  }

  void on_stream(SpdyStreamId id, const http::HeaderList& headers, bool fin) override;
  void on_data(SpdyStreamId id, std::string_view bytes) override;
  void on_fin(SpdyStreamId id) override;
  void on_reset(SpdyStreamId id, SpdyReset code) override;
  void on_goaway(uint32_t) override { link_.fail(Status(Code::kCancelled, "the client has ended the session")); }
  void on_output(SharedBytes bytes) override {
    if (websocket_)
      websocket_->send_binary({}, bytes);
    else
      link_.send(std::move(bytes));
  }

 private:
  // What the WebSocket around SPDY has to say.
  struct Carrier final : WebSocketEvents {
    explicit Carrier(SpdyForward* f) : forward(f) {}
    void on_message(bool text, std::string_view payload) override { forward->take_message(text, payload); }
    void on_close(uint16_t, std::string_view) override {
      forward->link_.fail(Status(Code::kCancelled, "the client has closed the session"));
    }
    void on_output(SharedBytes bytes) override { forward->link_.send(std::move(bytes)); }
    SpdyForward* forward;
  };
  // Half a forwarded connection waits for the other.
  struct Pair {
    SpdyStreamId data = 0, error = 0;
    uint16_t port = 0;
    std::string early;  // data before the error stream was there
    bool ended = false;
    Timers::Id timer = 0;
  };

  void take_message(bool text, std::string_view payload);
  void say_goodbye() override;
  void add_to_pair(SpdyStreamId id, bool is_data, uint16_t port, const std::string& request);
  void expire(const std::string& request);
  void complete(const std::string& request);
  Pair* waiting_pair(SpdyStreamId data);

  std::unique_ptr<Spdy> spdy_;
  Carrier carrier_{this};
  std::unique_ptr<WebSocket> websocket_;                          // null: SPDY stands on the connection itself
  std::unordered_map<std::string, Pair> pairs_;                   // by requestID, until complete
  std::unordered_map<SpdyStreamId, SpdyStreamId> error_streams_;  // by data stream
};

// 0: none.
uint16_t parse_port(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() ? port : 0;
}

void SpdyForward::take_message(bool text, std::string_view payload) {
  if (text) {
    websocket_->close(kUnsupportedData, "SPDY travels in binary messages");
    return link_.fail(Status(Code::kDataLoss, "a text message where SPDY was due"));
  }
  if (closed()) return;
  if (const Status bad = spdy_->feed(payload); !bad.ok()) link_.fail(bad);
}

void SpdyForward::on_stream(SpdyStreamId id, const http::HeaderList& headers, bool fin) {
  const uint16_t port = parse_port(headers.get("port"));
  const std::string_view type = headers.get("streamtype");
  const bool is_data = type == "data";
  if (port == 0 || (!is_data && type != "error")) return spdy_->reset(id, SpdyReset::kCancel);
  std::string request(headers.get("requestid"));
  // Very old clients name no request: they make the error stream and then the data stream, one connection at a time.
  if (request.empty()) request = std::to_string(is_data ? id - 2 : id);
  if (!pairs_.contains(request) && connection_count() + pairs_.size() >= options_.max_connections) {
    return spdy_->reset(id, SpdyReset::kRefusedStream);
  }
  spdy_->reply(id, {}, false);
  add_to_pair(id, is_data, port, request);
  if (fin) on_fin(id);
}

void SpdyForward::add_to_pair(SpdyStreamId id, bool is_data, uint16_t port, const std::string& request) {
  const bool created = !pairs_.contains(request);
  Pair& pair = pairs_[request];
  SpdyStreamId& place = is_data ? pair.data : pair.error;
  if (place != 0) {
    const std::string text = "error processing stream for request " + request + ": " + (is_data ? "data" : "error") +
                             " stream already assigned";
    if (pair.error != 0) spdy_->write(pair.error, text, false);
    return spdy_->reset(id, SpdyReset::kCancel);
  }
  place = id;
  if (is_data) pair.port = port;
  if (pair.data != 0 && pair.error != 0) return complete(request);
  if (!created || options_.creation_timeout.count() == 0) return;
  pair.timer = link_.timers().run_after(options_.creation_timeout, [weak = weak_from_this(), request] {
    const auto self = std::static_pointer_cast<SpdyForward>(weak.lock());
    if (self) self->expire(request);
  });
}

void SpdyForward::complete(const std::string& request) {
  auto node = pairs_.extract(request);
  const Pair& pair = node.mapped();
  link_.timers().cancel(pair.timer);
  error_streams_[pair.data] = pair.error;
  add_connection(pair.data, pair.port);
  if (!pair.early.empty()) on_data(pair.data, pair.early);
  if (pair.ended) on_fin(pair.data);
}

void SpdyForward::expire(const std::string& request) {
  auto node = pairs_.extract(request);
  if (node.empty()) return;
  const Pair& pair = node.mapped();
  if (pair.error != 0) spdy_->write(pair.error, "(request=" + request + ") timed out waiting for streams", true);
  if (pair.data != 0) spdy_->reset(pair.data, SpdyReset::kCancel);
}

SpdyForward::Pair* SpdyForward::waiting_pair(SpdyStreamId data) {
  for (auto& [request, pair] : pairs_) {
    if (pair.data == data) return &pair;
  }
  return nullptr;
}

void SpdyForward::on_data(SpdyStreamId id, std::string_view bytes) {
  if (const auto connection = find(id)) return connection->take(bytes);
  Pair* pair = waiting_pair(id);
  if (!pair) return;
  pair->early.append(bytes);
  if (pair->early.size() > Forwarded::kMaxEarly) {
    link_.fail(Status(Code::kResourceExhausted, "too much data before a connection's streams were made"));
  }
}

void SpdyForward::on_fin(SpdyStreamId id) {
  if (const auto connection = find(id)) return connection->take_end();
  if (Pair* pair = waiting_pair(id)) pair->ended = true;
}

void SpdyForward::on_reset(SpdyStreamId id, SpdyReset) {
  const auto connection = find(id);
  if (!connection) return;
  forget(id);
  spdy_->finish(error_streams_[id]);
  error_streams_.erase(id);
  connection->end(Status(Code::kCancelled, "the client has reset the connection"));
}

void SpdyForward::end_connection(uint32_t id, std::string_view message) {
  const auto at = error_streams_.find(id);
  if (at == error_streams_.end()) return;
  const SpdyStreamId error = at->second;
  error_streams_.erase(at);
  if (!message.empty()) spdy_->write(error, message, false);
  spdy_->finish(error);
  // After a failure the data stream is of no use to the client any more; else its last bytes are.
  if (message.empty())
    spdy_->finish(id);
  else
    spdy_->reset(id, SpdyReset::kCancel);
}

void SpdyForward::say_goodbye() {
  spdy_->goaway(0);
  if (websocket_) websocket_->close(kNormalClosure, {});
}

}  // namespace

std::shared_ptr<ForwardSessionBase> make_spdy_forward(std::shared_ptr<http::Tunnel> tunnel, bool inside_websocket,
                                                      std::string protocol, const PortForwardOptions& options,
                                                      PortForwardHandler* handler) {
  return std::make_shared<SpdyForward>(std::move(tunnel), inside_websocket, std::move(protocol), options, handler);
}

}  // namespace ghostfleet::kube::stream
