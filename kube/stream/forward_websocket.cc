// Port-forward in the older WebSocket form: the query names the ports, and each has two channels, data (2n) and error
// (2n+1). Both begin with the port, two bytes in little-endian order. A connection that ends cannot be told from one
// that is silent; when all have ended the session closes.
#include "base/digest.h"
#include "kube/stream/forward_session.h"
#include "kube/stream/websocket.h"

namespace ghostfleet::kube::stream {
namespace {

constexpr uint16_t kNormalClosure = 1000;

class WebSocketForward final : public ForwardSessionBase, public WebSocketEvents {
 public:
  WebSocketForward(std::shared_ptr<http::Tunnel> tunnel, std::string protocol, const PortForwardOptions& options,
                   PortForwardHandler* handler)
      : ForwardSessionBase(std::move(tunnel), std::move(protocol), options, handler),
        base64_(protocol_.find("base64.") != std::string::npos),
        websocket_(WebSocket::Role::kServer, {}, this) {}

  void begin() override;
  bool write(uint32_t id, const SharedBytes& bytes) override {
    send(2 * id, view(bytes));
    return !closed();
  }
  void finish(uint32_t) override {}
  void end_connection(uint32_t id, std::string_view message) override {
    if (!message.empty()) send(2 * id + 1, message);
    if (connection_count() > 0) return;
    say_goodbye();
    link_.fail(Status(Code::kCancelled, "all forwarded connections have ended"));
  }

  Status on_link_data(std::string_view bytes) override { return websocket_.feed(bytes); }
  void on_message(bool text, std::string_view payload) override;
  void on_close(uint16_t, std::string_view) override {
    link_.fail(Status(Code::kCancelled, "the client has closed the session"));
  }
  void on_output(SharedBytes bytes) override { link_.send(std::move(bytes)); }

 private:
  void say_goodbye() override { websocket_.close(kNormalClosure, {}); }
  void send(uint32_t channel, std::string_view bytes) {
    link_.touch();
    if (base64_) return websocket_.send(true, static_cast<char>('0' + channel) + base64_encode(bytes));
    websocket_.send(false, std::string(1, static_cast<char>(channel)).append(bytes));
  }

  const bool base64_;
  WebSocket websocket_;
};

void WebSocketForward::begin() {
  for (uint32_t i = 0; i < options_.ports.size(); ++i) {
    const uint16_t port = options_.ports[i];
    const std::string bytes = {static_cast<char>(port & 0xff), static_cast<char>(port >> 8)};
    send(2 * i, bytes);
    send(2 * i + 1, bytes);
  }
  link_.loop().post([weak = weak_from_this()] {
    const auto self = std::static_pointer_cast<WebSocketForward>(weak.lock());
    if (!self || self->closed()) return;
    self->link_.begin();
    for (uint32_t i = 0; i < self->options_.ports.size(); ++i) self->add_connection(i, self->options_.ports[i]);
  });
}

void WebSocketForward::on_message(bool, std::string_view payload) {
  link_.touch();
  if (payload.empty() || closed()) return;
  const auto first = static_cast<unsigned char>(payload.front());
  payload.remove_prefix(1);
  const unsigned channel = base64_ ? static_cast<unsigned char>(first - '0') : first;
  std::string decoded;
  if (base64_) {
    if (!base64_decode_strict(payload, &decoded)) return;
    payload = decoded;
  }
  if (channel % 2 != 0 || payload.empty()) return;
  if (const auto connection = find(channel / 2)) connection->take(payload);
}

}  // namespace

std::shared_ptr<ForwardSessionBase> make_websocket_forward(std::shared_ptr<http::Tunnel> tunnel, std::string protocol,
                                                           const PortForwardOptions& options,
                                                           PortForwardHandler* handler) {
  return std::make_shared<WebSocketForward>(std::move(tunnel), std::move(protocol), options, handler);
}

}  // namespace ghostfleet::kube::stream
