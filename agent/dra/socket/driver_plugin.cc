#include "agent/dra/socket/driver_plugin.h"

#include <algorithm>

#include "base/log.h"

namespace ghostfleet::agent {
namespace {

using kube::grpc::RpcCallOptions;
using kube::grpc::RpcCode;
using kube::grpc::RpcStatus;

constexpr std::string_view kLog = "dra";
constexpr std::string_view kWatch = "/v1alpha1.DRAResourceHealth/NodeWatchResources";
// A stream that has not failed by then has a connection.
constexpr Duration kSettled = std::chrono::seconds(1);
// Between tries to connect to a driver that is away.
constexpr Duration kReconnect = std::chrono::seconds(1);

kube::grpc::RpcClientOptions client_options(const std::string& endpoint) {
  kube::grpc::RpcClientOptions out;
  out.host = "unix:" + endpoint;
  return out;
}

RpcStatus unreadable(const Status& why) {
  return kube::grpc::rpc_error(RpcCode::kInternal,
                               "grpc: failed to unmarshal the received message: proto: " + why.message());
}

// As grpc-go tells it of a connection that its owner has closed.
Status closing() {
  return kube::grpc::rpc_error(RpcCode::kCanceled, "grpc: the client connection is closing").to_status();
}

}  // namespace

DriverPlugin::DriverPlugin(EventLoop& loop, std::string driver, std::string endpoint, std::string service, Times times,
                           Events events)
    : loop_(loop),
      driver_(std::move(driver)),
      endpoint_(std::move(endpoint)),
      service_(std::move(service)),
      times_(times),
      events_(std::move(events)),
      client_(kube::grpc::RpcClient::create(loop, client_options(endpoint_))) {
  watch();
}

DriverPlugin::~DriverPlugin() { close(); }

void DriverPlugin::close() {
  if (std::exchange(closed_, true)) return;
  for (EventLoop::TimerId* timer : {&retry_timer_, &settle_timer_}) {
    if (*timer != 0) loop_.cancel(std::exchange(*timer, 0));
  }
  client_.reset();
  fail_calls(closing());
}

void DriverPlugin::fail_calls(const Status& why) {
  for (auto& [number, done] : std::exchange(open_, {})) {
    loop_.post([done = std::move(done), why] { done(why); });
  }
}

void DriverPlugin::prepare(const std::vector<ClaimName>& claims, Done done) {
  call("NodePrepareResources", claims, &decode_prepare_answers, std::move(done));
}

void DriverPlugin::unprepare(const std::vector<ClaimName>& claims, Done done) {
  call("NodeUnprepareResources", claims, &decode_unprepare_answers, std::move(done));
}

void DriverPlugin::call(std::string_view method, const std::vector<ClaimName>& claims, Decode decode, Done done) {
  const uint64_t number = ++last_call_;
  open_.emplace_back(number, std::move(done));
  RpcCallOptions options;
  options.timeout = times_.call;
  const std::string path = "/k8s.io.kubelet.pkg.apis.dra." + service_ + "/" + std::string(method);
  client_->call(path, encode_claim_names(claims), options,
                [this, number, decode](const RpcStatus& status, const std::string& reply) {
                  const auto at =
                      std::find_if(open_.begin(), open_.end(), [&](const auto& item) { return item.first == number; });
                  if (at == open_.end()) return;
                  const Done answered = std::move(at->second);
                  open_.erase(at);
                  if (!status.ok()) return answered(status.to_status());
                  auto answers = decode(reply);
                  answered(answers.ok() ? std::move(answers) : unreadable(answers.error()).to_status());
                });
}

void DriverPlugin::wait(EventLoop::TimerId* timer, Duration delay, std::function<void()> then) {
  if (*timer != 0) loop_.cancel(*timer);
  *timer = loop_.run_after(delay, [timer, then = std::move(then)] {
    *timer = 0;
    then();
  });
}

void DriverPlugin::watch() {
  stream_ = client_->stream(
      kWatch, "", {}, [this](std::string_view message) { on_health(message); },
      [this](const RpcStatus& status) { on_watch_ended(status); });
  wait(&settle_timer_, kSettled, [this] { set_connected(true); });
}

void DriverPlugin::on_health(std::string_view message) {
  set_connected(true);
  auto devices = decode_health(message);
  if (devices.ok()) return events_.health(*this, std::move(*devices));
  client_->cancel(stream_);
  on_watch_ended(unreadable(devices.error()));
}

void DriverPlugin::on_watch_ended(const RpcStatus& status) {
  if (settle_timer_ != 0) loop_.cancel(std::exchange(settle_timer_, 0));
  // Any answer of a server says that it is there.
  const bool away = status.code == RpcCode::kUnavailable;
  if (status.code != RpcCode::kUnimplemented && !(away && !connected_))
    log_info(kLog, "health of " + driver_ + ": " + (status.ok() ? "the driver closed the stream" : status.text()));
  events_.health_ended(*this);
  wait(&retry_timer_, away ? kReconnect : times_.watch_retry, [this, away, why = status.to_status()] {
    if (away) reconnect(why);
    watch();
  });
  set_connected(!away);
}

// A client waits ever longer between its own tries; a new one tries at once.
void DriverPlugin::reconnect(const Status& why) {
  client_ = kube::grpc::RpcClient::create(loop_, client_options(endpoint_));
  fail_calls(why);
}

void DriverPlugin::set_connected(bool on) {
  if (std::exchange(connected_, on) != on) events_.connection_changed(*this);
}

}  // namespace ghostfleet::agent
