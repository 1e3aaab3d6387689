// ClientConfig: which API server, how to reach it and who we are. Made from a kubeconfig, the in-cluster files or by a
// test; nothing here reads a file.
//
// Thread rule: plain values; the callbacks of ClientAuth are called on the loop of the client they were given to, and
// must be safe there when several clients share one.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "kube/http/client.h"
#include "kube/http/tls.h"

namespace ghostfleet::kube {

// Credentials beyond the client certificate, which is part of the TLS configuration.
struct ClientAuth {
  // The bearer token to send. Asked once and kept for `token_lifetime`, and asked again after invalidate(). Null: none.
  std::function<Result<std::string>()> bearer_token;
  // The server answered 401: whatever the provider caches (a file's content, an exec plugin's answer) is to be
  // forgotten.
  std::function<void()> invalidate;
  // A token file is read again after this time, as client-go does.
  Duration token_lifetime = std::chrono::seconds(60);
  std::string basic_auth;  // "user:password"; only without bearer_token
};

struct ClientConfig {
  std::string server_url;  // https://host:port/prefix; a scheme is optional (then http, as client-go has it)
  http::TlsClientConfig tls;
  ClientAuth auth;
  http::ProxyConfig proxy;
  std::string user_agent;
};

// A server URL taken apart.
struct ServerEndpoint {
  std::string host;  // IPv6 without brackets
  uint16_t port = 443;
  bool use_tls = true;
  std::string path_prefix;  // "/k8s/clusters/c1" without a slash at the end; usually empty
};

// InvalidArgument names the URL and what is wrong with it.
Result<ServerEndpoint> parse_server_url(std::string_view url);

// The options of an HttpClient to that server, TLS context included. Several clients may be made of one result: they
// share the TLS context. `path_prefix` (may be null) gets the prefix every target needs.
Result<http::HttpClientOptions> make_http_options(const ClientConfig& config, std::string* path_prefix);

}  // namespace ghostfleet::kube
