// ClientConnection: one connection of an HttpClient, from the dial to its end: TCP, perhaps a proxy's CONNECT, TLS,
// then the protocol engine. It watches over the connect time-out and asks by PING whether a silent server still lives.
//
// Thread rule: one loop. Ownership: the pool owns it and is told of its end from the loop, never from inside a call.
#pragma once

#include <memory>
#include <string>

#include "kube/http/client_session.h"
#include "kube/http/dialer.h"
#include "kube/http/loop_context.h"
#include "kube/http/transport.h"

namespace ghostfleet::kube::http {

// What the pool is told. Events of calls come through `calls`.
class ClientConnectionEvents {
 public:
  virtual ~ClientConnectionEvents() = default;
  virtual void on_connected(ClientConnection* connection) = 0;
  // `why` says what went wrong; was_open tells a lost connection from one that never was. The calls are failed already.
  virtual void on_gone(ClientConnection* connection, const Status& why, bool was_open) = 0;
};

class ClientConnection : public TransportEvents, public TimerTarget {
 public:
  ClientConnection(std::shared_ptr<LoopContext> context, const HttpClientOptions* options,
                   const ClientSessionConfig* config, ClientSessionEvents* calls, ClientConnectionEvents* events);
  ~ClientConnection() override;

  // Before dial(): HTTP/1.1 whatever the context offers.
  void only_http1() { only_http1_ = true; }
  void dial();
  // No further event to the pool; its calls are failed with `why`.
  void close(const Status& why);
  // Goodbye to the server first; only without calls.
  void close_idle();
  // After an upgrade: nothing more is read until somebody else has taken the transport.
  void stop_reading() { transport_->set_reading(false); }
  std::shared_ptr<Transport> release_transport();

  bool open() const { return state_ == State::kOpen; }
  bool dialing() const { return state_ == State::kDialing; }
  // The server has said something on the open connection.
  bool answered() const { return answered_; }
  bool draining() const { return session_ && session_->draining(); }
  bool http2() const { return http2_; }
  size_t room() const { return open() ? session_->room() : 0; }
  size_t capacity() const { return session_ ? session_->capacity() : 0; }
  bool submit(ClientCall* call);
  void cancel(ClientCall* call);
  void flush() { transport_->schedule_flush(); }
  void set_reading(bool on) {
    if (open()) transport_->set_reading(on);
  }
  void set_read_coalescing(Duration wait);
  void read_collected();
  const TransportCounters& counters() const;

  size_t calls = 0;  // kept by the pool
  int pool = 0;

  void on_open() override;
  Status on_bytes(std::string_view plain) override;
  void on_eof() override;
  void fill(std::string* plain, size_t limit) override;
  bool on_flushed() override { return false; }
  bool awaits_input() const override { return calls > 0; }
  void on_closed(const Status& why) override;
  void on_timer(uint64_t) override;

 private:
  enum class State : unsigned char { kDialing, kOpen, kClosed };

  void dialed(Result<int> fd);
  void begin_session();
  std::unique_ptr<TlsEngine> target_tls() const;
  Status on_proxy_bytes(std::string_view plain);
  void end(Status why);
  void check_alive();

  std::shared_ptr<LoopContext> context_;
  const HttpClientOptions* options_;
  const ClientSessionConfig* config_;
  ClientSessionEvents* calls_;
  ClientConnectionEvents* events_;
  std::shared_ptr<Dialer> dialer_;
  std::shared_ptr<Transport> transport_;
  std::unique_ptr<ClientSession> session_;
  State state_ = State::kDialing;
  bool http2_ = false, only_http1_ = false;
  bool through_proxy_ = false;  // CONNECT is not answered yet
  std::string proxy_output_, proxy_input_;
  LoopContext::TimerId timer_;
  TimePoint last_input_, pinged_at_;
  bool pinged_ = false, answered_ = false;
  Duration coalescing_{0};
};

}  // namespace ghostfleet::kube::http
