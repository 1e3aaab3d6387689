// Remote commands over WebSocket: the first byte of a message names the channel.
#include "base/digest.h"
#include "kube/stream/remote_session.h"
#include "kube/stream/websocket.h"

namespace ghostfleet::kube::stream {
namespace {

enum Channel : unsigned char { kStdin = 0, kStdout = 1, kStderr = 2, kError = 3, kResize = 4, kChannels = 5 };
constexpr unsigned char kCloseSignal = 255;  // v5: the channel that follows gets no more
constexpr uint16_t kNormalClosure = 1000;

// A kubelet speaks v5 by translating from the v4 of its runtime, which shows in the texts.
RemoteExit as_translated(const RemoteExit& exit) {
  switch (exit.kind) {
    case RemoteExit::Kind::kSuccess: return exit;
    case RemoteExit::Kind::kExitCode:
      return RemoteExit::exit_code(exit.code, "command terminated with exit code " + std::to_string(exit.code));
    case RemoteExit::Kind::kInternalError: return RemoteExit::internal_error("Internal error occurred: " + exit.text);
  }
  return exit;
}

class WebSocketSession final : public RemoteSessionBase, public WebSocketEvents {
 public:
  WebSocketSession(std::shared_ptr<http::Tunnel> tunnel, std::string protocol, const RemoteCommandOptions& options,
                   RemoteCommandHandler* handler)
      : RemoteSessionBase(std::move(tunnel), std::move(protocol), options, handler),
        base64_(protocol_.find("base64.") != std::string::npos),
        closes_channels_(protocol_ == "v5.channel.k8s.io"),
        status_object_(closes_channels_ || protocol_.rfind("v4.", 0) == 0),
        websocket_(WebSocket::Role::kServer, {}, this) {}

  void begin() override {
    // An empty message on the lowest channel that is written to tells the client that all is set up.
    send(options_.out ? kStdout : options_.err ? kStderr : kError, {});
    link_.loop().post([weak = weak_from_this()] {
      const auto self = std::static_pointer_cast<WebSocketSession>(weak.lock());
      if (!self || !self->handler_) return;
      self->link_.begin();
      self->ready();
    });
  }

  bool write_stdout(SharedBytes bytes) override { return options_.out && write(kStdout, std::move(bytes)); }
  bool write_stderr(SharedBytes bytes) override { return options_.err && write(kStderr, std::move(bytes)); }

  Status on_link_data(std::string_view bytes) override { return websocket_.feed(bytes); }
  void on_message(bool text, std::string_view payload) override;
  void on_close(uint16_t, std::string_view) override {
    link_.fail(Status(Code::kCancelled, "the client has closed the session"));
  }
  void on_output(SharedBytes bytes) override { link_.send(std::move(bytes)); }

 private:
  void write_exit(const RemoteExit& exit) override {
    const std::string text =
        status_object_ ? remote_exit_status(closes_channels_ ? as_translated(exit) : exit) : plain_exit(exit);
    if (!text.empty()) send(kError, share(text));
    websocket_.close(kNormalClosure, {});
  }
  bool write(Channel channel, SharedBytes bytes) {
    if (view(bytes).empty()) return !closed();
    send(channel, bytes);
    return !closed();
  }
  void send(Channel channel, const SharedBytes& bytes) {
    link_.touch();
    if (!base64_) return websocket_.send_binary(std::string(1, static_cast<char>(channel)), bytes);
    websocket_.send(true, static_cast<char>('0' + channel) + base64_encode(view(bytes)));
  }
  void close_channel(std::string_view rest);

  const bool base64_, closes_channels_, status_object_;
  WebSocket websocket_;
};

void WebSocketSession::on_message(bool, std::string_view payload) {
  link_.touch();
  if (payload.empty() || closed()) return;
  const auto first = static_cast<unsigned char>(payload.front());
  payload.remove_prefix(1);
  if (closes_channels_ && first == kCloseSignal) return close_channel(payload);
  const int channel = base64_ ? first - '0' : first;
  std::string decoded;
  if (base64_) {
    if (!base64_decode_strict(payload, &decoded)) return;  // as a real kubelet: the message is dropped
    payload = decoded;
  }
  if (channel == kStdin) return take_stdin(payload);
  if (channel == kResize) return take_resize(payload);
}

void WebSocketSession::close_channel(std::string_view rest) {
  if (rest.size() != 1 || static_cast<unsigned char>(rest.front()) >= kChannels) {
    return link_.fail(Status(Code::kDataLoss, "a close signal that names no channel"));
  }
  if (rest.front() == kStdin) end_stdin();
}

}  // namespace

std::shared_ptr<RemoteSessionBase> make_websocket_session(std::shared_ptr<http::Tunnel> tunnel, std::string protocol,
                                                          const RemoteCommandOptions& options,
                                                          RemoteCommandHandler* handler) {
  return std::make_shared<WebSocketSession>(std::move(tunnel), std::move(protocol), options, handler);
}

}  // namespace ghostfleet::kube::stream
