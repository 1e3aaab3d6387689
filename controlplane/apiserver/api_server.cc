#include "controlplane/apiserver/api_server.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/event_loop.h"
#include "controlplane/apiserver/api_impl.h"
#include "controlplane/apiserver/boot_objects.h"
#include "controlplane/apiserver/call.h"
#include "controlplane/apiserver/custom_kinds.h"
#include "controlplane/apiserver/dispatch.h"
#include "controlplane/apiserver/documents.h"
#include "controlplane/apiserver/event_expiry.h"
#include "controlplane/apiserver/proxy/aggregation.h"
#include "controlplane/apiserver/server_metrics.h"
#include "controlplane/apiserver/strategies/cluster_state.h"
#include "kube/http/tls.h"

namespace ghostfleet::controlplane {
namespace {

constexpr size_t kExpiryPiece = 500;
constexpr size_t kCleanUpPiece = 200;
constexpr Duration kCleanUpRound = std::chrono::seconds(1);
constexpr Duration kExpiryRound = std::chrono::minutes(1);

ApiOptions api_options(const ApiServer::Options& options) { return {options.store, options.managed_fields}; }

// Signs what serviceaccounts/token asks for.
kube::ApiResult<IssuedToken> issue(const TokenIssuer& issuer, const Clock& clock, const TokenSpec& spec) {
  ServiceAccountClaims claims;
  claims.ns = spec.ns;
  claims.name = spec.service_account;
  claims.uid = spec.service_account_uid;
  claims.audiences = spec.audiences;
  const BoundRef bound{spec.bound_name, spec.bound_uid};
  if (spec.bound_kind == "Pod") claims.pod = bound;
  if (spec.bound_kind == "Secret") claims.secret = bound;
  if (spec.bound_kind == "Node") claims.node = bound;
  if (!spec.node_name.empty()) claims.node = {spec.node_name, spec.node_uid};
  claims.issued = claims.not_before = clock.wall_now();
  claims.expires = claims.issued + std::chrono::seconds(spec.expiration_seconds);
  Result<std::string> token = issuer.issue(claims);
  if (!token.ok()) return kube::internal_api_error(token.error().message());
  return IssuedToken{std::move(*token), format_time(claims.expires)};
}

}  // namespace

struct ApiServer::Impl {
  explicit Impl(Options given)
      : options(std::move(given)),
        clock(options.clock ? *options.clock : SystemClock::instance()),
        api(api_options(options), clock),
        aggregator(api, options.pki),
        documents(api, aggregator),
        expiry(api),
        parts{.api = api, .clock = clock} {}

  Status start_auth();
  Status start_io();
  void run_threads();
  void expire_events();
  void clean_up_custom_kinds();
  void stop(Duration grace);
  void let_go();

  Options options;
  const Clock& clock;
  ApiImpl api;
  Aggregator aggregator;
  Documents documents;
  RequestMetrics request_metrics;
  std::unique_ptr<TokenIssuer> issuer;
  std::unique_ptr<Authenticator> authenticator;
  std::unique_ptr<Authorizer> authorizer;
  std::unique_ptr<CustomKinds> custom_kinds;
  EventExpiry expiry;
  bool custom_cleanup_due = false;  // a timer is set; of the first loop
  ServerParts parts;
  DispatchOptions dispatch_options;
  // The server goes before the loops, and both after their threads.
  std::vector<std::unique_ptr<EventLoop>> loops;
  std::unique_ptr<kube::http::Server> server;
  std::vector<std::thread> threads;
};

Status ApiServer::Impl::start_auth() {
  const std::string key = options.pki ? options.pki->service_account_key() : generate_key_pem();
  Result<std::unique_ptr<TokenIssuer>> made = TokenIssuer::create(key);
  if (!made.ok()) return made.error();
  issuer = std::move(*made);
  ClusterObjects objects;
  objects.store = &api.store();
  objects.kind_of = [this](std::string_view name) { return api.kind_of(name); };
  objects.pod_node_name_field = 0;
  authenticator =
      std::make_unique<Authenticator>(AuthenticatorOptions{options.anonymous}, issuer.get(), objects, clock);
  if (options.pki) {
    authenticator->add_token(options.pki->admin_token(), UserInfo{"admin", "", {kMastersGroup}, {}});
  }
  for (const auto& [token, user] : options.tokens) authenticator->add_token(token, user);
  authorizer = make_authorizer(options.authorization, objects);
  ClusterOptions& cluster = api.cluster_state().options;
  cluster.service_cidr = options.service_cidr;
  cluster.allow_privileged = options.allow_privileged;
  cluster.default_audience = issuer->audiences().front();
  cluster.issue_token = [this](const TokenSpec& spec) { return issue(*issuer, clock, spec); };
  parts.objects = objects;
  parts.authenticator = authenticator.get();
  parts.authorizer = authorizer.get();
  parts.issuer = issuer.get();
  Result<NodeTls> node_tls = make_node_tls(options.pki, options.kubelet_ca_pem);
  if (!node_tls.ok()) return node_tls.error();
  parts.node_tls = std::move(*node_tls);
  return Status();
}

Status ApiServer::Impl::start_io() {
  parts.documents = &documents;
  parts.aggregator = &aggregator;
  parts.metrics = &request_metrics;
  parts.max_in_flight = options.max_in_flight;
  parts.max_mutating_in_flight = options.max_mutating_in_flight;
  parts.bookmark_interval = options.bookmark_interval;
  dispatch_options.anonymous_is_admin = options.pki == nullptr;
  kube::http::ServerOptions http;
  http.address = options.address;
  http.port = options.port;
  http.limits = options.limits;
  // The door itself lets a little more in, so that what is too large gets a Status from us.
  dispatch_options.max_body_bytes = options.limits.max_body_bytes;
  http.limits.max_body_bytes += http.limits.max_body_bytes / 2;
  if (options.pki) {
    kube::http::TlsServerConfig tls;
    tls.cert_pem = options.pki->server().cert_pem;
    tls.key_pem = options.pki->server().key_pem;
    tls.client_ca_pem = options.pki->ca().cert_pem;
    auto context = kube::http::TlsContext::server(tls);
    if (!context.ok()) return context.error();
    http.tls = *context;
  }
  std::vector<EventLoop*> raw;
  for (int i = 0; i < std::max(1, options.io_threads); i++) {
    loops.push_back(std::make_unique<EventLoop>());
    raw.push_back(loops.back().get());
  }
  auto handler = [this](std::shared_ptr<kube::http::Exchange> exchange) {
    dispatch(parts, dispatch_options, std::move(exchange));
  };
  auto listening = kube::http::Server::listen(std::move(http), raw, std::move(handler));
  if (!listening.ok()) return listening.error();
  server = std::move(*listening);
  return Status();
}

void ApiServer::Impl::expire_events() {
  const bool done = expiry.sweep(kExpiryPiece);
  loops.front()->run_after(done ? kExpiryRound : Duration(std::chrono::milliseconds(20)), [this] { expire_events(); });
}

void ApiServer::Impl::clean_up_custom_kinds() {
  const CustomKinds::Left left = custom_kinds->clean_up(kCleanUpPiece);
  if (left == CustomKinds::Left::kNothing || custom_cleanup_due) return;
  custom_cleanup_due = true;
  const Duration wait = left == CustomKinds::Left::kWork ? Duration::zero() : kCleanUpRound;
  loops.front()->run_after(wait, [this] {
    custom_cleanup_due = false;
    clean_up_custom_kinds();
  });
}

void ApiServer::Impl::run_threads() {
  loops.front()->post([this] { expire_events(); });
  aggregator.start(loops.front().get());
  for (const auto& loop : loops) threads.emplace_back([raw = loop.get()] { raw->run(); });
}

void ApiServer::Impl::stop(Duration grace) {
  if (threads.empty()) return;
  parts.ready.store(false);
  if (grace > Duration::zero()) {
    auto done = std::make_shared<std::pair<std::mutex, std::condition_variable>>();
    auto finished = std::make_shared<bool>(false);
    end_all_watches(parts);
    server->drain(grace, [done, finished] {
      std::lock_guard lock(done->first);
      *finished = true;
      done->second.notify_all();
    });
    std::unique_lock lock(done->first);
    done->second.wait_for(lock, grace + std::chrono::seconds(1), [&] { return *finished; });
  }
  for (const auto& loop : loops) loop->stop();
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  aggregator.stop();
  let_go();
}

// What was over when the threads ended is taken apart by tasks that still wait: clients must not outlive their loop.
void ApiServer::Impl::let_go() {
  for (const auto& loop : loops) loop->run_for(std::chrono::milliseconds(2));
}

ApiServer::ApiServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ApiServer::~ApiServer() {
  impl_->stop(Duration::zero());
  impl_->server.reset();
  impl_->let_go();
}

Result<std::unique_ptr<ApiServer>> ApiServer::start(Options options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  GF_RETURN_IF_ERROR(impl->start_auth());
  if (impl->options.boot_objects) {
    if (Status status = create_boot_objects(impl->api, impl->options.service_cidr, impl->options.pki); !status.ok()) {
      return status.with_context("creating the first objects");
    }
  }
  impl->custom_kinds = CustomKinds::create(impl->api, [raw = impl.get()] {
    if (!raw->loops.empty()) raw->loops.front()->post([raw] { raw->clean_up_custom_kinds(); });
  });
  GF_RETURN_IF_ERROR(impl->start_io());
  if (impl->options.boot_objects) {
    if (Status status = create_api_endpoints(impl->api, impl->options.address, impl->server->port()); !status.ok()) {
      return status.with_context("creating the first objects");
    }
  }
  impl->parts.ready.store(true);
  impl->run_threads();
  return std::unique_ptr<ApiServer>(new ApiServer(std::move(impl)));
}

Api& ApiServer::api() { return impl_->api; }
const Authorizer& ApiServer::authorizer() const { return *impl_->authorizer; }

uint16_t ApiServer::port() const { return impl_->server->port(); }

std::string ApiServer::url() const {
  const std::string scheme = impl_->options.pki ? "https://" : "http://";
  const std::string& address = impl_->options.address;
  const bool v6 = address.find(':') != std::string::npos;
  return scheme + (v6 ? "[" + address + "]" : address) + ":" + std::to_string(port());
}

void ApiServer::stop(Duration grace) { impl_->stop(grace); }

std::vector<const MetricsRegistry*> ApiServer::metrics() const {
  std::vector<const MetricsRegistry*> all = impl_->request_metrics.registries();
  all.push_back(&impl_->server->metrics());
  return all;
}

}  // namespace ghostfleet::controlplane
