// Two tunnels joined.
#include <utility>

#include "kube/http/tunnel.h"

namespace ghostfleet::kube::http {
namespace {

constexpr size_t kHighWater = 256 * 1024;  // written to one end and not taken: the other end is not read
constexpr size_t kLowWater = 64 * 1024;

class Splice : public std::enable_shared_from_this<Splice> {
 public:
  Splice(std::shared_ptr<Tunnel> a, std::shared_ptr<Tunnel> b, std::function<void()> done)
      : a_(std::move(a)),
        b_(std::move(b)),
        done_(std::move(done)),
        from_a_(this, a_.get(), b_.get()),
        from_b_(this, b_.get(), a_.get()) {}

  void begin() {
    self_ = shared_from_this();
    a_->set_handler(&from_a_);
    b_->set_handler(&from_b_);
  }

 private:
  struct Side final : TunnelHandler {
    Side(Splice* s, Tunnel* f, Tunnel* t) : owner(s), from(f), to(t) {}
    void on_data(std::string_view bytes) override { owner->pass(*this, bytes); }
    void on_end(const Status&) override { owner->end(); }
    Splice* owner;
    Tunnel *from, *to;
  };

  void pass(const Side& side, std::string_view bytes) {
    if (!side.to->write(share(std::string(bytes)))) return end();
    if (side.to->backlog() <= kHighWater) return;
    side.from->pause();
    side.to->when_drained(kLowWater, [weak = weak_from_this(), from = side.from] {
      if (const auto self = weak.lock()) from->resume();
    });
  }

  // What is on its way to the other end still gets there: close() sends first.
  void end() {
    const auto self = std::move(self_);
    if (!self) return;
    a_->close();
    b_->close();
    if (done_) a_->loop().post(std::move(done_));
    a_->loop().post([self] {});  // this runs inside one of its sides
  }

  std::shared_ptr<Tunnel> a_, b_;
  std::function<void()> done_;
  Side from_a_, from_b_;
  std::shared_ptr<Splice> self_;  // until the end
};

}  // namespace

void splice(std::shared_ptr<Tunnel> a, std::shared_ptr<Tunnel> b, std::function<void()> done) {
  std::make_shared<Splice>(std::move(a), std::move(b), std::move(done))->begin();
}

}  // namespace ghostfleet::kube::http
