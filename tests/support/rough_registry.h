// RoughRegistry: a small HTTP/1.1 server on loopback that answers as a registry does, or as badly as a test wants:
// cuts, stalls, lies, redirects, refuses. Tests only.
//
// Thread rule: a thread a connection calls the handler; tests read requests() from theirs. Ended by the destructor.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ghostfleet::tests {

struct RoughRequest {
  std::string method, target;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string header(const std::string& name) const;
};

struct RoughAnswer {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::optional<size_t> cut_after;  // of the body; Content-Length tells all of it
  bool stall = false;               // instead of closing there, nothing more comes
  bool endless = false;             // no Content-Length, the body again and again
};

class RoughRegistry {
 public:
  using Handler = std::function<RoughAnswer(const RoughRequest&)>;
  explicit RoughRegistry(Handler handler);
  ~RoughRegistry();
  RoughRegistry(const RoughRegistry&) = delete;
  RoughRegistry& operator=(const RoughRegistry&) = delete;

  uint16_t port() const { return port_; }
  std::string host() const;
  std::string url() const { return "http://" + host(); }
  std::vector<RoughRequest> requests() const;
  size_t count(const std::string& part) const;  // requests whose target holds it

 private:
  void accept_all();
  void serve(int fd);
  bool answer(int fd, const RoughRequest& request);

  Handler handler_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  std::vector<RoughRequest> requests_;
  std::vector<int> open_;
  std::list<std::thread> threads_;
  std::thread acceptor_;
};

// What a good registry holds; answer() is a handler's default.
struct Shelf {
  std::map<std::string, std::pair<std::string, std::string>> manifests;  // tag or digest → type and bytes
  std::map<std::string, std::string> blobs;                              // digest → bytes
  bool ranges = true;
  // Of the referrers API: digest → an index; nothing: the registry has no such API.
  std::optional<std::map<std::string, std::string>> referrers;
  RoughAnswer answer(const RoughRequest& request) const;
  static RoughAnswer bytes(const RoughRequest& request, const std::string& all, bool ranges);
};

}  // namespace ghostfleet::tests
