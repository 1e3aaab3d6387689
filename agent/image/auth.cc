#include "agent/image/auth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/digest.h"
#include "base/files.h"
#include "kube/api/json.h"

namespace ghostfleet::image {
namespace {

constexpr size_t kMaxHeader = 16384;
constexpr size_t kMaxConfig = 1u << 20;

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

bool is_token_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~/").find(c) != std::string_view::npos;
}

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool take(char c) {
    if (peek() != c || at_end()) return false;
    ++at_;
    return true;
  }
  void skip_spaces() {
    while (peek() == ' ' || peek() == '\t') ++at_;
  }
  std::string_view token() {
    const size_t start = at_;
    while (!at_end() && is_token_char(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }
  bool quoted(std::string* out) {
    if (!take('"')) return false;
    while (!at_end() && peek() != '"') {
      if (peek() == '\\') ++at_;
      if (at_end()) return false;
      out->push_back(text_[at_++]);
    }
    return take('"');
  }
  size_t position() const { return at_; }
  void go_back(size_t at) { at_ = at; }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

// name=value, the value a token or quoted; false, with nothing taken, when a new challenge begins here.
bool take_param(Scanner* in, Challenge* out) {
  const size_t start = in->position();
  const std::string name = lower(in->token());
  in->skip_spaces();
  if (name.empty() || !in->take('=')) {
    in->go_back(start);
    return false;
  }
  in->skip_spaces();
  std::string value;
  if (in->peek() == '"') {
    if (!in->quoted(&value)) return false;
  } else {
    value = in->token();
  }
  out->params.emplace(name, value);
  return true;
}

// "https://index.docker.io/v1/" and "index.docker.io" name the same registry.
std::string host_of_key(std::string_view key) {
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (key.starts_with(scheme)) key.remove_prefix(scheme.size());
  }
  return std::string(key.substr(0, key.find('/')));
}

bool same_registry(const std::string& host, const std::string& registry) {
  if (host == registry) return true;
  return registry == "docker.io" && (host == "index.docker.io" || host == "registry-1.docker.io");
}

Result<UserPassword> user_of(const std::string& key, const kube::Json& entry) {
  UserPassword out{std::string(kube::get_string(entry, "username")), std::string(kube::get_string(entry, "password"))};
  const std::string_view packed = kube::get_string(entry, "auth");
  if (packed.empty()) return out;
  std::string plain;
  const bool read = base64_decode(packed, &plain);
  const size_t colon = plain.find(':');
  if (!read || colon == std::string::npos)
    return invalid_argument(fmt::format("auths[\"{}\"].auth: base64 of USER:PASSWORD is expected", key));
  out.user = plain.substr(0, colon);
  out.password = plain.substr(colon + 1);
  while (!out.password.empty() && out.password.back() == '\0') out.password.pop_back();
  return out;
}

}  // namespace

std::string Challenge::param(const std::string& name) const {
  const auto it = params.find(name);
  return it == params.end() ? std::string() : it->second;
}

std::vector<Challenge> parse_challenges(std::string_view header) {
  std::vector<Challenge> out;
  Scanner in(header.substr(0, kMaxHeader));
  while (true) {
    in.skip_spaces();
    while (in.take(',')) in.skip_spaces();
    Challenge c;
    c.scheme = lower(in.token());
    if (c.scheme.empty()) return out;
    while (true) {
      in.skip_spaces();
      while (in.take(',')) in.skip_spaces();
      if (!take_param(&in, &c)) break;
    }
    out.push_back(std::move(c));
  }
}

Result<DockerConfig> DockerConfig::load(const std::string& path) {
  std::string file = path;
  if (file.empty()) {
    const char* folder = std::getenv("DOCKER_CONFIG");
    file = folder != nullptr && *folder != '\0' ? std::string(folder) + "/config.json"
                                                : expand_home("~/.docker/config.json");
    if (!file_exists(file)) return DockerConfig();
  }
  auto bytes = read_file(file, kMaxConfig);
  if (!bytes.ok()) return bytes.error();
  auto config = parse(*bytes);
  if (!config.ok()) return config.error().with_context(file);
  return config;
}

Result<DockerConfig> DockerConfig::parse(std::string_view bytes) {
  auto json = kube::parse_json(bytes, {.max_depth = 32});
  if (!json.ok()) return json.error();
  DockerConfig out;
  if (const auto* auths = kube::get_object(*json, "auths"); auths != nullptr) {
    for (const auto& [key, entry] : *auths) {
      auto user = user_of(std::string(key), entry);
      if (!user.ok()) return user.error();
      if (user->user.empty() && user->password.empty()) continue;
      out.users_[host_of_key(key)] = std::move(*user);
    }
  }
  if (const auto* helpers = kube::get_object(*json, "credHelpers"); helpers != nullptr) {
    for (const auto& [key, entry] : *helpers) out.helpers_.push_back(host_of_key(key));
  }
  out.helper_for_all_ = !kube::get_string(*json, "credsStore").empty();
  return out;
}

std::optional<UserPassword> DockerConfig::find(const std::string& registry, const std::string& api_host) const {
  for (const auto& [host, user] : users_) {
    if (same_registry(host, registry) || host == api_host) return user;
  }
  return std::nullopt;
}

bool DockerConfig::left_to_helper(const std::string& registry) const {
  const auto fits = [&](const std::string& host) { return same_registry(host, registry); };
  return helper_for_all_ || std::any_of(helpers_.begin(), helpers_.end(), fits);
}

Result<Token> parse_token(std::string_view body) {
  auto json = kube::parse_json(body, {.max_depth = 32});
  if (!json.ok()) return invalid_argument("the token service's answer is no JSON");
  Token out;
  out.value = kube::get_string(*json, "token");
  if (out.value.empty()) out.value = kube::get_string(*json, "access_token");
  out.expires_in = kube::get_int(*json, "expires_in", out.expires_in);
  const bool clean = std::none_of(out.value.begin(), out.value.end(),
                                  [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; });
  if (out.value.empty() || !clean) return invalid_argument("the token service's answer holds no token");
  return out;
}

}  // namespace ghostfleet::image
