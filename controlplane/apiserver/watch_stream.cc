#include "controlplane/apiserver/watch_stream.h"

#include <algorithm>
#include <optional>

#include "base/random.h"
#include "controlplane/apiserver/server_metrics.h"

namespace ghostfleet::controlplane {
namespace {

constexpr size_t kBatch = 256;
constexpr size_t kChunk = 128 * 1024;
constexpr size_t kHighWater = 1024 * 1024;
constexpr size_t kLowWater = 128 * 1024;
constexpr Duration kBookmarkBeforeEnd = std::chrono::seconds(2);
constexpr int64_t kMinTimeout = 1800;

// Which frame of an event's cache this watcher shares with others; -1: none.
int frame_slot(const Resource& r, const AnswerType& answer) {
  if (answer.transform == Transform::kTable) return -1;
  const bool same_version = r.info.custom() || r.stored->api_version() == r.info.api_version();
  const int base = answer.media == kube::MediaType::kProtobuf ? 1 : 0;
  if (answer.transform == Transform::kNone) return same_version ? base : 4 + base;
  return answer.transform_version == "v1" ? 2 + base : -1;
}

class WatchStream : public std::enable_shared_from_this<WatchStream> {
 public:
  WatchStream(CallRef call, ListQuery query)
      : call_(std::move(call)),
        query_(std::move(query)),
        renderer_(call_->parts.api, *call_->resource, call_->answer, include_object(call_->info.query)),
        slot_(frame_slot(*call_->resource, call_->answer)),
        first_(call_->answer.transform == Transform::kTable) {}

  void begin(Revision from);

 private:
  enum class State : unsigned char { kInitial, kLive, kEnded };

  WatchOptions watch_options(Revision from);
  bool open(Revision from);
  void start_answer();
  void arm_timers();
  void register_ender();
  void unregister_ender();
  void pump();
  bool send_initial();
  bool drain();
  bool has_room();
  void append_event(const Event& event, std::string* out);
  void append_frame(std::string_view type, const Object& object, std::string* out);
  SharedBytes shared_frame(const Event& event);
  bool write(SharedBytes bytes);
  void send_bookmark(bool initial_end);
  void periodic_bookmark();
  void send_error_event(const kube::ApiError& error);
  void end(bool clean);

  CallRef call_;
  ListQuery query_;
  Renderer renderer_;
  const int slot_;
  bool first_;  // the next Table frame carries the columns
  State state_ = State::kInitial;
  bool waiting_ = false;  // for the peer to take what was written
  uint64_t number_ = 0;   // among the server's open watches
  Revision after_ = 0, last_bookmark_ = 0;
  std::unique_ptr<Watch> watch_;
  std::vector<ObjectRef> initial_;
  size_t next_initial_ = 0;
  Revision initial_revision_ = 0;
  bool initial_bookmark_ = false;
  std::shared_ptr<std::atomic<bool>> nudged_ = std::make_shared<std::atomic<bool>>(false);
  EventLoop::TimerId end_timer_ = 0, bookmark_timer_ = 0, last_bookmark_timer_ = 0;
};

WatchOptions WatchStream::watch_options(Revision from) {
  const Resource& r = *call_->resource;
  WatchOptions options;
  const std::string_view ns = r.info.namespaced && call_->ns().empty() ? query_.filter.exact_namespace() : call_->ns();
  if (!ns.empty()) options.prefix = std::string(ns) + "/";
  const std::string_view name = query_.filter.exact_name();
  if (!name.empty() && (!r.info.namespaced || !ns.empty())) options.key = options.prefix + std::string(name);
  const KindConfig& config = call_->parts.api.config_of(r);
  if (config.watch_index_field >= 0) options.index_value = query_.filter.exact_field(config.watch_index_field);
  options.after = from;
  options.max_backlog = call_->parts.max_watch_backlog;
  // The loop outlives every stream (the server is torn down after its loops have stopped).
  options.nudge = [weak = weak_from_this(), nudged = nudged_, loop = &call_->exchange->loop()] {
    if (nudged->exchange(true)) return;
    loop->post([weak] {
      if (auto self = weak.lock()) self->pump();
    });
  };
  return options;
}

// Opens the store's watch, with the current state where it is wanted. False when an error was sent.
bool WatchStream::open(Revision from) {
  Store& store = call_->parts.api.store();
  const KindId kind = call_->resource->store_kind;
  const bool asks_initial = query_.send_initial_events.has_value();
  const bool wants_state = asks_initial ? *query_.send_initial_events : from == 0;
  if (!wants_state) {
    after_ = from > 0 ? from : store.revision();
    Result<std::unique_ptr<Watch>> watch = store.watch(kind, watch_options(after_));
    if (watch.ok()) {
      watch_ = std::move(*watch);
      return true;
    }
    start_answer();
    send_error_event(kube::expired("too old resource version: " + std::to_string(after_) + " (" +
                                   std::to_string(store.compacted(kind)) + ")"));
    return false;
  }
  WatchOptions options = watch_options(0);
  ListOptions list;
  list.prefix = options.prefix;
  list.key = options.key;
  list.index_value = options.index_value;
  if (!query_.filter.empty()) list.filter = [this](const Object& object) { return query_.filter.matches(object); };
  ListResult result;
  Result<std::unique_ptr<Watch>> watch = store.list_and_watch(kind, list, std::move(options), &result);
  if (!watch.ok()) {
    send_error(*call_, kube::internal_api_error(watch.error().message()));
    return false;
  }
  watch_ = std::move(*watch);
  initial_ = std::move(result.items);
  initial_revision_ = after_ = result.revision;
  initial_bookmark_ = asks_initial && query_.allow_bookmarks;
  return true;
}

void WatchStream::start_answer() {
  call_->slot.reset();  // a watch is no load by itself
  call_->exchange->start(200, answer_headers(*call_, renderer_.answer().watch_content_type()));
}

void WatchStream::begin(Revision from) {
  if (!open(from)) return;
  register_ender();
  start_answer();
  call_->exchange->on_close([weak = weak_from_this()] {
    if (auto self = weak.lock()) self->end(false);
  });
  arm_timers();
  // Keeps the stream alive until end().
  call_->exchange->loop().post([self = shared_from_this()] { self->pump(); });
}

void WatchStream::register_ender() {
  ServerParts& parts = call_->parts;
  parts.watches.fetch_add(1);
  std::lock_guard lock(parts.watch_mutex);
  number_ = parts.next_watch++;
  parts.watch_enders[number_] = [weak = weak_from_this(), loop = &call_->exchange->loop()] {
    loop->post([weak] {
      if (auto self = weak.lock()) self->end(true);
    });
  };
}

void WatchStream::unregister_ender() {
  call_->parts.watches.fetch_sub(1);
  std::lock_guard lock(call_->parts.watch_mutex);
  call_->parts.watch_enders.erase(number_);
}

void WatchStream::arm_timers() {
  static std::atomic<uint64_t> seed{0x9e3779b97f4a7c15};
  Rng random(seed.fetch_add(0x9e3779b97f4a7c15));
  int64_t seconds = query_.timeout_seconds.value_or(0);
  if (seconds <= 0) seconds = kMinTimeout + static_cast<int64_t>(random.below(kMinTimeout));
  const Duration timeout = std::chrono::seconds(std::min<int64_t>(seconds, 365 * 24 * 3600));
  EventLoop& loop = call_->exchange->loop();
  end_timer_ = loop.run_after(timeout, [self = shared_from_this()] { self->end(true); });
  if (!query_.allow_bookmarks) return;
  if (timeout > kBookmarkBeforeEnd) {
    last_bookmark_timer_ = loop.run_after(timeout - kBookmarkBeforeEnd, [weak = weak_from_this()] {
      if (auto self = weak.lock()) self->send_bookmark(false);
    });
  }
  const Duration interval = call_->parts.bookmark_interval;
  const Duration jitter(static_cast<int64_t>(random.below(static_cast<uint64_t>(interval.count()) / 4 + 1)));
  bookmark_timer_ = loop.run_after(interval - jitter, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->periodic_bookmark();
  });
}

bool WatchStream::has_room() {
  if (call_->exchange->backlog() <= kHighWater) return true;
  if (!waiting_) {
    waiting_ = true;
    call_->exchange->when_drained(kLowWater, [weak = weak_from_this()] {
      auto self = weak.lock();
      if (!self) return;
      self->waiting_ = false;
      self->pump();
    });
  }
  return false;
}

void WatchStream::pump() {
  if (state_ == State::kEnded || waiting_) return;
  if (call_->exchange->closed()) return end(false);
  if (state_ == State::kInitial && !send_initial()) return;
  if (state_ == State::kLive) drain();
}

// True when all of it is written.
bool WatchStream::send_initial() {
  while (next_initial_ < initial_.size()) {
    if (!has_room()) return false;
    std::string chunk;
    while (next_initial_ < initial_.size() && chunk.size() < kChunk) {
      append_frame("ADDED", *initial_[next_initial_], &chunk);
      initial_[next_initial_++].reset();
    }
    if (!write(share(std::move(chunk)))) return false;
  }
  initial_.clear();
  initial_.shrink_to_fit();
  state_ = State::kLive;
  if (initial_bookmark_) send_bookmark(true);
  return state_ == State::kLive;
}

bool WatchStream::drain() {
  std::vector<Event> events;
  while (true) {
    if (!has_room()) return false;
    nudged_->store(false);
    events.clear();
    if (!watch_->next(kBatch, &events)) {
      end(false);
      return false;
    }
    if (events.empty()) return true;
    if (call_->parts.metrics) call_->parts.metrics->watch_event_sent(events.size());
    SharedBytes piece;
    if (events.size() == 1) piece = shared_frame(events.front());
    if (!piece) {
      std::string out;
      for (const Event& event : events) append_event(event, &out);
      if (out.empty()) continue;
      piece = share(std::move(out));
    }
    if (!write(std::move(piece))) return false;
  }
}

std::string_view type_text(EventType type) {
  if (type == EventType::kAdded) return "ADDED";
  return type == EventType::kModified ? "MODIFIED" : "DELETED";
}

// The frame many watchers have in common: an event that is the same for a watcher with and without a selector.
SharedBytes WatchStream::shared_frame(const Event& event) {
  if (slot_ < 0 || !event.frames || event.revision <= after_) return nullptr;
  if (!query_.filter.empty()) {
    const bool now = event.type != EventType::kDeleted && query_.filter.matches(*event.object);
    const bool before = event.previous && query_.filter.matches(*event.previous);
    const bool plain = event.type == EventType::kAdded      ? now
                       : event.type == EventType::kModified ? now && before
                                                            : before;
    if (!plain) return nullptr;
  }
  return event.frames->get(slot_, [&] {
    return share(renderer_.frame(type_text(event.type), renderer_.watch_object(*event.object, false)));
  });
}

// What left the selection is shown as it was, at the revision at which it left.
std::shared_ptr<Object> as_it_was(const Event& event) {
  auto object = std::make_shared<Object>(*event.previous);
  object->revision = event.revision;
  object->json.replace(object->revision_offset, 16, format_revision(event.revision));
  return object;
}

void WatchStream::append_event(const Event& event, std::string* out) {
  if (event.revision <= after_) return;
  if (SharedBytes shared = shared_frame(event)) {
    out->append(*shared);
    return;
  }
  const bool now = event.type != EventType::kDeleted && query_.filter.matches(*event.object);
  const bool before = event.previous && query_.filter.matches(*event.previous);
  if (!now && !before) return;
  if (event.type == EventType::kDeleted) return append_frame("DELETED", *event.object, out);
  if (!now) return append_frame("DELETED", *as_it_was(event), out);
  append_frame(before ? "MODIFIED" : "ADDED", *event.object, out);
}

void WatchStream::append_frame(std::string_view type, const Object& object, std::string* out) {
  out->append(renderer_.frame(type, renderer_.watch_object(object, first_)));
  first_ = false;
}

bool WatchStream::write(SharedBytes bytes) {
  if (call_->exchange->write(std::move(bytes))) return true;
  end(false);
  return false;
}

void WatchStream::send_bookmark(bool initial_end) {
  if (state_ != State::kLive) return;
  Revision revision = initial_revision_;
  if (!initial_end) {
    if (waiting_) return;
    revision = watch_->progress();
    // Only when something happened since the last one.
    if (revision <= std::max(last_bookmark_, after_)) return;
  }
  last_bookmark_ = revision;
  const std::string object = renderer_.bookmark_object(format_revision(revision), initial_end, first_);
  first_ = false;
  write(share(renderer_.frame("BOOKMARK", object)));
}

void WatchStream::periodic_bookmark() {
  if (state_ == State::kEnded) return;
  send_bookmark(false);
  if (state_ == State::kEnded) return;
  bookmark_timer_ = call_->exchange->loop().run_after(call_->parts.bookmark_interval, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->periodic_bookmark();
  });
}

void WatchStream::send_error_event(const kube::ApiError& error) {
  AnswerType plain = renderer_.answer();
  plain.pretty = false;
  std::string status = render_value(error.to_json(), plain, "meta/v1.Status");
  if (!status.empty() && status.back() == '\n' && plain.media == kube::MediaType::kJson) status.pop_back();
  call_->exchange->write(share(renderer_.frame("ERROR", status)));
  record_answer(*call_, 200);
  call_->exchange->finish();
}

void WatchStream::end(bool clean) {
  if (state_ == State::kEnded) return;
  auto keep = shared_from_this();
  if (clean && state_ == State::kLive && !waiting_) drain();
  if (state_ == State::kEnded) return;
  state_ = State::kEnded;
  unregister_ender();
  watch_.reset();
  EventLoop& loop = call_->exchange->loop();
  for (const EventLoop::TimerId timer : {end_timer_, bookmark_timer_, last_bookmark_timer_}) {
    if (timer != 0) loop.cancel(timer);
  }
  record_answer(*call_, 200);
  if (!call_->exchange->closed()) call_->exchange->finish();
}

}  // namespace

void end_all_watches(ServerParts& parts) {
  std::vector<std::function<void()>> enders;
  {
    std::lock_guard lock(parts.watch_mutex);
    for (const auto& [number, ender] : parts.watch_enders) enders.push_back(ender);
  }
  for (const auto& ender : enders) ender();
}

void start_watch_stream(const CallRef& call, ListQuery query, Revision from) {
  std::make_shared<WatchStream>(call, std::move(query))->begin(from);
}

void serve_watch(const CallRef& call) {
  if (!negotiate_or_fail(*call, Endpoint::kWatch)) return;
  const Resource& r = *call->resource;
  Query query = call->info.query;
  if (!call->info.name.empty()) {
    // The old paths name the object; that is a selector like any other.
    std::vector<std::pair<std::string, std::string>> items = query.items();
    const std::string& fields = query.get("fieldSelector");
    const std::string by_name = "metadata.name=" + call->info.name + (fields.empty() ? "" : "," + fields);
    std::erase_if(items, [](const auto& item) { return item.first == "fieldSelector"; });
    items.emplace_back("fieldSelector", by_name);
    query = Query(std::move(items));
  }
  kube::ApiResult<ListQuery> list = parse_list_query(r, call->parts.api.config_of(r), query, true);
  if (!list.ok()) return send_error(*call, list.error());
  Revision from = 0;
  std::string problem;
  if (!parse_version(list->resource_version, &from, &problem)) {
    kube::ApiError error;
    error.message = "resourceVersion: Invalid value: \"" + list->resource_version + "\": " + problem;
    return send_error(*call, error);
  }
  start_watch_stream(call, std::move(*list), from);
}

}  // namespace ghostfleet::controlplane
