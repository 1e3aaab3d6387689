#include "kube/stream/link.h"

namespace ghostfleet::kube::stream {

Link::Link(std::shared_ptr<http::Tunnel> tunnel, LinkOptions options, LinkEvents* events)
    : tunnel_(std::move(tunnel)), options_(std::move(options)), events_(events) {
  if (!options_.timers) options_.timers = loop_timers(tunnel_->loop());
}

Link::~Link() {
  *alive_ = false;
  close();
}

void Link::begin() {
  touch();
  if (options_.idle_timeout.count() > 0) arm_idle(options_.idle_timeout);
  tunnel_->set_handler(this);
}

bool Link::send(SharedBytes bytes) {
  if (closed_) return false;
  if (!tunnel_->write(std::move(bytes))) return false;
  if (tunnel_->backlog() <= options_.max_backlog_bytes) return true;
  fail(Status(Code::kResourceExhausted, "the client does not read: more than " +
                                            std::to_string(options_.max_backlog_bytes) + " bytes wait for it"));
  return false;
}

void Link::touch() { touched_ = options_.timers->now(); }

void Link::when_drained(size_t low_water, std::function<void()> callback) {
  tunnel_->when_drained(low_water, std::move(callback));
}

void Link::close() {
  options_.timers->cancel(std::exchange(idle_timer_, 0));
  if (std::exchange(closed_, true)) return;
  tunnel_->set_handler(nullptr);
  tunnel_->close();
}

void Link::fail(const Status& why) {
  if (closed_) return;
  closed_ = true;
  options_.timers->cancel(std::exchange(idle_timer_, 0));
  tunnel_->set_handler(nullptr);
  // A peer that does not read gets nothing more anyway.
  if (why.code() == Code::kResourceExhausted)
    tunnel_->abort();
  else
    tunnel_->close();
  tunnel_->loop().post([this, alive = alive_, why] {
    if (!*alive) return;
    const auto keep = events_->keep_alive();
    events_->on_link_end(why);
  });
}

void Link::on_data(std::string_view bytes) {
  const auto keep = events_->keep_alive();
  const Status status = events_->on_link_data(bytes);
  if (!status.ok()) fail(status);
}

void Link::on_end(const Status& why) {
  if (closed_) return;
  const auto keep = events_->keep_alive();
  closed_ = true;
  options_.timers->cancel(std::exchange(idle_timer_, 0));
  tunnel_->close();
  events_->on_link_end(why.ok() ? Status(Code::kCancelled, "the client has closed the connection") : why);
}

void Link::arm_idle(Duration after) {
  idle_timer_ = options_.timers->run_after(after, [this, alive = alive_] {
    if (*alive) on_idle();
  });
}

// One timer for the whole session: it looks whether something happened since it was armed.
void Link::on_idle() {
  const TimePoint due = touched_ + options_.idle_timeout;
  const TimePoint now = options_.timers->now();
  if (now < due) return arm_idle(due - now);
  idle_timer_ = 0;
  fail(Status(Code::kDeadlineExceeded, "nothing was sent or received for too long"));
}

}  // namespace ghostfleet::kube::stream
