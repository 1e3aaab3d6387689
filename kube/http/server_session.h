// ServerSession: the server's side of one HTTP connection as a protocol engine without a socket: bytes in, requests
// out, answers in, bytes out. H1ServerSession and H2ServerSession implement it; a fuzz target feeds it three lines of
// code.
//
// Thread rule: one owner. Ownership: the session owns its streams; a ServerStream pointer is valid until on_closed()
// for it has returned. Events are called from inside feed(), sweep() and close_all(); the answering calls may be made
// from inside an event, but feed() and pull() may not.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "kube/http/message.h"

namespace ghostfleet::kube::http {

// One request and its answer in the making; engines derive their own.
struct ServerStream {
  void* owner = nullptr;  // the exchange; belongs to whoever takes the events
  size_t backlog = 0;     // bytes of the answer not yet pulled
  bool started = false;   // the answer's head is written
  bool finished = false;  // the answer is complete (or given up): no further write
};

class ServerSessionEvents {
 public:
  virtual ~ServerSessionEvents() = default;
  virtual void on_request(ServerStream* stream, Request&& request) = 0;
  // Of sessions that stream bodies, after on_request().
  virtual void on_body(ServerStream* stream, std::string_view piece) { (void)stream, (void)piece; }
  virtual void on_body_end(ServerStream* stream) { (void)stream; }
  // The stream ends: `clean` when the whole answer was handed out. The pointer is dead afterwards.
  virtual void on_closed(ServerStream* stream, bool clean) = 0;
};

class ServerSession {
 public:
  virtual ~ServerSession() = default;

  // An error ends the connection, after what pull() still gives has been sent.
  virtual Status feed(std::string_view bytes, TimePoint now) = 0;
  // Appends output until `out` holds about `limit` bytes.
  virtual void pull(std::string* out, size_t limit) = 0;
  // Whether more input is welcome now.
  virtual bool wants_read() const { return true; }
  // Input waits inside (pipelined requests): feed() is to be called again, if need be with nothing.
  virtual bool has_pending_input() const { return false; }
  // Nothing more will be read or written: once the output is flushed the connection is closed.
  virtual bool finished() const = 0;
  // The answer was cut: the connection must be closed without a clean end (HTTP/1.1 only).
  virtual bool broken() const { return false; }

  virtual void respond(ServerStream* stream, int status, HeaderList&& headers, SharedBytes body) = 0;
  virtual void start(ServerStream* stream, int status, HeaderList&& headers) = 0;
  virtual void write(ServerStream* stream, SharedBytes piece) = 0;
  virtual void finish(ServerStream* stream) = 0;
  virtual void finish_with(ServerStream* stream, HeaderList&& trailers) {
    (void)trailers;
    finish(stream);
  }
  // The body's taker has room for so many bytes more, and keeps so many (Exchange::consume).
  virtual void consume(ServerStream* stream, size_t bytes, size_t kept) { (void)stream, (void)bytes, (void)kept; }
  virtual void abort(ServerStream* stream) = 0;
  // Answers and ends HTTP here: what pull() still gives is the last of it, and the stream is gone without on_closed().
  // False when that cannot be.
  virtual bool upgrade(ServerStream* stream, int status, HeaderList&& headers) {
    (void)stream, (void)status, (void)headers;
    return false;
  }
  // After upgrade(): input that came behind the request.
  virtual std::string take_rest() { return {}; }

  // No new requests; ends when the open ones are answered.
  virtual void go_away() = 0;
  // Looks for peers that owe something for too long. An error ends the connection.
  virtual Status sweep(TimePoint now) = 0;
  // Calls on_closed() for every stream, before the session is destroyed.
  virtual void close_all() = 0;
  virtual size_t open_streams() const = 0;
};

std::unique_ptr<ServerSession> make_h1_server_session(const Limits& limits, ServerSessionEvents* events, TimePoint now);
// `stream_bodies`: on_request() comes with the headers, then on_body() and on_body_end().
std::unique_ptr<ServerSession> make_h2_server_session(const Limits& limits, ServerSessionEvents* events, TimePoint now,
                                                      bool stream_bodies = false);

// "Mon, 05 Jan 2026 10:00:00 GMT"; made once a second per thread.
std::string_view http_date();
// The words of RFC 9110 for a code; "Unknown" for others.
std::string_view reason_phrase(int status);
// Whether an answer of that code never has a body.
inline bool bodiless(int status) { return status == 204 || status == 304 || (status >= 100 && status < 200); }

}  // namespace ghostfleet::kube::http
