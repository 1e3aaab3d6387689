#include "kube/stream/forward_session.h"

namespace ghostfleet::kube::stream {

void Forwarded::set_handler(ForwardedHandler* handler) {
  handler_ = handler;
  if (!handler_ || (early_.empty() && !input_ended_)) return;
  loop_.post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->deliver_early();
  });
}

void Forwarded::deliver_early() {
  const std::string early = std::exchange(early_, {});
  if (handler_ && !early.empty()) handler_->on_data(early);
  if (!handler_ || !input_ended_ || std::exchange(end_told_, true)) return;
  handler_->on_data_end();
}

void Forwarded::take(std::string_view bytes) {
  const auto self = shared_from_this();
  if (closed_ || input_ended_) return;
  if (handler_ && early_.empty()) return handler_->on_data(bytes);
  early_.append(bytes);
  if (early_.size() <= kMaxEarly) return;
  if (const auto session = session_.lock()) {
    session->link().fail(Status(Code::kResourceExhausted, "nobody takes what a forwarded connection sends"));
  }
}

void Forwarded::take_end() {
  const auto self = shared_from_this();
  if (closed_ || std::exchange(input_ended_, true)) return;
  if (!handler_ || !early_.empty() || std::exchange(end_told_, true)) return;
  handler_->on_data_end();
}

void Forwarded::end(const Status& why) {
  const auto self = shared_from_this();
  if (std::exchange(closed_, true)) return;
  if (ForwardedHandler* handler = std::exchange(handler_, nullptr)) handler->on_close(why);
}

bool Forwarded::write(SharedBytes bytes) {
  const auto session = session_.lock();
  if (closed_ || output_ended_ || !session) return false;
  return view(bytes).empty() || session->write(id_, bytes);
}

void Forwarded::finish() {
  const auto session = session_.lock();
  if (closed_ || std::exchange(output_ended_, true) || !session) return;
  session->finish(id_);
}

void Forwarded::close() { fail({}); }

void Forwarded::fail(std::string_view message) {
  const auto self = shared_from_this();
  handler_ = nullptr;
  if (std::exchange(closed_, true)) return;
  const auto session = session_.lock();
  if (!session) return;
  session->forget(id_);
  session->end_connection(id_, message);
}

size_t Forwarded::backlog() const {
  const auto session = session_.lock();
  return session && !session->closed() ? session->link().backlog() : 0;
}

void Forwarded::when_drained(size_t low_water, std::function<void()> callback) {
  const auto session = session_.lock();
  if (!session || session->closed()) return loop_.post(std::move(callback));
  session->wait_drained(low_water, std::move(callback));
}

void Forwarded::pause() {
  if (const auto session = session_.lock()) session->link().pause();
}

void Forwarded::resume() {
  if (const auto session = session_.lock()) session->link().resume();
}

ForwardSessionBase::ForwardSessionBase(std::shared_ptr<http::Tunnel> tunnel, std::string protocol,
                                       const PortForwardOptions& options, PortForwardHandler* handler)
    : protocol_(std::move(protocol)),
      options_(options),
      handler_(handler),
      link_(std::move(tunnel), {options.idle_timeout, options.max_backlog_bytes, options.timers}, this) {}

std::shared_ptr<PortForwardSession> ForwardSessionBase::handle() {
  return std::shared_ptr<PortForwardSession>(this, [self = shared_from_this()](PortForwardSession*) { self->close(); });
}

void ForwardSessionBase::close() {
  const auto self = shared_from_this();
  handler_ = nullptr;
  if (closed()) return;
  say_goodbye();
  link_.close();
  end_connections(Status(Code::kCancelled, "the session was closed"));
}

void ForwardSessionBase::on_link_end(const Status& why) {
  end_connections(why);
  if (PortForwardHandler* handler = std::exchange(handler_, nullptr)) handler->on_close(why);
}

void ForwardSessionBase::end_connections(const Status& why) {
  const auto all = std::exchange(connections_, {});
  for (const auto& [id, connection] : all) connection->end(why);
  const auto waiting = std::exchange(waiting_, {});
  for (const auto& wait : waiting) link_.loop().post(wait.callback);
}

void ForwardSessionBase::add_connection(uint32_t id, uint16_t port) {
  if (!handler_) return;
  const auto connection = std::make_shared<Forwarded>(weak_from_this(), link_.loop(), id, port);
  connections_[id] = connection;
  handler_->on_connection(connection);
}

std::shared_ptr<Forwarded> ForwardSessionBase::find(uint32_t id) {
  const auto at = connections_.find(id);
  return at == connections_.end() ? nullptr : at->second;
}

// The link knows one waiter; the connections that share it may be many.
void ForwardSessionBase::wait_drained(size_t low_water, std::function<void()> callback) {
  waiting_.push_back({low_water, std::move(callback)});
  watch_link();
}

void ForwardSessionBase::watch_link() {
  if (waiting_.empty() || closed()) return;
  size_t lowest = waiting_.front().low_water;
  for (const Waiting& wait : waiting_) lowest = std::max(lowest, wait.low_water);
  link_.when_drained(lowest, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->drained();
  });
}

void ForwardSessionBase::drained() {
  std::vector<Waiting> done, rest;
  for (Waiting& wait : waiting_) {
    const bool now = closed() || link_.backlog() < std::max<size_t>(wait.low_water, 1);
    (now ? done : rest).push_back(std::move(wait));
  }
  waiting_ = std::move(rest);
  for (const Waiting& wait : done) wait.callback();
  watch_link();
}

}  // namespace ghostfleet::kube::stream
