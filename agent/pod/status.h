// A pod's status: computed from what its containers do (compute_status), and written as JSON: whole, or as the patch of
// the pieces that changed since the last one.
//
// Source of every rule: recordings of a kubelet 1.36 (tests/data/traces).
// Thread rule: pure functions of the pod and its node.
#pragma once

#include <string>

#include "agent/pod/pod.h"
#include "agent/pod/pod_manager.h"

namespace ghostfleet::agent {

inline constexpr std::string_view kDeadlineMessage = "Pod was active on the node longer than the specified deadline";
inline constexpr std::string_view kLostMessage = "The container could not be located when the pod was terminated";
inline constexpr std::string_view kResetReason = "RestartingAllContainers";
inline constexpr std::string_view kBootReason = "Unknown";
inline constexpr std::string_view kResetMessage = "The container is removed because RestartAllContainers in place";

// Whether a container that ended runs again by its own rules.
bool will_restart(const ContainerSpec& spec, int32_t exit_code);
// Whether an end of some container makes all start afresh.
bool should_restart_all(const Pod& pod);
// The phase that the containers' looks add up to.
Phase compute_phase(const Pod& pod);
// Takes a new look at every container and brings phase and conditions up to date. A terminal phase shows only once the
// pod is finished.
void compute_status(Pod& pod, WallTime now);
// The last look at a pod that never came to run: failed, with the conditions it had.
void show_end(Pod& pod);
// PodReadyToStartContainers alone, as it is told when the sandbox is there.
void show_sandbox(Pod& pod, WallTime now);
// What a probe found out about a container, told at once, whatever the pod's worker is busy with.
void show_probed(Pod& pod, size_t index, WallTime now);

// Texts.
std::string waiting_reason(Why why);
std::string waiting_message(const Pod& pod, size_t index);
std::string missing_object(const ObjectRef& ref);
std::string missing_key(const ObjectRef& ref, std::string_view ns);  // of a variable
std::string post_start_failure(const Pod& pod, size_t index);
std::string bad_image_name(std::string_view image);
std::string not_root_failure(const Pod& pod, size_t index);
std::string container_id(const Pod& pod, size_t index, uint32_t attempt, std::string_view runtime);
std::string condition_message(const Pod& pod, int type);
// The address the status shows; empty while there is none.
std::string pod_ip(const Pod& pod, const NodeFacts& node);
// Of the node's second address family.
std::string second_pod_ip(const Pod& pod, const NodeFacts& node);

struct StatusContext {
  const NodeFacts& node;
  const PodOptions& options;
  const ClaimCache* claims = nullptr;
};

// The status as one JSON object, without conditions of others.
std::string render_status(const Pod& pod, const StatusContext& context);
// A strategic merge patch of the pieces that `pod.sent` does not have; they are in it afterwards. Empty when there is
// none.
std::string render_patch(Pod& pod, const StatusContext& context);
// Takes the pieces as sent without sending them: the API server has them from an earlier agent.
void assume_sent(Pod& pod, const StatusContext& context);

}  // namespace ghostfleet::agent
