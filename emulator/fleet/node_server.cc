#include "emulator/fleet/node_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "agent/kubelet_api/kubelet_api.h"
#include "agent/node/node_class.h"
#include "base/event_loop.h"
#include "base/files.h"
#include "base/log.h"
#include "emulator/fleet/node_server_backend.h"
#include "kube/api/json.h"
#include "kube/http/self_signed.h"
#include "kube/http/server.h"

namespace ghostfleet::emulator {
namespace {

using kube::http::TlsContext;

constexpr uint16_t kUsualPort = 10250;
constexpr int kLastPort = 65535, kTriesOfAnyPort = 50;
constexpr size_t kMaxPem = 1 << 20;
constexpr Duration kCaRetry = std::chrono::seconds(10), kCaRefresh = std::chrono::minutes(5);
constexpr std::string_view kCaMap = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || (parse_ipv4(host) && host.starts_with("127."));
}

kube::http::Limits limits_of_a_kubelet() {
  kube::http::Limits limits;
  limits.max_header_bytes = 1024 * 1024;
  limits.max_body_bytes = 1024 * 1024;  // nothing that is posted here is large
  limits.max_backlog_bytes = 8 * 1024 * 1024;
  return limits;
}

class RunningServer final : public NodeServer {
 public:
  RunningServer(NodeServerOptions options, const FleetNames* names) : options_(std::move(options)), names_(names) {}
  ~RunningServer() override { stop(); }

  Status listen(uint32_t nodes);
  uint16_t port() const override { return options_.mode == NodeServerMode::kPorts ? 0 : servers_.front()->port(); }
  uint16_t first_port() const { return servers_.front()->port(); }
  const std::string& remark() const override { return remark_; }
  Status start(Parts parts) override;
  void stop() override;
  const MetricsRegistry& metrics() const override { return servers_.front()->metrics(); }

 private:
  Status load_certificate();
  Status make_context(const std::string& client_ca);
  Result<std::unique_ptr<kube::http::Server>> open(const std::string& address, uint16_t port);
  Status listen_on_loopback();
  Status listen_on_ports(uint32_t nodes);
  Status listen_in_a_row(uint32_t nodes);
  Status port_failure(const Status& why, uint32_t nodes) const;
  void serve(const std::shared_ptr<kube::http::Exchange>& exchange);
  std::shared_ptr<const TlsContext> choose(const std::string& address, uint16_t port) const;
  void read_client_ca();

  NodeServerOptions options_;
  const FleetNames* names_;
  std::string remark_, cert_pem_, key_pem_, client_ca_;
  std::shared_ptr<const TlsContext> context_;  // the loop's thread, once it runs
  EventLoop loop_;
  std::unique_ptr<NodeServerBackend> backend_;
  std::unique_ptr<kubelet_api::KubeletApi> api_;
  std::vector<std::unique_ptr<kube::http::Server>> servers_;  // one, or one for each node
  std::thread thread_;
};

Status RunningServer::load_certificate() {
  if (options_.tls_cert_file.empty()) {
    auto made = kube::http::make_self_signed("ghostfleet-nodes", {"localhost"}, {"127.0.0.1"});
    if (!made.ok()) return made.error();
    cert_pem_ = std::move(made->cert_pem);
    key_pem_ = std::move(made->key_pem);
    return Status();
  }
  auto cert = read_file(options_.tls_cert_file, kMaxPem);
  if (!cert.ok()) return cert.error().with_context("--tls-cert-file");
  auto key = read_file(options_.tls_key_file, kMaxPem);
  if (!key.ok()) return key.error().with_context("--tls-private-key-file");
  cert_pem_ = std::move(*cert);
  key_pem_ = std::move(*key);
  return Status();
}

// As a kubelet: a client whose certificate is not one of the client CA's may still show a token, else it is told 401.
Result<std::shared_ptr<const TlsContext>> server_context(const std::string& cert_pem, const std::string& key_pem,
                                                         const std::string& client_ca) {
  kube::http::TlsServerConfig config;
  config.cert_pem = cert_pem;
  config.key_pem = key_pem;
  config.client_ca_pem = client_ca;
  config.bad_client_is_none = true;
  return TlsContext::server(config);
}

Status RunningServer::make_context(const std::string& client_ca) {
  auto context = server_context(cert_pem_, key_pem_, client_ca);
  if (!context.ok()) return context.error();
  context_ = std::move(context).value();
  client_ca_ = client_ca;
  return Status();
}

Result<std::unique_ptr<kube::http::Server>> RunningServer::open(const std::string& address, uint16_t port) {
  kube::http::ServerOptions options;
  options.address = address;
  options.port = port;
  options.limits = limits_of_a_kubelet();
  options.tls = context_;
  options.choose_tls = [this](const std::string& to, uint16_t at) { return choose(to, at); };
  if (options_.mode == NodeServerMode::kLoopback) options.bind_to_device = "lo";
  return kube::http::Server::listen(std::move(options), {&loop_},
                                    [this](const std::shared_ptr<kube::http::Exchange>& e) { serve(e); });
}

Status RunningServer::listen(uint32_t nodes) {
  GF_RETURN_IF_ERROR(load_certificate());
  std::string client_ca;
  if (!options_.client_ca_file.empty()) {
    auto text = read_file(options_.client_ca_file, kMaxPem);
    if (!text.ok()) return text.error().with_context("--client-ca-file");
    client_ca = std::move(*text);
  }
  GF_RETURN_IF_ERROR(make_context(client_ca));
  return options_.mode == NodeServerMode::kPorts ? listen_on_ports(nodes) : listen_on_loopback();
}

Status RunningServer::listen_on_loopback() {
  auto server = open("0.0.0.0", static_cast<uint16_t>(options_.port));
  if (!server.ok() && server.error().code() == Code::kAlreadyExists && !options_.port_given) {
    server = open("0.0.0.0", 0);
    if (server.ok()) {
      remark_ = fmt::format("node servers: port {} is taken (a kubelet or another fleet), so port {} is used",
                            options_.port, (*server)->port());
    }
  }
  if (!server.ok()) return server.error().with_context("--kubelet-port");
  servers_.push_back(std::move(*server));
  return Status();
}

// Whether the port or the address is at fault.
Status RunningServer::port_failure(const Status& why, uint32_t nodes) const {
  if (why.code() == Code::kAlreadyExists || why.code() == Code::kPermissionDenied ||
      why.code() == Code::kResourceExhausted)
    return why.with_context(fmt::format("--kubelet-port: nodes need {} ports in a row", nodes));
  return invalid_argument(
      fmt::format("--kubelet-address {}: an address of this machine is expected: {}", options_.address, why.message()));
}

Status RunningServer::listen_on_ports(uint32_t nodes) {
  Status why = listen_in_a_row(nodes);
  // A first port that the system chose may have a neighbour that is taken; another one may not.
  for (int tries = 1; options_.port == 0 && why.code() == Code::kAlreadyExists && tries < kTriesOfAnyPort; ++tries)
    why = listen_in_a_row(nodes);
  return why.ok() ? why : port_failure(why, nodes);
}

Status RunningServer::listen_in_a_row(uint32_t nodes) {
  servers_.clear();
  int first = options_.port;
  for (int n = 0; n < static_cast<int>(nodes); ++n) {
    if (first + n > kLastPort) return Status(Code::kAlreadyExists, fmt::format("{} is the last port", kLastPort));
    auto server = open(options_.address, static_cast<uint16_t>(first == 0 ? 0 : first + n));
    if (!server.ok()) return server.error();
    if (first == 0) first = (*server)->port();
    servers_.push_back(std::move(*server));
  }
  return Status();
}

Status RunningServer::start(Parts parts) {
  backend_ = std::make_unique<NodeServerBackend>(loop_, parts);
  GF_RETURN_IF_ERROR(backend_->connect(parts.client));
  kubelet_api::KubeletApiOptions options;
  options.usage = options_.usage;
  api_ = std::make_unique<kubelet_api::KubeletApi>(*backend_, SystemClock::instance(), kube::stream::loop_timers(loop_),
                                                   options);
  if (options_.client_ca_file.empty() && parts.ask_for_client_ca) {
    loop_.post([this] { read_client_ca(); });
  } else if (options_.client_ca_file.empty() && !parts.client.tls.ca_pem.empty()) {
    GF_RETURN_IF_ERROR(make_context(parts.client.tls.ca_pem));
  }
  thread_ = std::thread([this] { loop_.run(); });
  return Status();
}

void RunningServer::stop() {
  loop_.stop();
  if (thread_.joinable()) thread_.join();
  api_.reset();
  backend_.reset();
}

std::shared_ptr<const TlsContext> RunningServer::choose(const std::string& address, uint16_t port) const {
  if (options_.certificate_of) {
    const auto node = names_->node_at(address, port);
    const auto identity = node ? options_.certificate_of(*node) : nullptr;
    if (identity) {
      // Made for the connection: a context kept for each of many nodes would cost more than this.
      auto context = server_context(identity->cert_pem, identity->key_pem, client_ca_);
      if (context.ok()) return std::move(context).value();
    }
  }
  return context_;
}

void RunningServer::serve(const std::shared_ptr<kube::http::Exchange>& exchange) {
  const kube::http::Request& request = exchange->request();
  const auto node = names_->node_at(request.local_address, request.local_port);
  if (node && api_) return api_->handle(*node, exchange);
  exchange->respond(404, {{"content-type", "text/plain; charset=utf-8"}},
                    share(fmt::format("no node of this fleet has the address {}\n", request.local_address)));
}

// The CA of client certificates is published by API servers that have one; it may change, and may come later.
void RunningServer::read_client_ca() {
  backend_->call_api(0, std::string(kCaMap), {}, [this](const kubelet_api::ApiAnswer& answer) {
    const auto map = answer.ok() ? kube::parse_json(answer.body) : Result<kube::Json>(not_found("no map"));
    const kube::JsonObject* data = map.ok() ? kube::get_object(*map, "data") : nullptr;
    const kube::Json* pem = data == nullptr ? nullptr : data->if_contains("client-ca-file");
    const bool found = pem != nullptr && pem->is_string();
    if (found && std::string_view(pem->get_string()) != client_ca_) {
      const Status made = make_context(std::string(pem->get_string()));
      if (!made.ok()) log_warn("kubelet", "client-ca-file of extension-apiserver-authentication: " + made.message());
    }
    const bool later = found || answer.status == 403;
    loop_.run_after(later ? kCaRefresh : kCaRetry, [this] { read_client_ca(); });
  });
}

Status check_file(const std::string& flag, const std::string& path) {
  if (path.empty() || file_exists(path)) return Status();
  return not_found(fmt::format("{} {}: there is no such file", flag, path));
}

}  // namespace

NodeServerMode resolve_mode(NodeServerMode mode, const std::string& server_url) {
  if (mode != NodeServerMode::kAuto) return mode;
  const auto endpoint = kube::parse_server_url(server_url);
  return endpoint.ok() && is_loopback(endpoint->host) ? NodeServerMode::kLoopback : NodeServerMode::kOff;
}

Status check_node_server(const NodeServerOptions& o, uint32_t nodes) {
  if (o.mode == NodeServerMode::kOff) return Status();
  if (o.tls_cert_file.empty() != o.tls_key_file.empty())
    return invalid_argument("--tls-cert-file and --tls-private-key-file: one needs the other");
  GF_RETURN_IF_ERROR(check_file("--tls-cert-file", o.tls_cert_file));
  GF_RETURN_IF_ERROR(check_file("--tls-private-key-file", o.tls_key_file));
  GF_RETURN_IF_ERROR(check_file("--client-ca-file", o.client_ca_file));
  if (o.mode == NodeServerMode::kPorts) {
    if (!parse_ipv4(o.address))
      return invalid_argument(fmt::format(
          "--kubelet-address \"{}\": --kubelet-server ports needs an IPv4 address of this machine", o.address));
    if (nodes > kMaxNodesByPort)
      return invalid_argument(
          fmt::format("--kubelet-server ports: at most {} nodes can have a port each, not {}", kMaxNodesByPort, nodes));
    if (o.port != 0 && o.port + static_cast<int64_t>(nodes) - 1 > 65535)
      return invalid_argument(fmt::format("--kubelet-port {}: {} nodes need ports up to {}, but 65535 is the last",
                                          o.port, nodes, o.port + static_cast<int64_t>(nodes) - 1));
    return Status();
  }
  if (o.node_cidr.empty()) return Status();
  const auto network = NodeNetwork::parse(o.node_cidr, nodes);
  return network.ok() ? Status() : network.error().with_context("--node-cidr");
}

Result<std::unique_ptr<NodeServer>> NodeServer::bind(const NodeServerOptions& options, FleetNames* names) {
  Status status = check_node_server(options, names->size());
  if (!status.ok()) return status;
  auto server = std::make_unique<RunningServer>(options, names);
  status = server->listen(names->size());
  if (!status.ok()) return status;
  NodeNetwork network = NodeNetwork::loopback();
  if (options.mode == NodeServerMode::kPorts) {
    network.shared_address = options.address;
    network.first_port = server->first_port();
  } else if (!options.node_cidr.empty()) {
    network = *NodeNetwork::parse(options.node_cidr, names->size());
  }
  names->set_network(network);
  return std::unique_ptr<NodeServer>(std::move(server));
}

}  // namespace ghostfleet::emulator
