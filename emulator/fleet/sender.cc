#include "emulator/fleet/sender.h"

#include <fmt/format.h>

#include <optional>

#include "base/http_date.h"
#include "kube/client/protobuf_bridge.h"

namespace ghostfleet::emulator {
namespace {

using kube::http::HeaderList;
using kube::http::Lane;

constexpr Duration kSkewCheckEvery = std::chrono::seconds(10);
constexpr size_t kKeptBody = 4096;    // capacity a pooled call keeps for its next answer
constexpr size_t kKeptBodies = 1024;  // pooled calls that keep it

std::string_view method_name(agent::Verb verb) {
  static constexpr std::string_view kNames[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};
  return kNames[static_cast<size_t>(verb)];
}

std::string_view content_type(agent::BodyType type) {
  switch (type) {
    case agent::BodyType::kNone: return {};
    case agent::BodyType::kJson: return "application/json";
    case agent::BodyType::kStrategicMergePatch: return "application/strategic-merge-patch+json";
    case agent::BodyType::kMergePatch: return "application/merge-patch+json";
    case agent::BodyType::kProtobuf: return kube::kProtobufType;
  }
  return {};
}

// What counts as an error: a 404 to a question and a 409 to a create are answers like others.
bool is_error(agent::Verb verb, int status) {
  if (status < 400) return false;
  if (status == 404) return verb != agent::Verb::kGet && verb != agent::Verb::kDelete;
  return status != 409 || verb != agent::Verb::kPost;
}

std::string error_kind(const Status& status) {
  switch (status.code()) {
    case Code::kDeadlineExceeded: return "timeout";
    case Code::kUnavailable: return "connect";
    case Code::kDataLoss: return "cut";
    default: return std::string(code_name(status.code()));
  }
}

}  // namespace

class Sender::Call final : public kube::http::ResponseHandler {
 public:
  explicit Call(Sender& owner) : owner_(owner) {}

  void on_head(kube::http::CallId, int status, const HeaderList& headers) override {
    this->status = status;
    binary = owner_.protobuf_ && !raw && headers.get("content-type").starts_with(kube::kProtobufType);
    owner_.note_head(status, headers, &retry_after);
  }
  void on_body(kube::http::CallId, std::string_view piece) override { body.append(piece); }
  void on_end(kube::http::CallId) override { owner_.finished(*this, status, retry_after); }
  void on_error(kube::http::CallId, const Status& error, bool) override { owner_.failed(*this, error); }

  uint32_t row = 0;
  agent::Tag tag = 0;
  agent::Verb verb = agent::Verb::kGet;
  int status = 0;
  bool status_lane = false;
  bool raw = false;     // the machine reads protobuf itself
  bool binary = false;  // the answer is in protobuf, and the machine wants JSON
  Duration retry_after{0};
  TimePoint sent;
  std::string body;
  kube::KubeClient* client = nullptr;

 private:
  Sender& owner_;
};

Sender::Sender(EventLoop& loop, ShardStats& stats, AnswerSink& sink) : loop_(loop), stats_(stats), sink_(sink) {}
Sender::~Sender() = default;

Sender::Call& Sender::take_call() {
  if (free_.empty()) return calls_.emplace_back(*this);
  Call& call = *free_.back();
  free_.pop_back();
  return call;
}

const HeaderList& Sender::headers_for(kube::KubeClient& client, agent::BodyType type) {
  auto authorization = client.authorization();
  // Without credentials the request goes out as it is: the server's 401 is the better message.
  std::string value = authorization.ok() ? std::move(authorization).value() : std::string();
  HeaderList& headers = headers_[static_cast<size_t>(type)];
  if (value != authorization_) {
    headers_ = {};
    authorization_ = std::move(value);
  }
  if (headers.empty()) {
    const bool protobuf = protobuf_ || type == agent::BodyType::kProtobuf;
    headers.add("accept", std::string(protobuf ? kube::kProtobufOrJson : "application/json"));
    if (type != agent::BodyType::kNone) headers.add("content-type", std::string(content_type(type)));
    if (!authorization_.empty()) headers.add("authorization", authorization_);
  }
  return headers;
}

void Sender::send(kube::KubeClient& client, uint32_t row, const agent::ApiRequest& request) {
  if (request.priority == agent::Priority::kStatus) {
    if (static_cast<double>(status_in_flight_) >= status_window_) {
      waiting_.push_back({&client, row, request});
      return;
    }
    ++status_in_flight_;
  }
  send_now(client, row, request);
}

void Sender::status_ended(bool overloaded) {
  --status_in_flight_;
  if (!overloaded) {
    status_window_ = std::min(status_window_ + 0.25, kMostWindow);
  } else if (loop_.now() - window_cut_ > std::chrono::seconds(1)) {  // those sent together fail together: one cut
    window_cut_ = loop_.now();
    status_window_ = std::max(std::min(status_window_, static_cast<double>(status_in_flight_)) / 2, kLeastWindow);
  }
  while (!waiting_.empty() && static_cast<double>(status_in_flight_) < status_window_) {
    const Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    ++status_in_flight_;
    send_now(*next.client, next.row, next.request);
  }
}

void Sender::send_now(kube::KubeClient& client, uint32_t row, const agent::ApiRequest& request) {
  Call& call = take_call();
  call.status_lane = request.priority == agent::Priority::kStatus;
  call.row = row;
  call.tag = request.tag;
  call.verb = request.verb;
  call.status = 0;
  call.raw = request.body_type == agent::BodyType::kProtobuf;
  call.binary = false;
  call.retry_after = Duration(0);
  call.sent = loop_.now();
  call.client = &client;
  call.body.clear();
  ++in_flight_;
  stats_.request(request.verb, request.target);
  if (stats_.first_request.load(std::memory_order_relaxed) == 0) stats_.first_request = call.sent.ns;
  kube::http::CallOptions options;
  options.lane = static_cast<Lane>(request.priority);
  if (options.lane > Lane::kStatus) begin_work(client, call.sent);
  options.timeout = request.timeout;
  // A type without a protobuf form goes out as it is.
  const bool convert = protobuf_ && request.body_type == agent::BodyType::kJson;
  const auto binary = convert ? kube::protobuf_of_json(request.body) : Result<std::string>(std::string());
  const bool converted = convert && binary.ok();
  const std::string& body = converted ? *binary : request.body;
  const HeaderList& headers = headers_for(client, converted ? agent::BodyType::kProtobuf : request.body_type);
  if (client.path_prefix().empty()) {
    client.http().start(method_name(request.verb), request.target, &headers, body, options, &call);
  } else {
    client.http().start(method_name(request.verb), client.path_prefix() + request.target, &headers, body, options,
                        &call);
  }
}

// Whoever waits for more than a heartbeat is not to wait for others' answers.
void Sender::begin_work(kube::KubeClient& client, TimePoint now) {
  last_work_ = now;
  client.http().set_read_coalescing(Duration(0));
}

void Sender::note_head(int status, const HeaderList& headers, Duration* retry_after) {
  if (status == 429 || status >= 500) {
    const std::string* value = headers.find("retry-after");
    if (value != nullptr) {
      *retry_after = std::max(kube::parse_retry_after(*value, SystemClock::instance().wall_now()), Duration(0));
    }
  }
  const TimePoint now = loop_.now();
  if (now < next_skew_check_) return;
  next_skew_check_ = now + kSkewCheckEvery;
  const std::string* date = headers.find("date");
  const std::optional<int64_t> seconds = date == nullptr ? std::nullopt : parse_http_date(*date);
  if (!seconds) return;
  // The header is cut to whole seconds: its middle is the best guess.
  const double ours = static_cast<double>(SystemClock::instance().wall_now().ns) * 1e-9;
  stats_.skew_seconds = static_cast<double>(*seconds) + 0.5 - ours;
}

void Sender::finished(Call& call, int status, Duration retry_after) {
  const Duration latency = loop_.now() - call.sent;
  --in_flight_;
  stats_.latency.record(latency);
  stats_.last_answer.store(loop_.now().ns, std::memory_order_relaxed);
  if (call.binary) {
    auto json = kube::json_of_protobuf(call.body);
    call.body = json.ok() ? std::move(*json) : std::string();
  }
  if (is_error(call.verb, status)) stats_.error(std::to_string(status));
  if (status == 401) call.client->authorization_refused();
  sink_.on_measured(latency, status == 429 || status == 503);
  sink_.on_answer(call.row, call.tag, {status, call.body, retry_after});
  if (call.body.capacity() > kKeptBody || free_.size() >= kKeptBodies) std::string().swap(call.body);
  const bool status_lane = call.status_lane;
  free_.push_back(&call);
  if (status_lane) status_ended(status == 429 || status >= 500);
}

void Sender::failed(Call& call, const Status& status) {
  --in_flight_;
  stats_.error(error_kind(status));
  stats_.no_answer(loop_.now(), status);
  sink_.on_measured(loop_.now() - call.sent, true);
  sink_.on_answer(call.row, call.tag, {0, {}, Duration(0)});
  const bool status_lane = call.status_lane;
  free_.push_back(&call);
  if (status_lane) status_ended(true);
}

}  // namespace ghostfleet::emulator
