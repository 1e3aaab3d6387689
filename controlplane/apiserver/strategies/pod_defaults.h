// Defaults of pod specs: those every template gets, and those only a Pod gets.
//
// Thread rule: pure functions on decoded objects.
#pragma once

#include "kube/api/json.h"

namespace ghostfleet::controlplane {

// PodSpec inside a template, and inside a Pod.
void default_pod_spec(kube::Json& spec);
// What a Pod gets beyond its template: requests from limits, service links, host ports.
void default_pod_only(kube::Json& spec);
// spec.template of a workload; the template is made when `make` is set.
void default_template(kube::Json& template_object);
// PersistentVolumeClaimSpec.
void default_claim_spec(kube::Json& spec);

// "Guaranteed", "Burstable" or "BestEffort".
std::string_view qos_class(const kube::Json& spec);

// "latest" when the image names no tag and no digest.
bool image_tag_is_latest(std::string_view image);

}  // namespace ghostfleet::controlplane
