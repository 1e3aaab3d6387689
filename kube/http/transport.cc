#include "kube/http/transport.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <cstring>

#include "kube/http/dialer.h"

namespace ghostfleet::kube::http {
namespace {

namespace asio = boost::asio;
using Descriptor = asio::posix::stream_descriptor;

constexpr int kReadsPerWake = 4;    // then other connections get their turn
constexpr int kWritesPerFlush = 8;  // the same for output
constexpr Duration kLinger = std::chrono::seconds(1);
enum TimerCookie : uint64_t { kLingerTimer, kPollTimer };

class SocketTransport final : public Transport,
                              public TimerTarget,
                              public std::enable_shared_from_this<SocketTransport> {
 public:
  SocketTransport(std::shared_ptr<LoopContext> context, int fd, TransportEvents* events)
      : context_(std::move(context)),
        descriptor_(*static_cast<asio::io_context*>(context_->loop().native()), fd),
        fd_(fd),
        events_(events) {
    boost::system::error_code ignored;
    descriptor_.non_blocking(true, ignored);
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  ~SocketTransport() override { stop_timers(); }

  void open(std::unique_ptr<TlsEngine> tls, std::string_view early_bytes) override;
  void start_tls(std::unique_ptr<TlsEngine> tls) override {
    outer_ = std::move(tls_);
    tls_ = std::move(tls);
    opened_ = false;
    schedule_flush();
  }
  void schedule_flush() override;
  void set_reading(bool on) override;
  void set_read_coalescing(Duration wait) override;
  void read_collected() override {
    if (collecting_) read_some(true);
  }
  void close() override;
  void linger() override;
  void detach() override { events_ = nullptr; }
  void set_events(TransportEvents* events) override { events_ = events; }
  void end_output() override;
  void flush() override;
  void on_timer(uint64_t cookie) override { cookie == kPollTimer ? poll() : close(); }

  const TlsEngine* tls() const override { return tls_.get(); }
  bool closed() const override { return !descriptor_.is_open(); }
  const TransportCounters& counters() const override { return counters_; }
  std::string remote_address() const override;
  std::string local_address(uint16_t* port) const override;
  size_t unsent() const override { return unsent_.size() - unsent_offset_; }

 private:
  void wait_readable();
  void on_readable();
  bool read_once();
  bool take_input(std::string_view bytes);
  bool take_records(std::string_view bytes);
  void deliver(std::string_view plain);
  void end_input();
  void fail(const Status& why);
  bool fill_output();
  bool wrap_output();
  bool send_output();
  void wait_writable();
  void stop_timers();
  void read_some(bool patient);
  void poll();
  void collect(Duration wait);
  void set_low_water(int bytes);

  std::shared_ptr<LoopContext> context_;
  Descriptor descriptor_;
  int fd_;
  TransportEvents* events_;
  std::unique_ptr<TlsEngine> tls_, outer_;  // outer_: to a proxy, with tls_ inside
  TransportCounters counters_;
  std::string unsent_;  // what the kernel did not take
  size_t unsent_offset_ = 0;
  bool opened_ = false, reading_ = true, waiting_read_ = false, waiting_write_ = false, flush_scheduled_ = false;
  bool lingering_ = false, has_timer_ = false;
  bool eof_waits_ = false;    // the peer ended while nobody was reading
  bool input_ended_ = false;  // and it was told, or is being told
  bool output_ended_ = false;
  Status closing_;  // not OK: close with it when the output is flushed
  LoopContext::TimerId timer_ = 0, poll_timer_ = 0;
  // Coalescing. While collecting, the kernel reports input only from kMuchInput bytes on, and the poll timer is armed.
  Duration coalescing_{0};
  bool collecting_ = false, has_poll_timer_ = false;
};

void SocketTransport::open(std::unique_ptr<TlsEngine> tls, std::string_view early_bytes) {
  tls_ = std::move(tls);
  // Events never come from inside a call.
  context_->loop().post([self = shared_from_this(), early = std::string(early_bytes)] {
    if (self->closed() || !self->events_) return;
    if (!self->tls_) {
      self->opened_ = true;
      self->events_->on_open();
    }
    self->schedule_flush();
    if (!early.empty() && !self->take_input(early)) return;
    self->wait_readable();
  });
}

void SocketTransport::wait_readable() {
  if (waiting_read_ || closed() || (!reading_ && !lingering_) || (input_ended_ && !lingering_)) return;
  waiting_read_ = true;
  descriptor_.async_wait(Descriptor::wait_read, [self = shared_from_this()](const boost::system::error_code& error) {
    self->waiting_read_ = false;
    if (!error) self->on_readable();
  });
}

void SocketTransport::on_readable() {
  read_some(false);
  wait_readable();
}

// `patient`: somebody will look again, so that finding nothing does not mean that the next arrival must wake the loop.
void SocketTransport::read_some(bool patient) {
  const auto self = shared_from_this();  // the owner may let go of it
  const uint64_t before = counters_.bytes_in;
  for (int i = 0; i < kReadsPerWake; ++i) {
    if (closed() || (!reading_ && !lingering_) || !read_once()) break;
  }
  if (coalescing_.count() == 0 || closed() || lingering_) return;
  const uint64_t found = counters_.bytes_in - before;
  const bool stay = patient || (found > 0 && events_ && events_->awaits_input());
  if (!stay) return set_low_water(1);
  if (patient && has_poll_timer_) context_->disarm(poll_timer_);  // planned anew below
  // More of a large answer is probably close behind.
  collect(found >= kMuchInput ? LoopContext::kTick : coalescing_);
}

void SocketTransport::poll() {
  if (collecting_ && !closed()) read_some(false);
}

// Reads next in `wait`, unless a read is planned already, or when much has arrived.
void SocketTransport::collect(Duration wait) {
  if (coalescing_.count() == 0 || !opened_ || lingering_ || closed()) return;
  set_low_water(kMuchInput);
  if (!collecting_ || (has_poll_timer_ && context_->armed(poll_timer_))) return;
  if (!has_poll_timer_) poll_timer_ = context_->acquire_timer(this, kPollTimer);
  has_poll_timer_ = true;
  context_->arm(poll_timer_, context_->now() + wait);
}

// How much input wakes the loop. Input that is there already counts: the kernel looks again when this is set.
void SocketTransport::set_low_water(int bytes) {
  const bool collecting = bytes > 1;
  if (collecting == collecting_ || closed()) return;
  if (setsockopt(fd_, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes) == 0) collecting_ = collecting;
  if (!collecting_ && has_poll_timer_) context_->disarm(poll_timer_);
}

void SocketTransport::set_read_coalescing(Duration wait) {
  coalescing_ = wait;
  if (wait.count() == 0) set_low_water(1);
}

// False when there is nothing more to read now.
bool SocketTransport::read_once() {
  char* buffer = context_->read_buffer();
  const ssize_t n = ::recv(fd_, buffer, LoopContext::kReadBytes, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (lingering_) {
    if (n <= 0) close();
    return n > 0;
  }
  if (n < 0) {
    fail(unavailable("connection lost: " + errno_text(errno)));
    return false;
  }
  if (n == 0) {
    end_input();
    return false;
  }
  counters_.bytes_in += static_cast<uint64_t>(n);
  const bool more = static_cast<size_t>(n) == LoopContext::kReadBytes;
  return take_input(std::string_view(buffer, static_cast<size_t>(n))) && more;
}

void SocketTransport::end_input() {
  if (input_ended_) return;
  input_ended_ = true;
  const auto self = shared_from_this();
  if (events_) events_->on_eof();
  if (events_ && opened_ && events_->half_open()) return;
  fail(unavailable(opened_ ? "the peer closed the connection"
                           : "the peer closed the connection during the TLS handshake"));
}

// False when the connection has ended.
bool SocketTransport::take_input(std::string_view bytes) {
  if (!outer_) return take_records(bytes);
  std::string records;
  const Status status = outer_->feed(bytes, &records);
  const bool more = records.empty() || take_records(records);
  if (status.ok() || closed()) return more;
  closing_ = status;
  reading_ = false;
  schedule_flush();
  return false;
}

bool SocketTransport::take_records(std::string_view bytes) {
  if (!tls_) {
    deliver(bytes);
    return !closed();
  }
  std::string& plain = context_->plain_in;
  plain.clear();
  const Status status = tls_->feed(bytes, &plain);
  if (!opened_ && tls_->handshake_done()) {
    opened_ = true;
    if (events_) events_->on_open();
  }
  if (!plain.empty()) deliver(plain);
  schedule_flush();  // handshake messages and alerts
  if (!status.ok()) {
    closing_ = status;
    reading_ = false;
    return false;
  }
  if (!tls_->peer_closed() || closed()) return !closed();
  eof_waits_ = !reading_;
  if (!eof_waits_) end_input();
  return false;
}

void SocketTransport::deliver(std::string_view plain) {
  if (!events_ || closed() || !closing_.ok()) return;
  const Status status = events_->on_bytes(plain);
  schedule_flush();
  if (status.ok()) return;
  closing_ = status;
  reading_ = false;
}

void SocketTransport::fail(const Status& why) {
  if (closed()) return;
  TransportEvents* events = std::exchange(events_, nullptr);
  close();
  if (events) events->on_closed(why);
}

void SocketTransport::close() {
  events_ = nullptr;
  stop_timers();
  boost::system::error_code ignored;
  descriptor_.close(ignored);
}

void SocketTransport::linger() {
  events_ = nullptr;
  if (closed()) return;
  set_low_water(1);
  end_output();
  lingering_ = has_timer_ = true;
  timer_ = context_->acquire_timer(this, kLingerTimer);
  context_->arm(timer_, context_->now() + kLinger);
  wait_readable();
}

void SocketTransport::end_output() {
  if (closed() || std::exchange(output_ended_, true)) return;
  if (tls_) {
    tls_->close_notify();
    std::string out;
    tls_->take_output(&out);
    if (!out.empty() && unsent_.empty()) (void)!::send(fd_, out.data(), out.size(), MSG_NOSIGNAL);
  }
  ::shutdown(fd_, SHUT_WR);
}

void SocketTransport::stop_timers() {
  if (has_timer_) context_->release_timer(timer_);
  if (has_poll_timer_) context_->release_timer(poll_timer_);
  has_timer_ = has_poll_timer_ = lingering_ = false;
}

void SocketTransport::set_reading(bool on) {
  if (reading_ == on || !closing_.ok()) return;
  reading_ = on;
  if (!on) return;
  if (!eof_waits_) return wait_readable();
  context_->loop().post([self = shared_from_this()] {
    if (self->reading_ && std::exchange(self->eof_waits_, false) && !self->closed()) self->end_input();
  });
}

void SocketTransport::schedule_flush() {
  if (flush_scheduled_ || waiting_write_ || closed()) return;
  flush_scheduled_ = true;
  context_->schedule_flush(shared_from_this());
}

void SocketTransport::flush() {
  flush_scheduled_ = false;
  if (closed() || lingering_ || waiting_write_) return;
  for (int i = 0; i < kWritesPerFlush; ++i) {
    if (unsent_.empty() && !fill_output()) {
      if (closed()) return;
      if (!closing_.ok()) return fail(closing_);
      if (events_ && opened_ && events_->on_flushed()) linger();
      if (events_ && events_->awaits_input()) collect(coalescing_);
      return;
    }
    if (!send_output()) return;
  }
  schedule_flush();
}

// Pulls from the engine into the wire buffer. False when there is nothing.
bool SocketTransport::fill_output() {
  std::string& wire = context_->wire_out;
  wire.clear();
  if (tls_) tls_->take_output(&wire);
  if (opened_ && events_) {
    std::string& plain = tls_ ? context_->plain_out : wire;
    if (tls_) plain.clear();
    events_->fill(&plain, kFlushBytes);
    if (closed()) return false;
    if (tls_ && !plain.empty()) {
      const Status status = tls_->encrypt(plain, &wire);
      if (!status.ok()) {
        fail(status);
        return false;
      }
    }
  }
  return wrap_output();
}

// Through the proxy's TLS, if there is one. False when there is nothing to send.
bool SocketTransport::wrap_output() {
  std::string& wire = context_->wire_out;
  if (!outer_) return !wire.empty();
  std::string inner;
  inner.swap(wire);
  outer_->take_output(&wire);
  if (inner.empty()) return !wire.empty();
  const Status status = outer_->encrypt(inner, &wire);
  if (status.ok()) return true;
  fail(status);
  return false;
}

// Sends the wire buffer or what is left of an earlier one. False when the kernel takes no more, or at the end.
bool SocketTransport::send_output() {
  const bool leftover = !unsent_.empty();
  const std::string& from = leftover ? unsent_ : context_->wire_out;
  size_t at = leftover ? unsent_offset_ : 0;
  while (at < from.size()) {
    const ssize_t n = ::send(fd_, from.data() + at, from.size() - at, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN) {
      fail(unavailable("connection lost: " + errno_text(errno)));
      return false;
    }
    if (n < 0) break;
    counters_.bytes_out += static_cast<uint64_t>(n);
    at += static_cast<size_t>(n);
  }
  if (at == from.size()) {
    if (leftover) std::string().swap(unsent_);
    unsent_offset_ = 0;
    return true;
  }
  if (leftover) {
    unsent_offset_ = at;
  } else {
    unsent_.assign(from, at);
    unsent_offset_ = 0;
  }
  wait_writable();
  return false;
}

void SocketTransport::wait_writable() {
  waiting_write_ = true;
  descriptor_.async_wait(Descriptor::wait_write, [self = shared_from_this()](const boost::system::error_code& error) {
    self->waiting_write_ = false;
    if (!error) self->flush();
  });
}

// An IP address as text, and its port.
std::string address_text(const sockaddr_storage& storage, uint16_t* port) {
  char text[INET6_ADDRSTRLEN] = {};
  if (storage.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
    inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
    *port = ntohs(v4->sin_port);
  } else if (storage.ss_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
    inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
    *port = ntohs(v6->sin6_port);
  }
  return text;
}

std::string SocketTransport::remote_address() const {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (getpeername(fd_, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  if (storage.ss_family == AF_UNIX) return "unix:";
  uint16_t port = 0;
  const std::string text = address_text(storage, &port);
  if (text.empty()) return {};
  return host_and_port(text, port);
}

std::string SocketTransport::local_address(uint16_t* port) const {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  *port = 0;
  if (getsockname(fd_, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  return address_text(storage, port);
}

}  // namespace

std::string errno_text(int error) { return std::strerror(error); }

std::shared_ptr<Transport> Transport::create(std::shared_ptr<LoopContext> context, int fd, TransportEvents* events) {
  return std::make_shared<SocketTransport>(std::move(context), fd, events);
}

}  // namespace ghostfleet::kube::http
