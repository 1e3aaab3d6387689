// Events of events.k8s.io/v1 and of v1 are one object under two sets of field names; the v1 form is stored.
//
// Thread rule: pure functions on decoded objects; apiVersion is changed, metadata stays.
#pragma once

#include "kube/api/json.h"

namespace ghostfleet::controlplane {

kube::Json to_events_v1(kube::Json core_event);
kube::Json to_core_v1(kube::Json new_event);

}  // namespace ghostfleet::controlplane
