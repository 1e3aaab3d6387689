// The parts that the JSON of a pod's status is made of, for the .cc files of status.h alone. Each appends to `out`, in
// the key order in which a kubelet's patches come.
//
// Thread rule: pure functions.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/device/plugin_messages.h"
#include "agent/pod/status.h"

namespace ghostfleet::agent {

// "key":"value"
void add_text(std::string_view key, std::string_view value, std::string* out);
std::string time_or_null(WallTime t);

// "FIELD":[...]: the containers of these indexes (status_containers.cc).
void add_container_list(const Pod& pod, std::string_view field, const std::vector<uint32_t>& indexes,
                        const StatusContext& context, std::string* out);
void add_init_containers(const Pod& pod, const StatusContext& context, std::string* out);

// The devices that a container has by claims: calls `each` with the title ("claim:gpus/a"), what the runtime calls the
// device, and how it is (status_claims.cc).
void for_each_claimed(
    const Pod& pod, size_t index, const StatusContext& context,
    const std::function<void(const std::string& title, const std::string& device, const DeviceState& state)>& each);
// The claims that a container uses, as PodResources tells them.
std::vector<DynamicResource> claims_in_use(const Pod& pod, size_t index, const StatusContext& context);
// A list of a container's status: those devices, behind what `out` has already.
void add_claimed(const Pod& pod, size_t index, const StatusContext& context, std::string* out);

// One condition (status_conditions.cc). With `nulls`, what it has not is said to be gone.
void add_condition(const Pod& pod, int type, bool nulls, std::string* out);
// A condition that few pods have, by its type; null: it is not there.
const Note* note_of(const Pod& pod, std::string_view type);
// With `nulls`, one that is not there is said to be gone.
void add_note(const Pod& pod, std::string_view type, bool nulls, std::string* out);

}  // namespace ghostfleet::agent
