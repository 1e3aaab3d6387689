// Quantities in maps of resources ("cpu": "500m"): reading, comparing, rounding as a real API server does, and the
// checks of their names and values.
//
// Thread rule: pure functions.
#pragma once

#include <string_view>

#include "controlplane/apiserver/strategies/validation.h"
#include "kube/api/json.h"
#include "kube/api/quantity.h"

namespace ghostfleet::controlplane {

// "" when missing.
std::string_view quantity_text(const kube::Json* list, std::string_view resource);
// Zero when it does not parse.
kube::Quantity quantity_of(std::string_view text);
bool quantity_is_positive(std::string_view text);
bool same_quantity(std::string_view a, std::string_view b);

// Values finer than a thousandth are rounded up to it.
void round_up_list(kube::Json& list);
void round_up_resources(kube::Json& resources);  // limits and requests

bool is_native_resource(std::string_view name);
bool is_extended_resource(std::string_view name);
bool is_huge_page(std::string_view name);
bool overcommit_allowed(std::string_view name);
bool is_integer_resource(std::string_view name);
bool is_standard_container_resource(std::string_view name);

void check_resource_name(std::string_view name, const Path& path, Findings& out);
void check_container_resource_name(std::string_view name, const Path& path, Findings& out);
// Not negative, and whole for resources that are counted.
void check_resource_value(std::string_view name, const kube::Json& value, const Path& path, Findings& out);
// A whole map: names by check_resource_name.
void check_resource_list(const kube::Json* list, const Path& path, Findings& out);
// ResourceRequirements of a container or, with `pod_level`, of a pod.
void check_requirements(const kube::Json* resources, const Path& path, Findings& out);

}  // namespace ghostfleet::controlplane
