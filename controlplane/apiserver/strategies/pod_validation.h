// Validation of pod specs, in the order and with the words of a real API server.
//
// Thread rule: pure functions on decoded, defaulted objects.
#pragma once

#include <set>
#include <string_view>

#include "controlplane/apiserver/strategies/validation.h"

namespace ghostfleet::controlplane {

struct PodRules {
  bool is_pod = false;            // a Pod, not a template
  bool allow_privileged = false;  // as the server's --allow-privileged
  std::string_view pod_name;      // of a Pod
};

void check_pod_spec(const kube::Json& spec, const Path& path, const PodRules& rules, Findings& out);
// Metadata and spec of a template.
void check_template(const kube::Json& template_object, const Path& path, const PodRules& rules, Findings& out);

// ---- parts --------------------------------------------------------------------------------------------------------

using NameSet = std::set<std::string_view>;

// Answers the names of the volumes that are fine.
NameSet check_volumes(const kube::Json& spec, const Path& path, Findings& out);
void check_all_containers(const kube::Json& spec, const Path& path, const NameSet& volumes, const PodRules& rules,
                          Findings& out);
void check_tolerations(const kube::Json& spec, const Path& path, Findings& out);
void check_taints(const kube::JsonArray* taints, const Path& path, Findings& out);
void check_affinity(const kube::Json& spec, const Path& path, Findings& out);
void check_node_selector(const kube::Json& selector, const Path& path, Findings& out);
void check_spread_constraints(const kube::Json& spec, const Path& path, Findings& out);
void check_image_spaces(const kube::Json& spec, const Path& path, Findings& out);
// fieldRef of an environment variable or a downward API file.
void check_field_ref(const kube::Json& ref, const Path& path, bool volume, Findings& out);
// File modes: 0 to 0777.
void check_mode(const kube::Json& owner, std::string_view key, const Path& path, Findings& out);

// ---- updates of pods ----------------------------------------------------------------------------------------------

void check_pod_update(const kube::Json& object, const kube::Json& old, Findings& out);
void check_ephemeral_update(const kube::Json& object, const kube::Json& old, Findings& out);
void check_resize(const kube::Json& object, const kube::Json& old, Findings& out);
void check_pod_status(const kube::Json& object, const kube::Json& old, Findings& out);

}  // namespace ghostfleet::controlplane
