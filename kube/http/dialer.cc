#include "kube/http/dialer.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <cstring>
#include <vector>

#include "kube/http/transport.h"
#include "kube/http/unix_address.h"

namespace ghostfleet::kube::http {
namespace {

namespace asio = boost::asio;

// A listener whose queue is full is asked again after this; the caller's time-out ends it.
constexpr Duration kQueueFull = std::chrono::milliseconds(50);

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

class SocketDialer final : public Dialer, public std::enable_shared_from_this<SocketDialer> {
 public:
  SocketDialer(EventLoop& loop, std::string host, uint16_t port, Done done)
      : loop_(loop),
        io_(*static_cast<asio::io_context*>(loop.native())),
        resolver_(io_),
        descriptor_(io_),
        host_(std::move(host)),
        port_(port),
        done_(std::move(done)) {}

  void begin() {
    if (is_unix_address(host_)) return begin_unix();
    if (add_numeric()) return loop_.post([self = shared_from_this()] { self->next_address(); });
    resolver_.async_resolve(
        host_, std::to_string(port_),
        [self = shared_from_this()](const boost::system::error_code& error,
                                    const asio::ip::tcp::resolver::results_type& found) {
          if (error) return self->finish(unavailable("look up host " + self->host_ + ": " + error.message()));
          for (const auto& entry : found) self->add(entry.endpoint().data(), entry.endpoint().size());
          self->next_address();
        });
  }

  void cancel() override {
    done_ = nullptr;
    resolver_.cancel();
    boost::system::error_code ignored;
    descriptor_.close(ignored);
  }

 private:
  void add(const sockaddr* address, size_t size) {
    Address a;
    std::memcpy(&a.storage, address, size);
    a.size = static_cast<socklen_t>(size);
    addresses_.push_back(a);
  }

  void begin_unix() {
    const Result<UnixAddress> address = parse_unix_address(host_);
    if (!address.ok()) {
      return loop_.post([self = shared_from_this(), why = address.error()] {
        self->finish(why.with_context("connect to " + self->host_));
      });
    }
    add(reinterpret_cast<const sockaddr*>(&address->storage), address->size);
    loop_.post([self = shared_from_this()] { self->next_address(); });
  }

  bool add_numeric() {
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(host_.c_str(), std::to_string(port_).c_str(), &hints, &found) != 0) return false;
    add(found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return true;
  }

  void next_address() {
    if (!done_) return;
    if (next_ == addresses_.size()) {
      return finish(unavailable("connect to " + host_and_port(host_, port_) + ": " + errno_text(error_)));
    }
    const Address& address = addresses_[next_++];
    const int fd = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      error_ = errno;
      return next_address();
    }
    boost::system::error_code ignored;
    descriptor_.assign(fd, ignored);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size) == 0) return connected();
    if (errno == EAGAIN && is_unix_address(host_)) return try_again();
    if (errno != EINPROGRESS) return refused(errno);
    descriptor_.async_wait(asio::posix::stream_descriptor::wait_write,
                           [self = shared_from_this()](const boost::system::error_code& error) {
                             if (!error) self->writable();
                           });
  }

  void try_again() {
    boost::system::error_code ignored;
    descriptor_.close(ignored);
    next_ = 0;
    loop_.run_after(kQueueFull, [self = shared_from_this()] { self->next_address(); });
  }

  void writable() {
    if (!done_) return;
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(descriptor_.native_handle(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return refused(error);
    connected();
  }

  void refused(int error) {
    error_ = error;
    boost::system::error_code ignored;
    descriptor_.close(ignored);
    next_address();
  }

  void connected() { finish(descriptor_.release()); }

  void finish(Result<int> result) {
    const Done done = std::exchange(done_, nullptr);
    if (done) {
      done(std::move(result));
    } else if (result.ok()) {
      ::close(*result);
    }
  }

  EventLoop& loop_;
  asio::io_context& io_;
  asio::ip::tcp::resolver resolver_;
  asio::posix::stream_descriptor descriptor_;
  std::string host_;
  uint16_t port_;
  Done done_;
  std::vector<Address> addresses_;
  size_t next_ = 0;
  int error_ = 0;
};

}  // namespace

std::string host_and_port(const std::string& host, uint16_t port) {
  if (is_unix_address(host)) return host;
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::shared_ptr<Dialer> Dialer::dial(EventLoop& loop, std::string host, uint16_t port, Done done) {
  auto dialer = std::make_shared<SocketDialer>(loop, std::move(host), port, std::move(done));
  dialer->begin();
  return dialer;
}

}  // namespace ghostfleet::kube::http
