// What one lease-sized PUT costs in the HTTP stack: CPU microseconds of the client's thread and of the server's, over
// TLS on loopback.
//
//   http_bench [--seconds S] [--connections N] [--streams M] [--http1] [--plain]
//
// Without --connections it runs the two shapes that matter: one connection with 500 requests in flight (the fleet's
// heartbeats), and 64 connections with one each (--connections per-node). Every finished call starts the next one.
// CPU is getrusage(RUSAGE_THREAD) of each thread, user and system.
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/event_loop.h"
#include "kube/http/client.h"
#include "kube/http/server.h"
#include "tests/support/test_pki.h"

namespace {

using namespace ghostfleet;
using namespace ghostfleet::kube::http;

double thread_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

const std::string kLease =
    R"({"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"node-00042","namespace":)"
    R"("kube-node-lease","uid":"7d1b8a53-98a5-4b0c-8f4e-5a4a3f7f2f6e","resourceVersion":"1234567"},"spec":)"
    R"({"holderIdentity":"node-00042","leaseDurationSeconds":40,"renewTime":"2026-01-05T10:00:00.000000Z"}})";

// A lane of calls: each answer starts the next request.
class Caller : public ResponseHandler {
 public:
  Caller(HttpClient* client, const HeaderList* headers, int index, uint64_t* finished, uint64_t* failed)
      : client_(client), headers_(headers), finished_(finished), failed_(failed) {
    target_ = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-" + std::to_string(index);
  }
  void next() {
    CallOptions options;
    options.lane = Lane::kHeartbeat;
    options.timeout = std::chrono::seconds(10);
    client_->start("PUT", target_, headers_, kLease, options, this);
  }
  void on_head(CallId, int status, const HeaderList&) override { *failed_ += status != 200; }
  void on_body(CallId, std::string_view) override {}
  void on_end(CallId) override {
    ++*finished_;
    next();
  }
  void on_error(CallId, const Status& status, bool) override {
    if (++*failed_ < 5) std::fprintf(stderr, "%s\n", status.to_string().c_str());
    next();
  }

 private:
  HttpClient* client_;
  const HeaderList* headers_;
  std::string target_;
  uint64_t *finished_, *failed_;
};

struct Shape {
  int connections = 1, streams = 500;
  bool http2 = true, tls = true;
};

void handle(const std::shared_ptr<Exchange>& exchange) {
  static const SharedBytes body = share(kLease);
  exchange->respond(200,
                    {{"audit-id", "c1b6e7a2-54a1-4b8e-a9b3-1f6a8f2d7c11"},
                     {"cache-control", "no-cache, private"},
                     {"content-type", "application/json"}},
                    body);
}

HttpClientOptions client_options(const testing::TestPki& pki, uint16_t port, const Shape& shape) {
  HttpClientOptions o;
  o.host = "127.0.0.1";
  o.port = port;
  o.use_tls = shape.tls;
  o.http2_without_tls = shape.http2;
  o.max_connections = 1;
  o.max_streams_per_connection = static_cast<uint32_t>(shape.streams);
  o.default_headers = {{"user-agent", "kubelet/v1.36.0 (linux/amd64) kubernetes/0000000"}};
  TlsClientConfig config;
  config.ca_pem = pki.ca_pem();
  config.alpn = {shape.http2 ? "h2" : "http/1.1"};
  if (shape.tls) o.tls = TlsContext::client(config).value();
  return o;
}

void run(const Shape& shape, double seconds) {
  const testing::TestPki pki;
  const auto pair = pki.server();
  EventLoop server_loop, client_loop;
  ServerOptions server_options;
  if (shape.tls)
    server_options.tls = TlsContext::server({pair.certificate_pem, pair.key_pem, "", {"h2", "http/1.1"}}).value();
  auto server = std::move(Server::listen(server_options, {&server_loop}, handle).value());
  double server_begin = 0, server_end = 0;
  std::thread server_thread([&] { server_loop.run(); });

  const HeaderList headers{{"accept", "application/json"},
                           {"content-type", "application/json"},
                           {"authorization", "Bearer " + std::string(120, 't')}};
  uint64_t finished = 0, failed = 0;
  const HttpClientOptions options = client_options(pki, server->port(), shape);
  std::vector<std::unique_ptr<HttpClient>> clients;
  std::vector<std::unique_ptr<Caller>> callers;
  for (int c = 0; c < shape.connections; ++c) {
    clients.push_back(HttpClient::create(client_loop, options));
    for (int s = 0; s < shape.streams; ++s) {
      callers.push_back(std::make_unique<Caller>(clients.back().get(), &headers, c * 1000 + s, &finished, &failed));
      callers.back()->next();
    }
  }
  client_loop.run_for(std::chrono::milliseconds(700));  // handshakes, and memory grows to its size
  server_loop.post([&] { server_begin = thread_cpu_seconds(); });
  const uint64_t before = finished;
  const double client_begin = thread_cpu_seconds();
  client_loop.run_for(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
  const double client_cpu = thread_cpu_seconds() - client_begin;
  const auto calls = static_cast<double>(finished - before);
  server_loop.post([&] {
    server_end = thread_cpu_seconds();
    server_loop.stop();
  });
  server_thread.join();
  std::printf("%-5s %-5s %3d x %-4d  client %6.2f us  server %6.2f us  %8.0f calls/s  %llu failed\n",
              shape.http2 ? "h2" : "h1.1", shape.tls ? "tls" : "plain", shape.connections, shape.streams,
              client_cpu / calls * 1e6, (server_end - server_begin) / calls * 1e6, calls / seconds,
              static_cast<unsigned long long>(failed));
  clients.clear();
  server.reset();
}

}  // namespace

int main(int argc, char** argv) {
  Shape shape;
  double seconds = 3;
  bool chosen = false;
  for (int i = 1; i < argc; ++i) {
    const auto value = [&] { return i + 1 < argc ? std::atof(argv[++i]) : 0; };
    if (std::strcmp(argv[i], "--seconds") == 0)
      seconds = value();
    else if (std::strcmp(argv[i], "--connections") == 0)
      shape.connections = static_cast<int>(value()), chosen = true;
    else if (std::strcmp(argv[i], "--streams") == 0)
      shape.streams = static_cast<int>(value()), chosen = true;
    else if (std::strcmp(argv[i], "--http1") == 0)
      shape.http2 = false;
    else if (std::strcmp(argv[i], "--plain") == 0)
      shape.tls = false;
    else
      return std::fprintf(stderr,
                          "usage: http_bench [--seconds S] [--connections N] [--streams M] [--http1] [--plain]\n"),
             2;
  }
  if (chosen) return run(shape, seconds), 0;
  run({1, shape.http2 ? 500 : 1, shape.http2, shape.tls}, seconds);
  run({64, 1, shape.http2, shape.tls}, seconds);
  return 0;
}
