#include "agent/kubelet_api/log_streams.h"

#include <algorithm>

namespace ghostfleet::kubelet_api {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(100);
constexpr size_t kLowWater = 16 * 1024;

class ExchangeSink final : public LogSink {
 public:
  explicit ExchangeSink(std::shared_ptr<kube::http::Exchange> exchange) : exchange_(std::move(exchange)) {}
  bool write(SharedBytes bytes) override { return exchange_->write(std::move(bytes)); }
  size_t backlog() const override { return exchange_->backlog(); }
  void when_drained(size_t low_water, std::function<void()> callback) override {
    exchange_->when_drained(low_water, std::move(callback));
  }
  void finish() override { exchange_->finish(); }
  bool closed() const override { return exchange_->closed(); }

 private:
  std::shared_ptr<kube::http::Exchange> exchange_;
};

}  // namespace

std::unique_ptr<LogSink> exchange_sink(std::shared_ptr<kube::http::Exchange> exchange) {
  return std::make_unique<ExchangeSink>(std::move(exchange));
}

struct LogStreams::Stream {
  Stream(LogSource s, LogModel m, const LogOptions& o, std::unique_ptr<LogSink> k)
      : source(std::move(s)), model(std::move(m)), options(o), sink(std::move(k)) {}
  LogSource source;
  LogModel model;
  LogOptions options;
  std::unique_ptr<LogSink> sink;
  uint64_t serial = 0;
  uint64_t next = 0;        // line
  uint64_t limit_left = 0;  // bytes; only with options.limit_bytes
  bool waiting = false;     // for the reader
  bool gone = false;        // the container is: no line follows
};

LogStreams::LogStreams(Backend& backend, const Clock& clock, std::shared_ptr<kube::stream::Timers> timers)
    : backend_(backend),
      clock_(clock),
      timers_(std::move(timers)),
      wheel_(clock.now(), std::chrono::milliseconds(20)) {}

LogStreams::~LogStreams() { *alive_ = false; }

void LogStreams::open(LogSource source, LogModel model, const LogOptions& options, std::unique_ptr<LogSink> sink) {
  uint32_t slot = static_cast<uint32_t>(streams_.size());
  if (free_.empty()) {
    streams_.emplace_back();
    wheel_.resize(slot + 1);
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  auto stream = std::make_unique<Stream>(std::move(source), std::move(model), options, std::move(sink));
  const WallTime now = clock_.wall_now();
  stream->serial = next_serial_++;
  stream->next = stream->model.begin(now);
  if (options.since) stream->next = std::max(stream->next, stream->model.before(*options.since));
  if (options.tail_lines) {
    const uint64_t end = stream->model.end(now);
    const auto tail = static_cast<uint64_t>(*options.tail_lines);
    stream->next = std::max(stream->next, end > tail ? end - tail : 0);
  }
  if (options.limit_bytes) stream->limit_left = static_cast<uint64_t>(*options.limit_bytes);
  const uint64_t serial = stream->serial;
  streams_[slot] = std::move(stream);
  ++open_;
  pump(slot, serial);
}

// Renders lines that are due until a piece is full. False when the limit of bytes is reached.
bool LogStreams::render(Stream& s, WallTime now, std::string* piece) {
  const uint64_t end = s.model.end(now);
  while (s.next < end && piece->size() < kPiece) {
    const LogLine line = s.model.line(s.next++);
    if (line.err ? !s.options.err : !s.options.out) continue;
    const size_t before = piece->size();
    if (s.options.timestamps) *piece += format_nano_time(line.at) + " ";
    *piece += line.text;
    if (!line.open) *piece += '\n';
    if (!s.options.limit_bytes) continue;
    const size_t added = piece->size() - before;
    if (added >= s.limit_left) {
      piece->resize(before + s.limit_left);
      s.limit_left = 0;
      return false;
    }
    s.limit_left -= added;
  }
  return true;
}

void LogStreams::pump(uint32_t slot, uint64_t serial) {
  if (slot >= streams_.size() || !streams_[slot] || streams_[slot]->serial != serial) return;
  Stream& s = *streams_[slot];
  s.waiting = false;
  if (s.sink->closed()) return close(slot, false);
  const WallTime now = clock_.wall_now();
  std::string piece;
  const bool more = render(s, now, &piece);
  if (!piece.empty() && !s.sink->write(share(std::move(piece)))) return close(slot, false);
  if (!more) return close(slot, true);
  const bool caught_up = s.next >= s.model.end(now);
  if (!caught_up || s.sink->backlog() > kHighWater) return wait_for_reader(slot);
  if (!s.options.follow || s.gone || s.model.ended()) return close(slot, true);
  arm(slot);
}

// Also between the pieces of a long log, so that one reader does not hold up the loop.
void LogStreams::wait_for_reader(uint32_t slot) {
  Stream& s = *streams_[slot];
  s.waiting = true;
  if (s.options.follow) arm(slot);  // a reader that went away is seen
  s.sink->when_drained(kLowWater, [this, alive = alive_, slot, serial = s.serial] {
    if (*alive) pump(slot, serial);
  });
}

void LogStreams::arm(uint32_t slot) {
  const Stream& s = *streams_[slot];
  const TimePoint now = clock_.now();
  Duration wait = kLook;
  if (!s.waiting) wait = std::clamp<Duration>(s.model.time_of(s.next) - clock_.wall_now(), Duration(0), kLook);
  wheel_.arm(slot, now + wait);
  schedule_tick();
}

void LogStreams::schedule_tick() {
  if (ticking_ || wheel_.armed_count() == 0) return;
  ticking_ = true;
  timers_->run_after(kTick, [this, alive = alive_] {
    if (*alive) tick();
  });
}

void LogStreams::tick() {
  ticking_ = false;
  std::vector<uint32_t> due;
  wheel_.advance(clock_.now(), [&due](uint32_t slot) { due.push_back(slot); });
  std::erase_if(due, [this](uint32_t slot) { return !streams_[slot]; });
  if (!due.empty()) look_at(due);
  schedule_tick();
}

void LogStreams::look_at(const std::vector<uint32_t>& due) {
  std::vector<Backend::Question> questions;
  std::vector<std::pair<uint32_t, uint64_t>> asked;
  for (const uint32_t slot : due) {
    const Stream& s = *streams_[slot];
    questions.emplace_back(s.source.node, agent::PodPick{s.source.ns, s.source.pod});
    asked.emplace_back(slot, s.serial);
  }
  backend_.describe_many(std::move(questions), [this, alive = alive_, asked = std::move(asked)](auto answers) {
    for (size_t i = 0; *alive && i < asked.size(); ++i) {
      const auto [slot, serial] = asked[i];
      if (!streams_[slot] || streams_[slot]->serial != serial) continue;
      looked(*streams_[slot], answers[i]);
      if (!streams_[slot]->waiting) {
        pump(slot, serial);
      } else if (streams_[slot]->sink->closed()) {
        close(slot, false);
      } else {
        arm(slot);
      }
    }
  });
}

// What has become of the attempt that is followed.
void LogStreams::looked(Stream& s, const std::vector<agent::PodView>& pods) {
  const agent::PodView* pod = nullptr;
  for (const agent::PodView& p : pods) {
    if (p.uid == s.source.uid) pod = &p;
  }
  const agent::ContainerView* c = pod == nullptr ? nullptr : pod->find(s.source.container);
  s.gone = c == nullptr;
  if (c == nullptr) return;
  for (const agent::AttemptView* attempt : {&c->current, &c->previous}) {
    if (!attempt->known || attempt->attempt != s.source.attempt) continue;
    if (attempt->ended) s.model.end_at(attempt->finished, attempt->exit_code, attempt->last_words);
    return;
  }
  s.gone = true;
}

void LogStreams::close(uint32_t slot, bool clean) {
  std::unique_ptr<Stream> s = std::move(streams_[slot]);
  wheel_.cancel(slot);
  free_.push_back(slot);
  --open_;
  if (clean) s->sink->finish();
}

}  // namespace ghostfleet::kubelet_api
