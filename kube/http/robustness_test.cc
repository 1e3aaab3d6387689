// Peers that misbehave, limits at and past their edge, and foreign clients. Raw sockets play the peers.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <thread>

#include "kube/http/h2_core.h"
#include "kube/http/http_harness.h"

namespace ghostfleet::kube::http {
namespace {

void echo(const std::shared_ptr<Exchange>& exchange) {
  const Request& r = exchange->request();
  exchange->respond(200, {}, share(r.method + " " + r.target + " " + r.body));
}

HarnessOptions plain(bool http2) {
  HarnessOptions o;
  o.tls = false;
  o.http2 = http2;
  return o;
}

// A socket that says what it is told to, driven from the test's own loop.
class RawPeer {
 public:
  explicit RawPeer(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawPeer() { ::close(fd_); }
  void send(std::string_view bytes) { (void)!::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // Takes what is there; true when the other side has closed.
  bool poll_input() {
    std::array<char, 65536> buffer;
    while (true) {
      const ssize_t n = ::recv(fd_, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (n == 0 || (n < 0 && errno != EAGAIN)) closed = true;
      if (n <= 0) return closed;
      input.append(buffer.data(), static_cast<size_t>(n));
    }
  }
  bool connected = false, closed = false;
  std::string input;

 private:
  int fd_;
};

class RawTest : public ::testing::Test {
 protected:
  // What the server answers to these bytes until it closes, or until `expected` is in it.
  std::string converse(Harness& h, const std::vector<std::string>& pieces, const std::string& expected = "") {
    RawPeer peer(h.server->port());
    for (const std::string& piece : pieces) {
      peer.send(piece);
      h.loop.run_for(std::chrono::milliseconds(2));
    }
    h.run_until(
        [&] { return peer.poll_input() || (!expected.empty() && peer.input.find(expected) != std::string::npos); });
    return peer.input;
  }
};

TEST_F(RawTest, MalformedRequestsAre400) {
  Harness h(echo, plain(false));
  for (const char* bad : {
           "nonsense\r\n\r\n",
           "GET  / HTTP/1.1\r\nhost: x\r\n\r\n",
           "GET / HTTP/2.5\r\nhost: x\r\n\r\n",
           "GET / HTTP/1.1\r\n\r\n",
           "GET / HTTP/1.1\r\nhost : x\r\n\r\n",
           "GET / HTTP/1.1\r\nhost: x\r\n folded: y\r\n\r\n",
           "GET / HTTP/1.1\r\nhost: x\r\na: b\x01\r\n\r\n",
           "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
           "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
           "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
           "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
           "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
           "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabcd\r\n",
       }) {
    const std::string answer = converse(h, {bad});
    EXPECT_EQ(answer.substr(0, 13), "HTTP/1.1 400 ") << bad;
  }
}

TEST_F(RawTest, PipelinedRequestsAreAnsweredInOrder) {
  Harness h(echo, plain(false));
  const std::string two =
      "GET /1 HTTP/1.1\r\nhost: x\r\n\r\nPOST /2 HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nab";
  const std::string answer = converse(h, {two + "GET /3 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"});
  const size_t first = answer.find("GET /1 "), second = answer.find("POST /2 ab"), third = answer.find("GET /3 ");
  EXPECT_TRUE(first < second && second < third && third != std::string::npos) << answer;
}

TEST_F(RawTest, Http10AndContinueAndChunks) {
  Harness h(echo, plain(false));
  const std::string old = converse(h, {"GET /old HTTP/1.0\r\n\r\n"});
  EXPECT_NE(old.find("connection: close"), std::string::npos) << old;
  const std::string answer = converse(h, {"POST /c HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ntransfer-encoding: "
                                          "chunked\r\nconnection: close\r\n\r\n",
                                          "3;e=1\r\nabc\r\n", "2\r\nde\r\n0\r\nt: v\r\n\r\n"});
  EXPECT_EQ(answer.substr(0, 25), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_NE(answer.find("POST /c abcde"), std::string::npos) << answer;
}

TEST_F(RawTest, AHeadInSingleBytes) {
  Harness h(echo, plain(false));
  std::vector<std::string> bytes;
  for (const char c : std::string("GET /slow HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"))
    bytes.emplace_back(1, c);
  EXPECT_NE(converse(h, bytes).find("GET /slow "), std::string::npos);
}

TEST_F(RawTest, SlowPeersAreClosed) {
  HarnessOptions o = plain(false);
  o.limits.header_timeout_ms = 150;
  o.limits.body_timeout_ms = 150;
  o.limits.idle_timeout_ms = 60000;
  Harness h(echo, o);
  RawPeer silent(h.server->port()), head(h.server->port()), body(h.server->port()), preface(h.server->port());
  head.send("GET / HTTP/1.1\r\nhos");
  body.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nabc");
  preface.send(kH2Preface);
  for (RawPeer* peer : {&silent, &head, &body, &preface}) {
    EXPECT_TRUE(h.run_until([&] { return peer->poll_input(); }, std::chrono::seconds(3)));
  }
}

TEST_F(RawTest, TricklingHeadersDoNotHelp) {
  HarnessOptions o = plain(false);
  o.limits.header_timeout_ms = 200;
  Harness h(echo, o);
  RawPeer peer(h.server->port());
  peer.send("GET / HTTP/1.1\r\n");
  EXPECT_TRUE(h.run_until(
      [&] {
        peer.send("a: b\r\n");
        return peer.poll_input();
      },
      std::chrono::seconds(3)));
}

TEST_F(RawTest, ConnectionsPastTheLimitAreClosed) {
  HarnessOptions o = plain(false);
  o.limits.max_connections = 2;
  Harness h(echo, o);
  RawPeer first(h.server->port()), second(h.server->port());
  ASSERT_TRUE(h.run_until([&] { return h.server->connection_count() == 2; }));
  RawPeer third(h.server->port());
  EXPECT_TRUE(h.run_until([&] { return third.poll_input(); }));
  EXPECT_FALSE(first.poll_input() || second.poll_input());
}

TEST_F(RawTest, StreamsPastTheLimitWait) {
  HarnessOptions o;
  o.limits.max_streams = 3;
  o.max_connections = 1;
  std::vector<std::shared_ptr<Exchange>> open;
  Harness h([&](std::shared_ptr<Exchange> e) { open.push_back(std::move(e)); }, o);
  Reply& warm_up = h.call("GET", "/warm-up");
  ASSERT_TRUE(h.run_until([&] { return open.size() == 1; }));
  open[0]->respond(200, {}, nullptr);
  ASSERT_TRUE(h.run_until([&] { return warm_up.done(); }));
  open.clear();
  for (int i = 0; i < 5; ++i) h.call("GET", "/" + std::to_string(i));
  ASSERT_TRUE(h.run_until([&] { return open.size() == 3; }));
  h.loop.run_for(std::chrono::milliseconds(30));
  EXPECT_EQ(open.size(), 3u);
  EXPECT_EQ(h.client->stats().queued, 2u);
  open[0]->respond(200, {}, nullptr);
  EXPECT_TRUE(h.run_until([&] { return open.size() == 4; }));
}

TEST_F(RawTest, HeartbeatsGoFirst) {
  HarnessOptions o;
  o.limits.max_streams = 1;
  o.max_connections = 1;
  std::vector<std::string> order;
  Harness h(
      [&](const std::shared_ptr<Exchange>& e) {
        order.push_back(e->request().target);
        e->respond(200, {}, nullptr);
      },
      o);
  h.get("/first");
  const auto with_lane = [&](const char* target, Lane lane) {
    CallOptions options;
    options.lane = lane;
    return &h.call("GET", target, "", options);
  };
  with_lane("/running", Lane::kNormal);
  with_lane("/bulk", Lane::kBulk);
  with_lane("/normal", Lane::kNormal);
  Reply* last = with_lane("/bulk2", Lane::kBulk);
  with_lane("/heartbeat", Lane::kHeartbeat);
  ASSERT_TRUE(h.run_until([&] { return last->done(); }));
  EXPECT_EQ(order, (std::vector<std::string>{"/first", "/running", "/heartbeat", "/normal", "/bulk", "/bulk2"}));
}

TEST_F(RawTest, RapidResetsEndTheConnection) {
  std::vector<std::shared_ptr<Exchange>> open;
  HarnessOptions o = plain(true);
  o.max_connections = 1;
  Harness h([&](std::shared_ptr<Exchange> e) { open.push_back(std::move(e)); }, o);
  h.call("GET", "/open");
  ASSERT_TRUE(h.run_until([&] { return open.size() == 1; }));
  const uint64_t before = h.client->stats().connections_opened;
  for (int round = 0; round < 60 && !h.replies[0].done(); ++round) {
    for (int i = 0; i < 100; ++i) {
      CallOptions options;
      const CallId id = h.client->start("GET", "/x", nullptr, "", options, &h.replies[0]);
      h.loop.run_for(std::chrono::microseconds(50));
      h.client->cancel(id);
    }
  }
  EXPECT_TRUE(h.run_until([&] { return h.replies[0].done(); }, std::chrono::seconds(2)));
  EXPECT_EQ(before, 1u);
}

// A server that speaks HTTP/2 by hand, on a thread of its own: accepts one connection after the other.
class FakeServer {
 public:
  using Conversation = std::function<void(int fd)>;
  explicit FakeServer(std::vector<Conversation> conversations) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(fd_, 16), 0);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin_port);
    thread_ = std::thread([this, conversations = std::move(conversations)] {
      for (const Conversation& conversation : conversations) {
        const int client = ::accept(fd_, nullptr, nullptr);
        if (client < 0) return;
        conversation(client);
        ::close(client);
      }
    });
  }
  ~FakeServer() {
    ::shutdown(fd_, SHUT_RDWR);
    thread_.join();
    ::close(fd_);
  }
  uint16_t port = 0;

 private:
  int fd_;
  std::thread thread_;
};

std::string frame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload) {
  std::string out;
  for (const int shift : {16, 8, 0}) out += static_cast<char>(payload.size() >> shift);
  out += static_cast<char>(type);
  out += static_cast<char>(flags);
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(stream >> shift);
  return out.append(payload);
}
std::string word(uint32_t v) {
  std::string out;
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(v >> shift);
  return out;
}
const std::string kSettings = frame(4, 0, 0, "");
std::string ok_answer(uint32_t stream) { return frame(1, 5, stream, "\x88"); }  // HEADERS, END_STREAM, :status 200

void say(int fd, std::string_view bytes) { (void)!::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
// Reads until `text` was seen `times` times (paths are not compressed to nothing: they hold it literally or by
// Huffman), or the peer closes, or two seconds pass.
void read_some(int fd, size_t bytes) {
  std::array<char, 4096> buffer;
  size_t got = 0;
  pollfd p{fd, POLLIN, 0};
  while (got<bytes&& ::poll(&p, 1, 300)> 0) {
    const ssize_t n = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (n <= 0) return;
    got += static_cast<size_t>(n);
  }
}
void read_to_end(int fd) {
  std::array<char, 4096> buffer;
  pollfd p{fd, POLLIN, 0};
  while (::poll(&p, 1, 5000) > 0 && ::recv(fd, buffer.data(), buffer.size(), 0) > 0) {
  }
}

class ForeignServerTest : public ::testing::Test {
 protected:
  void connect(uint16_t port, const std::function<void(HttpClientOptions*)>& change = nullptr) {
    HttpClientOptions o;
    o.host = "127.0.0.1";
    o.port = port;
    o.use_tls = false;
    o.http2_without_tls = true;
    o.max_connections = 1;
    if (change) change(&o);
    client = HttpClient::create(loop, o);
  }
  ~ForeignServerTest() override { client.reset(); }
  bool run_until(const std::function<bool()>& condition) {
    const TimePoint end = loop.now() + std::chrono::seconds(10);
    while (!condition() && loop.now() < end) loop.run_for(std::chrono::milliseconds(1));
    return condition();
  }
  EventLoop loop;
  std::unique_ptr<HttpClient> client;
};

TEST_F(ForeignServerTest, GoAwayTellsWhatWasNotProcessed) {
  FakeServer server({[](int fd) {
                       say(fd, kSettings);
                       read_some(fd, 100000);                       // both requests
                       say(fd, frame(7, 0, 0, word(1) + word(0)));  // GOAWAY: stream 1 was the last
                       say(fd, ok_answer(1));
                       read_to_end(fd);
                     },
                     [](int fd) {
                       say(fd, kSettings);
                       read_some(fd, 100000);
                       say(fd, ok_answer(1));
                       read_to_end(fd);
                     }});
  connect(server.port);
  Reply first, second, third;
  client->start("GET", "/1", nullptr, "", {}, &first);
  client->start("GET", "/2", nullptr, "", {}, &second);
  ASSERT_TRUE(run_until([&] { return first.done() && second.done(); }));
  EXPECT_TRUE(first.ended);
  EXPECT_TRUE(second.failed);
  EXPECT_FALSE(second.sent);
  client->start("GET", "/3", nullptr, "", {}, &third);
  EXPECT_TRUE(run_until([&] { return third.ended; })) << third.error.message();
  EXPECT_EQ(client->stats().connections_opened, 2u);
  client.reset();
}

TEST_F(ForeignServerTest, RefusedStreamsWereNotSentOthersWere) {
  FakeServer server({[](int fd) {
    say(fd, kSettings);
    read_some(fd, 100000);
    say(fd, frame(3, 0, 1, word(NGHTTP2_REFUSED_STREAM)) + frame(3, 0, 3, word(NGHTTP2_INTERNAL_ERROR)));
    say(fd, ok_answer(5));
    read_to_end(fd);
  }});
  connect(server.port);
  Reply refused, broken, fine;
  client->start("GET", "/1", nullptr, "", {}, &refused);
  client->start("GET", "/2", nullptr, "", {}, &broken);
  client->start("GET", "/3", nullptr, "", {}, &fine);
  ASSERT_TRUE(run_until([&] { return refused.done() && broken.done() && fine.done(); }));
  EXPECT_TRUE(refused.failed && !refused.sent);
  EXPECT_TRUE(broken.failed && broken.sent);
  EXPECT_NE(broken.error.message().find("INTERNAL_ERROR"), std::string::npos) << broken.error.message();
  EXPECT_TRUE(fine.ended);
  client.reset();
}

TEST_F(ForeignServerTest, ALostConnectionFailsItsCallsAndIsDialledAgain) {
  FakeServer server({[](int fd) {
                       say(fd, kSettings);
                       read_some(fd, 200);
                     },
                     [](int fd) {
                       say(fd, kSettings);
                       read_some(fd, 100000);
                       say(fd, ok_answer(1));
                       read_to_end(fd);
                     }});
  connect(server.port);
  Reply first, second;
  client->start("GET", "/1", nullptr, "", {}, &first);
  ASSERT_TRUE(run_until([&] { return first.done(); }));
  EXPECT_TRUE(first.failed && first.sent);
  EXPECT_EQ(first.error.code(), Code::kUnavailable);
  client->start("GET", "/2", nullptr, "", {}, &second);
  EXPECT_TRUE(run_until([&] { return second.ended; })) << second.error.message();
  client.reset();
}

TEST_F(ForeignServerTest, AServerThatDoesNotAnswerPingIsGivenUp) {
  FakeServer server({[](int fd) {
    say(fd, kSettings);
    read_to_end(fd);
  }});
  connect(server.port, [](HttpClientOptions* o) {
    o->ping_after_idle = std::chrono::milliseconds(100);
    o->ping_timeout = std::chrono::milliseconds(100);
  });
  Reply watch;
  CallOptions options;
  options.timeout = Duration(0);
  client->start("GET", "/watch", nullptr, "", options, &watch);
  ASSERT_TRUE(run_until([&] { return watch.done(); }));
  EXPECT_NE(watch.error.message().find("PING"), std::string::npos) << watch.error.message();
}

TEST_F(ForeignServerTest, NobodyThere) {
  uint16_t port = 0;
  {
    FakeServer gone({});
    port = gone.port;
  }
  connect(port);
  Reply reply;
  client->start("GET", "/", nullptr, "", {}, &reply);
  ASSERT_TRUE(run_until([&] { return reply.done(); }));
  EXPECT_EQ(reply.error.message(), "connect to 127.0.0.1:" + std::to_string(port) + ": Connection refused");
  EXPECT_EQ(reply.error.code(), Code::kUnavailable);
  EXPECT_FALSE(reply.sent);
  // Many callers make no herd: attempts are spaced.
  std::deque<Reply> many(1000);
  for (Reply& r : many) client->start("GET", "/", nullptr, "", {}, &r);
  ASSERT_TRUE(run_until([&] { return many.back().done(); }));
  EXPECT_LE(client->stats().connections_failed, 3u);
}

TEST_F(ForeignServerTest, ASilentServerMeetsTheConnectTimeout) {
  FakeServer server({[](int fd) { read_to_end(fd); }});
  const ghostfleet::testing::TestPki pki;
  connect(server.port, [&](HttpClientOptions* o) {
    o->use_tls = true;
    TlsClientConfig config;
    config.ca_pem = pki.ca_pem();
    o->tls = TlsContext::client(config).value();
    o->connect_timeout = std::chrono::milliseconds(100);
  });
  Reply reply;
  client->start("GET", "/", nullptr, "", {}, &reply);
  ASSERT_TRUE(run_until([&] { return reply.done(); }));
  EXPECT_NE(reply.error.message().find("no connection within"), std::string::npos) << reply.error.message();
  EXPECT_FALSE(reply.sent);
}

TEST_F(ForeignServerTest, AProxyIsAskedToConnect) {
  Harness h(echo, {});
  std::string asked;
  // A proxy for one connection: answers CONNECT, then carries bytes both ways.
  FakeServer proxy({[&](int fd) {
    std::array<char, 4096> buffer;
    const ssize_t n = ::recv(fd, buffer.data(), buffer.size(), 0);
    asked.assign(buffer.data(), static_cast<size_t>(std::max<ssize_t>(n, 0)));
    const int upstream = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(h.server->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)!::connect(upstream, reinterpret_cast<sockaddr*>(&address), sizeof address);
    say(fd, "HTTP/1.1 200 Connection established\r\n\r\n");
    pollfd p[2] = {{fd, POLLIN, 0}, {upstream, POLLIN, 0}};
    for (bool open = true; open && ::poll(p, 2, 5000) > 0;) {
      for (int i = 0; i < 2; ++i) {
        if (p[i].revents == 0) continue;
        const ssize_t got = ::recv(p[i].fd, buffer.data(), buffer.size(), 0);
        if (got <= 0)
          open = false;
        else
          say(p[1 - i].fd, std::string_view(buffer.data(), static_cast<size_t>(got)));
      }
    }
    ::close(upstream);
  }});
  HttpClientOptions o = h.client_options();
  o.proxy = {"127.0.0.1", proxy.port, "user:secret", false};
  h.client = HttpClient::create(h.loop, o);
  Reply& reply = h.get("/through");
  EXPECT_EQ(reply.body, "GET /through ") << reply.error.message();
  EXPECT_EQ(asked.substr(0, 18), "CONNECT 127.0.0.1:");
  EXPECT_NE(asked.find("proxy-authorization: Basic dXNlcjpzZWNyZXQ=\r\n"), std::string::npos) << asked;
  h.client.reset();
}

TEST_F(ForeignServerTest, AProxyThatRefuses) {
  FakeServer proxy({[](int fd) {
    read_some(fd, 10);
    say(fd, "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
    read_to_end(fd);
  }});
  connect(1, [&](HttpClientOptions* o) { o->proxy = {"127.0.0.1", proxy.port, "", false}; });
  Reply reply;
  client->start("GET", "/", nullptr, "", {}, &reply);
  ASSERT_TRUE(run_until([&] { return reply.done(); }));
  EXPECT_EQ(reply.error.message(), "connect to 127.0.0.1:1: the proxy answered 407 Proxy Authentication Required");
}

TEST_F(RawTest, ABadCertificateIsToldToTheCaller) {
  Harness h(echo, {});
  const ghostfleet::testing::TestPki other("other-ca");
  HttpClientOptions o = h.client_options();
  TlsClientConfig config;
  config.ca_pem = other.ca_pem();
  o.tls = TlsContext::client(config).value();
  h.client = HttpClient::create(h.loop, o);
  Reply& reply = h.get("/");
  EXPECT_EQ(reply.error.code(), Code::kUnauthenticated);
  EXPECT_NE(reply.error.message().find("unable to get local issuer certificate"), std::string::npos)
      << reply.error.message();
  EXPECT_FALSE(reply.sent);
}

TEST_F(RawTest, TheHandlerSeesTheClientsCertificate) {
  HarnessOptions o;
  o.client_certificate = true;
  Harness h(
      [](const std::shared_ptr<Exchange>& e) {
        const auto& peer = e->request().peer_certificate;
        e->respond(200, {}, share(peer ? peer->common_name + "/" + peer->organizations[0] : "none"));
      },
      o);
  EXPECT_EQ(h.get("/").body, "node-1/system:nodes");
}

TEST_F(RawTest, TheAddressInUseIsNamed) {
  Harness h(echo, plain(false));
  ServerOptions o;
  o.port = h.server->port();
  const auto second = Server::listen(o, {&h.loop}, echo);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().message(), "listen on 127.0.0.1:" + std::to_string(o.port) + ": address already in use");
  o.address = "somewhere";
  EXPECT_EQ(Server::listen(o, {&h.loop}, echo).error().code(), Code::kInvalidArgument);
}

// Runs a program against a server that has its own thread; empty when the program is not installed.
std::string run_program(const std::string& command) {
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::string out;
  std::array<char, 4096> buffer;
  while (pipe && std::fgets(buffer.data(), buffer.size(), pipe)) out += buffer.data();
  if (pipe) ::pclose(pipe);
  return out;
}
bool installed(const char* program) {
  return run_program("command -v " + std::string(program)).find('/') != std::string::npos;
}

class ForeignClientTest : public ::testing::Test {
 protected:
  ForeignClientTest() {
    const auto pair = pki.server();
    ServerOptions o;
    o.tls = TlsContext::server({pair.certificate_pem, pair.key_pem, "", {"h2", "http/1.1"}}).value();
    server = std::move(Server::listen(o, {&loop, &second_loop}, echo).value());
    thread = std::thread([this] { loop.run(); });
    second_thread = std::thread([this] { second_loop.run(); });
    url = "https://127.0.0.1:" + std::to_string(server->port());
  }
  ~ForeignClientTest() override {
    loop.stop();
    second_loop.stop();
    thread.join();
    second_thread.join();
  }
  ghostfleet::testing::TestPki pki;
  EventLoop loop, second_loop;
  std::unique_ptr<Server> server;
  std::thread thread, second_thread;
  std::string url;
};

TEST_F(ForeignClientTest, Curl) {
  if (!installed("curl")) GTEST_SKIP() << "curl is not installed";
  EXPECT_EQ(run_program("curl -sk --http1.1 " + url + "/a"), "GET /a ");
  EXPECT_EQ(run_program("curl -sk --http2 -d body " + url + "/b"), "POST /b body");
  EXPECT_EQ(run_program("head -c 3145729 /dev/zero | curl -sk --http1.1 -o /dev/null -w '%{http_code}' --data-binary "
                        "@- " +
                        url + "/big"),
            "413");
  EXPECT_EQ(
      run_program("head -c 3145729 /dev/zero | curl -sk --http2 -o /dev/null -w '%{http_code}' --data-binary @- " +
                  url + "/big"),
      "413");
}

TEST_F(ForeignClientTest, H2load) {
  if (!installed("h2load")) GTEST_SKIP() << "h2load is not installed";
  const std::string out = run_program("h2load -n 5000 -c 10 -m 50 " + url + "/x");
  EXPECT_NE(out.find("5000 succeeded, 0 failed"), std::string::npos) << out;
}

}  // namespace
}  // namespace ghostfleet::kube::http
