// ApiServer: the Kubernetes API over HTTP: authentication, authorization, negotiation and the REST handlers, over an
// Api that others in this process may use directly.
//
// Thread rule: start() and stop() from one thread; api() is thread-safe. The server owns its I/O threads.
// Limits: `limits` of the HTTP door; requests beyond `max_in_flight` (reads) and `max_mutating_in_flight` are answered
// 429 with Retry-After: 1; watches do not count.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/status.h"
#include "controlplane/apiserver/api.h"
#include "controlplane/auth/authorizer.h"
#include "controlplane/auth/pki.h"
#include "controlplane/auth/user.h"
#include "kube/http/message.h"

namespace ghostfleet::controlplane {

class ApiServer {
 public:
  struct Options {
    std::string address = "127.0.0.1";
    uint16_t port = 0;         // 0: any
    const Pki* pki = nullptr;  // null: plain HTTP, where whoever shows nothing is an administrator
    bool anonymous = true;     // with pki: requests without credentials are system:anonymous, else 401
    AuthorizerOptions authorization;
    std::vector<std::pair<std::string, UserInfo>> tokens;  // beside the PKI's administrator token
    std::string service_cidr = "10.96.0.0/16";
    // PEM of the authority that signed the nodes' serving certificates; empty: they are not verified, as in
    // kube-apiserver without --kubelet-certificate-authority.
    std::string kubelet_ca_pem;
    int io_threads = 2;
    kube::http::Limits limits;
    int max_in_flight = 400, max_mutating_in_flight = 200;
    StoreOptions store;
    bool managed_fields = true;     // ownership of fields for every write
    bool allow_privileged = false;  // as kube-apiserver's --allow-privileged
    bool boot_objects = true;       // namespaces, roles, priority classes, the service `kubernetes`
    Duration bookmark_interval = std::chrono::seconds(60);
    const Clock* clock = nullptr;  // null: the system's
  };

  static Result<std::unique_ptr<ApiServer>> start(Options options);
  ~ApiServer();  // stops at once when stop() was not called

  Api& api();
  // What every request is asked with; thread-safe, lives as long as the server.
  const Authorizer& authorizer() const;
  uint16_t port() const;
  // "https://127.0.0.1:PORT"
  std::string url() const;
  // Ends watches cleanly, lets requests end, cuts what is left after `grace`.
  void stop(Duration grace = std::chrono::seconds(5));
  std::vector<const MetricsRegistry*> metrics() const;

 private:
  struct Impl;
  explicit ApiServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ghostfleet::controlplane
