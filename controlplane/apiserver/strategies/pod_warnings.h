// Warnings a real API server gives for a pod that is valid but odd.
//
// Thread rule: pure.
#pragma once

#include "controlplane/apiserver/request.h"
#include "kube/api/json.h"

namespace ghostfleet::controlplane {

void warn_about_pod(const kube::Json& pod, RequestContext& request);
// The same for the pod spec at `path` ("spec.template.spec").
void warn_about_pod_spec(const kube::Json& spec, std::string_view path, RequestContext& request);

}  // namespace ghostfleet::controlplane
