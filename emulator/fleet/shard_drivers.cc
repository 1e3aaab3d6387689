#include "emulator/fleet/shard_drivers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/files.h"
#include "kube/api/json.h"

namespace ghostfleet::emulator {

namespace {

constexpr std::string_view kSlices = "/apis/resource.k8s.io/v1/resourceslices";
// Between tries, as a kubelet waits.
constexpr Duration kFirstRetry = std::chrono::seconds(1), kLongestRetry = std::chrono::minutes(5);

std::string message_of(const agent::ApiResponse& response) {
  const auto object = kube::parse_json(response.body);
  const std::string_view message = object.ok() ? kube::get_string(*object, "message") : std::string_view();
  return message.empty() ? fmt::format("the server answered {}", response.status) : std::string(message);
}

}  // namespace

Result<std::unique_ptr<ShardDrivers>> ShardDrivers::open(ShardDriversParts parts) {
  std::unique_ptr<ShardDrivers> drivers(new ShardDrivers(std::move(parts)));
  GF_RETURN_IF_ERROR(drivers->begin());
  return drivers;
}

ShardDrivers::~ShardDrivers() {
  if (timer_ != 0) parts_.loop->cancel(timer_);
}

Status ShardDrivers::begin() {
  GF_RETURN_IF_ERROR(make_directories(parts_.root + "/plugins"));  // where drivers have their own folders
  agent::DriverHostOptions options;
  options.state_file = parts_.root + "/" + std::string(agent::DriverHost::kStateFile);
  options.own_driver = parts_.own_driver;
  options.wipe = [this](std::string_view driver) { wipe(driver); };
  options.health_changed = parts_.health_changed;
  options.active_pods = parts_.active_pods;
  auto host = agent::DriverHost::open(*parts_.loop, std::move(options));
  if (!host.ok()) return host.error();
  host_ = std::move(*host);
  agent::PluginRegistryOptions registry;
  registry.directory = parts_.root + "/plugins_registry";
  registry.handlers["DRAPlugin"] = &host_->handler();
  if (parts_.device_plugins != nullptr) registry.handlers["DevicePlugin"] = parts_.device_plugins;
  auto opened = agent::PluginRegistry::open(*parts_.loop, std::move(registry));
  if (!opened.ok()) return opened.error();
  registry_ = std::move(*opened);
  // No driver has registered yet: nothing of theirs can be used.
  if (parts_.own_driver.empty()) wipe("");
  return Status();
}

void ShardDrivers::registered() {
  registered_ = true;
  send_next();
}

void ShardDrivers::wipe(std::string_view driver) {
  const auto same = [driver](const Wipe& wipe) { return wipe.driver == driver; };
  if (std::any_of(wipes_.begin(), wipes_.end(), same)) return;
  wipes_.push_back({std::string(driver), 0});
  send_next();
}

void ShardDrivers::send_next() {
  if (!registered_ || waiting_ || wipes_.empty()) return;
  waiting_ = true;
  std::string selector = "spec.nodeName%3D" + parts_.node;
  const std::string& driver = wipes_.front().driver;
  if (!driver.empty()) selector = fmt::format("spec.driver%3D{}%2C{}", driver, selector);
  agent::ApiRequest request;
  request.verb = agent::Verb::kDelete;
  request.priority = agent::Priority::kBulk;
  request.tag = kDriversTag;
  request.target = fmt::format("{}?fieldSelector={}", kSlices, selector);
  parts_.send(request);
}

void ShardDrivers::answered(const agent::ApiResponse& response) {
  if (!waiting_ || wipes_.empty()) return;
  if (response.ok() || response.status == 404) {
    waiting_ = false;
    wipes_.pop_front();
    return send_next();
  }
  if ((response.status == 403 || response.status == 400) && !std::exchange(refusal_told_, true))
    parts_.tell_user(fmt::format("ResourceSlices cannot be removed: {}; trying on", message_of(response)));
  const Duration wait = std::min<Duration>(kFirstRetry * (1LL << std::min(wipes_.front().tries++, 9)), kLongestRetry);
  // Another one may be had meanwhile.
  std::rotate(wipes_.begin(), wipes_.begin() + 1, wipes_.end());
  timer_ = parts_.loop->run_after(
      std::max<Duration>(response.retry_after, wait + parts_.rng->between(Duration(0), wait / 5)), [this] {
        timer_ = 0;
        waiting_ = false;
        send_next();
      });
}

}  // namespace ghostfleet::emulator
