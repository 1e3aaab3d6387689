// ExecPlugin: credentials from a command, as users[].user.exec of a kubeconfig describes it. The command runs on first
// use, again when its answer has expired, and after invalidate(); never once a request.
//
// Thread rule: any thread; a call blocks while the command runs (at most a minute), others wait for it.
// Source: client.authentication.k8s.io v1 and v1beta1.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace ghostfleet::kube {

struct ExecSpec {
  std::string api_version;  // client.authentication.k8s.io/v1 or v1beta1
  std::string command;      // with a slash and relative: already resolved against the kubeconfig's folder
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;
  std::string install_hint;
  // Given to the command in KUBERNETES_EXEC_INFO when provideClusterInfo is set (JSON of spec.cluster); else empty.
  std::string cluster_info;
};

struct ExecCredential {
  std::string token;
  std::string client_certificate_pem, client_key_pem;
  WallTime expires;  // ns 0: never
};

class ExecPlugin {
 public:
  ExecPlugin(ExecSpec spec, const Clock& clock);
  ~ExecPlugin();
  // The cached answer, or a fresh one. A missing command: NotFound naming it.
  Result<ExecCredential> get();
  void invalidate();
  uint64_t runs() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ghostfleet::kube
