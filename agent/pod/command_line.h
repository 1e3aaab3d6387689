// What the command model is asked about a container of a pod, and what its answer makes of the container's script and
// probes.
//
// Thread rule: plain functions. Errors: none; a container whose command line is not understood keeps what it had.
#pragma once

#include "agent/behavior/command_model.h"
#include "agent/pod/pod_template.h"
#include "kube/api/json.h"

namespace ghostfleet::agent {

CommandLine read_command_line(const kube::Json& pod, const kube::Json& container);

// An annotation for the container counts before its command line. Fills `out->script` and the windows of its exec
// probes.
void apply_command_model(const kube::Json& pod, const kube::Json& container, ContainerSpec* out);

// True when what a container does may depend on which pod it is in: a variable holds a field of the pod's metadata.
bool depends_on_metadata(const kube::Json& pod);

}  // namespace ghostfleet::agent
