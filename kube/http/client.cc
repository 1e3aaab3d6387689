// HttpClient: the pool. Calls find a connection with room or wait in their lane; connections are dialled when calls
// wait.
#include "kube/http/client.h"

#include <algorithm>
#include <array>
#include <deque>
#include <unordered_map>

#include "base/random.h"
#include "kube/http/client_connection.h"
#include "kube/http/client_session.h"
#include "kube/http/unix_address.h"
#include "kube/http/upgrade_call.h"

namespace ghostfleet::kube::http {
namespace {

constexpr CallId kUpgradeIds = 1ULL << 63;  // no call's generation gets that far
constexpr uint64_t kRedialCookie = UINT64_MAX;
constexpr Duration kRedialFirst = std::chrono::milliseconds(100), kRedialCap = std::chrono::seconds(10);
constexpr size_t kHttp1Factor = 32;            // connections of HTTP/1.1 for one of HTTP/2
constexpr size_t kLongLivedConnections = 256;  // of long-lived calls, when they have their own
constexpr size_t kKeptMemory = 2048;           // of a slot between calls: enough for a heartbeat
constexpr size_t kAssumedStreams = 100;        // of a connection that is still being made

std::string authority_of(const HttpClientOptions& options) {
  if (is_unix_address(options.host)) return "localhost";
  std::string authority = host_and_port(options.host, options.port);
  const uint16_t usual = options.use_tls ? 443 : 80;
  if (options.port == usual) authority.resize(authority.rfind(':'));
  return authority;
}

class PooledClient final : public HttpClient,
                           public ClientSessionEvents,
                           public ClientConnectionEvents,
                           public TimerTarget {
 public:
  PooledClient(EventLoop& loop, HttpClientOptions options);
  ~PooledClient() override;

  CallId start(std::string_view method, std::string_view target, const HeaderList* headers, std::string_view body,
               const CallOptions& options, ResponseHandler* handler) override;
  void cancel(CallId id) override;
  CallId upgrade(std::string_view method, std::string_view target, const HeaderList& headers,
                 const UpgradeOptions& options, UpgradeHandler* handler) override;
  void cancel_upgrade(CallId id) override;
  void set_reading(CallId id, bool on) override;
  void close_idle() override;
  void set_identity(std::shared_ptr<const TlsIdentity> identity) override;
  void set_read_coalescing(Duration wait) override;
  void read_collected() override;
  HttpClientStats stats() const override;

 private:
  struct Pool {
    std::vector<std::unique_ptr<ClientConnection>> connections;
    std::array<CallList, kLanes> lanes;
    size_t queued = 0;
    bool http1 = false;
  };

  void on_head(ClientCall* call, int status, const HeaderList& headers) override;
  void on_body(ClientCall* call, std::string_view piece) override;
  void on_trailers(ClientCall* call, const HeaderList& trailers) override;
  void on_end(ClientCall* call) override;
  void on_failed(ClientCall* call, const Status& status, bool sent) override;
  void on_reset(ClientCall* call, uint32_t error_code, const Status& status, bool sent) override;
  void on_released(ClientCall* call) override;
  void on_connected(ClientConnection* connection) override;
  void on_gone(ClientConnection* connection, const Status& why, bool was_open) override;
  void on_timer(uint64_t cookie) override;

  ClientCall* take_slot();
  ClientCall* find(CallId id);
  void recycle(ClientCall* call);
  ResponseHandler* retire(ClientCall* call);
  void enqueue(ClientCall* call);
  void dequeue(ClientCall* call);
  bool try_submit(Pool& pool, ClientCall* call);
  bool submit_to(ClientConnection* connection, ClientCall* call);
  void close_unused(bool only_draining);
  ClientConnection* best_connection(Pool& pool, Lane lane);
  void pump(Pool& pool);
  void schedule_pump();
  void dial_if_needed(Pool& pool);
  size_t limit_of(const Pool& pool) const;
  void fail_queued(Pool& pool, const Status& why);
  void note_dial_failure(const Status& why);
  void bury();

  EventLoop& loop_;
  std::shared_ptr<LoopContext> context_;
  HttpClientOptions options_;
  ClientSessionConfig config_;
  std::array<Pool, 2> pools_;  // short calls; long-lived calls
  std::deque<ClientCall> slots_;
  std::vector<ClientCall*> free_;
  std::vector<std::unique_ptr<ClientConnection>> graves_;  // ended, but perhaps still on the stack
  std::unordered_map<CallId, std::shared_ptr<UpgradeCall>> upgrades_;
  uint64_t last_upgrade_ = 0;
  std::vector<CallId> refused_;  // over max_queued_calls: told from the loop
  HttpClientStats stats_;
  Rng rng_;
  LoopContext::TimerId redial_timer_;
  TimePoint redial_at_;
  int dial_failures_ = 0;
  Duration coalescing_{0};
  bool pump_posted_ = false, destroying_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

PooledClient::PooledClient(EventLoop& loop, HttpClientOptions options)
    : loop_(loop),
      context_(LoopContext::of(loop)),
      options_(std::move(options)),
      rng_(static_cast<uint64_t>(loop.now().ns) ^ reinterpret_cast<uintptr_t>(this)) {
  config_.scheme = options_.use_tls ? "https" : "http";
  config_.authority = authority_of(options_);
  config_.default_headers = options_.default_headers;
  if (options_.frugal) config_.header_table_bytes = 0;
  config_.max_streams = std::max<uint32_t>(1, options_.max_streams_per_connection);
  redial_timer_ = context_->acquire_timer(this, kRedialCookie);
}

PooledClient::~PooledClient() {
  destroying_ = true;
  *alive_ = false;
  for (Pool& pool : pools_) pool.connections.clear();
  graves_.clear();
  for (const auto& [id, call] : upgrades_) call->abandon();
  for (ClientCall& call : slots_) context_->release_timer(call.timer);
  context_->release_timer(redial_timer_);
}

ClientCall* PooledClient::take_slot() {
  if (!free_.empty()) {
    ClientCall* call = free_.back();
    free_.pop_back();
    return call;
  }
  ClientCall* call = &slots_.emplace_back();
  call->index = static_cast<uint32_t>(slots_.size() - 1);
  call->timer = context_->acquire_timer(this, call->index);
  return call;
}

ClientCall* PooledClient::find(CallId id) {
  const uint64_t index = (id & UINT32_MAX) - 1;
  if (id == 0 || index >= slots_.size()) return nullptr;
  ClientCall* call = &slots_[index];
  return call->handler && call->id() == id ? call : nullptr;
}

void PooledClient::recycle(ClientCall* call) {
  call->where = ClientCall::Where::kFree;
  if (options_.frugal || call->memory.capacity() > kKeptMemory) std::string().swap(call->memory);
  if (options_.frugal) std::vector<std::pair<uint32_t, uint32_t>>().swap(call->header_sizes);
  call->connection = nullptr;
  ++call->generation;
  free_.push_back(call);
}

// No further event for this call; its deadline no longer matters.
ResponseHandler* PooledClient::retire(ClientCall* call) {
  context_->disarm(call->timer);
  return std::exchange(call->handler, nullptr);
}

CallId PooledClient::start(std::string_view method, std::string_view target, const HeaderList* headers,
                           std::string_view body, const CallOptions& options, ResponseHandler* handler) {
  ClientCall* call = take_slot();
  call->store(method, target, headers, body);
  call->handler = handler;
  call->lane = options.lane;
  call->long_lived = options.long_lived && options_.max_connections > 1 && !options_.one_pool;
  if (options.timeout.count() > 0) context_->arm(call->timer, context_->now() + options.timeout);
  ++stats_.calls;
  Pool& pool = pools_[call->long_lived];
  if (pool.queued == 0 && try_submit(pool, call)) return call->id();
  enqueue(call);
  if (pool.queued > options_.max_queued_calls) refused_.push_back(call->id());
  schedule_pump();
  return call->id();
}

void PooledClient::enqueue(ClientCall* call) {
  Pool& pool = pools_[call->long_lived];
  call->where = ClientCall::Where::kQueued;
  pool.lanes[static_cast<size_t>(call->lane)].push_back(call);
  ++pool.queued;
}

void PooledClient::dequeue(ClientCall* call) {
  Pool& pool = pools_[call->long_lived];
  pool.lanes[static_cast<size_t>(call->lane)].remove(call);
  --pool.queued;
}

void PooledClient::cancel(CallId id) {
  ClientCall* call = find(id);
  if (!call) return;
  retire(call);
  if (call->where == ClientCall::Where::kQueued) {
    dequeue(call);
    recycle(call);
  } else {
    call->connection->cancel(call);  // ends in on_released()
  }
}

void PooledClient::set_reading(CallId id, bool on) {
  ClientCall* call = find(id);
  if (call && call->connection) call->connection->set_reading(on);
}

CallId PooledClient::upgrade(std::string_view method, std::string_view target, const HeaderList& headers,
                             const UpgradeOptions& options, UpgradeHandler* handler) {
  const CallId id = kUpgradeIds | ++last_upgrade_;
  const auto call =
      std::make_shared<UpgradeCall>(context_, &options_, &config_, options, handler, [this, alive = alive_, id] {
        if (*alive) upgrades_.erase(id);
      });
  upgrades_[id] = call;
  ++stats_.calls;
  call->begin(method, target, headers);
  return id;
}

void PooledClient::cancel_upgrade(CallId id) {
  const auto at = upgrades_.find(id);
  if (at != upgrades_.end()) at->second->cancel();
}

// The least busy connection with room; when reads are coalesced, the first that is not half full: fewer sockets to
// serve. Heartbeats and status may use every stream, the rest leaves a tenth free.
ClientConnection* PooledClient::best_connection(Pool& pool, Lane lane) {
  ClientConnection* best = nullptr;
  for (const auto& connection : pool.connections) {
    const size_t reserve = lane > Lane::kStatus && !pool.http1 ? connection->capacity() / 10 : 0;
    if (connection->room() <= reserve) continue;
    if (coalescing_.count() > 0 && connection->calls < connection->capacity() / 2) return connection.get();
    if (!best || connection->calls < best->calls) best = connection.get();
  }
  return best;
}

bool PooledClient::try_submit(Pool& pool, ClientCall* call) {
  while (ClientConnection* connection = best_connection(pool, call->lane)) {
    if (submit_to(connection, call)) return true;  // else it is draining now and offers no room
  }
  return false;
}

bool PooledClient::submit_to(ClientConnection* connection, ClientCall* call) {
  if (!connection->submit(call)) return false;
  call->where = ClientCall::Where::kSubmitted;
  call->connection = connection;
  ++connection->calls;
  return true;
}

void PooledClient::pump(Pool& pool) {
  for (CallList& lane : pool.lanes) {
    while (ClientCall* call = lane.front()) {
      ClientConnection* connection = best_connection(pool, call->lane);
      if (!connection) break;
      dequeue(call);
      if (submit_to(connection, call)) continue;
      enqueue(call);  // the connection began to drain: it has no room any longer
    }
  }
  dial_if_needed(pool);
}

void PooledClient::schedule_pump() {
  if (pump_posted_ || destroying_) return;
  pump_posted_ = true;
  loop_.post([this, alive = alive_] {
    if (!*alive) return;
    pump_posted_ = false;
    bury();
    const std::vector<CallId> refused = std::exchange(refused_, {});
    for (const CallId id : refused) {
      ClientCall* call = find(id);
      if (!call || call->where != ClientCall::Where::kQueued) continue;
      dequeue(call);
      on_failed(call, Status(Code::kResourceExhausted, "too many calls wait for a connection"), false);
      recycle(call);
    }
    for (Pool& pool : pools_) pump(pool);
  });
}

size_t PooledClient::limit_of(const Pool& pool) const {
  const auto own = static_cast<size_t>(std::max(1, options_.max_connections));
  const bool long_lived = &pool == &pools_[1];
  if (pool.http1) return long_lived ? kLongLivedConnections * 4 : own * kHttp1Factor;
  return long_lived ? kLongLivedConnections : own;
}

void PooledClient::dial_if_needed(Pool& pool) {
  if (pool.queued == 0 || destroying_) return;
  size_t dialing = 0, usable = 0;
  for (const auto& connection : pool.connections) {
    dialing += connection->dialing();
    usable += connection->dialing() || (connection->open() && !connection->draining());
  }
  if (context_->now() < redial_at_) {
    if (!context_->armed(redial_timer_)) context_->arm(redial_timer_, redial_at_);
    return;
  }
  const size_t per_connection = pool.http1 ? 1 : std::min<size_t>(kAssumedStreams, config_.max_streams);
  // After a failure one attempt finds out whether the server is back.
  const size_t wanted = dial_failures_ > 0 ? 1 : (pool.queued + per_connection - 1) / per_connection;
  const size_t limit = limit_of(pool);
  while (dialing < wanted && usable < limit) {
    auto connection = std::make_unique<ClientConnection>(context_, &options_, &config_, this, this);
    connection->pool = static_cast<int>(&pool - pools_.data());
    connection->set_read_coalescing(coalescing_);
    pool.connections.push_back(std::move(connection));
    pool.connections.back()->dial();
    ++dialing;
    ++usable;
  }
}

void PooledClient::on_connected(ClientConnection* connection) {
  ++stats_.connections_opened;
  dial_failures_ = 0;
  redial_at_ = {};
  for (Pool& pool : pools_) pool.http1 = !connection->http2();
  schedule_pump();
}

void PooledClient::note_dial_failure(const Status& why) {
  ++stats_.connections_failed;
  stats_.last_connect_error = why;
  Duration delay = kRedialFirst;
  for (int i = 0; i < dial_failures_ && delay < kRedialCap; ++i) delay *= 2;
  delay = std::min<Duration>(delay, kRedialCap);
  ++dial_failures_;
  redial_at_ = context_->now() + rng_.between(delay / 2, delay + delay / 2);
}

void PooledClient::on_gone(ClientConnection* connection, const Status& why, bool was_open) {
  Pool& pool = pools_[static_cast<size_t>(connection->pool)];
  stats_.bytes_in += connection->counters().bytes_in;
  stats_.bytes_out += connection->counters().bytes_out;
  const auto at = std::find_if(pool.connections.begin(), pool.connections.end(),
                               [&](const auto& c) { return c.get() == connection; });
  if (at != pool.connections.end()) {
    graves_.push_back(std::move(*at));
    pool.connections.erase(at);
  }
  if (!was_open || !connection->answered()) {
    note_dial_failure(why);  // a server that accepts and closes is no better than one that refuses
    const bool others = std::any_of(pool.connections.begin(), pool.connections.end(),
                                    [](const auto& c) { return c->dialing() || c->room() > 0 || c->calls > 0; });
    if (!others) fail_queued(pool, why);
  }
  schedule_pump();
}

void PooledClient::fail_queued(Pool& pool, const Status& why) {
  // Those that wait now; calls started from the callbacks wait for the next attempt.
  std::vector<CallId> waiting;
  for (CallList& lane : pool.lanes) {
    for (ClientCall* call = lane.front(); call != nullptr; call = call->next) waiting.push_back(call->id());
  }
  for (const CallId id : waiting) {
    ClientCall* call = find(id);
    if (!call || call->where != ClientCall::Where::kQueued) continue;
    dequeue(call);
    on_failed(call, why, false);
    recycle(call);
  }
}

void PooledClient::bury() { graves_.clear(); }

void PooledClient::on_timer(uint64_t cookie) {
  if (cookie == kRedialCookie) return schedule_pump();
  ClientCall* call = &slots_[cookie];
  if (!call->handler) return;
  const Status late(Code::kDeadlineExceeded, "no complete answer in time");
  if (call->where == ClientCall::Where::kQueued) {
    dequeue(call);
    Status why = late;
    if (!stats_.last_connect_error.ok() && dial_failures_ > 0) {
      why = Status(Code::kDeadlineExceeded, "no connection in time: " + stats_.last_connect_error.message());
    }
    on_failed(call, why, false);
    recycle(call);
    return;
  }
  ClientConnection* connection = call->connection;
  on_failed(call, late, true);
  connection->cancel(call);
}

void PooledClient::on_head(ClientCall* call, int status, const HeaderList& headers) {
  // What is answered has been sent: an open watch of a node keeps no text of its request.
  if (options_.frugal && call->body_size == 0 && call->connection->http2()) std::string().swap(call->memory);
  call->handler->on_head(call->id(), status, headers);
}

void PooledClient::on_body(ClientCall* call, std::string_view piece) { call->handler->on_body(call->id(), piece); }

void PooledClient::on_trailers(ClientCall* call, const HeaderList& trailers) {
  call->handler->on_trailers(call->id(), trailers);
}

void PooledClient::on_end(ClientCall* call) {
  const CallId id = call->id();
  retire(call)->on_end(id);
}

void PooledClient::on_failed(ClientCall* call, const Status& status, bool sent) {
  const CallId id = call->id();
  ResponseHandler* handler = retire(call);
  if (handler && !destroying_) handler->on_error(id, status, sent);
}

void PooledClient::on_reset(ClientCall* call, uint32_t error_code, const Status& status, bool sent) {
  const CallId id = call->id();
  ResponseHandler* handler = retire(call);
  if (handler && !destroying_) handler->on_reset(id, error_code, status, sent);
}

void PooledClient::on_released(ClientCall* call) {
  ClientConnection* connection = call->connection;
  Pool& pool = pools_[call->long_lived];
  --connection->calls;
  recycle(call);
  if (destroying_) return;
  if (connection->calls == 0 && connection->draining() && connection->open()) {
    schedule_pump();
    loop_.post([this, alive = alive_] {
      if (*alive) close_unused(true);
    });
  } else if (pool.queued > 0) {
    schedule_pump();
  }
}

void PooledClient::close_idle() { close_unused(false); }

void PooledClient::set_identity(std::shared_ptr<const TlsIdentity> identity) {
  options_.identity = std::move(identity);
  std::vector<std::unique_ptr<ClientConnection>> old;
  for (Pool& pool : pools_) {
    for (auto& connection : pool.connections) old.push_back(std::move(connection));
    pool.connections.clear();
  }
  for (auto& connection : old) {
    stats_.bytes_in += connection->counters().bytes_in;
    stats_.bytes_out += connection->counters().bytes_out;
    connection->close(unavailable("the connection was closed: another certificate is in use"));
    graves_.push_back(std::move(connection));
  }
  schedule_pump();
}

void PooledClient::close_unused(bool only_draining) {
  for (Pool& pool : pools_) {
    for (auto& connection : pool.connections) {
      if (connection->calls > 0 || !connection->open()) continue;
      if (only_draining && !connection->draining()) continue;
      stats_.bytes_in += connection->counters().bytes_in;
      stats_.bytes_out += connection->counters().bytes_out;
      connection->close_idle();
      graves_.push_back(std::move(connection));
    }
    std::erase_if(pool.connections, [](const auto& c) { return c == nullptr; });
  }
  schedule_pump();
}

void PooledClient::set_read_coalescing(Duration wait) {
  if (std::exchange(coalescing_, wait) == wait) return;
  for (Pool& pool : pools_) {
    for (auto& connection : pool.connections) connection->set_read_coalescing(wait);
  }
}

void PooledClient::read_collected() {
  if (coalescing_.count() == 0) return;
  for (Pool& pool : pools_) {
    for (size_t i = pool.connections.size(); i-- > 0;) {
      if (i < pool.connections.size()) pool.connections[i]->read_collected();  // one that ends leaves the list
    }
  }
}

HttpClientStats PooledClient::stats() const {
  HttpClientStats out = stats_;
  for (const Pool& pool : pools_) {
    out.queued += pool.queued;
    for (const auto& connection : pool.connections) {
      out.open_connections += connection->open();
      out.in_flight += connection->calls;
      out.bytes_in += connection->counters().bytes_in;
      out.bytes_out += connection->counters().bytes_out;
    }
  }
  return out;
}

}  // namespace

std::unique_ptr<HttpClient> HttpClient::create(EventLoop& loop, HttpClientOptions options) {
  return std::make_unique<PooledClient>(loop, std::move(options));
}

}  // namespace ghostfleet::kube::http
