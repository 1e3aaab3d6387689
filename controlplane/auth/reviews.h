// Reviews: the create-only pseudo resources of authentication.k8s.io and authorization.k8s.io. Each takes the decoded
// body and answers it with its status filled (201), or the error.
//
// Thread rule: pure functions over thread-safe parts.
#pragma once

#include <string_view>

#include "controlplane/auth/authenticator.h"
#include "controlplane/auth/authorizer.h"
#include "controlplane/auth/tokens.h"
#include "kube/api/api_error.h"
#include "kube/api/json.h"

namespace ghostfleet::controlplane {

// SubjectAccessReview, LocalSubjectAccessReview (`ns` of the path), SelfSubjectAccessReview; told apart by `kind`.
kube::ApiResult<kube::Json> review_access(kube::Json review, std::string_view kind, std::string_view ns,
                                          const UserInfo& requester, const Authorizer& authorizer);
// SelfSubjectRulesReview.
kube::ApiResult<kube::Json> review_rules(kube::Json review, const UserInfo& requester, const Authorizer& authorizer);
// SelfSubjectReview.
kube::ApiResult<kube::Json> review_self(kube::Json review, const UserInfo& requester);
// TokenReview.
kube::ApiResult<kube::Json> review_token(kube::Json review, const Authenticator& authenticator,
                                         const TokenIssuer& issuer);

// POST serviceaccounts/NAME/token. The body's spec is defaulted (audiences, 3600 s), the bound object looked up.
kube::ApiResult<kube::Json> request_token(kube::Json request, std::string_view ns, std::string_view name,
                                          const ClusterObjects& objects, const TokenIssuer& issuer, const Clock& clock);

}  // namespace ghostfleet::controlplane
