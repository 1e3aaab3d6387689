// The listener: accepts on the first loop and hands connections to the loops in turn. Turns, not SO_REUSEPORT: a fleet
// opens a few heavy connections, and the kernel's hash may well put all of them on one loop.
#include "kube/http/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <unordered_map>

#include "base/log.h"
#include "kube/http/server_connection.h"
#include "kube/http/unix_address.h"

namespace ghostfleet::kube::http {
namespace {

namespace asio = boost::asio;
constexpr int kAcceptsPerWake = 64;
constexpr Duration kRestAfterFailure = std::chrono::milliseconds(100);  // out of file descriptors

// One loop's connections. Its own timer finds slow and idle peers.
class LoopShare : public TimerTarget, public std::enable_shared_from_this<LoopShare> {
 public:
  LoopShare(EventLoop& loop, const ServerOptions& options, Handler handler, ServerMetrics metrics,
            std::shared_ptr<std::atomic<size_t>> count)
      : count_(std::move(count)), share_(std::make_shared<ServerShare>()) {
    share_->context = LoopContext::of(loop);
    share_->tls = options.tls;
    share_->choose_tls = options.choose_tls;
    share_->limits = options.limits;
    share_->stream_bodies = options.stream_bodies;
    share_->handler = std::move(handler);
    share_->metrics = metrics;
    share_->on_gone = [this](ServerConnection* connection) { gone(connection); };
    const Limits& l = options.limits;
    const int shortest = std::min({l.header_timeout_ms, l.body_timeout_ms, l.idle_timeout_ms, 4000});
    sweep_every_ = std::chrono::milliseconds(std::max(shortest / 4, 20));
  }
  ~LoopShare() override { shut(); }

  EventLoop& loop() { return share_->context->loop(); }
  const ServerMetrics& metrics() const { return share_->metrics; }

  void adopt(int fd) {
    if (shut_) {
      ::close(fd);
      count_->fetch_sub(1);
      return;
    }
    auto connection = std::make_shared<ServerConnection>(share_, fd);
    connections_[connection.get()] = connection;
    share_->metrics.connections->add();
    connection->open();
    if (draining_) connection->drain();
    if (!has_timer_) {
      timer_ = share_->context->acquire_timer(this, 0);
      has_timer_ = true;
    }
    if (!share_->context->armed(timer_)) share_->context->arm(timer_, share_->context->now() + sweep_every_);
  }

  void on_timer(uint64_t) override {
    const TimePoint now = share_->context->now();
    for (const auto& [pointer, connection] : connections_) connection->sweep(now);
    if (!connections_.empty()) share_->context->arm(timer_, now + sweep_every_);
  }

  void drain(std::function<void()> done) {
    draining_ = true;
    drained_ = std::move(done);
    for (const auto& [pointer, connection] : connections_) connection->drain();
    if (connections_.empty()) finish_drain();
  }

  void cut_all() {
    for (const auto& [pointer, connection] : connections_) connection->cut();
  }

  // The server goes away; the loop no longer runs, or this is called on it.
  void shut() {
    if (std::exchange(shut_, true)) return;
    share_->on_gone = [](ServerConnection*) {};
    share_->handler = [](const std::shared_ptr<Exchange>&) {};
    if (has_timer_) share_->context->release_timer(timer_);
    has_timer_ = false;
    for (const auto& [pointer, connection] : connections_) connection->cut();
    count_->fetch_sub(connections_.size());
    connections_.clear();
  }

 private:
  void gone(ServerConnection* connection) {
    if (connections_.erase(connection) == 0) return;
    count_->fetch_sub(1);
    if (draining_ && connections_.empty()) finish_drain();
  }
  void finish_drain() {
    if (auto done = std::exchange(drained_, nullptr)) done();
  }

  std::shared_ptr<std::atomic<size_t>> count_;  // of the server, which may be gone
  std::shared_ptr<ServerShare> share_;
  std::unordered_map<ServerConnection*, std::shared_ptr<ServerConnection>> connections_;
  Duration sweep_every_;
  LoopContext::TimerId timer_ = 0;
  bool has_timer_ = false, draining_ = false, shut_ = false;
  std::function<void()> drained_;
};

class SocketServer final : public Server {
 public:
  SocketServer(ServerOptions options, int fd, uint16_t port, std::vector<EventLoop*> loops, const Handler& handler)
      : options_(std::move(options)),
        port_(port),
        acceptor_(std::make_shared<asio::posix::stream_descriptor>(
            *static_cast<asio::io_context*>(loops.front()->native()), fd)),
        fd_(fd),
        socket_file_(is_unix_address(options_.address) ? file_identity(unix_path(options_.address)) : FileIdentity()),
        alive_(std::make_shared<bool>(true)) {
    for (size_t i = 0; i < loops.size(); ++i) {
      shares_.push_back(std::make_shared<LoopShare>(*loops[i], options_, handler, make_metrics(i), count_));
    }
    loops.front()->post([this, alive = alive_] {
      if (*alive) wait_accept();
    });
  }
  ~SocketServer() override {
    *alive_ = false;
    stop_accepting();
    for (const auto& share : shares_) share->shut();
  }

  uint16_t port() const override { return port_; }
  size_t connection_count() const override { return count_->load(); }
  const MetricsRegistry& metrics() const override { return registry_; }
  void drain(Duration grace, std::function<void()> done) override;

 private:
  struct Drain {
    size_t left = 0;
    std::function<void()> done;
  };

  ServerMetrics make_metrics(size_t loop);
  void wait_accept();
  void stop_accepting();
  void accept_some();
  void hand_over(int fd);
  void drain_here(Duration grace, std::function<void()> done);

  ServerOptions options_;
  uint16_t port_;
  std::shared_ptr<asio::posix::stream_descriptor> acceptor_;
  int fd_;
  FileIdentity socket_file_;
  std::shared_ptr<bool> alive_;
  MetricsRegistry registry_;
  std::shared_ptr<std::atomic<size_t>> count_ = std::make_shared<std::atomic<size_t>>(0);
  std::vector<std::shared_ptr<LoopShare>> shares_;
  size_t next_ = 0;
};

ServerMetrics SocketServer::make_metrics(size_t loop) {
  const MetricLabels labels = {{"loop", std::to_string(loop)}};
  const auto counter = [&](std::string_view name, std::string_view help) {
    return &registry_.counter(name, help, labels);
  };
  ServerMetrics m;
  m.connections = counter("ghostfleet_http_server_connections_total", "Connections accepted.");
  m.refused_connections =
      counter("ghostfleet_http_server_refused_connections_total", "Connections over the limit, closed at once.");
  m.requests = counter("ghostfleet_http_server_requests_total", "Requests handed to the handler.");
  m.tls_failures = counter("ghostfleet_http_server_tls_failures_total", "Connections that ended in the TLS handshake.");
  m.cut_streams = counter("ghostfleet_http_server_cut_streams_total", "Answers cut because their reader was too slow.");
  return m;
}

void SocketServer::wait_accept() {
  if (!acceptor_->is_open()) return;
  acceptor_->async_wait(asio::posix::stream_descriptor::wait_read,
                        [this, alive = alive_](const boost::system::error_code& error) {
                          if (!error && *alive) accept_some();
                        });
}

void SocketServer::stop_accepting() {
  if (!acceptor_->is_open()) return;
  if (is_unix_address(options_.address)) remove_socket_file(unix_path(options_.address), socket_file_);
  boost::system::error_code ignored;
  acceptor_->close(ignored);
}

void SocketServer::accept_some() {
  for (int i = 0; i < kAcceptsPerWake; ++i) {
    const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      hand_over(fd);
      continue;
    }
    if (errno == EAGAIN) break;
    if (errno == EINTR || errno == ECONNABORTED) continue;
    log_warn("http", "accept: " + errno_text(errno));
    shares_.front()->loop().run_after(kRestAfterFailure, [this, alive = alive_] {
      if (*alive) wait_accept();
    });
    return;
  }
  wait_accept();
}

void SocketServer::hand_over(int fd) {
  const std::shared_ptr<LoopShare>& share = shares_[next_++ % shares_.size()];
  if (count_->load() >= options_.limits.max_connections) {
    shares_.front()->metrics().refused_connections->add();
    ::close(fd);
    return;
  }
  count_->fetch_add(1);
  if (share->loop().in_loop_thread()) return share->adopt(fd);
  share->loop().post([share, fd] { share->adopt(fd); });
}

void SocketServer::drain(Duration grace, std::function<void()> done) {
  shares_.front()->loop().post([this, alive = alive_, grace, done = std::move(done)]() mutable {
    if (*alive) drain_here(grace, std::move(done));
  });
}

void SocketServer::drain_here(Duration grace, std::function<void()> done) {
  stop_accepting();
  auto state = std::make_shared<Drain>();
  state->left = shares_.size();
  state->done = std::move(done);
  EventLoop* first = &shares_.front()->loop();
  for (const auto& share : shares_) {
    share->loop().post([share, state, first, grace] {
      share->drain([state, first] {
        first->post([state] {
          if (--state->left == 0 && state->done) state->done();
        });
      });
      share->loop().run_after(grace, [share] { share->cut_all(); });
    });
  }
}

Result<int> bind_socket(const ServerOptions& options, uint16_t* port) {
  const std::string where = options.address + ":" + std::to_string(options.port);
  const bool v6 = options.address.find(':') != std::string::npos;
  sockaddr_in v4_address{};
  sockaddr_in6 v6_address{};
  v4_address.sin_family = AF_INET;
  v4_address.sin_port = htons(options.port);
  v6_address.sin6_family = AF_INET6;
  v6_address.sin6_port = htons(options.port);
  const int parsed = v6 ? inet_pton(AF_INET6, options.address.c_str(), &v6_address.sin6_addr)
                        : inet_pton(AF_INET, options.address.c_str(), &v4_address.sin_addr);
  if (parsed != 1) return invalid_argument("listen on " + where + ": \"" + options.address + "\" is no IP address");
  const int fd = ::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return unavailable("listen on " + where + ": " + errno_text(errno));
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const std::string& device = options.bind_to_device;
  if (!device.empty() &&
      setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device.data(), static_cast<socklen_t>(device.size())) != 0) {
    const int error = errno;
    ::close(fd);
    return Status(error == EPERM ? Code::kPermissionDenied : Code::kInvalidArgument,
                  "listen on " + where + ": bind to network device \"" + device + "\": " + errno_text(error));
  }
  const auto* address =
      v6 ? reinterpret_cast<const sockaddr*>(&v6_address) : reinterpret_cast<const sockaddr*>(&v4_address);
  const socklen_t size = v6 ? sizeof v6_address : sizeof v4_address;
  if (::bind(fd, address, size) != 0 || ::listen(fd, 4096) != 0) {
    const int error = errno;
    ::close(fd);
    if (error == EADDRINUSE) return Status(Code::kAlreadyExists, "listen on " + where + ": address already in use");
    if (error == EACCES) return Status(Code::kPermissionDenied, "listen on " + where + ": " + errno_text(error));
    return unavailable("listen on " + where + ": " + errno_text(error));
  }
  sockaddr_storage bound{};
  socklen_t bound_size = sizeof bound;
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &bound_size);
  *port =
      ntohs(v6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
  return fd;
}

}  // namespace

Result<std::unique_ptr<Server>> Server::listen(ServerOptions options, std::vector<EventLoop*> loops, Handler handler) {
  if (loops.empty()) return invalid_argument("a server needs a loop");
  uint16_t port = 0;
  const Result<int> fd =
      is_unix_address(options.address) ? listen_unix(options.address, options.unix_mode) : bind_socket(options, &port);
  if (!fd.ok()) return fd.error();
  return std::unique_ptr<Server>(
      std::make_unique<SocketServer>(std::move(options), *fd, port, std::move(loops), handler));
}

}  // namespace ghostfleet::kube::http
