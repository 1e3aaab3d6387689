#include "kube/client/reflector.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "base/log.h"
#include "base/random.h"
#include "kube/client/json_skim.h"
#include "kube/client/protobuf_bridge.h"
#include "kube/client/watch_decoder.h"

namespace ghostfleet::kube {
namespace {

constexpr Duration kResetAfter = std::chrono::minutes(2);  // a quiet time after which errors are forgotten
constexpr Duration kShortWatch = std::chrono::seconds(1);  // a watch that ends sooner, without an event, is a fault
constexpr Duration kGrace = std::chrono::seconds(30);      // over timeoutSeconds, before the server is given up
constexpr size_t kMaxErrorBody = 64 * 1024;

class ReflectorImpl final : public Reflector, public http::ResponseHandler {
 public:
  ReflectorImpl(KubeClient& client, ReflectorOptions options, ReflectorHandler* handler)
      : client_(client),
        options_(std::move(options)),
        handler_(handler),
        rng_(options_.seed),
        decoder_(options_.max_object_bytes),
        frames_(options_.max_object_bytes) {}
  ~ReflectorImpl() override {
    *alive_ = false;
    stop();
  }

  void start() override;
  void stop() override;
  bool synced() const override { return synced_; }
  const std::string& resource_version() const override { return version_; }

  void on_head(http::CallId, int status, const http::HeaderList& headers) override;
  void on_body(http::CallId, std::string_view piece) override;
  void on_end(http::CallId) override;
  void on_error(http::CallId, const Status& status, bool sent) override;

 private:
  enum class State : unsigned char { kStopped, kListing, kStreaming, kWatching, kWaiting };

  void list();
  void request_page(const std::string& continue_token);
  void take_page(const ApiCallResult& result);
  bool take_items(const std::string& body);
  void begin_items();
  void end_items(std::string version);
  void stream_or_watch(bool initial);
  bool take_line(std::string_view line);
  bool take_frame(std::string_view type, std::string_view envelope);
  bool take(const WatchEvent& event);
  void reset_decoders();
  bool take_error_event(std::string_view object);
  void take_event(std::string_view type, const ObjectView& object);
  void deliver(bool added, const ObjectView& object);
  void watch_over(const Status& status, bool clean);
  void refused(int status, const Status& why, Duration told);
  void wait(Duration at_least);
  void next();
  std::string selectors() const;
  uint64_t begin(State state);

  KubeClient& client_;
  ReflectorOptions options_;
  ReflectorHandler* handler_;
  Rng rng_;
  WatchDecoder decoder_;
  ProtobufWatchDecoder frames_;
  State state_ = State::kStopped;
  uint64_t epoch_ = 0;  // moves on with every start, stop and request: what belongs to an older one is ignored
  std::string version_;
  bool synced_ = false, need_list_ = true, list_from_version_ = false, streaming_refused_ = false;
  bool binary_ = false;  // this watch comes in protobuf
  http::CallId watch_ = 0;
  ApiCallId page_ = 0;
  EventLoop::TimerId timer_ = 0;
  int http_status_ = 0;
  std::string retry_after_, error_body_, authorization_;
  TimePoint watch_began_, last_failure_;
  size_t events_ = 0;
  bool odd_type_told_ = false;
  int failures_ = 0;
  struct Known {
    std::string version;
    uint32_t generation = 0;
  };
  std::unordered_map<std::string, Known> known_;  // "ns/name", with Keep::kNamesAndVersions
  uint32_t generation_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

void ReflectorImpl::start() {
  if (state_ != State::kStopped) return;
  need_list_ = true;
  synced_ = false;
  list_from_version_ = false;
  version_.clear();
  begin(State::kWaiting);
  next();
}

void ReflectorImpl::stop() {
  begin(State::kStopped);
  if (watch_ != 0) client_.http().cancel(std::exchange(watch_, 0));
  if (page_ != 0) client_.cancel(std::exchange(page_, 0));
  if (timer_ != 0) client_.loop().cancel(std::exchange(timer_, 0));
  reset_decoders();
}

void ReflectorImpl::reset_decoders() {
  decoder_.reset();
  frames_.reset();
}

uint64_t ReflectorImpl::begin(State state) {
  state_ = state;
  return ++epoch_;
}

void ReflectorImpl::next() {
  if (!need_list_) return stream_or_watch(false);
  if (options_.streaming_list && !streaming_refused_) return stream_or_watch(true);
  list();
}

std::string ReflectorImpl::selectors() const {
  std::string out;
  if (!options_.field_selector.empty()) out += "fieldSelector=" + http::percent_encode(options_.field_selector) + "&";
  if (!options_.label_selector.empty()) out += "labelSelector=" + http::percent_encode(options_.label_selector) + "&";
  return out;
}

// ---- list in pages

void ReflectorImpl::list() {
  begin(State::kListing);
  begin_items();
  request_page({});
}

void ReflectorImpl::request_page(const std::string& continue_token) {
  ApiCall call;
  call.target = options_.path + "?";
  if (!continue_token.empty()) call.target += "continue=" + http::percent_encode(continue_token) + "&";
  call.target += selectors() + "limit=" + std::to_string(options_.page_size);
  // Version 0: any state the server has at hand. After a version was gone: at least that one, then the newest.
  if (continue_token.empty() && !(need_list_ && list_from_version_ && version_.empty())) {
    call.target += "&resourceVersion=" + (list_from_version_ ? http::percent_encode(version_) : std::string("0"));
  }
  call.lane = options_.lane;
  call.max_tries = 1;
  page_ = client_.call(std::move(call), [this, epoch = epoch_](const ApiCallResult& result) {
    if (epoch == epoch_) take_page(result);
  });
}

void ReflectorImpl::take_page(const ApiCallResult& result) {
  page_ = 0;
  if (!result.ok()) {
    const Duration told = parse_retry_after(result.headers.get("retry-after"), SystemClock::instance().wall_now());
    if (result.status == 410) list_from_version_ = true;
    if (result.status == 410 && !version_.empty()) version_.clear();
    return refused(result.status, result.to_status("listing " + options_.path), told);
  }
  const uint64_t epoch = epoch_;
  if (!take_items(result.body)) {
    if (epoch != epoch_) return;
    return refused(result.status, Status(Code::kDataLoss, "listing " + options_.path + ": the answer is no list"),
                   Duration(-1));
  }
  if (epoch != epoch_) return;
  const std::string_view metadata = json_member(result.body, "metadata");
  const std::string token = json_string_member(metadata, "continue");
  if (!token.empty()) return request_page(token);
  end_items(json_string_member(metadata, "resourceVersion"));
  if (epoch == epoch_) stream_or_watch(false);
}

bool ReflectorImpl::take_items(const std::string& body) {
  const std::string_view items = json_member(body, "items");
  if (items == "null") return true;
  const uint64_t epoch = epoch_;
  return for_each_json_item(items, [&](std::string_view json) {
    ObjectView object;
    if (view_object(json, &object) && !object.name.empty()) deliver(true, object);
    return epoch == epoch_;
  });
}

void ReflectorImpl::begin_items() {
  ++generation_;
  handler_->on_list_begin();
}

// Everything was told: what was known and did not come is gone.
void ReflectorImpl::end_items(std::string version) {
  const uint64_t epoch = epoch_;
  version_ = std::move(version);
  need_list_ = false;
  list_from_version_ = false;
  std::vector<std::string> gone;
  for (const auto& [key, known] : known_) {
    if (known.generation != generation_) gone.push_back(key);
  }
  for (const std::string& key : gone) {
    known_.erase(key);
    const size_t slash = key.find('/');
    ObjectView object;
    object.ns = std::string_view(key).substr(0, slash);
    object.name = std::string_view(key).substr(slash + 1);
    handler_->on_deleted(object);
    if (epoch != epoch_) return;
  }
  synced_ = true;
  handler_->on_synced();
}

// ---- watch, which may begin with the list

void ReflectorImpl::stream_or_watch(bool initial) {
  begin(initial ? State::kStreaming : State::kWatching);
  const auto lowest = std::chrono::duration_cast<std::chrono::seconds>(options_.min_timeout).count();
  const auto highest = std::chrono::duration_cast<std::chrono::seconds>(options_.max_timeout).count();
  const auto seconds = lowest + static_cast<int64_t>(rng_.below(static_cast<uint64_t>(highest - lowest) + 1));
  std::string target = client_.path_prefix() + options_.path + "?allowWatchBookmarks=true&" + selectors();
  if (!initial || (list_from_version_ && !version_.empty())) {
    target += "resourceVersion=" + http::percent_encode(version_) + "&";
  }
  if (initial) target += "resourceVersionMatch=NotOlderThan&sendInitialEvents=true&";
  if (options_.timeout_parameter) target += "timeout=" + format_duration(std::chrono::seconds(seconds)) + "&";
  target += "timeoutSeconds=" + std::to_string(seconds) + "&watch=true";

  http_status_ = 0;
  events_ = 0;
  retry_after_.clear();
  error_body_.clear();
  reset_decoders();
  const Result<std::string> authorization = client_.authorization();
  if (!authorization.ok()) return refused(0, authorization.error(), Duration(-1));
  authorization_ = *authorization;
  http::HeaderList headers{{"accept", std::string(options_.protobuf ? kProtobufOrJson : "application/json")}};
  if (!authorization_.empty()) headers.add("authorization", authorization_);
  http::CallOptions call;
  call.lane = options_.lane;
  call.long_lived = true;
  call.timeout = std::chrono::seconds(seconds) + kGrace;
  watch_began_ = client_.loop().now();
  watch_ = client_.http().start("GET", target, &headers, {}, call, this);
}

void ReflectorImpl::on_head(http::CallId, int status, const http::HeaderList& headers) {
  http_status_ = status;
  retry_after_ = headers.get("retry-after");
  binary_ = headers.get("content-type").starts_with(kProtobufType);
  if (status == 200 && state_ == State::kStreaming) begin_items();
}

void ReflectorImpl::on_body(http::CallId id, std::string_view piece) {
  if (http_status_ != 200) {
    if (error_body_.size() < kMaxErrorBody) error_body_.append(piece);
    return;
  }
  const uint64_t epoch = epoch_;
  const Status status =
      binary_
          ? frames_.feed(piece, [&](std::string_view type,
                                    std::string_view object) { return take_frame(type, object) && epoch == epoch_; })
          : decoder_.feed(piece, [&](std::string_view line) { return take_line(line) && epoch == epoch_; });
  if (status.ok() || epoch != epoch_) return;
  client_.http().cancel(id);
  watch_over(status, false);
}

bool ReflectorImpl::take_line(std::string_view line) {
  WatchEvent event;
  return take(parse_watch_event(line, &event) ? event : WatchEvent());
}

bool ReflectorImpl::take_frame(std::string_view type, std::string_view envelope) {
  const bool metadata = options_.metadata_only && type != "ERROR";
  const auto json = metadata ? metadata_of_protobuf(envelope) : json_of_protobuf(envelope);
  return take(json.ok() ? WatchEvent{type, *json} : WatchEvent());
}

// False when the watch is over. An event without a type is none.
bool ReflectorImpl::take(const WatchEvent& event) {
  ObjectView object;
  const uint64_t epoch = epoch_;
  if (event.type == "ERROR") return take_error_event(event.object);
  if (event.type.empty() || !view_object(event.object, &object)) {
    client_.http().cancel(std::exchange(watch_, 0));
    watch_over(Status(Code::kDataLoss, "watching " + options_.path + ": what came is no event"), false);
    return false;
  }
  ++events_;
  if (event.type == "BOOKMARK") {
    if (state_ == State::kStreaming && ends_initial_events(event.object)) {
      state_ = State::kWatching;
      end_items(std::string(object.resource_version));
    } else if (state_ == State::kWatching) {
      version_ = object.resource_version;
    }
    return epoch == epoch_;
  }
  // The version moves with the delivery, so that a handler that looks sees the object's own.
  if (state_ == State::kWatching) version_ = object.resource_version;
  if (event.type == "ADDED" || event.type == "MODIFIED" || event.type == "DELETED") {
    take_event(event.type, object);
  } else if (!std::exchange(odd_type_told_, true)) {
    log_warn("client", "watching " + options_.path + ": events of a type that is not known are passed over: " +
                           std::string(event.type.substr(0, 64)));
  }
  return epoch == epoch_;
}

void ReflectorImpl::take_event(std::string_view type, const ObjectView& object) {
  if (type == "DELETED") {
    if (options_.keep == ReflectorOptions::Keep::kNamesAndVersions) {
      known_.erase(std::string(object.ns) + "/" + std::string(object.name));
    }
    return handler_->on_deleted(object);
  }
  deliver(type == "ADDED", object);
}

void ReflectorImpl::deliver(bool added, const ObjectView& object) {
  if (options_.keep == ReflectorOptions::Keep::kNothing) {
    return added ? handler_->on_added(object) : handler_->on_modified(object);
  }
  auto [it, is_new] = known_.try_emplace(std::string(object.ns) + "/" + std::string(object.name));
  it->second.generation = generation_;
  if (!is_new && it->second.version == object.resource_version) return;
  it->second.version = object.resource_version;
  if (is_new)
    handler_->on_added(object);
  else
    handler_->on_modified(object);
}

// The server ends a watch with a Status object: 410 when the version is gone.
bool ReflectorImpl::take_error_event(std::string_view object) {
  client_.http().cancel(std::exchange(watch_, 0));
  int code = 0;
  const std::string_view number = json_member(object, "code");
  std::from_chars(number.data(), number.data() + number.size(), code);
  const Status why(code == 410 ? Code::kExpired : Code::kUnavailable,
                   "watching " + options_.path + ": " + json_string_member(object, "message"));
  if (code == 410 && state_ == State::kWatching) {
    need_list_ = list_from_version_ = true;
    begin(State::kWaiting);
    const uint64_t epoch = epoch_;
    handler_->on_error(why, code);
    if (epoch == epoch_) next();
    return false;
  }
  refused(code, why, Duration(-1));
  return false;
}

void ReflectorImpl::on_end(http::CallId) {
  watch_ = 0;
  if (http_status_ == 200) {
    if (!decoder_.partial() && !frames_.partial()) return watch_over(Status(), true);
    return watch_over(Status(Code::kDataLoss, "watching " + options_.path + ": cut inside an event"), false);
  }
  if (binary_) {
    auto json = json_of_protobuf(error_body_);
    error_body_ = json.ok() ? std::move(*json) : std::string();
  }
  const std::string message = json_string_member(error_body_, "message");
  const Status why = unavailable("watching " + options_.path + ": " +
                                 (message.empty() ? "the server answered " + std::to_string(http_status_) : message));
  if (http_status_ == 401) client_.authorization_refused();
  const bool was_initial = state_ == State::kStreaming;
  const bool rejected = http_status_ == 400 || http_status_ == 422 || http_status_ == 406 || http_status_ == 501;
  if (was_initial && rejected) {
    streaming_refused_ = true;  // an older server: pages then
    return next();
  }
  if (http_status_ == 410) {
    if (need_list_) version_.clear();
    need_list_ = list_from_version_ = true;
  }
  refused(http_status_, why, parse_retry_after(retry_after_, SystemClock::instance().wall_now()));
}

void ReflectorImpl::on_error(http::CallId, const Status& status, bool) {
  watch_ = 0;
  watch_over(status.with_context("watching " + options_.path), false);
}

// A watch that ran and ended. It goes on from the last version; only a fault, or an end that comes at once, waits.
void ReflectorImpl::watch_over(const Status& status, bool clean) {
  watch_ = 0;
  reset_decoders();
  const bool too_short = events_ == 0 && client_.loop().now() - watch_began_ < kShortWatch;
  if (clean && !too_short && state_ == State::kWatching) return next();
  refused(0, clean ? unavailable("watching " + options_.path + ": the server ended it at once") : status, Duration(-1));
}

void ReflectorImpl::refused(int status, const Status& why, Duration told) {
  const uint64_t epoch = begin(State::kWaiting);
  handler_->on_error(why, status);
  if (epoch == epoch_) wait(told);
}

void ReflectorImpl::wait(Duration at_least) {
  const TimePoint now = client_.loop().now();
  if (now - last_failure_ > kResetAfter) failures_ = 0;
  last_failure_ = now;
  Duration delay = options_.backoff_base;
  for (int i = 0; i < failures_ && delay < options_.backoff_cap; ++i) delay *= 2;
  ++failures_;
  delay = std::min<Duration>(delay, options_.backoff_cap);
  delay = std::max(rng_.between(delay, 2 * delay), at_least);
  timer_ = client_.loop().run_after(delay, [this, alive = alive_, epoch = epoch_] {
    if (!*alive || epoch != epoch_) return;
    timer_ = 0;
    next();
  });
}

}  // namespace

std::unique_ptr<Reflector> Reflector::create(KubeClient& client, ReflectorOptions options, ReflectorHandler* handler) {
  return std::make_unique<ReflectorImpl>(client, std::move(options), handler);
}

}  // namespace ghostfleet::kube
