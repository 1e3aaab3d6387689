// The subresources, one function each; see subresources.h for what a call carries.
//
// Thread rule: any thread.
#pragma once

#include "controlplane/apiserver/subresources/subresources.h"

namespace ghostfleet::controlplane {

using Answered = kube::ApiResult<SubresourceAnswer>;

Answered serve_scale(SubresourceCall& call, Api& api, RequestContext& ctx);
Answered serve_binding(SubresourceCall& call, Api& api, RequestContext& ctx);
Answered serve_eviction(SubresourceCall& call, Api& api, RequestContext& ctx);
Answered serve_token(SubresourceCall& call, Api& api, RequestContext& ctx);
// Logs and connections are not answered here: the answer says which node or service does.
Answered serve_log(SubresourceCall& call, Api& api, RequestContext& ctx);
// exec, attach, portforward, proxy.
Answered serve_connect(SubresourceCall& call, Api& api, RequestContext& ctx);

// 201 with a Status that says Success.
SubresourceAnswer created_status();
// The parent, decoded as stored; its "not found" error when missing.
kube::ApiResult<kube::Json> parent_of(const SubresourceCall& call, Api& api);

}  // namespace ghostfleet::controlplane
