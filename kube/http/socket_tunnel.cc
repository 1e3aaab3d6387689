#include "kube/http/socket_tunnel.h"

#include <algorithm>

namespace ghostfleet::kube::http {

SocketTunnel::SocketTunnel(std::shared_ptr<LoopContext> context, std::shared_ptr<Transport> transport,
                           size_t max_backlog, std::function<void()> on_gone)
    : context_(std::move(context)),
      transport_(std::move(transport)),
      max_backlog_(max_backlog),
      on_gone_(std::move(on_gone)),
      timer_(context_->acquire_timer(this, 0)) {}

SocketTunnel::~SocketTunnel() {
  if (transport_) transport_->close();
  context_->release_timer(timer_);
  if (const auto gone = std::exchange(on_gone_, nullptr)) gone();
}

void SocketTunnel::begin(std::string first_output) {
  transport_->set_events(this);
  transport_->set_reading(false);
  if (first_output.empty()) return;
  backlog_ += first_output.size();
  queue_.push_back(share(std::move(first_output)));
  transport_->schedule_flush();
}

void SocketTunnel::add_early(std::string_view bytes) {
  early_.append(bytes);
  update_reading();
}

std::shared_ptr<Tunnel> SocketTunnel::handle() {
  auto self = shared_from_this();
  return std::shared_ptr<Tunnel>(this, [self](Tunnel*) { self->close(); });
}

void SocketTunnel::set_handler(TunnelHandler* handler) {
  if (state_ == State::kClosing) return;
  handler_ = handler;
  update_reading();
}

// Input that was read before goes first, and an end that nobody was told; only then the socket is read.
void SocketTunnel::update_reading() {
  const bool wanted = handler_ && !paused_;
  if (state_ == State::kOpen) transport_->set_reading(wanted && early_.empty() && !input_ended_);
  const bool waits = !early_.empty() || (input_ended_ && !end_told_);
  if (!wanted || !waits || early_posted_) return;
  early_posted_ = true;
  loop().post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->deliver_early();
  });
}

void SocketTunnel::deliver_early() {
  early_posted_ = false;
  if (!handler_ || paused_) return;
  const std::string bytes = std::exchange(early_, {});
  if (!bytes.empty()) handler_->on_data(bytes);
  if (input_ended_) return end(end_);
  update_reading();
}

Status SocketTunnel::on_bytes(std::string_view plain) {
  const auto self = shared_from_this();
  if (state_ == State::kOpen && handler_) handler_->on_data(plain);
  return Status();
}

void SocketTunnel::on_eof() {
  const auto self = shared_from_this();
  input_ended_ = true;
  end(Status());
}

void SocketTunnel::end(const Status& why) {
  end_ = why;
  if (!handler_ || end_told_ || !early_.empty()) return;
  end_told_ = true;
  std::exchange(handler_, nullptr)->on_end(why);
}

bool SocketTunnel::write(SharedBytes bytes) {
  if (state_ != State::kOpen || write_ended_) return false;
  if (view(bytes).empty()) return true;
  backlog_ += bytes->size();
  queue_.push_back(std::move(bytes));
  if (backlog_ > max_backlog_) {
    loop().post([weak = weak_from_this()] {
      if (const auto self = weak.lock()) {
        self->cut(Status(Code::kResourceExhausted, "the peer does not read: its backlog is over the limit"));
      }
    });
    write_ended_ = true;
    return false;
  }
  transport_->schedule_flush();
  return true;
}

void SocketTunnel::when_drained(size_t low_water, std::function<void()> callback) {
  on_drained_ = std::move(callback);
  low_water_ = low_water;
  check_drained();
}

// The callback may do anything, also close: it runs from the loop.
void SocketTunnel::check_drained() {
  if (!on_drained_ || (!closed() && backlog() >= std::max<size_t>(low_water_, 1))) return;
  loop().post(std::exchange(on_drained_, nullptr));
}

void SocketTunnel::pause() {
  paused_ = true;
  update_reading();
}

void SocketTunnel::resume() {
  paused_ = false;
  update_reading();
}

void SocketTunnel::shutdown_write() {
  if (state_ != State::kOpen || write_ended_) return;
  write_ended_ = true;
  transport_->schedule_flush();
}

void SocketTunnel::close() {
  if (state_ != State::kOpen) return;
  state_ = State::kClosing;
  handler_ = nullptr;
  self_ = shared_from_this();
  transport_->set_reading(false);
  context_->arm(timer_, context_->now() + kCloseLimit);
  transport_->schedule_flush();
  check_drained();
}

void SocketTunnel::abort() {
  if (state_ == State::kClosed) return;
  handler_ = nullptr;
  if (transport_) transport_->close();
  finish();
}

void SocketTunnel::on_timer(uint64_t) { abort(); }

void SocketTunnel::cut(const Status& why) {
  if (state_ == State::kClosed) return;
  const auto self = shared_from_this();
  if (transport_) transport_->close();
  on_closed(why);
}

void SocketTunnel::on_closed(const Status& why) {
  const auto self = shared_from_this();
  input_ended_ = true;
  end(why);
  finish();
}

// The connection has ended; the transport may linger on by itself.
void SocketTunnel::finish() {
  state_ = State::kClosed;
  context_->disarm(timer_);
  queue_.clear();
  backlog_ = front_offset_ = 0;
  check_drained();
  const auto keep = std::move(self_);
  if (const auto gone = std::exchange(on_gone_, nullptr)) gone();
}

void SocketTunnel::fill(std::string* plain, size_t limit) {
  while (!queue_.empty() && plain->size() < limit) {
    const std::string& piece = *queue_.front();
    const size_t n = std::min(piece.size() - front_offset_, limit - plain->size());
    plain->append(piece, front_offset_, n);
    front_offset_ += n;
    backlog_ -= n;
    if (front_offset_ < piece.size()) break;
    queue_.pop_front();
    front_offset_ = 0;
  }
  check_drained();
}

bool SocketTunnel::on_flushed() {
  const auto self = shared_from_this();
  check_drained();
  if (!queue_.empty()) return false;
  if (state_ == State::kClosing) {
    // The transport lingers on by itself: it is not ours to close any longer.
    loop().post([self, lingers = std::move(transport_)] { self->finish(); });
    return true;
  }
  if (write_ended_) transport_->end_output();
  return false;
}

}  // namespace ghostfleet::kube::http
