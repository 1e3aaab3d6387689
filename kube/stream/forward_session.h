// What the kinds of port-forward sessions have in common, inside kube/stream: the link, the forwarded connections, and
// one end.
//
// Thread rule: the loop of the tunnel. Ownership: as for remote sessions; a Forwarded knows its session weakly and
// outlives it.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "kube/stream/link.h"
#include "kube/stream/port_forward.h"

namespace ghostfleet::kube::stream {

class ForwardSessionBase;

class Forwarded final : public ForwardedConnection, public std::enable_shared_from_this<Forwarded> {
 public:
  static constexpr size_t kMaxEarly = 256 * 1024;  // before there is a handler; then the session is ended

  Forwarded(std::weak_ptr<ForwardSessionBase> session, EventLoop& loop, uint32_t id, uint16_t port)
      : session_(std::move(session)), loop_(loop), id_(id), port_(port) {}

  uint16_t port() const override { return port_; }
  void set_handler(ForwardedHandler* handler) override;
  bool write(SharedBytes bytes) override;
  void finish() override;
  void close() override;
  void fail(std::string_view message) override;
  size_t backlog() const override;
  void when_drained(size_t low_water, std::function<void()> callback) override;
  void pause() override;
  void resume() override;
  bool closed() const override { return closed_; }

  // of the session
  void take(std::string_view bytes);
  void take_end();
  void end(const Status& why);

 private:
  void deliver_early();

  std::weak_ptr<ForwardSessionBase> session_;
  EventLoop& loop_;
  const uint32_t id_;
  const uint16_t port_;
  ForwardedHandler* handler_ = nullptr;
  std::string early_;
  bool input_ended_ = false, end_told_ = false, output_ended_ = false, closed_ = false;
};

class ForwardSessionBase : public PortForwardSession,
                           public LinkEvents,
                           public std::enable_shared_from_this<ForwardSessionBase> {
 public:
  ForwardSessionBase(std::shared_ptr<http::Tunnel> tunnel, std::string protocol, const PortForwardOptions& options,
                     PortForwardHandler* handler);

  virtual void begin() = 0;
  std::shared_ptr<PortForwardSession> handle();

  const std::string& protocol() const override { return protocol_; }
  void close() override;
  bool closed() const override { return link_.closed(); }
  EventLoop& loop() override { return link_.loop(); }

  std::shared_ptr<void> keep_alive() override { return shared_from_this(); }
  void on_link_end(const Status& why) override;

  // of the connections
  virtual bool write(uint32_t id, const SharedBytes& bytes) = 0;
  virtual void finish(uint32_t id) = 0;
  // `message` (perhaps empty) goes to the error stream; both ways end.
  virtual void end_connection(uint32_t id, std::string_view message) = 0;
  Link& link() { return link_; }
  void wait_drained(size_t low_water, std::function<void()> callback);
  void forget(uint32_t id) { connections_.erase(id); }

 protected:
  // What is to be said before the link closes.
  virtual void say_goodbye() {}
  void add_connection(uint32_t id, uint16_t port);
  std::shared_ptr<Forwarded> find(uint32_t id);
  size_t connection_count() const { return connections_.size(); }

  const std::string protocol_;
  const PortForwardOptions options_;
  PortForwardHandler* handler_;
  Link link_;

 private:
  struct Waiting {
    size_t low_water;
    std::function<void()> callback;
  };

  void end_connections(const Status& why);
  void watch_link();
  void drained();

  std::unordered_map<uint32_t, std::shared_ptr<Forwarded>> connections_;
  std::vector<Waiting> waiting_;
};

std::shared_ptr<ForwardSessionBase> make_spdy_forward(std::shared_ptr<http::Tunnel> tunnel, bool inside_websocket,
                                                      std::string protocol, const PortForwardOptions& options,
                                                      PortForwardHandler* handler);
std::shared_ptr<ForwardSessionBase> make_websocket_forward(std::shared_ptr<http::Tunnel> tunnel, std::string protocol,
                                                           const PortForwardOptions& options,
                                                           PortForwardHandler* handler);

}  // namespace ghostfleet::kube::stream
