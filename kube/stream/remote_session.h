// What the two kinds of remote command sessions have in common, inside kube/stream: the link, the handler, and one end.
//
// Thread rule: the loop of the tunnel. Ownership: handle() gives what users hold; when its last reference is gone no
// event follows and the connection closes.
#pragma once

#include <memory>
#include <string>

#include "kube/stream/link.h"
#include "kube/stream/remote_command.h"
#include "kube/stream/resize_reader.h"

namespace ghostfleet::kube::stream {

class RemoteSessionBase : public RemoteSession,
                          public LinkEvents,
                          public std::enable_shared_from_this<RemoteSessionBase> {
 public:
  RemoteSessionBase(std::shared_ptr<http::Tunnel> tunnel, std::string protocol, const RemoteCommandOptions& options,
                    RemoteCommandHandler* handler);

  virtual void begin() = 0;
  std::shared_ptr<RemoteSession> handle();

  const std::string& protocol() const override { return protocol_; }
  size_t backlog() const override { return link_.backlog(); }
  void when_drained(size_t low_water, std::function<void()> callback) override {
    link_.when_drained(low_water, std::move(callback));
  }
  void pause_stdin() override { link_.pause(); }
  void resume_stdin() override { link_.resume(); }
  bool closed() const override { return link_.closed(); }
  EventLoop& loop() override { return link_.loop(); }
  void finish(const RemoteExit& exit) override;

  std::shared_ptr<void> keep_alive() override { return shared_from_this(); }
  void on_link_end(const Status& why) override;

 protected:
  // Writes the last word and goodbye.
  virtual void write_exit(const RemoteExit& exit) = 0;

  void ready();
  void take_stdin(std::string_view bytes);
  void end_stdin();
  void take_resize(std::string_view bytes);
  // The text of the error stream for clients that know no Status.
  static std::string plain_exit(const RemoteExit& exit);

  const std::string protocol_;
  const RemoteCommandOptions options_;
  RemoteCommandHandler* handler_;  // null: no further event
  Link link_;

 private:
  ResizeReader resize_;
  bool ready_ = false, stdin_ended_ = false;
  std::string early_stdin_;  // before the session was ready
};

std::shared_ptr<RemoteSessionBase> make_websocket_session(std::shared_ptr<http::Tunnel> tunnel, std::string protocol,
                                                          const RemoteCommandOptions& options,
                                                          RemoteCommandHandler* handler);
std::shared_ptr<RemoteSessionBase> make_spdy_session(std::shared_ptr<http::Tunnel> tunnel, std::string protocol,
                                                     const RemoteCommandOptions& options,
                                                     RemoteCommandHandler* handler);

}  // namespace ghostfleet::kube::stream
