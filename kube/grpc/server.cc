#include "kube/grpc/server.h"

#include "kube/grpc/server_call.h"
#include "kube/http/server.h"

namespace ghostfleet::kube::grpc {
namespace {

class HttpRpcServer final : public RpcServer {
 public:
  explicit HttpRpcServer(std::unique_ptr<http::Server> http) : http_(std::move(http)) {}

  uint16_t port() const override { return http_->port(); }
  size_t connection_count() const override { return http_->connection_count(); }
  void drain(Duration grace, std::function<void()> done) override { http_->drain(grace, std::move(done)); }

 private:
  std::unique_ptr<http::Server> http_;
};

}  // namespace

const RpcServices::Method* RpcServices::find(std::string_view path) const {
  const auto at = methods_.find(path);
  return at == methods_.end() ? nullptr : &at->second;
}

bool RpcServices::has_service(std::string_view service) const {
  const std::string prefix = "/" + std::string(service) + "/";
  const auto at = methods_.lower_bound(prefix);
  return at != methods_.end() && at->first.compare(0, prefix.size(), prefix) == 0;
}

Result<std::unique_ptr<RpcServer>> RpcServer::listen(RpcServerOptions options, std::vector<EventLoop*> loops,
                                                     RpcServices services) {
  auto share = std::make_shared<ServerShare>();
  share->services = std::move(services);
  share->max_message_bytes = options.max_message_bytes;
  share->request_timeout = options.request_timeout;
  http::ServerOptions http;
  http.address = std::move(options.address);
  http.port = options.port;
  http.unix_mode = options.unix_mode;
  http.tls = std::move(options.tls);
  http.limits = options.limits;
  http.stream_bodies = true;
  auto server =
      http::Server::listen(std::move(http), std::move(loops), [share](std::shared_ptr<http::Exchange> exchange) {
        std::make_shared<CallState>(share, std::move(exchange))->begin();
      });
  if (!server.ok()) return server.error();
  return std::unique_ptr<RpcServer>(std::make_unique<HttpRpcServer>(std::move(*server)));
}

}  // namespace ghostfleet::kube::grpc
