#include "agent/device/socket/plugin_directory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <list>

#include "agent/device/plugin_messages.h"
#include "agent/device/socket/plugin_connection.h"
#include "base/log.h"
#include "base/text.h"
#include "kube/api/names.h"
#include "kube/grpc/server.h"
#include "kube/http/unix_address.h"

namespace ghostfleet::agent {
namespace {

namespace fs = std::filesystem;
using kube::grpc::RpcCode;
using kube::grpc::RpcServer;
using kube::grpc::RpcStatus;
using kube::grpc::ServerCall;

constexpr std::string_view kLog = "device-plugins";
constexpr fs::perms kFolderMode = fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec;

// Sockets that an earlier kubelet and its plugins left behind; what is no socket stays.
void remove_old_sockets(const std::string& directory) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    std::error_code ignored;
    if (entry.path().filename() == PluginDirectory::kSocket || !fs::is_socket(fs::status(entry.path(), ignored)))
      continue;
    fs::remove(entry.path(), ignored);
    if (ignored) log_warn(kLog, fmt::format("remove {}: {}", entry.path().string(), ignored.message()));
  }
}

Status make_folder(const std::string& directory) {
  std::error_code error;
  if (fs::is_directory(directory, error)) return Status();
  fs::create_directories(directory, error);
  if (!error) fs::permissions(directory, kFolderMode, error);
  if (error) return unavailable(fmt::format("device plugin directory {}: {}", directory, error.message()));
  return Status();
}

// Whether a kubelet takes the name for an extended resource's.
bool names_extended_resource(std::string_view name) {
  const bool native = name.find('/') == std::string_view::npos || name.find("kubernetes.io/") != std::string_view::npos;
  if (native || name.rfind("requests.", 0) == 0) return false;
  return kube::check_qualified_name("requests." + std::string(name)).empty();
}

// What is wrong with a registration, in a kubelet's words; empty: nothing.
std::string registration_fault(const RegisterRequest& request) {
  if (request.version != kPluginVersion) {
    return fmt::format("requested API version {} is not supported by kubelet. Supported version is [{}]",
                       go_quote(request.version), go_quote(kPluginVersion));
  }
  if (!names_extended_resource(request.resource)) {
    return fmt::format("the ResourceName {} is invalid", go_quote(request.resource));
  }
  const std::string& endpoint = request.endpoint;
  const bool name = !endpoint.empty() && endpoint != "." && endpoint != ".." && endpoint != PluginDirectory::kSocket &&
                    endpoint.find('/') == std::string::npos && endpoint.find('\0') == std::string::npos;
  if (name) return {};
  return fmt::format("the endpoint {} is not the name of a plugin's socket in the device plugin directory",
                     go_quote(endpoint));
}

class SocketDirectory final : public PluginDirectory, private PluginHandler {
 public:
  SocketDirectory(EventLoop& loop, PluginDirectoryOptions options, PluginSink& sink)
      : loop_(loop), options_(std::move(options)), sink_(sink) {}
  ~SocketDirectory() override;

  Status begin();
  size_t connected() const override { return plugins_.size(); }
  PluginHandler& handler() override { return *this; }

 private:
  using Connection = std::shared_ptr<PluginConnection>;

  Status validate(const PluginInfo& info) override;
  void add(const PluginInfo& info, Done done) override;
  void remove(const PluginInfo& info) override;

  void on_register(const std::shared_ptr<ServerCall>& call, const std::string& bytes);
  void on_ready(const Connection& connection, const std::shared_ptr<ServerCall>& call,
                const Result<PluginOptions>& options);
  Status take(const Connection& connection, const Result<PluginOptions>& options);
  void begin_watch(const Connection& connection);
  void on_ended(const Connection& connection, const RpcStatus& status);
  void replace(const std::string& resource);
  void bury(const Connection& connection);

  EventLoop& loop_;
  const PluginDirectoryOptions options_;
  PluginSink& sink_;
  std::list<Connection> pending_, plugins_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::unique_ptr<RpcServer> server_;
};

SocketDirectory::~SocketDirectory() {
  *alive_ = false;
  server_.reset();
  for (const Connection& connection : pending_) connection->close();
  for (const Connection& connection : plugins_) connection->close();
}

Status SocketDirectory::begin() {
  if (options_.directory.empty() || options_.directory[0] != '/') {
    return invalid_argument(
        fmt::format("device plugin directory \"{}\": an absolute path is needed", options_.directory));
  }
  const std::string address = fmt::format("unix:{}/{}", options_.directory, kSocket);
  const auto fits = kube::http::parse_unix_address(address);  // before a folder is made for nothing
  if (!fits.ok()) return fits.error().with_context("device plugin directory");
  GF_RETURN_IF_ERROR(make_folder(options_.directory));
  kube::grpc::RpcServices services;
  services.unary("/v1beta1.Registration/Register", [this](const std::shared_ptr<ServerCall>& call,
                                                          const std::string& bytes) { on_register(call, bytes); });
  kube::grpc::RpcServerOptions server;
  server.address = address;
  // Nothing is removed under a kubelet that lives, and nothing that a plugin makes when it sees our socket.
  GF_RETURN_IF_ERROR(kube::http::check_unix_free(address));
  remove_old_sockets(options_.directory);
  auto listening = RpcServer::listen(std::move(server), {&loop_}, std::move(services));
  if (!listening.ok()) return listening.error();
  server_ = std::move(*listening);
  return Status();
}

void SocketDirectory::on_register(const std::shared_ptr<ServerCall>& call, const std::string& bytes) {
  const auto request = decode_register_request(bytes);
  if (!request.ok()) {
    return call->finish(kube::grpc::rpc_error(
        RpcCode::kInternal, "grpc: error unmarshalling request: proto: " + request.error().message()));
  }
  log_info(kLog, fmt::format("registration of {} at {}", request->resource, request->endpoint));
  std::string fault = registration_fault(*request);
  if (fault.empty() && pending_.size() >= kMaxPending) fault = "too many registrations at a time";
  if (!fault.empty()) {
    log_warn(kLog, fault);
    return call->finish(kube::grpc::rpc_unknown(std::move(fault)));
  }
  const auto connection = std::make_shared<PluginConnection>(loop_, options_, request->resource,
                                                             options_.directory + "/" + request->endpoint);
  pending_.push_back(connection);
  call->on_close([this, alive = alive_, connection] {
    if (!*alive) return;
    pending_.remove(connection);
    bury(connection);
  });
  connection->connect(
      [this, connection, call](const Result<PluginOptions>& options) { on_ready(connection, call, options); });
}

void SocketDirectory::on_ready(const Connection& connection, const std::shared_ptr<ServerCall>& call,
                               const Result<PluginOptions>& options) {
  if (pending_.remove(connection) == 0) return;  // whoever registered it has gone
  const Status taken = take(connection, options);
  if (!taken.ok()) return call->finish(kube::grpc::rpc_unknown(taken.message()));
  call->reply("");
  begin_watch(connection);
}

// Gives the plugin to the sink, in the place of an earlier one.
Status SocketDirectory::take(const Connection& connection, const Result<PluginOptions>& options) {
  Status fault = options.ok() ? Status() : options.error();
  if (options.ok()) {
    const auto id = sink_.plugin_registered(connection->resource(), connection->plugin(), *options);
    if (id.ok())
      connection->id = *id;
    else
      fault = id.error();
  }
  if (!fault.ok()) {
    log_warn(kLog, fmt::format("{}: {}", connection->resource(), fault.message()));
    bury(connection);
    return fault;
  }
  replace(connection->resource());
  plugins_.push_back(connection);
  return Status();
}

// ---- plugins of the registry

Status SocketDirectory::validate(const PluginInfo& info) {
  if (std::find(info.versions.begin(), info.versions.end(), kPluginVersion) == info.versions.end()) {
    return invalid_argument(fmt::format("manager version, {}, is not among plugin supported versions [{}]",
                                        kPluginVersion, fmt::join(info.versions, " ")));
  }
  if (names_extended_resource(info.name)) return Status();
  return invalid_argument(
      fmt::format("invalid name of device plugin socket: the ResourceName {} is invalid", go_quote(info.name)));
}

void SocketDirectory::add(const PluginInfo& info, Done done) {
  if (pending_.size() >= kMaxPending) return done(unavailable("too many registrations at a time"));
  const auto connection = std::make_shared<PluginConnection>(loop_, options_, info.name, info.endpoint);
  pending_.push_back(connection);
  connection->connect([this, connection, done = std::move(done)](const Result<PluginOptions>& options) {
    if (pending_.remove(connection) == 0) return;  // removed
    const Status taken = take(connection, options);
    done(taken);
    if (taken.ok()) begin_watch(connection);
  });
}

void SocketDirectory::remove(const PluginInfo& info) {
  const auto same = [&info](const Connection& c) { return c->resource() == info.name && c->socket() == info.endpoint; };
  for (std::list<Connection>* list : {&pending_, &plugins_}) {
    const auto at = std::find_if(list->begin(), list->end(), same);
    if (at == list->end()) continue;
    const Connection connection = *at;
    list->erase(at);
    if (list == &plugins_) sink_.plugin_gone(connection->id);
    bury(connection);
  }
}

// The sink knows of the newer one already: the end of the earlier one changes nothing.
void SocketDirectory::replace(const std::string& resource) {
  const auto at =
      std::find_if(plugins_.begin(), plugins_.end(), [&](const auto& c) { return c->resource() == resource; });
  if (at == plugins_.end()) return;
  const Connection old = *at;
  plugins_.erase(at);
  bury(old);
}

void SocketDirectory::begin_watch(const Connection& connection) {
  const std::weak_ptr<PluginConnection> weak = connection;
  connection->watch(
      [this, weak](std::vector<ListedDevice> devices) {
        const auto plugin = weak.lock();
        if (!plugin) return;
        const Status taken = sink_.plugin_listed(plugin->id, std::move(devices));
        if (!taken.ok()) log_warn(kLog, fmt::format("{}: {}", plugin->resource(), taken.message()));
      },
      [this, weak](const RpcStatus& status) {
        if (const auto plugin = weak.lock()) on_ended(plugin, status);
      });
}

void SocketDirectory::on_ended(const Connection& connection, const RpcStatus& status) {
  log_warn(kLog, fmt::format("ListAndWatch of {} ended: {}", connection->resource(),
                             status.ok() ? "the plugin closed it" : status.text()));
  plugins_.remove(connection);
  sink_.plugin_gone(connection->id);
  bury(connection);
}

// Closed from the loop: it may be calling right now.
void SocketDirectory::bury(const Connection& connection) {
  loop_.post([connection] { connection->close(); });
}

}  // namespace

Result<std::unique_ptr<PluginDirectory>> PluginDirectory::open(EventLoop& loop, PluginDirectoryOptions options,
                                                               PluginSink& sink) {
  auto directory = std::make_unique<SocketDirectory>(loop, std::move(options), sink);
  GF_RETURN_IF_ERROR(directory->begin());
  return std::unique_ptr<PluginDirectory>(std::move(directory));
}

}  // namespace ghostfleet::agent
