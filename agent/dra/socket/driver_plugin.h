// DriverPlugin: ONE plugin of a DRA driver, from its registration to its end: its connection, its calls, and its stream
// of health.
//
// Thread rule: the host's loop. Ownership: the host owns it, and lets go of it from the loop, never from inside one of
// its callbacks. What the events reach outlives it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/dra/claim_drivers.h"
#include "base/event_loop.h"
#include "kube/grpc/client.h"

namespace ghostfleet::agent {

class DriverPlugin {
 public:
  struct Events {
    std::function<void(DriverPlugin& plugin)> connection_changed;
    std::function<void(DriverPlugin& plugin, std::vector<HealthReport> devices)> health;
    std::function<void(DriverPlugin& plugin)> health_ended;
  };
  struct Times {
    Duration call{0}, watch_retry{0};
  };
  using Done = ClaimDrivers::Done;

  // `service`: "v1.DRAPlugin". The stream of health is opened at once.
  DriverPlugin(EventLoop& loop, std::string driver, std::string endpoint, std::string service, Times times,
               Events events);
  ~DriverPlugin();

  const std::string& driver() const { return driver_; }
  const std::string& endpoint() const { return endpoint_; }
  bool connected() const { return connected_; }
  void prepare(const std::vector<ClaimName>& claims, Done done);
  void unprepare(const std::vector<ClaimName>& claims, Done done);
  // No further event; calls that are open fail.
  void close();

 private:
  using Decode = Result<ClaimAnswers> (*)(std::string_view bytes);

  void call(std::string_view method, const std::vector<ClaimName>& claims, Decode decode, Done done);
  void watch();
  void on_health(std::string_view message);
  void on_watch_ended(const kube::grpc::RpcStatus& status);
  void reconnect(const Status& why);
  void fail_calls(const Status& why);
  void set_connected(bool on);
  void wait(EventLoop::TimerId* timer, Duration delay, std::function<void()> then);

  EventLoop& loop_;
  const std::string driver_, endpoint_, service_;
  const Times times_;
  const Events events_;
  bool connected_ = true, closed_ = false;
  uint64_t last_call_ = 0;
  std::vector<std::pair<uint64_t, Done>> open_;
  kube::grpc::RpcCallId stream_ = 0;
  EventLoop::TimerId retry_timer_ = 0, settle_timer_ = 0;
  std::unique_ptr<kube::grpc::RpcClient> client_;
};

}  // namespace ghostfleet::agent
