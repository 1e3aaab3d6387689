#include "agent/image/http.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/files.h"

namespace ghostfleet::image {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

constexpr long kBufferBytes = 256 * 1024;
constexpr size_t kMaxIdle = 64;

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r' || text.back() == '\n')) text.remove_suffix(1);
  return text;
}

// What one call in progress knows; handed to libcurl's callbacks.
struct Call {
  CURL* handle = nullptr;
  HttpSink* sink = nullptr;
  CancelFlag* cancel = nullptr;
  HttpHead head;
  Status failure;
  bool told_head = false;
  SteadyTime last_byte = std::chrono::steady_clock::now();
  Duration stall{0};

  Status tell_head() {
    if (told_head) return Status();
    told_head = true;
    long status = 0;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    head.status = static_cast<int>(status);
    return sink->on_head(head);
  }
};

size_t on_header(char* data, size_t, size_t size, void* user) {
  Call& call = *static_cast<Call*>(user);
  call.last_byte = std::chrono::steady_clock::now();
  const std::string_view line(data, size);
  if (line.starts_with("HTTP/")) {  // also after a 100 or a proxy's answer to CONNECT: only the last head counts
    call.head = HttpHead();
    return size;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return size;
  std::string& value = call.head.headers[lower(line.substr(0, colon))];
  if (!value.empty()) value += ", ";
  value += trimmed(line.substr(colon + 1));
  return size;
}

size_t on_body(char* data, size_t, size_t size, void* user) {
  Call& call = *static_cast<Call*>(user);
  call.last_byte = std::chrono::steady_clock::now();
  call.failure = call.tell_head();
  if (call.failure.ok()) call.failure = call.sink->on_data({data, size});
  return call.failure.ok() ? size : 0;
}

// Called by libcurl at least once a second.
int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  Call& call = *static_cast<Call*>(user);
  if (call.cancel != nullptr && call.cancel->cancelled()) {
    call.failure = Status(Code::kCancelled, "cancelled");
    return 1;
  }
  const auto quiet = std::chrono::steady_clock::now() - call.last_byte;
  if (quiet < call.stall) return 0;
  call.failure = Status(Code::kDeadlineExceeded, fmt::format("no byte came for {}", format_duration(call.stall)));
  return 1;
}

bool is_loopback(const std::string& host) {
  if (host == "localhost" || host == "[::1]") return true;
  in_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 && (ntohl(address.s_addr) >> 24) == 127;
}

std::string host_of(const std::string& origin) {
  const size_t start = origin.find("://") + 3;
  return origin.substr(start, origin.rfind(':') - start);
}

// libcurl reads the environment by itself, except HTTP_PROXY in capitals (a CGI program's clients can set that one).
void set_proxy(CURL* handle, const std::string& origin) {
  if (is_loopback(host_of(origin))) {
    curl_easy_setopt(handle, CURLOPT_NOPROXY, "*");
    return;
  }
  const char* capitals = std::getenv("HTTP_PROXY");
  const bool plain = origin.starts_with("http://") && std::getenv("http_proxy") == nullptr;
  if (plain && capitals != nullptr && std::getenv("REQUEST_METHOD") == nullptr)
    curl_easy_setopt(handle, CURLOPT_PROXY, capitals);
}

Code code_of(CURLcode code) {
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL: return Code::kInvalidArgument;
    case CURLE_OPERATION_TIMEDOUT: return Code::kDeadlineExceeded;
    default: return Code::kUnavailable;
  }
}

struct HeaderList {
  curl_slist* list = nullptr;
  ~HeaderList() { curl_slist_free_all(list); }
};

}  // namespace

void CancelFlag::cancel() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_.store(true, std::memory_order_relaxed);
  }
  changed_.notify_all();
}

bool CancelFlag::sleep(Duration d) {
  constexpr Duration kSlice = std::chrono::milliseconds(100);  // an outer flag does not wake us
  const auto end = std::chrono::steady_clock::now() + d;
  std::unique_lock lock(mutex_);
  while (!cancelled()) {
    const Duration left = end - std::chrono::steady_clock::now();
    if (left <= Duration(0)) return true;
    changed_.wait_for(lock, std::min(left, kSlice));
  }
  return false;
}

std::string HttpHead::header(const std::string& name) const {
  const auto it = headers.find(name);
  return it == headers.end() ? std::string() : it->second;
}

struct HttpClient::Impl {
  HttpLimits limits;
  std::string user_agent;
  std::string authorities;  // PEM; empty: the system's
  Status broken;            // the authorities could not be read
  std::mutex mutex;
  std::vector<CURL*> idle;

  CURL* take() {
    const std::lock_guard lock(mutex);
    if (idle.empty()) return curl_easy_init();
    CURL* handle = idle.back();
    idle.pop_back();
    return handle;
  }
  void give_back(CURL* handle) {
    curl_easy_reset(handle);  // keeps its connections
    const std::lock_guard lock(mutex);
    if (idle.size() < kMaxIdle) {
      idle.push_back(handle);
    } else {
      curl_easy_cleanup(handle);
    }
  }
  void set_options(CURL* handle, const HttpRequest& request, const std::string& origin, Call* call);
};

HttpClient::HttpClient(HttpLimits limits, std::string ca_file, std::string user_agent)
    : impl_(std::make_unique<Impl>()) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  impl_->limits = limits;
  impl_->user_agent = std::move(user_agent);
  if (ca_file.empty()) return;
  auto extra = read_file(ca_file, 1u << 20);
  if (!extra.ok()) {
    impl_->broken = extra.error();
    return;
  }
  auto system = read_file("/etc/ssl/certs/ca-certificates.crt", 16u << 20);
  impl_->authorities = (system.ok() ? *system + "\n" : std::string()) + *extra;
}

HttpClient::~HttpClient() {
  for (CURL* handle : impl_->idle) curl_easy_cleanup(handle);
}

void HttpClient::Impl::set_options(CURL* handle, const HttpRequest& request, const std::string& origin, Call* call) {
  curl_easy_setopt(handle, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2TLS);
  curl_easy_setopt(handle, CURLOPT_BUFFERSIZE, kBufferBytes);
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(std::chrono::duration_cast<std::chrono::milliseconds>(limits.connect).count()));
  curl_easy_setopt(handle, CURLOPT_USERAGENT, user_agent.c_str());
  curl_easy_setopt(handle, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(handle, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(handle, CURLOPT_HEADERDATA, call);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, call);
  curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(handle, CURLOPT_XFERINFODATA, call);
  if (!authorities.empty()) {
    curl_blob blob{authorities.data(), authorities.size(), CURL_BLOB_NOCOPY};
    curl_easy_setopt(handle, CURLOPT_CAINFO_BLOB, &blob);
  }
  set_proxy(handle, origin);
}

Result<HttpHead> HttpClient::perform(const HttpRequest& request, HttpSink* sink, CancelFlag* cancel) {
  if (!impl_->broken.ok()) return impl_->broken;
  const std::string origin = origin_of(request.url);
  if (origin.empty()) return invalid_argument("an http or https address is expected");
  Call call;
  call.handle = impl_->take();
  if (call.handle == nullptr) return Status(Code::kResourceExhausted, "no memory for a connection");
  call.sink = sink;
  call.cancel = cancel;
  call.stall = impl_->limits.stall;
  impl_->set_options(call.handle, request, origin, &call);
  HeaderList headers;
  for (const auto& [name, value] : request.headers)
    headers.list = curl_slist_append(headers.list, (name + ": " + value).c_str());
  curl_easy_setopt(call.handle, CURLOPT_HTTPHEADER, headers.list);
  char text[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(call.handle, CURLOPT_ERRORBUFFER, text);
  const CURLcode code = curl_easy_perform(call.handle);
  if (code == CURLE_OK && call.failure.ok()) call.failure = call.tell_head();  // an answer without a body
  char* redirect = nullptr;
  curl_easy_getinfo(call.handle, CURLINFO_REDIRECT_URL, &redirect);
  if (redirect != nullptr) call.head.redirect = redirect;
  impl_->give_back(call.handle);
  if (!call.failure.ok()) return call.failure;
  if (code != CURLE_OK) return Status(code_of(code), text[0] != '\0' ? text : curl_easy_strerror(code));
  return call.head;
}

std::string origin_of(std::string_view url) {
  const size_t mark = url.find("://");
  if (mark == std::string_view::npos) return {};
  const std::string_view scheme = url.substr(0, mark);
  const std::string name = lower(scheme);
  if (name != "http" && name != "https") return {};
  std::string_view rest = url.substr(scheme.size() + 3);
  rest = rest.substr(0, rest.find_first_of("/?#"));
  if (const size_t at = rest.rfind('@'); at != std::string_view::npos) rest.remove_prefix(at + 1);
  if (rest.empty()) return {};
  std::string host = lower(rest);
  const size_t colon = host.rfind(':');
  const bool has_port = colon != std::string::npos && host.find(']', colon) == std::string::npos;
  if (!has_port) host += name == "https" ? ":443" : ":80";
  return name + "://" + host;
}

}  // namespace ghostfleet::image
