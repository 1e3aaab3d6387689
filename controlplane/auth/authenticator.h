// Authenticator: whose request is this? Client certificate (CN, O), bearer token (static table, service account), else
// anonymous; and impersonation.
//
// Thread rule: immutable after construction but for the table of tokens, which may be added to at any time; any thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "controlplane/auth/authorizer.h"
#include "controlplane/auth/objects.h"
#include "controlplane/auth/tokens.h"
#include "controlplane/auth/user.h"
#include "kube/api/api_error.h"
#include "kube/http/message.h"

namespace ghostfleet::controlplane {

struct AuthenticatorOptions {
  bool anonymous = true;  // who shows nothing is system:anonymous; else 401
};

// What a token says, for requests and for TokenReview.
struct TokenIdentity {
  UserInfo user;
  std::vector<std::string> audiences;  // the asked ones that the token holds
};

class Authenticator {
 public:
  Authenticator(AuthenticatorOptions options, const TokenIssuer* issuer, ClusterObjects objects, const Clock& clock);

  // A fixed token; groups are as given, system:authenticated is added when it authenticates.
  void add_token(std::string token, UserInfo user);

  // 401 for a bad token, for basic authentication, and for nothing when anonymous requests are refused.
  kube::ApiResult<UserInfo> authenticate(const kube::http::Request& request) const;

  // `audiences` empty: the API's own. The error text is that of TokenReview's status.error.
  Result<TokenIdentity> authenticate_token(std::string_view token, const std::vector<std::string>& audiences) const;

 private:
  Result<UserInfo> service_account_user(const ServiceAccountClaims& claims) const;

  AuthenticatorOptions options_;
  const TokenIssuer* issuer_;
  ClusterObjects objects_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::map<std::string, UserInfo, std::less<>> tokens_;
};

// The user to act as: `requester` itself without Impersonate-* headers; else who they name, when the requester may
// impersonate every part (403 otherwise; 400 for groups, uid or extra without a user).
kube::ApiResult<UserInfo> impersonate(const UserInfo& requester, const kube::http::HeaderList& headers,
                                      const Authorizer& authorizer);

}  // namespace ghostfleet::controlplane
