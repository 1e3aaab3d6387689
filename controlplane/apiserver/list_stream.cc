#include "controlplane/apiserver/list_stream.h"

namespace ghostfleet::controlplane {
namespace {

constexpr size_t kChunk = 128 * 1024;
constexpr size_t kHighWater = 1024 * 1024;
constexpr size_t kLowWater = 256 * 1024;

class ListStream : public std::enable_shared_from_this<ListStream> {
 public:
  ListStream(CallRef call, Renderer renderer, std::vector<ObjectRef> items)
      : call_(std::move(call)), renderer_(std::move(renderer)), items_(std::move(items)) {}

  void begin(const ListMeta& meta) {
    chunk_ = renderer_.list_head(meta);
    fill();
    if (next_ == items_.size()) {
      return send_bytes(*call_, 200, renderer_.answer().content_type(), std::move(chunk_));
    }
    call_->exchange->start(200, answer_headers(*call_, renderer_.answer().content_type()));
    go_on();
  }

 private:
  // Renders items until the chunk is full; the end of the list with the last one.
  void fill() {
    if (items_.size() - next_ > 64) chunk_.reserve(kChunk + kChunk / 4);
    while (next_ < items_.size() && chunk_.size() < kChunk) {
      if (next_ > 0) chunk_ += renderer_.separator();
      renderer_.append_item(*items_[next_], &chunk_);
      items_[next_++].reset();
    }
    if (next_ == items_.size()) chunk_ += renderer_.list_tail();
  }

  void go_on() {
    while (true) {
      const bool last = next_ == items_.size();
      if (!call_->exchange->write(share(std::move(chunk_)))) return;
      chunk_.clear();
      if (last) break;
      if (call_->exchange->backlog() > kHighWater) {
        call_->exchange->when_drained(kLowWater, [self = shared_from_this()] { self->next_chunk(); });
        return;
      }
      fill();
    }
    record_answer(*call_, 200);
    call_->exchange->finish();
  }

  void next_chunk() {
    if (call_->exchange->closed()) return;
    fill();
    go_on();
  }

  CallRef call_;
  Renderer renderer_;
  std::vector<ObjectRef> items_;
  size_t next_ = 0;
  std::string chunk_;
};

}  // namespace

void stream_list(const CallRef& call, const ListMeta& meta, std::vector<ObjectRef> items) {
  Renderer renderer(call->parts.api, *call->resource, call->answer, include_object(call->info.query));
  if (!renderer.streams_lists()) {
    return send_bytes(*call, 200, call->answer.content_type(), renderer.whole_list(meta, items));
  }
  std::make_shared<ListStream>(call, std::move(renderer), std::move(items))->begin(meta);
}

}  // namespace ghostfleet::controlplane
