// kubeconfig: from files and flags to a ClientConfig, as kubectl reads them.
//
// Where from: --kubeconfig FILE; else every file of the variable KUBECONFIG (the first that names a thing wins); else
// ~/.kube/config; else, inside a pod, the service account's files. Understood: contexts, certificate-authority(-data),
// insecure-skip-tls-verify, tls-server-name, proxy-url, client-certificate/-key(-data), token, tokenFile (read again by
// the client every minute), username/password, exec (client.authentication.k8s.io v1 and v1beta1). Relative paths are
// relative to the file that holds them. Unknown fields are ignored. No value of a secret appears in a message.
//
// Thread rule: pure functions; the callbacks inside the result may be called from any thread.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "kube/client/client_config.h"

namespace ghostfleet::kube {

// The process environment, replaceable in tests.
struct Environment {
  // Empty when the variable is not set.
  std::function<std::string(const std::string& name)> get;
  std::string service_account_dir = "/var/run/secrets/kubernetes.io/serviceaccount";
  static Environment process();
};

struct KubeconfigFlags {
  std::string kubeconfig;  // --kubeconfig; empty: not given
  std::string context;     // --context; empty: current-context
};

struct LoadedConfig {
  ClientConfig client;
  std::string context;  // its name; "in-cluster" without a kubeconfig
  std::string user;
  std::string ns = "default";
  std::string source;  // the file (or files) it came from, for messages
};

Result<LoadedConfig> load_client_config(const KubeconfigFlags& flags, const Environment& environment);

// The proxy for a server: proxy-url of the kubeconfig, else HTTPS_PROXY/HTTP_PROXY unless NO_PROXY excludes the host
// (loopback never goes through a proxy of the environment).
Result<http::ProxyConfig> choose_proxy(const std::string& proxy_url, const std::string& server_url,
                                       const Environment& environment);

}  // namespace ghostfleet::kube
