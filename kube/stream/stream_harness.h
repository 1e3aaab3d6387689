// For tests: a tunnel, an exchange and a clock in memory, and a client's end of the streaming protocols.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/event_loop.h"
#include "kube/http/server.h"
#include "kube/stream/spdy.h"
#include "kube/stream/timers.h"
#include "kube/stream/websocket.h"

namespace ghostfleet::kube::stream {

// Runs what has been posted so far.
inline void run_posted(EventLoop* loop) {
  bool done = false;
  loop->post([&done] { done = true; });
  while (!done) loop->run_for(std::chrono::milliseconds(1));
}

class ManualTimers final : public Timers {
 public:
  TimePoint now() const override { return now_; }
  Id run_after(Duration delay, std::function<void()> task) override {
    tasks_[++last_] = {now_ + delay, std::move(task)};
    return last_;
  }
  void cancel(Id id) override { tasks_.erase(id); }
  void advance(Duration d) {
    now_ = now_ + d;
    while (true) {
      auto due = tasks_.begin();
      while (due != tasks_.end() && now_ < due->second.first) ++due;
      if (due == tasks_.end()) return;
      const auto task = std::move(due->second.second);
      tasks_.erase(due);
      task();
    }
  }
  size_t armed() const { return tasks_.size(); }

 private:
  TimePoint now_;
  Id last_ = 0;
  std::map<Id, std::pair<TimePoint, std::function<void()>>> tasks_;
};

// The server's end of a connection whose client is the test.
class FakeTunnel final : public http::Tunnel {
 public:
  explicit FakeTunnel(EventLoop& loop) : loop_(loop) {}

  void set_handler(http::TunnelHandler* handler) override { handler_ = handler; }
  bool write(SharedBytes bytes) override {
    if (closed_) return false;
    (client_reads ? sent : waiting).append(*bytes);
    return true;
  }
  size_t backlog() const override { return waiting.size(); }
  void when_drained(size_t low_water, std::function<void()> callback) override {
    if (backlog() < low_water || closed_) return loop_.post(std::move(callback));
    drained_ = std::move(callback);
  }
  void pause() override { paused = true; }
  void resume() override { paused = false; }
  void shutdown_write() override {}
  void close() override { closed_ = true; }
  void abort() override { closed_ = aborted = true; }
  bool closed() const override { return closed_; }
  EventLoop& loop() override { return loop_; }

  // The client sends. False when nobody takes it.
  bool feed(std::string_view bytes) {
    if (!handler_ || closed_) return false;
    handler_->on_data(bytes);
    return true;
  }
  void end(const Status& why) {
    if (auto* handler = std::exchange(handler_, nullptr)) handler->on_end(why);
  }
  void client_takes_all() {
    sent += std::exchange(waiting, {});
    if (drained_) loop_.post(std::exchange(drained_, nullptr));
  }

  std::string sent, waiting;
  bool client_reads = true, paused = false, aborted = false;

 private:
  EventLoop& loop_;
  http::TunnelHandler* handler_ = nullptr;
  std::function<void()> drained_;
  bool closed_ = false;
};

class FakeExchange final : public http::Exchange {
 public:
  FakeExchange(EventLoop& loop, http::HeaderList headers, std::string method = "POST") : loop_(loop) {
    request_.method = std::move(method);
    request_.headers = std::move(headers);
  }
  const http::Request& request() const override { return request_; }
  EventLoop& loop() override { return loop_; }
  void respond(int s, http::HeaderList h, SharedBytes b) override {
    status = s;
    headers = std::move(h);
    body = view(b);
  }
  void start(int, http::HeaderList) override {}
  bool write(SharedBytes) override { return false; }
  void finish() override {}
  void abort() override {}
  size_t backlog() const override { return 0; }
  void when_drained(size_t, std::function<void()>) override {}
  void on_close(std::function<void()>) override {}
  bool closed() const override { return false; }
  std::shared_ptr<http::Tunnel> upgrade(int s, http::HeaderList h) override {
    if (!can_upgrade) return nullptr;
    status = s;
    headers = std::move(h);
    return tunnel = std::make_shared<FakeTunnel>(loop_);
  }

  int status = 0;
  http::HeaderList headers;
  std::string body;
  bool can_upgrade = true;
  std::shared_ptr<FakeTunnel> tunnel;

 private:
  EventLoop& loop_;
  http::Request request_;
};

inline http::HeaderList spdy_request(const std::vector<std::string>& protocols) {
  http::HeaderList headers = {{"connection", "Upgrade"}, {"upgrade", "SPDY/3.1"}};
  for (const std::string& name : protocols) headers.add("x-stream-protocol-version", name);
  return headers;
}

inline http::HeaderList websocket_request(const std::vector<std::string>& protocols) {
  http::HeaderList headers = websocket_request_headers("dGhlIHNhbXBsZSBub25jZQ==", protocols);
  headers.add("connection", "Upgrade");
  return headers;
}

// A client that speaks SPDY over the tunnel (or gives its bytes away through `output`).
struct SpdyPeer : SpdyEvents {
  struct Stream {
    std::string data;
    bool replied = false, fin = false;
    int reset = 0;
  };
  std::unique_ptr<Spdy> engine = Spdy::create(SpdyOptions{.server = false, .flow_control = false, .limits = {}}, this);
  std::map<SpdyStreamId, Stream> streams;
  std::string output;
  bool goaway = false;

  void on_stream(SpdyStreamId, const http::HeaderList&, bool) override {}
  void on_reply(SpdyStreamId id, const http::HeaderList&) override { streams[id].replied = true; }
  void on_data(SpdyStreamId id, std::string_view bytes) override { streams[id].data.append(bytes); }
  void on_fin(SpdyStreamId id) override { streams[id].fin = true; }
  void on_reset(SpdyStreamId id, SpdyReset code) override { streams[id].reset = static_cast<int>(code); }
  void on_goaway(uint32_t) override { goaway = true; }
  void on_output(SharedBytes bytes) override { output.append(*bytes); }
};

struct WebSocketPeer : WebSocketEvents {
  WebSocket engine{WebSocket::Role::kClient, {}, this, 3};
  std::vector<std::pair<bool, std::string>> messages;
  int close_code = 0;
  std::string output;

  void on_message(bool text, std::string_view payload) override { messages.emplace_back(text, payload); }
  void on_close(uint16_t code, std::string_view) override { close_code = code; }
  void on_output(SharedBytes bytes) override { output.append(*bytes); }
};

}  // namespace ghostfleet::kube::stream
