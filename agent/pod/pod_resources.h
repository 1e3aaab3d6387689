// The resource arithmetic of a pod: what it asks for as a whole, and the JSON of resources as the status repeats them.
//
// Thread rule: pure functions.
#pragma once

#include <string>

#include "agent/pod/pod_template.h"

namespace ghostfleet::agent {

// {"limits":{...},"requests":{...}} of a container, keys sorted; "{}" when it has none.
std::string render_resources(const kube::Json& container);
// The same while it runs, as a kubelet tells it whose runtime reports nothing: limits of the pod stand in for its own,
// and memory is always there.
std::string render_running_resources(const kube::Json& pod, const kube::Json& container);
// {"cpu":"100m",...} of its requests; empty when it has none.
std::string render_requests(const kube::Json& container);

// What the pod asks of the node: the greater of what its containers and sidecars take together and what each init
// container takes beside the sidecars before it, plus overhead; pod-level requests win. Limits stand in for missing
// requests.
Amounts pod_requests(const kube::Json& pod);
std::string render_pod_allocated(const kube::Json& pod);
std::string render_pod_resources(const kube::Json& pod);

// The quantity of `resource` in the list at `path` (without a resource: at the path itself); 0 when it is not there.
Amount read_amount(const kube::Json& holder, std::string_view path, std::string_view resource = {});
// What the limits of the pod's containers add up to; 0 when none has one.
Amount pod_limit(const kube::Json& pod, std::string_view resource);

// "BestEffort", "Burstable" or "Guaranteed", as the API server works it out.
std::string_view qos_class(const kube::Json& pod);

// Millicores for cpu, whole units for all else.
int64_t amount_of(std::string_view resource, std::string_view quantity);

}  // namespace ghostfleet::agent
