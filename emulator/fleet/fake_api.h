// FakeApi: a small API server for tests of the fleet: nodes, leases, CSINodes, events and pods in memory, lists in one
// page, watches, and faults on demand. It stores what it is given and checks only what the fleet relies on (a create of
// what exists is 409, a PUT with an old version is 409, a DELETE with another uid is 409).
//
// Thread rule: serves on its own loop thread; the public functions may be called from any thread.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "kube/api/json.h"
#include "kube/client/client_config.h"
#include "kube/http/server.h"
#include "tests/support/test_pki.h"

namespace ghostfleet::emulator {

class FakeApi {
 public:
  using Fault = std::function<std::optional<int>(const std::string& method, const std::string& target)>;

  // Two servers of one PKI are, to a client, the same one started again.
  explicit FakeApi(uint16_t port = 0, const testing::TestPki& pki = shared_pki());
  static const testing::TestPki& shared_pki() {
    static const testing::TestPki pki;
    return pki;
  }
  ~FakeApi();

  kube::ClientConfig config() const;
  uint16_t port() const { return server_->port(); }

  std::optional<kube::Json> get(const std::string& path);
  void put(const std::string& path, kube::Json object);
  void erase(const std::string& path);
  // Changes an object in place; false when there is none.
  bool edit(const std::string& path, const std::function<void(kube::Json&)>& change);
  size_t count(const std::string& prefix);  // objects whose path begins so
  size_t count_ready();
  size_t requests(const std::string& method, const std::string& prefix);
  std::vector<std::string> log();
  void clear_log();
  void set_fault(Fault fault);
  void cut_watches();  // in the middle of an object
  // Signing requests of kubelets are approved at once (but not those for serving: a PUT of .../approval is waited for)
  // and signed for so many seconds. 0, as at the start: they wait for ever.
  void sign_for(long seconds);
  // Common names of the client certificates that requests whose "METHOD target" begins with `prefix` came with; "" for
  // none.
  std::set<std::string> users(const std::string& prefix);
  // How many requests whose "METHOD target" begins with `prefix` had a body in protobuf.
  size_t in_protobuf(const std::string& prefix);
  // Answers with these bytes as they are.
  struct RawAnswer {
    int status = 200;
    std::string content_type, body;
  };
  using RawFault = std::function<std::optional<RawAnswer>(const std::string& method, const std::string& target)>;
  void set_raw_fault(RawFault fault);
  std::map<std::string, kube::Json> objects();

 private:
  struct Watch {
    std::shared_ptr<kube::http::Exchange> exchange;
    std::string prefix, query;
  };
  void serve(const std::shared_ptr<kube::http::Exchange>& exchange);
  void list(const std::shared_ptr<kube::http::Exchange>& exchange, const std::string& path, const std::string& query);
  void answer(kube::http::Exchange& exchange, int status, const kube::Json& body);
  void change(kube::http::Exchange& exchange, const std::string& path, const std::string& target);
  void create(kube::http::Exchange& exchange, const std::string& path, kube::Json object);
  void stamp(kube::Json& object);
  void sign(const std::string& path);
  void tell(std::string_view type, const std::string& path, const kube::Json& object);

  const testing::TestPki& pki_;
  EventLoop loop_;
  std::unique_ptr<kube::http::Server> server_;
  std::thread thread_;
  std::mutex mutex_;
  std::map<std::string, kube::Json> objects_;
  std::vector<std::string> log_;
  std::vector<Watch> watches_;  // loop thread only
  struct Past {
    uint64_t version;
    std::string path, line;
    kube::Json object;
  };
  std::vector<Past> history_;
  Fault fault_;
  RawFault raw_fault_;
  long sign_seconds_ = 0;
  std::vector<std::string> users_;  // of each line of the log
  std::vector<bool> protobuf_;      // the same
  uint64_t version_ = 1000;
  uint64_t uids_ = 0;
};

}  // namespace ghostfleet::emulator
