// Bearer tokens: random ones, and the signed tokens (JWT) of service accounts with their kubernetes.io claims.
//
// Signing: ES256 or RS256, as the key is. Verification looks at signature, issuer, audience and times; whether the
// account and the bound object still live is the Authenticator's business.
// Thread rule: a TokenIssuer is immutable; any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "kube/api/json.h"

namespace ghostfleet::controlplane {

inline constexpr const char* kDefaultIssuer = "https://kubernetes.default.svc";

// 32 random bytes as base64url.
std::string random_token();
// RFC 4122 version 4.
std::string random_uuid();
bool base64url_decode(std::string_view text, std::string* bytes);

struct BoundRef {
  std::string name, uid;
  bool set() const { return !name.empty(); }
};

struct ServiceAccountClaims {
  std::string ns, name, uid;
  BoundRef pod, node, secret;
  std::vector<std::string> audiences;
  WallTime issued, not_before, expires;
  std::string id;  // jti
};

class TokenIssuer {
 public:
  // `key_pem`: a private key, EC P-256 or RSA.
  static Result<std::unique_ptr<TokenIssuer>> create(std::string_view key_pem, std::string issuer = kDefaultIssuer,
                                                     std::vector<std::string> audiences = {kDefaultIssuer});
  ~TokenIssuer();

  // Signs. `claims.audiences` empty: the API's own. An empty id gets a new one; times must be set.
  Result<std::string> issue(const ServiceAccountClaims& claims) const;
  // kUnauthenticated with a reason for people when it is no valid token of this issuer. `audiences` empty: the API's
  // own; else at least one must be among the token's.
  Result<ServiceAccountClaims> verify(std::string_view token, const std::vector<std::string>& audiences,
                                      WallTime now) const;
  // Does it look like a JWT of this issuer? (Then no other kind of token is tried.)
  bool is_own(std::string_view token) const;

  const std::string& issuer() const { return issuer_; }
  const std::vector<std::string>& audiences() const { return audiences_; }
  kube::Json jwks() const;                  // GET /openid/v1/jwks
  kube::Json openid_configuration() const;  // GET /.well-known/openid-configuration

 private:
  TokenIssuer();
  struct Key;
  std::unique_ptr<Key> key_;
  std::string issuer_;
  std::vector<std::string> audiences_;
};

}  // namespace ghostfleet::controlplane
