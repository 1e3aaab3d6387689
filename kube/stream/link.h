// Link: what a streaming session stands on: a tunnel with a limit for what waits to be sent, an idle time, and one end.
//
// Thread rule: the tunnel's loop. Ownership: the session owns the link and is its events object; the link keeps the
// session alive while an event runs, so that a session may be let go of from inside its own events.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "kube/http/tunnel.h"
#include "kube/stream/timers.h"

namespace ghostfleet::kube::stream {

class LinkEvents {
 public:
  virtual ~LinkEvents() = default;
  virtual std::shared_ptr<void> keep_alive() = 0;
  // An error ends the link, after what was written has been sent.
  virtual Status on_link_data(std::string_view bytes) = 0;
  // The end, once, unless close() was called before.
  virtual void on_link_end(const Status& why) = 0;
};

struct LinkOptions {
  Duration idle_timeout{0};  // 0: none
  size_t max_backlog_bytes = 0;
  std::shared_ptr<Timers> timers;  // null: the loop's
};

class Link final : public http::TunnelHandler {
 public:
  Link(std::shared_ptr<http::Tunnel> tunnel, LinkOptions options, LinkEvents* events);
  ~Link() override;

  // Reading begins.
  void begin();
  // False when it is closed. A peer that does not take what was sent is cut.
  bool send(SharedBytes bytes);
  // Something happened: the idle time begins anew.
  void touch();
  size_t backlog() const { return tunnel_->backlog(); }
  void when_drained(size_t low_water, std::function<void()> callback);
  void pause() { tunnel_->pause(); }
  void resume() { tunnel_->resume(); }
  // Sends what was written first. No further event.
  void close();
  // Ends with on_link_end(), from the loop.
  void fail(const Status& why);
  bool closed() const { return closed_; }
  EventLoop& loop() { return tunnel_->loop(); }
  Timers& timers() { return *options_.timers; }

  void on_data(std::string_view bytes) override;
  void on_end(const Status& why) override;

 private:
  void arm_idle(Duration after);
  void on_idle();

  std::shared_ptr<http::Tunnel> tunnel_;
  LinkOptions options_;
  LinkEvents* events_;
  bool closed_ = false;
  TimePoint touched_;
  Timers::Id idle_timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ghostfleet::kube::stream
