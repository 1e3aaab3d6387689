// Exec and attach, the server's side, over whatever the client speaks: WebSocket (v5.channel.k8s.io, v4, the older
// channel protocols, base64) or SPDY/3.1 (v4.channel.k8s.io and older). One session interface for all of them.
//
// Thread rule: the loop of the exchange. No event comes from inside a call. Ownership: the session is shared; letting
// go of it closes the connection. A handler must live until on_close(), or until the session has been let go of.
// Limits: RemoteCommandOptions; docs/limits.md.
// Formats: those of the kubelet's streaming server; the streams of SPDY are named by the header streamType, the
// channels of WebSocket are the first byte of each message.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/event_loop.h"
#include "base/status.h"
#include "kube/http/server.h"
#include "kube/stream/timers.h"

namespace ghostfleet::kube::stream {

// Which streams the client wants, and what a session may cost.
struct RemoteCommandOptions {
  bool in = false, out = false, err = false, tty = false;
  bool websocket_v5 = true;                              // kubelets before 1.36 offer v4 at most
  Duration idle_timeout = std::chrono::hours(4);         // nothing sent or received: closed; 0: none
  Duration creation_timeout = std::chrono::seconds(30);  // SPDY: until the client has made its streams
  size_t max_backlog_bytes = 4 * 1024 * 1024;            // written and not taken by the client: the session is cut
  std::shared_ptr<Timers> timers;                        // null: the loop's
};

// How a command ended.
struct RemoteExit {
  enum class Kind : unsigned char { kSuccess, kExitCode, kInternalError };
  Kind kind = Kind::kSuccess;
  int code = 0;
  // Exit code: what follows "command terminated with non-zero exit code: ". Error: the whole text, such as "error
  // executing command in container: ...".
  std::string text;

  static RemoteExit success() { return {}; }
  static RemoteExit exit_code(int code, std::string text);
  static RemoteExit internal_error(std::string text);
};

// The v1.Status object that v4 and v5 send at the end.
std::string remote_exit_status(const RemoteExit& exit);

class RemoteSession;

class RemoteCommandHandler {
 public:
  virtual ~RemoteCommandHandler() = default;
  // All streams are there: the command begins.
  virtual void on_ready(RemoteSession& session) = 0;
  // The view is valid during the call only.
  virtual void on_stdin(std::string_view bytes) = 0;
  virtual void on_stdin_end() {}
  virtual void on_resize(uint16_t width, uint16_t height) {
    (void)width;
    (void)height;
  }
  // The end, once, unless finish() was called before: the client went away, broke the protocol, was idle too long, did
  // not make its streams in time, or does not read.
  virtual void on_close(const Status& why) = 0;
};

class RemoteSession {
 public:
  virtual ~RemoteSession() = default;
  // "v5.channel.k8s.io", "" for a WebSocket client that names none.
  virtual const std::string& protocol() const = 0;
  // False when the client is gone, or did not ask for this stream.
  virtual bool write_stdout(SharedBytes bytes) = 0;
  virtual bool write_stderr(SharedBytes bytes) = 0;
  // The last word: status, goodbye, and the connection closes when all has left. No event follows.
  virtual void finish(const RemoteExit& exit) = 0;
  // Bytes written and not yet taken by the client.
  virtual size_t backlog() const = 0;
  // Called once, when less than `low_water` bytes wait, or the client is gone.
  virtual void when_drained(size_t low_water, std::function<void()> callback) = 0;
  // Takes no more stdin: the client has to wait.
  virtual void pause_stdin() = 0;
  virtual void resume_stdin() = 0;
  virtual bool closed() const = 0;
  virtual EventLoop& loop() = 0;
};

// Answers an upgrade request. Null: it was refused, and the refusal is sent: 400 for what is no upgrade or a malformed
// one, 403 with X-Accepted-Stream-Protocol-Versions when no protocol is common. Errors of the target (404 for a pod)
// are the caller's, before this.
std::shared_ptr<RemoteSession> accept_remote_command(const std::shared_ptr<http::Exchange>& exchange,
                                                     const RemoteCommandOptions& options,
                                                     RemoteCommandHandler* handler);

// The streams a kubelet's query asks for (input=1, output=1, error=1, tty=1). InvalidArgument "you must specify at
// least 1 of stdin, stdout, stderr"; with a terminal there is no stderr.
Status parse_kubelet_streams(std::string_view query, RemoteCommandOptions* out);

}  // namespace ghostfleet::kube::stream
