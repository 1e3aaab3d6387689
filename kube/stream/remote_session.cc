#include "kube/stream/remote_session.h"

namespace ghostfleet::kube::stream {
namespace {

constexpr size_t kMaxEarlyStdin = 256 * 1024;  // clients make all streams before they send

}  // namespace

RemoteSessionBase::RemoteSessionBase(std::shared_ptr<http::Tunnel> tunnel, std::string protocol,
                                     const RemoteCommandOptions& options, RemoteCommandHandler* handler)
    : protocol_(std::move(protocol)),
      options_(options),
      handler_(handler),
      link_(std::move(tunnel), {options.idle_timeout, options.max_backlog_bytes, options.timers}, this) {}

std::shared_ptr<RemoteSession> RemoteSessionBase::handle() {
  return std::shared_ptr<RemoteSession>(this, [self = shared_from_this()](RemoteSession*) {
    self->handler_ = nullptr;
    self->link_.close();
  });
}

void RemoteSessionBase::finish(const RemoteExit& exit) {
  handler_ = nullptr;
  if (closed()) return;
  write_exit(exit);
  link_.close();
}

void RemoteSessionBase::on_link_end(const Status& why) {
  if (RemoteCommandHandler* handler = std::exchange(handler_, nullptr)) handler->on_close(why);
}

void RemoteSessionBase::ready() {
  if (ready_ || !handler_) return;
  ready_ = true;
  handler_->on_ready(*this);
  const std::string early = std::exchange(early_stdin_, {});
  if (handler_ && !early.empty()) handler_->on_stdin(early);
  if (handler_ && stdin_ended_) handler_->on_stdin_end();
}

void RemoteSessionBase::take_stdin(std::string_view bytes) {
  if (stdin_ended_ || bytes.empty() || !options_.in) return;
  if (ready_) {
    if (handler_) handler_->on_stdin(bytes);
    return;
  }
  early_stdin_.append(bytes);
  if (early_stdin_.size() > kMaxEarlyStdin)
    link_.fail(Status(Code::kResourceExhausted, "too much stdin before the streams were made"));
}

void RemoteSessionBase::end_stdin() {
  if (!options_.in || std::exchange(stdin_ended_, true)) return;
  if (ready_ && handler_) handler_->on_stdin_end();
}

void RemoteSessionBase::take_resize(std::string_view bytes) {
  if (!options_.tty) return;
  resize_.feed(bytes, [this](uint16_t width, uint16_t height) {
    if (handler_) handler_->on_resize(width, height);
  });
}

std::string RemoteSessionBase::plain_exit(const RemoteExit& exit) {
  switch (exit.kind) {
    case RemoteExit::Kind::kSuccess: return {};
    case RemoteExit::Kind::kExitCode: return "command terminated with non-zero exit code: " + exit.text;
    case RemoteExit::Kind::kInternalError: return "Internal error occurred: " + exit.text;
  }
  return {};
}

}  // namespace ghostfleet::kube::stream
