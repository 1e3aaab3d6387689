#include "agent/device/socket/plugin_registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <deque>
#include <filesystem>

#include "base/folder_watch.h"
#include "base/log.h"
#include "kube/grpc/client.h"
#include "kube/http/unix_address.h"

namespace ghostfleet::agent {
namespace {

namespace fs = std::filesystem;
using kube::grpc::RpcCallOptions;
using kube::grpc::RpcClient;
using kube::grpc::RpcStatus;

constexpr std::string_view kLog = "plugins";
constexpr std::string_view kGetInfo = "/pluginregistration.Registration/GetInfo";
constexpr std::string_view kNotify = "/pluginregistration.Registration/NotifyRegistrationStatus";

constexpr size_t kMostComplaints = 100;

// A socket in the folder, from its first sight until it goes.
struct Plugin {
  enum class State { kWaiting, kQueued, kAsking, kAdding, kTelling, kRegistered };
  std::string path;
  uint64_t inode = 0;
  State state = State::kWaiting;
  int tries = 0;
  bool added = false;  // the handler has it
  EventLoop::TimerId timer = 0;
  PluginInfo info;
  std::string complained;
  std::unique_ptr<RpcClient> client;
};

class FolderRegistry final : public PluginRegistry {
 public:
  FolderRegistry(EventLoop& loop, PluginRegistryOptions options) : loop_(loop), options_(std::move(options)) {}
  ~FolderRegistry() override;

  Status begin();
  size_t sockets() const override { return plugins_.size(); }
  size_t registered() const override {
    return static_cast<size_t>(std::count_if(plugins_.begin(), plugins_.end(), [](const auto& item) {
      return item.second->state == Plugin::State::kRegistered;
    }));
  }

 private:
  using PluginPtr = std::shared_ptr<Plugin>;

  Status watch(const std::string& folder, int depth);
  void look(const std::string& folder, int depth);
  void look_at(const std::string& path, int depth);
  void on_change(const std::string& folder, int depth, const std::string& name, FolderWatch::Change change);
  void lost(const std::string& folder, int depth);
  void appeared(const std::string& path, uint64_t inode);
  void gone(const std::string& path);
  void gone_below(const std::string& folder);
  void forget(const PluginPtr& plugin);

  void queue(const PluginPtr& plugin);
  void pump();
  void ask(const PluginPtr& plugin);
  void on_info(const PluginPtr& plugin, const RpcStatus& status, const std::string& reply);
  void add(const PluginPtr& plugin, PluginHandler& handler);
  void on_added(const PluginPtr& plugin, const Status& status);
  void tell(const PluginPtr& plugin, const Status& outcome);
  void on_told(const PluginPtr& plugin, const Status& outcome, const RpcStatus& status);
  void complain(const std::string& why);
  void fail(const PluginPtr& plugin, const std::string& why);
  void end_try(const PluginPtr& plugin, Plugin::State state);
  bool is_current(const PluginPtr& plugin) const;
  std::string types() const;
  PluginHandler* handler_of(const Plugin& plugin) const;

  EventLoop& loop_;
  const PluginRegistryOptions options_;
  std::map<std::string, std::unique_ptr<FolderWatch>> watches_;
  std::map<std::string, PluginPtr> plugins_;  // by path
  std::deque<PluginPtr> queue_;
  size_t busy_ = 0, complaints_ = 0;
  bool full_told_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

FolderRegistry::~FolderRegistry() {
  *alive_ = false;
  for (const auto& [path, plugin] : plugins_) {
    if (plugin->timer != 0) loop_.cancel(plugin->timer);
    plugin->client.reset();
  }
}

Status FolderRegistry::begin() {
  if (options_.directory.empty() || options_.directory[0] != '/')
    return invalid_argument(fmt::format("plugin registry \"{}\": an absolute path is needed", options_.directory));
  std::error_code error;
  fs::create_directories(options_.directory, error);
  if (error) return unavailable(fmt::format("plugin registry {}: {}", options_.directory, error.message()));
  return watch(options_.directory, 0).with_context("plugin registry");
}

// The watch first: a socket that comes in between is seen by one of the two.
Status FolderRegistry::watch(const std::string& folder, int depth) {
  if (watches_.size() >= kMostFolders || depth > kDeepest) {
    log_warn(kLog, fmt::format("{}: not looked at: at most {} folders, {} below each other, are", folder, kMostFolders,
                               kDeepest));
    return Status();
  }
  auto opened =
      FolderWatch::open(loop_, folder, [this, folder, depth](const std::string& name, FolderWatch::Change change) {
        on_change(folder, depth, name, change);
      });
  if (!opened.ok()) return opened.error();
  watches_[folder] = std::move(*opened);
  look(folder, depth);
  return Status();
}

void FolderRegistry::look(const std::string& folder, int depth) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) look_at(entry.path().string(), depth);
}

void FolderRegistry::look_at(const std::string& path, int depth) {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0 || fs::path(path).filename().string().starts_with(".")) return;
  if (S_ISSOCK(found.st_mode)) return appeared(path, found.st_ino);
  if (!S_ISDIR(found.st_mode) || watches_.contains(path)) return;
  const Status watched = watch(path, depth + 1);
  if (!watched.ok()) log_warn(kLog, watched.message());
}

void FolderRegistry::on_change(const std::string& folder, int depth, const std::string& name,
                               FolderWatch::Change change) {
  if (name.empty()) return lost(folder, depth);
  const std::string path = folder + "/" + name;
  if (change == FolderWatch::Change::kAppeared) return look_at(path, depth);
  if (change == FolderWatch::Change::kGone) gone(path);
}

// Events were lost, or the folder is gone: from the loop, since a watch is calling. The registry's own folder is made
// anew.
void FolderRegistry::lost(const std::string& folder, int depth) {
  loop_.post([this, folder, depth, alive = alive_] {
    if (!*alive || watches_.erase(folder) == 0) return;
    std::vector<std::string> left;
    for (const auto& [path, plugin] : plugins_) {
      if (path.starts_with(folder + "/") && !fs::is_socket(path)) left.push_back(path);
    }
    for (const std::string& path : left) gone(path);
    std::error_code error;
    if (depth == 0) fs::create_directories(folder, error);
    if (!fs::is_directory(folder, error)) return;
    const Status watched = watch(folder, depth);
    if (!watched.ok()) log_warn(kLog, watched.message());
  });
}

void FolderRegistry::appeared(const std::string& path, uint64_t inode) {
  const auto at = plugins_.find(path);
  if (at != plugins_.end() && at->second->inode == inode) return;
  if (at != plugins_.end()) gone(path);  // another one in its place
  if (plugins_.size() >= kMostSockets) {
    if (!std::exchange(full_told_, true))
      log_warn(kLog, fmt::format("{}: not looked at: {} sockets are known already", path, kMostSockets));
    return;
  }
  if (const auto fits = kube::http::parse_unix_address("unix:" + path); !fits.ok())
    return log_warn(kLog, fits.error().message());
  const auto plugin = std::make_shared<Plugin>();
  plugin->path = path;
  plugin->inode = inode;
  plugins_[path] = plugin;
  queue(plugin);
}

void FolderRegistry::gone(const std::string& path) {
  if (watches_.erase(path) > 0) return gone_below(path);
  const auto at = plugins_.find(path);
  if (at == plugins_.end()) return;
  const PluginPtr plugin = at->second;
  plugins_.erase(at);
  forget(plugin);
}

// A folder that was moved away, or whose sockets' ends were not told.
void FolderRegistry::gone_below(const std::string& folder) {
  std::vector<std::string> left;
  for (const auto& [path, plugin] : plugins_) {
    if (path.starts_with(folder + "/")) left.push_back(path);
  }
  for (const auto& [path, watch] : watches_) {
    if (path.starts_with(folder + "/")) left.push_back(path);
  }
  for (const std::string& path : left) gone(path);
}

void FolderRegistry::forget(const PluginPtr& plugin) {
  using State = Plugin::State;
  if (plugin->timer != 0) loop_.cancel(std::exchange(plugin->timer, 0));
  const bool busy =
      plugin->state != State::kWaiting && plugin->state != State::kQueued && plugin->state != State::kRegistered;
  if (plugin->state == State::kQueued) std::erase(queue_, plugin);
  if (std::exchange(plugin->added, false)) {
    log_info(kLog, fmt::format("{} {}: its socket {} is gone", plugin->info.type, plugin->info.name, plugin->path));
    handler_of(*plugin)->remove(plugin->info);
  }
  if (busy) end_try(plugin, State::kWaiting);
}

bool FolderRegistry::is_current(const PluginPtr& plugin) const {
  const auto at = plugins_.find(plugin->path);
  return at != plugins_.end() && at->second == plugin;
}

PluginHandler* FolderRegistry::handler_of(const Plugin& plugin) const {
  const auto at = options_.handlers.find(plugin.info.type);
  return at == options_.handlers.end() ? nullptr : at->second;
}

std::string FolderRegistry::types() const {
  std::vector<std::string_view> names;
  for (const auto& [type, handler] : options_.handlers) names.push_back(type);
  return fmt::format("{}", fmt::join(names, " and "));
}

// ---- one try

void FolderRegistry::queue(const PluginPtr& plugin) {
  plugin->state = Plugin::State::kQueued;
  queue_.push_back(plugin);
  loop_.post([this, alive = alive_] {
    if (*alive) pump();
  });
}

void FolderRegistry::pump() {
  while (busy_ < kMostAtOnce && !queue_.empty()) {
    const PluginPtr plugin = queue_.front();
    queue_.pop_front();
    ++busy_;
    ask(plugin);
  }
}

// Callbacks hold the plugin weakly: its client is part of it.
void FolderRegistry::ask(const PluginPtr& plugin) {
  plugin->state = Plugin::State::kAsking;
  kube::grpc::RpcClientOptions options;
  options.host = "unix:" + plugin->path;
  plugin->client = RpcClient::create(loop_, options);
  RpcCallOptions call;
  call.timeout = options_.info_timeout;
  plugin->client->call(kGetInfo, "", call,
                       [this, weak = std::weak_ptr(plugin)](const RpcStatus& status, const std::string& reply) {
                         const PluginPtr asked = weak.lock();
                         if (asked && is_current(asked)) on_info(asked, status, reply);
                       });
}

void FolderRegistry::on_info(const PluginPtr& plugin, const RpcStatus& status, const std::string& reply) {
  if (!status.ok())
    return fail(plugin, fmt::format("failed to get plugin info using RPC GetInfo at socket {}, err: {}", plugin->path,
                                    status.text()));
  auto info = decode_plugin_info(reply);
  if (!info.ok())
    return fail(plugin, fmt::format("plugin info at socket {}: {}", plugin->path, info.error().message()));
  plugin->info = std::move(*info);
  if (plugin->info.endpoint.empty()) plugin->info.endpoint = plugin->path;
  PluginHandler* handler = handler_of(*plugin);
  if (handler == nullptr) {
    return tell(plugin, invalid_argument(fmt::format(
                            "RegisterPlugin error -- no handler registered for plugin type: {} at socket {}: this node "
                            "takes plugins of type {}",
                            plugin->info.type, plugin->path, types())));
  }
  const auto fits = kube::http::parse_unix_address("unix:" + plugin->info.endpoint);
  const Status valid = fits.ok() ? handler->validate(plugin->info) : fits.error();
  if (!valid.ok()) {
    return tell(plugin,
                invalid_argument("RegisterPlugin error -- plugin validation failed with err: " + valid.message()));
  }
  add(plugin, *handler);
}

void FolderRegistry::add(const PluginPtr& plugin, PluginHandler& handler) {
  plugin->state = Plugin::State::kAdding;
  plugin->added = true;  // one that goes away meanwhile is removed
  handler.add(plugin->info, [this, weak = std::weak_ptr(plugin), alive = alive_](const Status& status) {
    const PluginPtr added = weak.lock();
    if (*alive && added && is_current(added) && added->state == Plugin::State::kAdding) on_added(added, status);
  });
}

void FolderRegistry::on_added(const PluginPtr& plugin, const Status& status) {
  if (status.ok()) return tell(plugin, Status());
  plugin->added = false;
  tell(plugin, invalid_argument("RegisterPlugin error -- plugin registration failed with err: " + status.message()));
}

void FolderRegistry::tell(const PluginPtr& plugin, const Status& outcome) {
  plugin->state = Plugin::State::kTelling;
  RpcCallOptions call;
  call.timeout = options_.notify_timeout;
  plugin->client->call(kNotify, encode_registration_status({outcome.ok(), outcome.message()}), call,
                       [this, weak = std::weak_ptr(plugin), outcome](const RpcStatus& status, const std::string&) {
                         const PluginPtr told = weak.lock();
                         if (told && is_current(told)) on_told(told, outcome, status);
                       });
}

void FolderRegistry::on_told(const PluginPtr& plugin, const Status& outcome, const RpcStatus& status) {
  if (!outcome.ok()) return fail(plugin, outcome.message());
  if (!status.ok()) {
    plugin->added = false;
    handler_of(*plugin)->remove(plugin->info);
    return fail(plugin,
                fmt::format("failed to send registration status at socket {}, err: {}", plugin->path, status.text()));
  }
  log_info(kLog,
           fmt::format("{} {} is registered, at {}", plugin->info.type, plugin->info.name, plugin->info.endpoint));
  plugin->tries = 0;
  end_try(plugin, Plugin::State::kRegistered);
}

// A folder full of sockets that nobody serves must not fill the log.
void FolderRegistry::complain(const std::string& why) {
  if (++complaints_ > kMostComplaints) return log_info(kLog, why);
  log_warn(kLog, why);
  if (complaints_ == kMostComplaints)
    log_warn(kLog, fmt::format("{} plugins were refused; what is said of further ones is shown with -v", complaints_));
}

void FolderRegistry::fail(const PluginPtr& plugin, const std::string& why) {
  if (plugin->complained != why) complain(why);
  plugin->complained = why;
  const Duration wait = std::min<Duration>(kFirstRetry * (1LL << std::min(plugin->tries, 12)), kLongestRetry);
  ++plugin->tries;
  end_try(plugin, Plugin::State::kWaiting);
  plugin->timer = loop_.run_after(wait, [this, weak = std::weak_ptr(plugin)] {
    const PluginPtr waiting = weak.lock();
    if (!waiting) return;
    waiting->timer = 0;
    queue(waiting);
  });
}

// Its client may be calling right now: it goes from the loop.
void FolderRegistry::end_try(const PluginPtr& plugin, Plugin::State state) {
  plugin->state = state;
  --busy_;
  loop_.post([this, alive = alive_, client = std::shared_ptr<RpcClient>(std::move(plugin->client))]() mutable {
    client.reset();
    if (*alive) pump();
  });
}

}  // namespace

Result<std::unique_ptr<PluginRegistry>> PluginRegistry::open(EventLoop& loop, PluginRegistryOptions options) {
  auto registry = std::make_unique<FolderRegistry>(loop, std::move(options));
  GF_RETURN_IF_ERROR(registry->begin());
  return std::unique_ptr<PluginRegistry>(std::move(registry));
}

}  // namespace ghostfleet::agent
