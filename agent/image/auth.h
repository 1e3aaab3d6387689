// Who we are to a registry: the challenge of a 401, and user names and passwords from a docker config file.
//
// Thread rule: plain values. Secrets never go into a message. Limits: a challenge header of 16 KiB, a config file of
// 1 MiB.
// Source: the token flow of registries (distribution.github.io/distribution/spec/auth/token); RFC 9110 11.6.1.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ghostfleet::image {

// One of the ways a WWW-Authenticate header offers: `Bearer realm="...",service="..."`.
struct Challenge {
  std::string scheme;                         // in lower case
  std::map<std::string, std::string> params;  // names in lower case
  std::string param(const std::string& name) const;
};
// What cannot be read ends the list.
std::vector<Challenge> parse_challenges(std::string_view header);

struct UserPassword {
  std::string user, password;
};

// The "auths" of a docker config file. Credential helpers are programs and are not run.
class DockerConfig {
 public:
  // An empty path: $DOCKER_CONFIG/config.json or ~/.docker/config.json, and none when it is not there.
  static Result<DockerConfig> load(const std::string& path);
  static Result<DockerConfig> parse(std::string_view bytes);

  // By the registry's name as in an image, or by its API's host.
  std::optional<UserPassword> find(const std::string& registry, const std::string& api_host) const;
  // True when the file leaves this registry to a helper.
  bool left_to_helper(const std::string& registry) const;

 private:
  std::map<std::string, UserPassword> users_;
  std::vector<std::string> helpers_;
  bool helper_for_all_ = false;
};

struct Token {
  std::string value;
  int64_t expires_in = 60;  // seconds; what registries mean when they do not say
};
// The answer of a token service.
Result<Token> parse_token(std::string_view body);

}  // namespace ghostfleet::image
