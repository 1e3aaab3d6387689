#include "agent/dra/socket/driver_host.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <list>
#include <map>

#include "agent/dra/socket/driver_plugin.h"
#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "kube/api/names.h"

namespace ghostfleet::agent {
namespace {

constexpr std::string_view kLog = "dra";
constexpr std::string_view kServices[] = {"v1.DRAPlugin", "v1beta1.DRAPlugin"};
constexpr size_t kMaxDriverName = 63;  // of a ResourceSlice
constexpr int64_t kHealthSeconds = 30, kMostHealthSeconds = 365 * 24 * 3600;
constexpr size_t kMaxHealthMessage = 1024;  // of a pod's status
constexpr Duration kFirstReconcile = std::chrono::seconds(5);

// As Go's %q prints a list.
std::string quoted(const std::vector<std::string>& texts) {
  std::vector<std::string> out;
  for (const std::string& text : texts) out.push_back(go_quote(text));
  return fmt::format("[{}]", fmt::join(out, " "));
}

// The first version that the driver names and that is spoken here.
Result<std::string> choose_service(const PluginInfo& info) {
  const auto spoken = [](const std::string& name) {
    return std::find(std::begin(kServices), std::end(kServices), name) != std::end(kServices);
  };
  const auto at = std::find_if(info.versions.begin(), info.versions.end(), spoken);
  if (at != info.versions.end()) return *at;
  const std::string why =
      info.versions.empty()
          ? "empty list of supported gRPC services (aka supported versions)"
          : fmt::format("none of services supported by the plugin ({}) are supported by the kubelet ({})",
                        quoted(info.versions), quoted({std::begin(kServices), std::end(kServices)}));
  return invalid_argument(fmt::format("invalid supported gRPC versions of DRA driver plugin {} at endpoint {}: {}",
                                      info.name, info.endpoint, why));
}

struct Health {
  DeviceHealth health = DeviceHealth::kUnknown;
  std::string message;
  TimePoint until;
};

struct DriverHealth {
  const DriverPlugin* from = nullptr;
  std::map<std::string, Health, std::less<>> devices;  // "pool/device"
  EventLoop::TimerId timer = 0;                        // when the first of the last report is out of date
};

class SocketDriverHost final : public DriverHost, private PluginHandler {
 public:
  SocketDriverHost(EventLoop& loop, DriverHostOptions options) : loop_(loop), options_(std::move(options)) {}
  ~SocketDriverHost() override;

  Status begin();
  PluginHandler& handler() override { return *this; }
  size_t plugins() const override { return plugins_.size(); }

  ClaimCache& cache() override { return cache_; }
  Status save() override;
  bool has(std::string_view driver) const override { return find(driver) != nullptr; }
  void prepare(std::string_view driver, const std::vector<ClaimName>& claims, ClaimDrivers::Done done) override;
  void unprepare(std::string_view driver, const std::vector<ClaimName>& claims, ClaimDrivers::Done done) override;
  DeviceState health_of(std::string_view driver, std::string_view pool, std::string_view device) const override;

 private:
  using PluginPtr = std::shared_ptr<DriverPlugin>;

  Status validate(const PluginInfo& info) override;
  void add(const PluginInfo& info, PluginHandler::Done done) override;
  void remove(const PluginInfo& info) override;

  PluginPtr find(std::string_view driver) const;
  bool usable(std::string_view driver) const;
  void sync(const std::string& driver);
  void take_health(const DriverPlugin& plugin, std::vector<HealthReport> devices);
  bool take_report(HealthReport report, DriverHealth* driver);
  void end_health(const DriverPlugin& plugin);
  void health_changed();
  void reconcile_after(Duration wait);
  void reconcile();
  void release_next(const std::string& pod, const std::shared_ptr<ClaimRelease>& release);

  EventLoop& loop_;
  const DriverHostOptions options_;
  ClaimCache cache_;
  std::list<PluginPtr> plugins_;  // in the order of their registration
  std::map<std::string, EventLoop::TimerId, std::less<>> wipes_;
  std::map<std::string, DriverHealth, std::less<>> health_;
  std::set<std::string, std::less<>> releasing_;  // uids of pods
  EventLoop::TimerId reconcile_timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

SocketDriverHost::~SocketDriverHost() {
  *alive_ = false;
  loop_.cancel(reconcile_timer_);
  for (const auto& [driver, timer] : wipes_) loop_.cancel(timer);
  for (const auto& [driver, health] : health_) {
    if (health.timer != 0) loop_.cancel(health.timer);
  }
  for (const PluginPtr& plugin : plugins_) plugin->close();
}

Status SocketDriverHost::begin() {
  GF_RETURN_IF_ERROR(make_directories(parent_directory(options_.state_file)));
  const auto text = read_file(options_.state_file, kMaxClaimCheckpoint);
  if (!text.ok() && text.error().code() != Code::kNotFound) return text.error();
  if (text.ok()) {
    auto cache = parse_claim_checkpoint(*text);
    if (!cache.ok()) {
      return invalid_argument(fmt::format("{}: {}; remove the file when no pod of the node has claims",
                                          options_.state_file, cache.error().message()));
    }
    cache_ = std::move(*cache);
  }
  reconcile_after(std::min(kFirstReconcile, options_.reconcile_period));
  return Status();
}

Status SocketDriverHost::save() { return write_file(options_.state_file, render_claim_checkpoint(cache_), 0600); }

// ---- registration

Status SocketDriverHost::validate(const PluginInfo& info) {
  const auto service = choose_service(info);
  if (!service.ok()) return service.error();
  if (!options_.own_driver.empty() && info.name == options_.own_driver) {
    return invalid_argument(info.name +
                            " is the node's own DRA driver; end the plugin, or start the agent without --dra");
  }
  if (info.name.size() <= kMaxDriverName && kube::check_dns1123_subdomain(info.name).empty()) return Status();
  return invalid_argument(fmt::format(
      "DRA driver plugin {} at endpoint {}: a driver's name is a DNS subdomain of at most {} characters, like "
      "gpu.example.com",
      go_quote(info.name), info.endpoint, kMaxDriverName));
}

void SocketDriverHost::add(const PluginInfo& info, PluginHandler::Done done) {
  const auto same = [&info](const PluginPtr& p) { return p->driver() == info.name && p->endpoint() == info.endpoint; };
  if (std::any_of(plugins_.begin(), plugins_.end(), same)) {
    return done(invalid_argument(
        fmt::format("endpoint {} already registered for DRA driver plugin {}", info.endpoint, info.name)));
  }
  if (plugins_.size() >= kMostPlugins)
    return done(unavailable(fmt::format("{} plugins of DRA drivers are registered already", plugins_.size())));
  const auto service = choose_service(info);
  if (!service.ok()) return done(service.error());
  DriverPlugin::Events events;
  events.connection_changed = [this](DriverPlugin& plugin) { sync(plugin.driver()); };
  events.health = [this](DriverPlugin& plugin, std::vector<HealthReport> devices) {
    take_health(plugin, std::move(devices));
  };
  events.health_ended = [this](DriverPlugin& plugin) { end_health(plugin); };
  plugins_.push_back(std::make_shared<DriverPlugin>(loop_, info.name, info.endpoint, *service,
                                                    DriverPlugin::Times{options_.call_timeout, options_.watch_retry},
                                                    std::move(events)));
  sync(info.name);
  done(Status());
}

void SocketDriverHost::remove(const PluginInfo& info) {
  const auto at = std::find_if(plugins_.begin(), plugins_.end(), [&info](const PluginPtr& p) {
    return p->driver() == info.name && p->endpoint() == info.endpoint;
  });
  if (at == plugins_.end()) return;
  const PluginPtr plugin = *at;
  plugins_.erase(at);
  plugin->close();
  end_health(*plugin);
  sync(info.name);
  loop_.post([plugin] {});
}

// The newest that is connected, else the newest.
SocketDriverHost::PluginPtr SocketDriverHost::find(std::string_view driver) const {
  PluginPtr newest, connected;
  for (const PluginPtr& plugin : plugins_) {
    if (plugin->driver() != driver) continue;
    newest = plugin;
    if (plugin->connected()) connected = plugin;
  }
  return connected ? connected : newest;
}

bool SocketDriverHost::usable(std::string_view driver) const {
  const PluginPtr plugin = find(driver);
  return plugin && plugin->connected();
}

void SocketDriverHost::sync(const std::string& driver) {
  const auto at = wipes_.find(driver);
  if (usable(driver)) {
    if (at == wipes_.end()) return;
    loop_.cancel(at->second);
    wipes_.erase(at);
    return;
  }
  if (at != wipes_.end()) return;
  log_info(kLog, fmt::format("{} is away; its ResourceSlices go in {}", driver, format_duration(options_.patience)));
  wipes_[driver] = loop_.run_after(options_.patience, [this, driver] {
    wipes_.erase(driver);
    options_.wipe(driver);
  });
}

// ---- claims

void SocketDriverHost::prepare(std::string_view driver, const std::vector<ClaimName>& claims, ClaimDrivers::Done done) {
  if (const PluginPtr plugin = find(driver)) return plugin->prepare(claims, std::move(done));
  loop_.post([done = std::move(done), why = unavailable(not_registered(driver))] { done(why); });
}

void SocketDriverHost::unprepare(std::string_view driver, const std::vector<ClaimName>& claims,
                                 ClaimDrivers::Done done) {
  if (const PluginPtr plugin = find(driver)) return plugin->unprepare(claims, std::move(done));
  loop_.post([done = std::move(done), why = unavailable(not_registered(driver))] { done(why); });
}

void SocketDriverHost::reconcile_after(Duration wait) {
  reconcile_timer_ = loop_.run_after(wait, [this] {
    reconcile();
    reconcile_after(options_.reconcile_period);
  });
}

// Claims of pods that are not there any more: they were deleted by force, or while no agent ran.
void SocketDriverHost::reconcile() {
  const auto active = options_.active_pods();
  if (!active) return;
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> left;  // by namespace and pod: claims
  cache_.for_each([&](std::string_view ns, std::string_view claim, const ClaimCache::Entry& entry) {
    for (const std::string& pod : entry.pods) {
      if (!active->contains(pod)) left[{std::string(ns), pod}].emplace_back(claim);
    }
  });
  for (const auto& [key, claims] : left) {
    if (!releasing_.insert(key.second).second) continue;
    release_next(key.second, std::make_shared<ClaimRelease>(key.first, key.second, claims, &cache_));
  }
}

void SocketDriverHost::release_next(const std::string& pod, const std::shared_ptr<ClaimRelease>& release) {
  const auto skip_own = [&] {
    while (release->next() != nullptr && release->next()->driver == options_.own_driver) release->skip();
  };
  skip_own();
  const DriverBatch* batch = release->next();
  if (batch == nullptr) {
    release->finish(&cache_);
    releasing_.erase(pod);
    if (const Status saved = save(); !saved.ok()) log_warn(kLog, saved.message());
    return;
  }
  unprepare(batch->driver, batch->claims, [this, pod, release, alive = alive_](const Result<ClaimAnswers>& answers) {
    if (!*alive) return;
    const std::string fault = release->take(answers);
    if (fault.empty()) return release_next(pod, release);
    releasing_.erase(pod);
    log_warn(kLog, fmt::format("claims of pod {}, which is gone: {}; trying on", pod, fault));
  });
}

// ---- health

void SocketDriverHost::take_health(const DriverPlugin& plugin, std::vector<HealthReport> devices) {
  DriverHealth& driver = health_[plugin.driver()];
  driver.from = &plugin;
  bool changed = false;
  int64_t shortest = kMostHealthSeconds;
  for (HealthReport& report : devices) {
    if (report.timeout_seconds <= 0) report.timeout_seconds = kHealthSeconds;
    report.timeout_seconds = std::min(report.timeout_seconds, kMostHealthSeconds);
    shortest = std::min(shortest, report.timeout_seconds);
    changed = take_report(std::move(report), &driver) || changed;
  }
  if (changed) health_changed();
  if (devices.empty()) return;
  if (driver.timer != 0) loop_.cancel(driver.timer);
  driver.timer =
      loop_.run_after(std::chrono::seconds(shortest) + std::chrono::milliseconds(10), [this, name = plugin.driver()] {
        health_[name].timer = 0;
        health_changed();
      });
}

// Whether it says something else than before.
bool SocketDriverHost::take_report(HealthReport report, DriverHealth* driver) {
  const std::string key = report.pool + "/" + report.device;
  if (driver->devices.size() >= kMostDevices && !driver->devices.contains(key)) return false;
  if (report.message.size() > kMaxHealthMessage) {
    size_t end = kMaxHealthMessage - 3;
    while (end > 0 && (static_cast<unsigned char>(report.message[end]) & 0xc0) == 0x80) --end;
    report.message = report.message.substr(0, end) + "...";
  }
  const TimePoint now = loop_.now();
  const auto [at, fresh] = driver->devices.try_emplace(key);
  const bool was_old = at->second.until < now;
  const bool same = !fresh && !was_old && at->second.health == report.health && at->second.message == report.message;
  at->second = {report.health, std::move(report.message), now + std::chrono::seconds(report.timeout_seconds)};
  return !same;
}

// Nothing is known any more, unless another plugin of the driver tells it.
void SocketDriverHost::end_health(const DriverPlugin& plugin) {
  const auto at = health_.find(plugin.driver());
  if (at == health_.end() || at->second.from != &plugin) return;
  if (at->second.timer != 0) loop_.cancel(at->second.timer);
  health_.erase(at);
  health_changed();
}

// Told from the loop: whoever asks may be at work.
void SocketDriverHost::health_changed() {
  loop_.post([this, alive = alive_] {
    if (*alive) options_.health_changed();
  });
}

DeviceState SocketDriverHost::health_of(std::string_view driver, std::string_view pool, std::string_view device) const {
  const DeviceState unknown{DeviceHealth::kUnknown, {}};
  const auto at = health_.find(driver);
  if (at == health_.end()) return unknown;
  const auto found = at->second.devices.find(fmt::format("{}/{}", pool, device));
  if (found == at->second.devices.end() || found->second.until < loop_.now()) return unknown;
  return {found->second.health, found->second.message};
}

}  // namespace

Result<std::unique_ptr<DriverHost>> DriverHost::open(EventLoop& loop, DriverHostOptions options) {
  auto host = std::make_unique<SocketDriverHost>(loop, std::move(options));
  GF_RETURN_IF_ERROR(host->begin());
  return std::unique_ptr<DriverHost>(std::move(host));
}

}  // namespace ghostfleet::agent
