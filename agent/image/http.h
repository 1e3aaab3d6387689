// HttpClient: one HTTP request at a time per caller, over libcurl: HTTP/1.1 and HTTP/2, TLS, proxies from the
// environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY; loopback addresses are always reached directly).
// Redirects, credentials and repeats are the caller's business.
//
// Thread rule: any number of threads call perform(), each blocks in its own; connections are kept and shared by
// turns. A connection a thread is what parallel ranges of one blob need: object stores limit the rate of each.
// Ownership: the client outlives its calls; a sink outlives its call.
// Limits: HttpLimits; header lines as libcurl has them (300 KB in all).
// Errors: Unavailable (no connection, cut off), DeadlineExceeded (nothing came for `stall`), Cancelled, or what the
// sink said.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"

namespace ghostfleet::image {

// Ends the work of several threads. One with an outer flag ends with it too.
class CancelFlag {
 public:
  explicit CancelFlag(const CancelFlag* outer = nullptr) : outer_(outer) {}
  void cancel();
  bool cancelled() const {
    return cancelled_.load(std::memory_order_relaxed) || (outer_ != nullptr && outer_->cancelled());
  }
  // Waits that long; false when it was cancelled meanwhile.
  bool sleep(Duration d);

 private:
  const CancelFlag* outer_;
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
};

struct HttpRequest {
  std::string url;
  std::map<std::string, std::string> headers;
};

struct HttpHead {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case; lines of one name joined by ", "
  std::string redirect;                        // absolute, of a 3xx with a Location; known when the call is over
  std::string header(const std::string& name) const;
};

class HttpSink {
 public:
  virtual ~HttpSink() = default;
  // Before the first byte; an error ends the call.
  virtual Status on_head(const HttpHead& head) = 0;
  virtual Status on_data(std::string_view bytes) = 0;
};

struct HttpLimits {
  Duration connect = std::chrono::seconds(10);
  Duration stall = std::chrono::seconds(60);  // without a byte; looked at every second
};

class HttpClient {
 public:
  // `ca_file`: further authorities; empty: those of the system alone.
  HttpClient(HttpLimits limits, std::string ca_file, std::string user_agent);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  Result<HttpHead> perform(const HttpRequest& request, HttpSink* sink, CancelFlag* cancel);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Scheme, host and port of a URL in lower case, "https://host:443"; empty when it is no http or https URL.
std::string origin_of(std::string_view url);

}  // namespace ghostfleet::image
