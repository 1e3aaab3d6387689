// WebSocket: one connection of RFC 6455 after its handshake, as a protocol engine without a socket. Both roles.
//
// Thread rule: one owner. Ownership: the events object outlives the engine; the engine must not be destroyed inside an
// event. Everything to be sent goes to on_output() at once, from inside feed() and the sending calls.
// Limits: WebSocketLimits. A peer that breaks the protocol or a limit is sent a close frame with the code of RFC 6455
// 7.4.1 (1002 protocol, 1007 text that is no UTF-8, 1009 too big), and feed() gives an error that says what was wrong.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "base/status.h"
#include "kube/http/server.h"

namespace ghostfleet::kube::stream {

struct WebSocketLimits {
  size_t max_message_bytes = 1024 * 1024;  // a message with all its fragments
  size_t max_fragments = 4096;             // of one message
  size_t max_frame_bytes = 64 * 1024;      // of what is sent: longer messages leave in several frames
};

class WebSocketEvents {
 public:
  virtual ~WebSocketEvents() = default;
  virtual void on_message(bool text, std::string_view payload) = 0;
  // The peer's close frame (1005: without a code); it has been answered. No message follows.
  virtual void on_close(uint16_t code, std::string_view reason) = 0;
  virtual void on_pong(std::string_view payload) { (void)payload; }
  virtual void on_output(SharedBytes bytes) = 0;
};

class WebSocket {
 public:
  enum class Role : unsigned char { kServer, kClient };
  // `seed` feeds the masks of a client.
  WebSocket(Role role, const WebSocketLimits& limits, WebSocketEvents* events, uint64_t seed = 0);

  // An error is final: close the connection after the output has left.
  Status feed(std::string_view bytes);

  void send(bool text, std::string_view payload);
  // `prefix` and `payload` in one binary message, without a copy of long payloads in a server.
  void send_binary(std::string_view prefix, const SharedBytes& payload);
  void ping(std::string_view payload);                 // 125 bytes at most
  void close(uint16_t code, std::string_view reason);  // nothing is sent after it
  bool close_sent() const { return close_sent_; }
  bool close_received() const { return close_received_; }

 private:
  struct Frame {
    bool fin = false, masked = false;
    unsigned char opcode = 0;
    uint64_t length = 0;
    unsigned char mask[4] = {};
  };

  Status parse_header(std::string_view* bytes);
  Status check_header();
  Status take_payload(std::string_view* bytes);
  Status end_frame();
  Status end_control();
  Status end_message();
  Status fail(uint16_t code, const std::string& why);
  void put_frame(unsigned char first, std::string_view prefix, std::string_view payload);

  const Role role_;
  const WebSocketLimits limits_;
  WebSocketEvents* events_;
  Rng rng_;
  std::string header_;  // of the frame that is coming in
  Frame frame_;
  bool in_payload_ = false;
  uint64_t payload_seen_ = 0;
  std::string message_, control_;
  unsigned char message_opcode_ = 0;  // 0: no message has begun
  size_t fragments_ = 0;
  bool close_sent_ = false, close_received_ = false, failed_ = false;
};

// The server's side of the opening handshake. OK when the request is one; else what is wrong with it.
Status check_websocket_request(const http::Request& request);
// Sec-WebSocket-Accept for a Sec-WebSocket-Key.
std::string websocket_accept(std::string_view key);
// The subprotocols a request offers, in its order.
std::vector<std::string> offered_subprotocols(const http::HeaderList& headers);
// Appends the items of a list with commas.
void split_list(std::string_view text, std::vector<std::string>* out);
// Headers of a client's handshake. `key` is 16 random bytes in base64.
http::HeaderList websocket_request_headers(std::string_view key, const std::vector<std::string>& subprotocols);

}  // namespace ghostfleet::kube::stream
