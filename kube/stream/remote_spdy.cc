// Remote commands over SPDY/3.1: the client makes a stream for each of error, stdin, stdout, stderr and resize.
#include <array>

#include "kube/stream/remote_session.h"
#include "kube/stream/spdy.h"

namespace ghostfleet::kube::stream {
namespace {

enum Role : size_t { kError, kStdin, kStdout, kStderr, kResize, kRoles };
constexpr std::array<std::string_view, kRoles> kRoleNames = {"error", "stdin", "stdout", "stderr", "resize"};

class SpdySession final : public RemoteSessionBase, public SpdyEvents {
 public:
  SpdySession(std::shared_ptr<http::Tunnel> tunnel, std::string protocol, const RemoteCommandOptions& options,
              RemoteCommandHandler* handler)
      : RemoteSessionBase(std::move(tunnel), std::move(protocol), options, handler),
        spdy_(Spdy::create({.server = true, .limits = {.max_streams = 16}}, this)),
        first_version_(protocol_ == "channel.k8s.io") {
    const bool resizes = protocol_ == "v4.channel.k8s.io" || protocol_ == "v3.channel.k8s.io";
    expected_ = 1 + size_t{options.in} + size_t{options.out} + size_t{options.err} + size_t{options.tty && resizes};
  }
  ~SpdySession() override { link_.timers().cancel(timer_); }

  void begin() override {
    link_.begin();
    if (options_.creation_timeout.count() == 0) return;
    timer_ = link_.timers().run_after(options_.creation_timeout, [weak = weak_from_this()] {
      const auto self = std::static_pointer_cast<SpdySession>(weak.lock());
      if (self) self->expire();
    });
  }

  bool write_stdout(SharedBytes bytes) override { return options_.out && write(kStdout, bytes); }
  bool write_stderr(SharedBytes bytes) override { return options_.err && write(kStderr, bytes); }

  Status on_link_data(std::string_view bytes) override {
    link_.touch();
    return spdy_->feed(bytes);
  }
  void on_stream(SpdyStreamId id, const http::HeaderList& headers, bool fin) override;
  void on_data(SpdyStreamId id, std::string_view bytes) override {
    if (id == ids_[kStdin]) return take_stdin(bytes);
    if (id == ids_[kResize]) return take_resize(bytes);
  }
  void on_fin(SpdyStreamId id) override {
    if (id == ids_[kStdin]) end_stdin();
  }
  void on_reset(SpdyStreamId id, SpdyReset) override {
    if (id == ids_[kStdin]) end_stdin();
  }
  void on_goaway(uint32_t) override { link_.fail(Status(Code::kCancelled, "the client has ended the session")); }
  void on_output(SharedBytes bytes) override { link_.send(std::move(bytes)); }

 private:
  void all_there();
  void expire();
  bool write(Role role, const SharedBytes& bytes) {
    link_.touch();
    return !closed() && ids_[role] != 0 && spdy_->write(ids_[role], view(bytes), false) && !closed();
  }
  void write_exit(const RemoteExit& exit) override;

  std::unique_ptr<Spdy> spdy_;
  const bool first_version_;
  std::array<SpdyStreamId, kRoles> ids_{};
  size_t expected_ = 0, there_ = 0;
  Timers::Id timer_ = 0;
};

void SpdySession::on_stream(SpdyStreamId id, const http::HeaderList& headers, bool fin) {
  const std::string_view type = headers.get("streamtype");
  size_t role = 0;
  while (role < kRoles && kRoleNames[role] != type) ++role;
  if (role == kRoles) return spdy_->reply(id, {}, false);  // as a real kubelet: taken, and nothing comes of it
  if (ids_[role] != 0) return spdy_->reset(id, SpdyReset::kProtocolError);
  ids_[role] = id;
  spdy_->reply(id, {}, false);
  if (fin && role == kStdin) end_stdin();
  if (++there_ == expected_) all_there();
}

void SpdySession::all_there() {
  link_.timers().cancel(std::exchange(timer_, 0));
  if (first_version_) {
    // The first protocol's error stream goes away at once, and its stdin is closed from here: clients count on it.
    spdy_->reset(ids_[kError], SpdyReset::kCancel);
    spdy_->finish(ids_[kStdin]);
  }
  ready();
}

void SpdySession::expire() {
  timer_ = 0;
  link_.fail(Status(Code::kDeadlineExceeded, "timed out waiting for client to create streams"));
}

void SpdySession::write_exit(const RemoteExit& exit) {
  const std::string text = protocol_ == "v4.channel.k8s.io" ? remote_exit_status(exit) : plain_exit(exit);
  for (const Role role : {kStdout, kStderr}) {
    if (ids_[role] != 0) spdy_->finish(ids_[role]);
  }
  if (ids_[kError] != 0) spdy_->write(ids_[kError], text, true);
  for (const Role role : {kStdin, kResize}) {
    if (ids_[role] != 0) spdy_->reset(ids_[role], SpdyReset::kCancel);
  }
  spdy_->goaway(0);
}

}  // namespace

std::shared_ptr<RemoteSessionBase> make_spdy_session(std::shared_ptr<http::Tunnel> tunnel, std::string protocol,
                                                     const RemoteCommandOptions& options,
                                                     RemoteCommandHandler* handler) {
  return std::make_shared<SpdySession>(std::move(tunnel), std::move(protocol), options, handler);
}

}  // namespace ghostfleet::kube::stream
