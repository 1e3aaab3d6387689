// SyncClient: a KubeClient on a loop thread of its own, for tools that ask one thing after the other.
#include <future>
#include <thread>

#include "kube/client/client.h"

namespace ghostfleet::kube {
namespace {

class ThreadedClient final : public SyncClient {
 public:
  ThreadedClient(http::HttpClientOptions http, std::string prefix, ClientAuth auth, KubeClientOptions options)
      : client_(KubeClient::create(loop_, std::move(http), std::move(prefix), std::move(auth), options)),
        thread_([this] { loop_.run(); }) {}
  ~ThreadedClient() override {
    loop_.post([this] {
      client_.reset();
      loop_.stop();
    });
    thread_.join();
  }

  ApiCallResult call_sync(ApiCall call) override {
    std::promise<ApiCallResult> promise;
    std::future<ApiCallResult> future = promise.get_future();
    loop_.post([this, &call, &promise] {
      client_->call(std::move(call), [&promise](ApiCallResult result) { promise.set_value(std::move(result)); });
    });
    return future.get();
  }

 private:
  EventLoop loop_;
  std::unique_ptr<KubeClient> client_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<SyncClient>> SyncClient::create(const ClientConfig& config, KubeClientOptions options) {
  std::string prefix;
  Result<http::HttpClientOptions> http = make_http_options(config, &prefix);
  if (!http.ok()) return http.error();
  return std::unique_ptr<SyncClient>(
      std::make_unique<ThreadedClient>(std::move(*http), std::move(prefix), config.auth, options));
}

}  // namespace ghostfleet::kube
