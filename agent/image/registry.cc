#include "agent/image/registry.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "agent/image/digest.h"
#include "base/digest.h"
#include "base/http_date.h"
#include "base/log.h"
#include "kube/api/json.h"

namespace ghostfleet::image {
namespace {

constexpr size_t kMaxErrorBody = 64 * 1024;

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}
bool is_passing(int status) {
  return status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}
bool worth_repeating(Code code) { return code == Code::kUnavailable || code == Code::kDeadlineExceeded; }

// Signed addresses hold credentials in their query.
std::string shown(std::string_view url) { return std::string(url.substr(0, url.find('?'))); }

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~").find(c) != std::string_view::npos;
    if (plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

// "bytes 5-9/100": whether it says exactly this range, of a blob of that size.
bool content_range_is(std::string_view text, uint64_t first, uint64_t last, uint64_t size) {
  return text == fmt::format("bytes {}-{}/{}", first, last, size) || text == fmt::format("bytes {}-{}/*", first, last);
}

// The codes and messages of a registry's error, shortened; empty when the body holds none.
std::string error_words(std::string_view body) {
  auto json = kube::parse_json(body, {.max_depth = 32});
  if (!json.ok()) return {};
  const kube::JsonArray* errors = kube::get_array(*json, "errors");
  std::string out;
  for (size_t i = 0; errors != nullptr && i < std::min<size_t>(errors->size(), 3); ++i) {
    const kube::Json& e = (*errors)[i];
    if (!e.is_object()) continue;
    out +=
        fmt::format("{}{}: {}", out.empty() ? "" : "; ", kube::get_string(e, "code"), kube::get_string(e, "message"));
  }
  out.resize(std::min<size_t>(out.size(), 300));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return out;
}

}  // namespace

// One request on its way to an answer, over as many sendings as it takes.
struct Registry::Call {
  std::string what;  // for messages: "manifest v1", "blob sha256:..."
  std::string path;  // below the registry; its redirects are remembered when `blob`
  std::string url;   // where it goes now
  std::string accept;
  bool blob = false;
  bool at_home = true;             // `url` is of the registry itself, which may see credentials
  uint64_t first = 0, length = 0;  // of the body; length 0: any, to max_body
  uint64_t size = 0;               // of the whole blob, when ranged
  bool ranged = false;
  size_t max_body = 0;
  const ByteSink* sink = nullptr;  // or, of a small body that begins anew with each sending:
  std::string* text = nullptr;
  uint64_t taken = 0;  // so far, over all sendings

  int attempts = 0;  // without a new byte
  int redirects = 0;
  int refusals = 0;  // 401 and 403 since the last byte
  uint64_t login_used = 0;
  std::string error_body;
};

// Passes on a good answer's body and keeps a bad one's beginning.
class Registry::BodySink final : public HttpSink {
 public:
  BodySink(Call* call, RegistryStats* stats) : call_(call), stats_(stats) {}

  Status on_head(const HttpHead& head) override {
    good_ = head.status == 200 || head.status == 206;
    if (!good_) return Status();
    if (call_->blob && head.header("content-type").starts_with("text/html"))
      return Status(Code::kDataLoss, "an HTML page came, not the blob");
    const uint64_t start = call_->first + call_->taken;
    if (head.status == 206) {
      const uint64_t last = call_->first + call_->length - 1;
      if (content_range_is(head.header("content-range"), start, last, call_->size)) return Status();
      return Status(Code::kDataLoss, fmt::format("range {}-{} was asked for, \"{}\" came", start, last,
                                                 head.header("content-range").substr(0, 100)));
    }
    if (call_->ranged && call_->length != call_->size)
      return Status(Code::kUnimplemented, "the registry does not know ranges");
    skip_ = call_->taken;  // a whole body after a cut: what is there already is read over
    return Status();
  }

  Status on_data(std::string_view bytes) override {
    if (!good_) {
      call_->error_body.append(bytes.substr(0, kMaxErrorBody - std::min(kMaxErrorBody, call_->error_body.size())));
      if (call_->error_body.size() < kMaxErrorBody) return Status();
      return Status(Code::kResourceExhausted, "the text of an error does not end");
    }
    stats_->bytes.fetch_add(bytes.size(), std::memory_order_relaxed);
    const size_t over = std::min<uint64_t>(skip_, bytes.size());
    skip_ -= over;
    bytes.remove_prefix(over);
    if (bytes.empty()) return Status();
    const uint64_t limit = call_->length != 0 ? call_->length : call_->max_body;
    if (call_->taken + bytes.size() > limit) {
      return Status(call_->length != 0 ? Code::kDataLoss : Code::kResourceExhausted,
                    fmt::format("more than the {} bytes {} came", limit, call_->length != 0 ? "asked for" : "allowed"));
    }
    call_->taken += bytes.size();
    if (call_->text != nullptr) {
      call_->text->append(bytes);
      return Status();
    }
    GF_RETURN_IF_ERROR((*call_->sink)(bytes));
    call_->attempts = 0;
    call_->refusals = 0;
    return Status();
  }

 private:
  Call* call_;
  RegistryStats* stats_;
  bool good_ = false;
  uint64_t skip_ = 0;
};

Registry::Registry(HttpClient* http, const Reference& reference, RegistryOptions options, CancelFlag* cancel)
    : http_(http),
      reference_(reference),
      options_(std::move(options)),
      cancel_(cancel),
      user_(options_.credentials.find(reference_.registry, reference_.api_host())) {}
Registry::~Registry() = default;

void Registry::set_credentials(DockerConfig credentials) {
  const auto user = credentials.find(reference_.registry, reference_.api_host());
  const std::lock_guard lock(mutex_);
  options_.credentials = std::move(credentials);
  const bool same = user.has_value() == user_.has_value() &&
                    (!user || (user->user == user_->user && user->password == user_->password));
  user_ = user;
  if (!same) authorization_.clear();
}

std::string Registry::base_url() const {
  return fmt::format("{}://{}", options_.plain_http ? "http" : "https", reference_.api_host());
}

std::string Registry::blob_path(const Descriptor& blob) const {
  return fmt::format("/v2/{}/blobs/{}", reference_.repository, blob.digest);
}

Result<HttpHead> Registry::send_once(Call* call) {
  if (call->text != nullptr) {
    call->text->clear();
    call->taken = 0;
  }
  HttpRequest request;
  request.url = call->url;
  if (!call->accept.empty()) request.headers["Accept"] = call->accept;
  {
    const std::lock_guard lock(mutex_);
    call->login_used = login_;
    if (call->at_home && !authorization_.empty()) request.headers["Authorization"] = authorization_;
  }
  if (call->ranged || call->taken > 0) {
    request.headers["Range"] = fmt::format("bytes={}-{}", call->first + call->taken, call->first + call->length - 1);
  }
  call->error_body.clear();
  stats_.requests.fetch_add(1, std::memory_order_relaxed);
  BodySink sink(call, &stats_);
  return http_->perform(request, &sink, cancel_);
}

Result<HttpHead> Registry::send(Call* call) {
  auto head = exchange(call);
  if (!head.ok()) return head.error().with_context(call->what);
  return head;
}

Result<HttpHead> Registry::exchange(Call* call) {
  if (call->blob) {
    const std::lock_guard lock(mutex_);
    const auto it = places_.find(call->path);
    if (it != places_.end()) call->url = it->second;
  }
  if (call->url.empty()) call->url = base_url() + call->path;
  call->at_home = origin_of(call->url) == origin_of(base_url());
  while (true) {
    if (cancel_->cancelled()) return Status(Code::kCancelled, "cancelled");
    const auto head = send_once(call);
    const bool whole = call->length == 0 || call->taken == call->length;
    if (head.ok() && (head->status == 200 || head->status == 206)) {
      if (whole) return head;
      GF_RETURN_IF_ERROR(wait_to_repeat(call, Status(Code::kUnavailable, "the body ended too early")));
    } else if (head.ok()) {
      GF_RETURN_IF_ERROR(handle_refusal(call, *head));
    } else if (call->length != 0 && whole && worth_repeating(head.error().code())) {
      return HttpHead{.status = 206};  // cut after its last byte
    } else if (!worth_repeating(head.error().code())) {
      return head.error();
    } else {
      GF_RETURN_IF_ERROR(wait_to_repeat(call, head.error()));
    }
  }
}

Status Registry::handle_refusal(Call* call, const HttpHead& head) {
  if (is_redirect(head.status)) return follow(call, head);
  if (is_passing(head.status)) return wait_as_told(call, head);
  const bool signed_place = call->blob && !call->at_home;
  if (signed_place && (head.status == 400 || head.status == 401 || head.status == 403) && call->refusals++ == 0) {
    // A signed address is good for a while only: the registry gives a new one.
    const std::lock_guard lock(mutex_);
    places_.erase(call->path);
    call->url = base_url() + call->path;
    call->at_home = true;
    return Status();
  }
  if (head.status == 401 && call->at_home && call->refusals++ == 0) return log_in(call, head);
  if (head.status == 403 && call->at_home && call->refusals == 0 && forget_login(*call)) return Status();
  return refused(*call, head);
}

// Some registries call a token that has expired forbidden. True: the one that this request had is given up, and the
// next one is asked for a login, once.
bool Registry::forget_login(const Call& call) {
  const std::lock_guard lock(mutex_);
  if (call.login_used != login_) return true;  // somebody else has logged in since
  if (authorization_.empty()) return false;
  authorization_.clear();
  return true;
}

Status Registry::follow(Call* call, const HttpHead& head) {
  stats_.redirects.fetch_add(1, std::memory_order_relaxed);
  const std::string from = origin_of(call->url);
  const std::string to = origin_of(head.redirect);
  if (to.empty()) return Status(Code::kUnavailable, "a redirect that leads nowhere (no http or https Location)");
  if (++call->redirects > kMaxRedirects)
    return Status(Code::kUnavailable, fmt::format("redirected more than {} times, the last time to {}", kMaxRedirects,
                                                  shown(head.redirect)));
  if (from.starts_with("https://") && to.starts_with("http://"))
    return Status(Code::kPermissionDenied,
                  fmt::format("redirected from https to http ({}); not followed", shown(head.redirect)));
  call->url = head.redirect;
  call->at_home = call->at_home && to == origin_of(base_url());
  if (call->blob && !call->at_home) {
    const std::lock_guard lock(mutex_);
    places_[call->path] = call->url;
  }
  return Status();
}

Status Registry::wait_as_told(Call* call, const HttpHead& head) {
  if (head.status == 429) stats_.throttled.fetch_add(1, std::memory_order_relaxed);
  const Status why = refused(*call, head);
  const Duration told =
      retry_after_of(head.header("retry-after"), SystemClock::instance().wall_now()).value_or(Duration(0));
  if (told <= Duration(0)) return wait_to_repeat(call, why);
  if (told > options_.longest_retry_after || ++call->attempts >= options_.max_attempts) return why;
  call->redirects = 0;
  stats_.repeats.fetch_add(1, std::memory_order_relaxed);
  log_info("image", fmt::format("{}: {}; again in {}", call->what, why.message(), format_duration(told)));
  return cancel_->sleep(told) ? Status() : Status(Code::kCancelled, "cancelled");
}

Status Registry::wait_to_repeat(Call* call, const Status& why) {
  if (why.code() == Code::kDeadlineExceeded) stats_.stalls.fetch_add(1, std::memory_order_relaxed);
  if (++call->attempts >= options_.max_attempts)
    return why.with_context(fmt::format("given up after {} attempts", options_.max_attempts));
  call->redirects = 0;
  stats_.repeats.fetch_add(1, std::memory_order_relaxed);
  Duration wait = options_.first_wait;
  for (int i = 1; i < call->attempts && wait < options_.longest_wait; ++i) wait *= 2;
  wait = std::min(wait, options_.longest_wait);
  log_info("image", fmt::format("{}: {}; again in {}", call->what, why.message(), format_duration(wait)));
  return cancel_->sleep(wait) ? Status() : Status(Code::kCancelled, "cancelled");
}

Status Registry::refused(const Call& call, const HttpHead& head) const {
  const std::string type = head.header("content-type");
  std::string words = error_words(call.error_body);
  if (words.empty() && type.starts_with("text/html")) words = "an HTML page, not a registry's answer";
  Code code = Code::kUnavailable;
  if (head.status == 401) code = Code::kUnauthenticated;
  if (head.status == 403) code = Code::kPermissionDenied;
  if (head.status == 404) code = Code::kNotFound;
  if (head.status == 405 || head.status == 501) code = Code::kUnimplemented;
  if (head.status == 416) code = Code::kDataLoss;
  if (head.status == 429) code = Code::kResourceExhausted;
  std::string hint;
  if (head.status == 401 && options_.credentials.left_to_helper(reference_.registry))
    hint = " (the docker config leaves this registry to a credential helper; helpers are not run)";
  if (head.status == 429 && words.empty()) words = "toomanyrequests";
  return Status(
      code, fmt::format("{} answered {}{}{}{}", shown(call.url), head.status, words.empty() ? "" : ": ", words, hint));
}

Status Registry::log_in(Call* call, const HttpHead& head) {
  const std::lock_guard lock(mutex_);
  if (call->login_used != login_) return Status();  // somebody else has logged in since
  const auto challenges = parse_challenges(head.header("www-authenticate"));
  stats_.logins.fetch_add(1, std::memory_order_relaxed);
  for (const Challenge& c : challenges) {
    if (c.scheme == "bearer") {
      GF_RETURN_IF_ERROR(fetch_token(c));
      ++login_;
      return Status();
    }
  }
  for (const Challenge& c : challenges) {
    if (c.scheme != "basic" || !user_) continue;
    authorization_ = "Basic " + base64_encode(user_->user + ":" + user_->password);
    ++login_;
    return Status();
  }
  return refused(*call, head);
}

// With mutex_ held: whoever else was refused waits for this token.
Status Registry::fetch_token(const Challenge& challenge) {
  const std::string realm = challenge.param("realm");
  const std::string origin = origin_of(realm);
  if (origin.empty()) return Status(Code::kUnauthenticated, "the registry names no token service");
  if (origin.starts_with("http://") && !options_.plain_http)
    return Status(Code::kPermissionDenied, fmt::format("the token service {} is not on https", shown(realm)));
  std::string scope = challenge.param("scope");
  if (scope.empty()) scope = fmt::format("repository:{}:pull", reference_.repository);
  HttpRequest request;
  request.url = fmt::format("{}{}scope={}", realm, realm.find('?') == std::string::npos ? "?" : "&", escaped(scope));
  if (const std::string service = challenge.param("service"); !service.empty())
    request.url += "&service=" + escaped(service);
  if (user_) request.headers["Authorization"] = "Basic " + base64_encode(user_->user + ":" + user_->password);

  Call body;
  body.what = "token";
  body.url = realm;
  body.max_body = 1u << 20;
  std::string text;
  body.text = &text;
  BodySink sink(&body, &stats_);
  stats_.requests.fetch_add(1, std::memory_order_relaxed);
  const auto head = http_->perform(request, &sink, cancel_);
  if (!head.ok()) return head.error().with_context(fmt::format("token service {}", shown(realm)));
  if (head->status != 200) return refused(body, *head);
  auto token = parse_token(text);
  if (!token.ok()) return token.error().with_context(shown(realm));
  authorization_ = "Bearer " + token->value;
  return Status();
}

Result<Fetched> Registry::manifest(const std::string& target) {
  Call call;
  call.what = fmt::format("manifest {} of {}/{}", target, reference_.registry, reference_.repository);
  call.path = fmt::format("/v2/{}/manifests/{}", reference_.repository, target);
  call.accept = manifest_accept();
  call.max_body = kMaxManifestBytes;
  Fetched out;
  call.text = &out.bytes;
  const auto head = send(&call);
  if (!head.ok()) return head.error();
  out.content_type = head->header("content-type");
  if (out.content_type.starts_with("text/html"))
    return Status(Code::kUnavailable,
                  fmt::format("{}: {} answered an HTML page, not a manifest", call.what, shown(call.url)));
  out.digest = digest_of(out.bytes);
  if (target.starts_with("sha256:")) GF_RETURN_IF_ERROR(compare_digests(call.what, target, out.digest));
  const std::string told = head->header("docker-content-digest");
  if (told.starts_with("sha256:"))
    GF_RETURN_IF_ERROR(compare_digests(call.what + " (Docker-Content-Digest)", told, out.digest));
  return out;
}

namespace {

constexpr std::string_view kIndexType = "application/vnd.oci.image.index.v1+json";

// The path of `</v2/...>; rel="next"`, of this registry alone; empty: there is none.
std::string next_page(std::string_view link) {
  const size_t end = link.find('>');
  if (!link.starts_with("</v2/") || end == std::string_view::npos || end > 4096) return {};
  return link.find("next", end) == std::string_view::npos ? std::string() : std::string(link.substr(1, end - 1));
}

Result<std::vector<Descriptor>> index_entries(const std::string& bytes, std::string_view type) {
  auto document = parse_document(bytes, type);
  if (!document.ok()) return document.error();
  if (!document->is_index) return invalid_argument("a manifest where an index is expected");
  return std::move(document->manifests);
}

}  // namespace

Result<std::vector<Descriptor>> Registry::referrers(const std::string& digest) {
  std::vector<Descriptor> out;
  std::string path = fmt::format("/v2/{}/referrers/{}", reference_.repository, digest);
  for (int page = 0; page < kMaxReferrerPages && !path.empty(); ++page) {
    Call call;
    call.what = fmt::format("referrers of {}", digest);
    call.path = path;
    call.accept = kIndexType;
    call.max_body = kMaxManifestBytes;
    std::string bytes;
    call.text = &bytes;
    const auto head = send(&call);
    const bool unknown = head.ok()
                             ? !head->header("content-type").starts_with(kIndexType)
                             : head.error().code() == Code::kNotFound || head.error().code() == Code::kUnimplemented;
    if (unknown && page == 0) return referrers_by_tag(digest);
    if (!head.ok()) return head.error();
    auto more = index_entries(bytes, head->header("content-type"));
    if (!more.ok()) return more.error().with_context(call.what);
    std::move(more->begin(), more->end(), std::back_inserter(out));
    path = next_page(head->header("link"));
  }
  return out;
}

Result<std::vector<Descriptor>> Registry::referrers_by_tag(const std::string& digest) {
  std::string tag = digest;
  std::replace(tag.begin(), tag.end(), ':', '-');
  auto fetched = manifest(tag);
  if (!fetched.ok() && fetched.error().code() == Code::kNotFound) return std::vector<Descriptor>();
  if (!fetched.ok()) return fetched.error();
  auto entries = index_entries(fetched->bytes, fetched->content_type);
  if (!entries.ok()) return entries.error().with_context("tag " + tag);
  return entries;
}

Result<std::string> Registry::small_blob(const Descriptor& blob, size_t limit) {
  if (blob.size > limit)
    return Status(Code::kResourceExhausted,
                  fmt::format("blob {} of {} bytes: at most {} are taken", blob.digest, blob.size, limit));
  std::string out;
  GF_RETURN_IF_ERROR(read_range(blob, 0, blob.size, false, [&](std::string_view bytes) {
    out.append(bytes);
    return Status();
  }));
  GF_RETURN_IF_ERROR(compare_digests("blob " + blob.digest, blob.digest, digest_of(out)));
  return out;
}

Status Registry::read_range(const Descriptor& blob, uint64_t first, uint64_t length, bool ranged,
                            const ByteSink& sink) {
  if (length == 0) return Status();
  Call call;
  call.what = fmt::format("blob {}", blob.digest);
  call.path = blob_path(blob);
  call.blob = true;
  call.first = first;
  call.length = length;
  call.size = blob.size;
  call.ranged = ranged;
  call.sink = &sink;
  const auto head = send(&call);
  return head.ok() ? Status() : head.error();
}

}  // namespace ghostfleet::image
