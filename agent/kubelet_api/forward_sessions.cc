// port-forward: each connection meets a small HTTP responder when the pod declares the port, and is refused otherwise.
// No connection to anything is made.
#include <fmt/format.h>

#include <set>

#include "agent/kubelet_api/http_responder.h"
#include "agent/kubelet_api/kubelet_api_impl.h"
#include "kube/stream/port_forward.h"

namespace ghostfleet::kubelet_api {

using agent::PodView;
using kube::Json;
using kube::stream::ForwardedConnection;

namespace {

constexpr size_t kHighWater = 256 * 1024, kLowWater = 64 * 1024;

std::set<uint16_t> declared_ports(const Json& pod) {
  std::set<uint16_t> ports;
  for (const char* list : {"spec.containers", "spec.initContainers"}) {
    const kube::JsonArray* containers = kube::get_array(pod, list);
    for (size_t i = 0; containers != nullptr && i < containers->size(); ++i) {
      const kube::JsonArray* declared = kube::get_array((*containers)[i], "ports");
      for (size_t k = 0; declared != nullptr && k < declared->size(); ++k) {
        const std::string_view protocol = kube::get_string((*declared)[k], "protocol");
        const int64_t port = kube::get_int((*declared)[k], "containerPort");
        if ((protocol.empty() || protocol == "TCP") && port > 0 && port < 65536)
          ports.insert(static_cast<uint16_t>(port));
      }
    }
  }
  return ports;
}

// One forwarded connection; it ends itself.
class Connection final : public kube::stream::ForwardedHandler, public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<ForwardedConnection> connection, std::string text)
      : connection_(std::move(connection)), responder_(std::move(text)) {}
  void begin() {
    self_ = shared_from_this();
    connection_->set_handler(this);
  }
  void on_data(std::string_view bytes) override {
    std::string out;
    const bool more = responder_.feed(bytes, &out);
    if (!out.empty()) connection_->write(share(std::move(out)));
    if (!more) {
      connection_->finish();
      over_ = true;
    }
    if (!over_ && connection_->backlog() > kHighWater) wait_for_reader();
  }
  void on_data_end() override {
    connection_->close();
    self_.reset();
  }
  void on_close(const Status&) override { self_.reset(); }

 private:
  void wait_for_reader() {
    connection_->pause();
    connection_->when_drained(kLowWater, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->connection_->resume();
    });
  }

  std::shared_ptr<ForwardedConnection> connection_;
  HttpResponder responder_;
  bool over_ = false;
  std::shared_ptr<Connection> self_;
};

}  // namespace

class KubeletApi::ForwardSession final : public Session, public kube::stream::PortForwardHandler {
 public:
  ForwardSession(KubeletApi& api, const PodView& pod, std::set<uint16_t> ports)
      : api_(api), ns_(pod.ns), pod_(pod.name), uid_(pod.uid), ports_(std::move(ports)) {}
  bool begin(const std::shared_ptr<kube::http::Exchange>& exchange, const kube::stream::PortForwardOptions& options) {
    session_ = accept_port_forward(exchange, options, this);
    return session_ != nullptr;
  }
  void on_connection(std::shared_ptr<ForwardedConnection> connection) override {
    const uint16_t port = connection->port();
    if (!ports_.contains(port)) {
      connection->fail(
          fmt::format("error forwarding port {0} to pod {1}, uid {2}: failed to execute portforward in network "
                      "namespace: failed to "
                      "connect to localhost:{0} inside namespace \"{1}\", IPv4: dial tcp4 127.0.0.1:{0}: connect: "
                      "connection refused",
                      port, pod_, uid_));
      return;
    }
    std::make_shared<Connection>(std::move(connection), fmt::format("{}/{} port {}\n", ns_, pod_, port))->begin();
  }
  void on_close(const Status&) override { api_.drop_session(this); }

 private:
  KubeletApi& api_;
  std::string ns_, pod_, uid_;
  std::set<uint16_t> ports_;
  std::shared_ptr<kube::stream::PortForwardSession> session_;
};

void KubeletApi::forward(const CallPtr& call) {
  with_pod(
      call,
      [this, call](const PodView& pod) {
        const bool running = std::any_of(pod.containers.begin(), pod.containers.end(),
                                         [](const auto& c) { return c.state == agent::ContainerState::kRunning; });
        if (!running) return call->text(500, fmt::format("pod not found (\"{}_{}\")\n", pod.name, pod.ns));
        kube::stream::PortForwardOptions options;
        const auto ports = kube::stream::parse_forward_ports(call->request().query());
        if (!ports.ok()) return call->text(400, ports.error().message() + "\n");
        options.ports = *ports;
        options.timers = timers_;
        if (!room_for_session(call)) return;
        with_spec(call, pod, [this, call, pod, options](const Json& spec) {
          auto session = std::make_shared<ForwardSession>(*this, pod, declared_ports(spec));
          if (session->begin(call->exchange, options)) add_session(std::move(session));
        });
      },
      "pod does not exist");
}

}  // namespace ghostfleet::kubelet_api
