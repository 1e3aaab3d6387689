#include "kube/client/client_config.h"

#include <charconv>

namespace ghostfleet::kube {
namespace {

Status bad_url(std::string_view url, std::string_view why) {
  return invalid_argument("server \"" + std::string(url) + "\": " + std::string(why));
}

// "host", "host:port", "[v6]", "[v6]:port"
Status parse_authority(std::string_view url, std::string_view authority, ServerEndpoint* out) {
  if (authority.find('@') != std::string_view::npos) return bad_url(url, "user and password do not belong in it");
  std::string_view rest;
  if (!authority.empty() && authority.front() == '[') {
    const size_t close = authority.find(']');
    if (close == std::string_view::npos) return bad_url(url, "\"]\" is missing");
    out->host = authority.substr(1, close - 1);
    rest = authority.substr(close + 1);
  } else {
    const size_t colon = authority.find(':');
    out->host = authority.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view() : authority.substr(colon);
  }
  if (out->host.empty()) return bad_url(url, "it names no host");
  if (rest.empty()) return Status();
  unsigned port = 0;
  const std::string_view digits = rest.substr(1);
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (rest.front() != ':' || parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size() || port == 0 ||
      port > 65535) {
    return bad_url(url, "the port must be a number from 1 to 65535");
  }
  out->port = static_cast<uint16_t>(port);
  return Status();
}

}  // namespace

Result<ServerEndpoint> parse_server_url(std::string_view url) {
  ServerEndpoint out;
  std::string_view rest = url;
  const size_t scheme_end = url.find("://");
  const std::string_view scheme = scheme_end == std::string_view::npos ? "http" : url.substr(0, scheme_end);
  if (scheme != "http" && scheme != "https") return bad_url(url, "it must begin with https:// or http://");
  if (scheme_end != std::string_view::npos) rest = url.substr(scheme_end + 3);
  out.use_tls = scheme == "https";
  out.port = out.use_tls ? 443 : 80;
  const size_t slash = rest.find('/');
  GF_RETURN_IF_ERROR(parse_authority(url, rest.substr(0, slash), &out));
  std::string_view path = slash == std::string_view::npos ? std::string_view() : rest.substr(slash);
  if (path.find_first_of("?#") != std::string_view::npos) return bad_url(url, "it must not have a query");
  while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  out.path_prefix = path;
  return out;
}

Result<http::HttpClientOptions> make_http_options(const ClientConfig& config, std::string* path_prefix) {
  Result<ServerEndpoint> endpoint = parse_server_url(config.server_url);
  if (!endpoint.ok()) return endpoint.error();
  http::HttpClientOptions out;
  out.host = endpoint->host;
  out.port = endpoint->port;
  out.use_tls = endpoint->use_tls;
  out.proxy = config.proxy;
  if (out.use_tls) {
    auto tls = http::TlsContext::client(config.tls);
    if (!tls.ok()) return tls.error();
    out.tls = *tls;
  }
  if (!config.user_agent.empty()) out.default_headers.add("user-agent", config.user_agent);
  if (path_prefix) *path_prefix = endpoint->path_prefix;
  return out;
}

}  // namespace ghostfleet::kube
