#include "kube/client/kubeconfig.h"

#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/digest.h"
#include "base/files.h"
#include "kube/api/codec.h"
#include "kube/api/json.h"
#include "kube/client/exec_plugin.h"

namespace ghostfleet::kube {
namespace {

constexpr size_t kMaxKubeconfigBytes = 8u << 20;

// One named entry and the folder its relative paths start from.
struct Entry {
  const Json* value = nullptr;
  std::string file;
};

struct File {
  std::string path;
  Json content;
};

std::vector<std::string> split_list(const std::string& text, char separator) {
  std::vector<std::string> out;
  size_t start = 0;
  while (start <= text.size()) {
    const size_t at = std::min(text.find(separator, start), text.size());
    if (at > start) out.push_back(text.substr(start, at - start));
    start = at + 1;
  }
  return out;
}

// The files to read: an explicit one must exist, of a list (KUBECONFIG) those that exist.
Result<std::vector<std::string>> candidate_files(const KubeconfigFlags& flags, const Environment& env) {
  if (!flags.kubeconfig.empty()) return std::vector<std::string>{expand_home(flags.kubeconfig)};
  const std::string variable = env.get("KUBECONFIG");
  if (!variable.empty()) {
    std::vector<std::string> found;
    for (const std::string& path : split_list(variable, ':')) {
      if (file_exists(path)) found.push_back(path);
    }
    if (found.empty()) return not_found(fmt::format("KUBECONFIG names no file that exists: {}", variable));
    return found;
  }
  const std::string home = env.get("HOME");
  const std::string standard = home + "/.kube/config";
  if (!home.empty() && file_exists(standard)) return std::vector<std::string>{standard};
  return std::vector<std::string>{};
}

Result<File> load_file(const std::string& path) {
  auto text = read_file(path, kMaxKubeconfigBytes);
  if (!text.ok()) return text.error().with_context("kubeconfig");
  auto content = parse_yaml(*text);
  if (!content.ok()) return content.error().with_context("kubeconfig " + path);
  if (content->is_null()) content = Result<Json>(Json(JsonObject{}));
  if (!content->is_object())
    return invalid_argument(
        fmt::format("kubeconfig {}: a mapping with clusters, contexts and users is expected", path));
  const std::string_view kind = get_string(*content, "kind");
  if (!kind.empty() && kind != "Config")
    return invalid_argument(fmt::format("kubeconfig {}: kind is {}, Config is expected", path, kind));
  return File{path, std::move(*content)};
}

// The entry `name` of a list of {name, <key>: {...}} in the first file that has it.
std::optional<Entry> find_entry(const std::vector<File>& files, std::string_view list, std::string_view key,
                                std::string_view name) {
  for (const File& f : files) {
    const JsonArray* entries = get_array(f.content, list);
    if (entries == nullptr) continue;
    for (const Json& e : *entries) {
      if (get_string(e, "name") != name) continue;
      const Json* value = find_key(e, key);
      static const Json kEmpty = JsonObject{};
      return Entry{value == nullptr || !value->is_object() ? &kEmpty : value, f.path};
    }
  }
  return std::nullopt;
}

std::string names_in(const std::vector<File>& files, std::string_view list) {
  std::vector<std::string> names;
  for (const File& f : files) {
    const JsonArray* entries = get_array(f.content, list);
    if (entries == nullptr) continue;
    for (const Json& e : *entries) names.emplace_back(get_string(e, "name"));
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

// PEM from "X-data" (base64, white space allowed inside) or from the file "X".
Result<std::string> pem_of(const Entry& entry, const std::string& field) {
  const std::string_view data = get_string(*entry.value, field + "-data");
  if (!data.empty()) {
    std::string compact;
    for (const char c : data) {
      if (c != '\n' && c != '\r' && c != ' ' && c != '\t') compact += c;
    }
    std::string pem;
    if (!base64_decode(compact, &pem))
      return invalid_argument(fmt::format("kubeconfig {}: {}-data is not base64", entry.file, field));
    return pem;
  }
  const std::string path(get_string(*entry.value, field));
  if (path.empty()) return std::string();
  auto pem = read_file(join_path(parent_directory(entry.file), path));
  if (!pem.ok()) return pem.error().with_context(fmt::format("kubeconfig {}: {}", entry.file, field));
  return pem;
}

Status read_cluster(const Entry& cluster, const std::string& name, const Environment& env, LoadedConfig* out) {
  out->client.server_url = get_string(*cluster.value, "server");
  if (out->client.server_url.empty())
    return invalid_argument(fmt::format("kubeconfig {}: cluster {} has no server", cluster.file, name));
  if (auto endpoint = parse_server_url(out->client.server_url); !endpoint.ok()) {
    return endpoint.error().with_context(fmt::format("kubeconfig {}: cluster {}", cluster.file, name));
  }
  out->client.tls.insecure = get_bool(*cluster.value, "insecure-skip-tls-verify");
  out->client.tls.server_name = get_string(*cluster.value, "tls-server-name");
  auto ca = pem_of(cluster, "certificate-authority");
  if (!ca.ok()) return ca.error();
  if (out->client.tls.insecure && !ca->empty()) {
    return invalid_argument(
        fmt::format("kubeconfig {}: cluster {} has a certificate-authority and insecure-skip-tls-verify: only one of "
                    "them makes sense",
                    cluster.file, name));
  }
  out->client.tls.ca_pem = *ca;
  auto proxy = choose_proxy(std::string(get_string(*cluster.value, "proxy-url")), out->client.server_url, env);
  if (!proxy.ok()) return proxy.error().with_context("kubeconfig " + cluster.file);
  out->client.proxy = *proxy;
  return Status();
}

Result<ExecSpec> read_exec(const Entry& user, const Json& exec, const Json& cluster) {
  ExecSpec spec;
  spec.api_version = get_string(exec, "apiVersion");
  if (spec.api_version != "client.authentication.k8s.io/v1" &&
      spec.api_version != "client.authentication.k8s.io/v1beta1") {
    return invalid_argument(
        fmt::format("kubeconfig {}: exec.apiVersion is {}; client.authentication.k8s.io/v1 or v1beta1 is expected",
                    user.file, spec.api_version));
  }
  spec.command = get_string(exec, "command");
  if (spec.command.empty()) return invalid_argument(fmt::format("kubeconfig {}: exec.command is empty", user.file));
  if (spec.command.find('/') != std::string::npos) spec.command = join_path(parent_directory(user.file), spec.command);
  const std::string_view mode = get_string(exec, "interactiveMode");
  if (mode == "Always")
    return invalid_argument(fmt::format(
        "kubeconfig {}: exec.interactiveMode is Always; only commands that ask nobody can be used", user.file));
  if (const JsonArray* args = get_array(exec, "args")) {
    for (const Json& a : *args)
      spec.args.emplace_back(a.is_string() ? std::string_view(a.get_string()) : std::string_view());
  }
  if (const JsonArray* list = get_array(exec, "env")) {
    for (const Json& e : *list) spec.env.emplace_back(get_string(e, "name"), get_string(e, "value"));
  }
  spec.install_hint = get_string(exec, "installHint");
  if (get_bool(exec, "provideClusterInfo")) spec.cluster_info = to_json(cluster);
  return spec;
}

Status use_exec(const Entry& user, const Json& exec, const Json& cluster, LoadedConfig* out) {
  auto spec = read_exec(user, exec, cluster);
  if (!spec.ok()) return spec.error();
  auto plugin = std::make_shared<ExecPlugin>(*spec, SystemClock::instance());
  // Run now: a missing command is told at the start, and a certificate must be known before the first connection.
  auto first = plugin->get();
  if (!first.ok()) return first.error().with_context("kubeconfig " + user.file);
  if (!first->client_certificate_pem.empty()) {
    out->client.tls.client_cert_pem = first->client_certificate_pem;
    out->client.tls.client_key_pem = first->client_key_pem;
  }
  if (first->token.empty()) return Status();
  out->client.auth.token_lifetime = std::chrono::seconds(1);  // the plugin knows better when its answer expires
  out->client.auth.bearer_token = [plugin]() -> Result<std::string> {
    auto credential = plugin->get();
    if (!credential.ok()) return credential.error();
    return credential->token;
  };
  out->client.auth.invalidate = [plugin] { plugin->invalidate(); };
  return Status();
}

void use_token_file(const std::string& path, ClientAuth* auth) {
  auth->bearer_token = [path]() -> Result<std::string> {
    auto token = read_file(path, 1 << 20);
    if (!token.ok()) return token.error().with_context("token file");
    while (!token->empty() && (token->back() == '\n' || token->back() == '\r' || token->back() == ' '))
      token->pop_back();
    if (token->empty()) return Status(Code::kUnauthenticated, "token file " + path + " is empty");
    return *token;
  };
}

Status read_user(const Entry& user, const std::string& name, const Json& cluster, LoadedConfig* out) {
  auto cert = pem_of(user, "client-certificate");
  if (!cert.ok()) return cert.error();
  auto key = pem_of(user, "client-key");
  if (!key.ok()) return key.error();
  if (cert->empty() != key->empty()) {
    return invalid_argument(
        fmt::format("kubeconfig {}: user {} has only one of client-certificate and client-key", user.file, name));
  }
  out->client.tls.client_cert_pem = *cert;
  out->client.tls.client_key_pem = *key;
  const std::string token(get_string(*user.value, "token"));
  const std::string token_file(get_string(*user.value, "tokenFile"));
  const std::string username(get_string(*user.value, "username"));
  if (!token_file.empty()) {
    use_token_file(join_path(parent_directory(user.file), token_file), &out->client.auth);
  } else if (!token.empty()) {
    out->client.auth.bearer_token = [token]() -> Result<std::string> { return token; };
  } else if (!username.empty()) {
    out->client.auth.basic_auth = username + ":" + std::string(get_string(*user.value, "password"));
  }
  const Json* exec = find_key(*user.value, "exec");
  if (exec == nullptr || exec->is_null() || out->client.auth.bearer_token) return Status();
  return use_exec(user, *exec, cluster, out);
}

Result<LoadedConfig> from_files(const std::vector<std::string>& paths, const KubeconfigFlags& flags,
                                const Environment& env) {
  std::vector<File> files;
  for (const std::string& path : paths) {
    auto file = load_file(path);
    if (!file.ok()) return file.error();
    files.push_back(std::move(*file));
  }
  LoadedConfig out;
  out.source = fmt::format("{}", fmt::join(paths, ", "));
  out.context = flags.context;
  for (const File& f : files) {
    if (out.context.empty()) out.context = get_string(f.content, "current-context");
  }
  if (out.context.empty()) {
    return invalid_argument(fmt::format("kubeconfig {}: no current-context; choose one with --context (there are: {})",
                                        out.source, names_in(files, "contexts")));
  }
  const auto context = find_entry(files, "contexts", "context", out.context);
  if (!context)
    return not_found(fmt::format("kubeconfig {}: no context named {} (there are: {})", out.source, out.context,
                                 names_in(files, "contexts")));
  const std::string cluster_name(get_string(*context->value, "cluster"));
  out.user = get_string(*context->value, "user");
  if (const std::string_view ns = get_string(*context->value, "namespace"); !ns.empty()) out.ns = ns;
  const auto cluster = find_entry(files, "clusters", "cluster", cluster_name);
  if (!cluster) {
    return not_found(fmt::format("kubeconfig {}: context {} names cluster {}, which is not there (there are: {})",
                                 out.source, out.context, cluster_name, names_in(files, "clusters")));
  }
  GF_RETURN_IF_ERROR(read_cluster(*cluster, cluster_name, env, &out));
  if (out.user.empty()) return out;
  const auto user = find_entry(files, "users", "user", out.user);
  if (!user)
    return not_found(fmt::format("kubeconfig {}: context {} names user {}, which is not there (there are: {})",
                                 out.source, out.context, out.user, names_in(files, "users")));
  GF_RETURN_IF_ERROR(read_user(*user, out.user, *cluster->value, &out));
  return out;
}

Result<LoadedConfig> in_cluster(const Environment& env) {
  const std::string host = env.get("KUBERNETES_SERVICE_HOST");
  const std::string port = env.get("KUBERNETES_SERVICE_PORT");
  const std::string& dir = env.service_account_dir;
  if (host.empty() || port.empty() || !file_exists(dir + "/token")) {
    return not_found(
        "no kubeconfig: give one with --kubeconfig FILE or the variable KUBECONFIG (~/.kube/config does not exist, and "
        "this is no pod)");
  }
  LoadedConfig out;
  out.context = "in-cluster";
  out.source = dir;
  const bool v6 = host.find(':') != std::string::npos;
  out.client.server_url = v6 ? fmt::format("https://[{}]:{}", host, port) : fmt::format("https://{}:{}", host, port);
  auto ca = read_file(dir + "/ca.crt");
  if (!ca.ok()) return ca.error();
  out.client.tls.ca_pem = *ca;
  use_token_file(dir + "/token", &out.client.auth);
  if (auto ns = read_file(dir + "/namespace"); ns.ok() && !ns->empty()) out.ns = *ns;
  return out;
}

bool is_loopback(std::string_view host) { return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0; }

// NO_PROXY: host names, ".suffix", "*", addresses; networks are compared by prefix of whole octets only.
bool excluded(const std::string& no_proxy, std::string_view host) {
  for (std::string rule : split_list(no_proxy, ',')) {
    while (!rule.empty() && rule.front() == ' ') rule.erase(0, 1);
    while (!rule.empty() && rule.back() == ' ') rule.pop_back();
    if (rule == "*" || rule == host) return true;
    if (rule.empty()) continue;
    const std::string suffix = rule[0] == '.' ? rule : "." + rule;
    if (host.size() > suffix.size() && host.substr(host.size() - suffix.size()) == suffix) return true;
    const size_t slash = rule.find('/');
    if (slash == std::string::npos) continue;
    const std::string_view bits = std::string_view(rule).substr(slash + 1);
    const int octets = bits == "8" ? 1 : bits == "16" ? 2 : bits == "24" ? 3 : 0;
    size_t end = 0;
    for (int i = 0; i < octets && end != std::string::npos; ++i) end = rule.find('.', end == 0 ? 0 : end + 1);
    if (octets > 0 && end != std::string::npos && host.substr(0, end + 1) == std::string_view(rule).substr(0, end + 1))
      return true;
  }
  return false;
}

}  // namespace

Environment Environment::process() {
  Environment env;
  env.get = [](const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return std::string(value == nullptr ? "" : value);
  };
  return env;
}

Result<http::ProxyConfig> choose_proxy(const std::string& proxy_url, const std::string& server_url,
                                       const Environment& environment) {
  auto server = parse_server_url(server_url);
  if (!server.ok()) return server.error();
  std::string url = proxy_url;
  if (url.empty()) {
    auto variable = [&](const std::string& upper, const std::string& lower) {
      const std::string value = environment.get(upper);
      return value.empty() ? environment.get(lower) : value;
    };
    if (is_loopback(server->host) || excluded(variable("NO_PROXY", "no_proxy"), server->host))
      return http::ProxyConfig{};
    url = server->use_tls ? variable("HTTPS_PROXY", "https_proxy") : variable("HTTP_PROXY", "http_proxy");
    if (url.empty()) return http::ProxyConfig{};
  }
  if (url.rfind("socks5", 0) == 0)
    return Status(Code::kUnimplemented,
                  "proxy " + url.substr(0, url.find(':')) + ": only http and https proxies are supported");
  http::ProxyConfig proxy;
  std::string rest = url;
  if (const size_t scheme = rest.find("://"); scheme != std::string::npos) {
    proxy.tls = rest.substr(0, scheme) == "https";
    rest = rest.substr(scheme + 3);
  }
  if (const size_t at = rest.rfind('@'); at != std::string::npos) {
    proxy.basic_auth = http::percent_decode(rest.substr(0, at), false);
    rest = rest.substr(at + 1);
  }
  auto endpoint = parse_server_url((proxy.tls ? "https://" : "http://") + rest);
  if (!endpoint.ok()) return invalid_argument("proxy-url: host and port are expected");  // it may hold a password
  proxy.host = endpoint->host;
  proxy.port = endpoint->port;
  return proxy;
}

Result<LoadedConfig> load_client_config(const KubeconfigFlags& flags, const Environment& environment) {
  auto paths = candidate_files(flags, environment);
  if (!paths.ok()) return paths.error();
  if (!paths->empty()) return from_files(*paths, flags, environment);
  if (!flags.context.empty())
    return not_found(fmt::format(
        "--context {}: there is no kubeconfig (--kubeconfig FILE, KUBECONFIG or ~/.kube/config)", flags.context));
  return in_cluster(environment);
}

}  // namespace ghostfleet::kube
