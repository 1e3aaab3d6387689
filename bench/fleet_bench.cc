// What a fleet costs by itself: CPU for each lease renewal and memory for each idle node, against a server in another
// process that answers from a text template. TLS and HTTP/2 as always.
//
// usage: fleet_bench [NODES=100000] [LEASE_SECONDS=40] [MEASURED_SECONDS=20]
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <thread>

#include "agent/node/json_scan.h"
#include "emulator/fleet/fleet.h"
#include "kube/http/server.h"
#include "tests/support/test_pki.h"

namespace ghostfleet {
namespace {

using agent::scan_path;
using agent::scan_string;
using kube::http::Exchange;

// Answers every write with what it was given, a uid and a new version; every list with nothing; watches stay open.
class EchoApi {
 public:
  void serve(const std::shared_ptr<Exchange>& exchange) {
    const auto& request = exchange->request();
    if (request.method == "GET") return read(exchange);
    std::string_view body = request.body;
    if (request.method == "PATCH") body = R"({"metadata":{}})";
    const std::string_view key = R"("metadata":{)";
    const size_t at = body.find(key);
    std::string answer(body.substr(0, at + key.size()));
    ++version_;
    answer += fmt::format(R"("uid":"5b0c1c7e-0000-4000-8000-{:012d}","resourceVersion":"{}",)", version_, version_);
    answer += body.substr(at + key.size());
    if (answer.ends_with(",}}")) answer.erase(answer.size() - 3, 1);
    exchange->respond(request.method == "POST" ? 201 : 200, {{"content-type", "application/json"}},
                      share(std::move(answer)));
  }

 private:
  void read(const std::shared_ptr<Exchange>& exchange) {
    const std::string_view query = exchange->request().query();
    if (query.find("watch=true") == std::string_view::npos) {
      return exchange->respond(200, {{"content-type", "application/json"}},
                               share(R"({"kind":"List","metadata":{"resourceVersion":"1"},"items":[]})"));
    }
    exchange->start(200, {{"content-type", "application/json"}});
    exchange->write(share(
        R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}})"
        "\n"));
    watches_.push_back(exchange);
  }

  uint64_t version_ = 1;
  std::vector<std::shared_ptr<Exchange>> watches_;
};

[[noreturn]] void run_server(int port_pipe, const testing::TestPki& pki) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  EventLoop loop;
  EchoApi api;
  const auto pair = pki.server();
  kube::http::ServerOptions options;
  options.tls = *kube::http::TlsContext::server({pair.certificate_pem, pair.key_pem, {}, {"h2"}});
  auto server = kube::http::Server::listen(options, {&loop}, [&api](std::shared_ptr<Exchange> e) { api.serve(e); });
  const uint16_t port = server.ok() ? (*server)->port() : 0;
  if (write(port_pipe, &port, sizeof port) != sizeof port || port == 0) _exit(1);
  loop.run();
  _exit(0);
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

double rss_bytes() {
  std::ifstream statm("/proc/self/statm");
  double pages = 0;
  double resident = 0;
  statm >> pages >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

int measure(uint16_t port, const testing::TestPki& pki, uint32_t nodes, int lease_seconds, int seconds) {
  emulator::FleetOptions o;
  o.client.server_url = fmt::format("https://127.0.0.1:{}", port);
  o.client.tls.ca_pem = pki.ca_pem();
  o.name = "bench";
  o.shards = 1;
  o.events = agent::NodeEvents::kNone;
  o.lease_duration = std::chrono::seconds(lease_seconds);
  emulator::FleetGroup group;
  group.count = nodes;
  group.node.capacity = {{"cpu", "192"}, {"memory", "2097152000Ki"}, {"pods", "110"}, {"nvidia.com/gpu", "8"}};
  o.groups.push_back(group);
  const double empty = rss_bytes();
  auto fleet = emulator::Fleet::start(o);
  if (!fleet.ok()) {
    std::fprintf(stderr, "%s\n", fleet.error().message().c_str());
    return 1;
  }
  while ((*fleet)->snapshot().ready < nodes) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double ready_cpu = cpu_seconds();
  std::printf("nodes %u ready in %.2f s, %.1f us CPU each\n", nodes, (*fleet)->snapshot().ready_seconds,
              ready_cpu * 1e6 / nodes);
  std::this_thread::sleep_for(std::chrono::seconds(lease_seconds / 4 + 1));
  const auto before = (*fleet)->snapshot();
  const double cpu = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  const auto after = (*fleet)->snapshot();
  const double used = cpu_seconds() - cpu;
  const auto renewals = static_cast<double>(after.renewals - before.renewals);
  std::printf("renewals %.0f/s, CPU %.2f us each (process %.1f %%)\n", renewals / seconds, used * 1e6 / renewals,
              used * 100 / seconds);
  std::printf("lateness p50 %.4f p99 %.4f max %.4f s\n", after.lateness_p50, after.lateness_p99, after.lateness_max);
  std::printf("memory %.0f bytes a node (RSS above the empty process: %.1f MiB)\n", (rss_bytes() - empty) / nodes,
              (rss_bytes() - empty) / 1048576);
  for (const auto& [kind, n] : after.errors) std::printf("errors %s: %lu\n", kind.c_str(), n);
  (*fleet)->stop();
  return 0;
}

}  // namespace
}  // namespace ghostfleet

int main(int argc, char** argv) {
  using namespace ghostfleet;
  const uint32_t nodes = argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 100000;
  const int lease_seconds = argc > 2 ? std::atoi(argv[2]) : 40;
  const int seconds = argc > 3 ? std::atoi(argv[3]) : 20;
  const testing::TestPki pki;
  int ends[2];
  if (pipe(ends) != 0) return 1;
  const pid_t server = fork();
  if (server == 0) run_server(ends[1], pki);
  uint16_t port = 0;
  if (server < 0 || read(ends[0], &port, sizeof port) != sizeof port || port == 0) return 1;
  const int code = measure(port, pki, nodes, lease_seconds, seconds);
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  return code;
}
