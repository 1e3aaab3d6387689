// Spdy: one connection of SPDY/3.1 (the draft of the Chromium project) as a protocol engine without a socket. Both
// roles: what kubectl, API servers and kubelets speak behind "Upgrade: SPDY/3.1", and inside WebSocket frames.
//
// Thread rule: one owner. Ownership: the events object outlives the engine; the engine must not be destroyed inside an
// event. Everything to be sent goes to on_output() at once, from inside feed() and the sending calls.
// Flow control: the field's implementation (moby/spdystream) neither sends nor obeys WINDOW_UPDATE, so windows are off
// unless SpdyOptions says otherwise; then what holds a peer back is the connection beneath. A WINDOW_UPDATE that comes
// in is checked and counted.
// Limits: SpdyLimits. Data is handed on as it comes, so that a frame of any size costs no memory. What breaks the
// protocol for one stream resets that stream, what breaks the connection (a frame too large, headers that do not
// inflate) sends GOAWAY, and feed() gives an error that says what was wrong.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"
#include "kube/http/message.h"

namespace ghostfleet::kube::stream {

struct SpdyLimits {
  size_t max_control_bytes = 64 * 1024;  // of a control frame, packed
  size_t max_header_bytes = 64 * 1024;   // of a header block, unpacked
  size_t max_header_count = 100;
  size_t max_streams = 1000;            // open at a time, of those the peer has made; REFUSED_STREAM beyond
  size_t data_frame_bytes = 32 * 1024;  // of what is sent
};

struct SpdyOptions {
  bool server = true;
  bool flow_control = false;  // of what is sent and taken: 64 KiB windows
  SpdyLimits limits;
};

using SpdyStreamId = uint32_t;

// RST_STREAM codes of the draft.
enum class SpdyReset : uint32_t {
  kProtocolError = 1,
  kInvalidStream = 2,
  kRefusedStream = 3,
  kUnsupportedVersion = 4,
  kCancel = 5,
  kInternalError = 6,
  kFlowControlError = 7,
  kStreamInUse = 8,
  kStreamAlreadyClosed = 9,
  kFrameTooLarge = 11,
};

class SpdyEvents {
 public:
  virtual ~SpdyEvents() = default;
  // The peer opens a stream. Answer it with reply() or reset(). `fin`: it will send nothing.
  virtual void on_stream(SpdyStreamId id, const http::HeaderList& headers, bool fin) = 0;
  virtual void on_reply(SpdyStreamId id, const http::HeaderList& headers) {
    (void)id;
    (void)headers;
  }
  virtual void on_data(SpdyStreamId id, std::string_view bytes) = 0;
  // The peer sends no more on this stream.
  virtual void on_fin(SpdyStreamId id) = 0;
  // The stream is gone.
  virtual void on_reset(SpdyStreamId id, SpdyReset code) = 0;
  virtual void on_pong(uint32_t id) { (void)id; }
  // The peer opens no more streams and closes when those open have ended.
  virtual void on_goaway(uint32_t status) { (void)status; }
  // Flow control: bytes that waited have left.
  virtual void on_window(SpdyStreamId id) { (void)id; }
  virtual void on_output(SharedBytes bytes) = 0;
};

class Spdy {
 public:
  static std::unique_ptr<Spdy> create(const SpdyOptions& options, SpdyEvents* events);
  virtual ~Spdy() = default;

  // An error is final: close the connection after the output has left.
  virtual Status feed(std::string_view bytes) = 0;

  // 0 when streams are used up, or after GOAWAY.
  virtual SpdyStreamId open_stream(const http::HeaderList& headers, bool fin) = 0;
  virtual void reply(SpdyStreamId id, const http::HeaderList& headers, bool fin) = 0;
  // False when the stream is gone or our side of it has ended.
  virtual bool write(SpdyStreamId id, std::string_view bytes, bool fin) = 0;
  virtual void finish(SpdyStreamId id) = 0;
  virtual void reset(SpdyStreamId id, SpdyReset code) = 0;
  virtual void ping(uint32_t id) = 0;  // odd from a client, even from a server
  virtual void goaway(uint32_t status) = 0;
  // Flow control: that many bytes of the stream have been used up.
  virtual void consumed(SpdyStreamId id, size_t bytes) = 0;
  // Flow control: bytes of that stream that wait for a window.
  virtual size_t backlog(SpdyStreamId id) const = 0;
  virtual size_t open_streams() const = 0;
};

}  // namespace ghostfleet::kube::stream
