// What an update of a pod may change, by endpoint.
#include <fmt/format.h>

#include "controlplane/apiserver/strategies/go_diff.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/pod_defaults.h"
#include "controlplane/apiserver/strategies/pod_validation.h"
#include "controlplane/apiserver/strategies/workload_common.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr std::string_view kOnlyThese =
    "pod updates may not change fields other than "
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)";

size_t count_of(const Json& spec, std::string_view key) {
  const JsonArray* list = array_of(spec, key);
  return list == nullptr ? 0 : list->size();
}

// False when the rest of the checks makes no sense.
bool check_container_count(const Json& spec, const Json& old, std::string_view key, const Path& path, Findings& out) {
  if (count_of(spec, key) != count_of(old, key)) {
    out.forbidden(path.child(key), "pod updates may not add or remove containers");
    return false;
  }
  return true;
}

bool check_deadline(const Json& spec, const Json& old, const Path& path, Findings& out) {
  const Json* now = member(spec, "activeDeadlineSeconds");
  const Json* before = member(old, "activeDeadlineSeconds");
  Path at = path.child("activeDeadlineSeconds");
  if (now == nullptr) {
    if (before != nullptr) out.invalid(at, "null", "must not update from a positive integer to nil value");
    return true;
  }
  if (before != nullptr && as_int(*before) < as_int(*now)) {
    out.invalid_number(at, as_int(*now), "must be less than or equal to previous value");
    return false;
  }
  return true;
}

bool same_toleration(const Json& a, const Json& b) {
  for (std::string_view key : {"key", "operator", "value", "effect"}) {
    if (text_of(a, key) != text_of(b, key)) return false;
  }
  return true;
}

void check_added_tolerations(const Json& spec, const Json& old, const Path& path, Findings& out) {
  const JsonArray* before = array_of(old, "tolerations");
  if (before == nullptr) return;
  const JsonArray* now = array_of(spec, "tolerations");
  for (const Json& toleration : *before) {
    bool found = false;
    for (size_t i = 0; now != nullptr && i < now->size() && !found; ++i) found = same_toleration(toleration, (*now)[i]);
    if (!found) {
      out.forbidden(path.child("tolerations"), "existing toleration can not be modified except its tolerationSeconds");
      return;
    }
  }
}

bool has_named(const JsonArray* list, std::string_view name) {
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    if (text_of((*list)[i], "name") == name) return true;
  }
  return false;
}

void check_removed_gates(const Json& spec, const Json& old, const Path& path, Findings& out) {
  const JsonArray* now = array_of(spec, "schedulingGates");
  for (size_t i = 0; now != nullptr && i < now->size(); ++i) {
    std::string_view name = text_of((*now)[i], "name");
    if (has_named(array_of(old, "schedulingGates"), name)) continue;
    Path at = path.child("schedulingGates", i);
    out.forbidden(at.child("name"), fmt::format("only deletion is allowed, but found new scheduling gate '{}'", name));
  }
}

// Puts back what may change, so that the rest can be compared.
void restore_images(Json& spec, const Json& old, std::string_view key) {
  Json* list = member(spec, key);
  const JsonArray* before = array_of(old, key);
  if (list == nullptr || before == nullptr) return;
  JsonArray& now = list->get_array();
  for (size_t i = 0; i < now.size() && i < before->size(); ++i) copy_member(now[i].get_object(), (*before)[i], "image");
}

void restore_gated(Json& spec, const Json& old, const Path& path, Findings& out) {
  if (count_of(old, "schedulingGates") == 0) return;
  if (!equal_members(spec, old, "nodeSelector")) {
    const JsonObject* before = object_of(old, "nodeSelector");
    for (auto it = before == nullptr ? nullptr : before->begin(); before != nullptr && it != before->end(); ++it) {
      const Json* value = member(member(spec, "nodeSelector"), it->key());
      if (value == nullptr || *value != it->value()) {
        const Json* selector = member(spec, "nodeSelector");
        out.invalid(path.child("nodeSelector"), selector == nullptr ? "null" : json_text(*selector),
                    "only additions to spec.nodeSelector are allowed (no mutations or deletions)");
        break;
      }
    }
    copy_member(spec.get_object(), old, "nodeSelector");
  }
  const Json* affinity = member(spec, "affinity");
  if (affinity == nullptr) return;
  JsonObject& a = member(spec, "affinity")->get_object();
  const Json* before = member(old, "affinity");
  if (before == nullptr) {
    if (a.size() <= 1) spec.get_object().erase("affinity");
  } else {
    copy_member(a, *before, "nodeAffinity");
  }
}

Json comparable_spec(const Json& spec, const Json& old, const Path& path, Findings& out) {
  Json copy = spec;
  restore_images(copy, old, "containers");
  restore_images(copy, old, "initContainers");
  JsonObject& root = copy.get_object();
  for (std::string_view key : {"activeDeadlineSeconds", "schedulingGates", "tolerations"}) copy_member(root, old, key);
  if (int_of(old, "terminationGracePeriodSeconds") < 0 && int_of(spec, "terminationGracePeriodSeconds") == 1) {
    copy_member(root, old, "terminationGracePeriodSeconds");
  }
  restore_gated(copy, old, path, out);
  return copy;
}

const Json* named(const JsonArray* list, std::string_view name) {
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    if (text_of((*list)[i], "name") == name) return &(*list)[i];
  }
  return nullptr;
}

}  // namespace

void check_pod_update(const Json& object, const Json& old_object, Findings& out) {
  const Json& spec = spec_of(object);
  const Json& old = spec_of(old_object);
  Path path("spec");
  if (!check_container_count(spec, old, "containers", path, out)) return;
  if (!check_container_count(spec, old, "initContainers", path, out)) return;
  if (!check_deadline(spec, old, path, out)) return;
  check_added_tolerations(spec, old, path, out);
  check_removed_gates(spec, old, path, out);
  if (kube::json_equal(spec, old)) return;
  Json comparable = comparable_spec(spec, old, path, out);
  if (kube::json_equal(comparable, old)) return;
  out.forbidden(path, fmt::format("{}\n{}", kOnlyThese, go_diff("core/v1.PodSpec", old, comparable)));
}

void check_ephemeral_update(const Json& object, const Json& old_object, Findings& out) {
  const JsonArray* now = array_of(spec_of(object), "ephemeralContainers");
  const JsonArray* before = array_of(spec_of(old_object), "ephemeralContainers");
  if (before == nullptr) return;
  Path spec("spec");
  Path path = spec.child("ephemeralContainers");
  for (const Json& container : *before) {
    std::string_view name = text_of(container, "name");
    const Json* found = named(now, name);
    if (found == nullptr) {
      out.forbidden(path, fmt::format("existing ephemeral containers {} may not be removed\n", quoted(name)));
    } else if (!kube::json_equal(container, *found)) {
      out.forbidden(path, fmt::format("existing ephemeral containers {} may not be changed\n{}", quoted(name),
                                      go_diff("core/v1.EphemeralContainer", container, *found)));
    }
  }
}

namespace {

// Everything as before but cpu and memory of each container, and how it is resized.
void restore_compute(Json& spec, const Json& old, std::string_view key) {
  Json* list = member(spec, key);
  const JsonArray* before = array_of(old, key);
  if (list == nullptr || before == nullptr) return;
  JsonArray& now = list->get_array();
  for (size_t i = 0; i < now.size() && i < before->size(); ++i) {
    if (!now[i].is_object()) continue;
    JsonObject& container = now[i].get_object();
    JsonObject& resources = object_in(container, "resources");
    static const Json kEmpty = JsonObject();
    const Json* was = member((*before)[i], "resources");
    for (std::string_view part : {"limits", "requests"}) {
      const Json* part_before = member(was == nullptr ? kEmpty : *was, part);
      JsonObject& values = object_in(resources, part);
      for (std::string_view name : {"cpu", "memory"}) {
        copy_member(values, part_before == nullptr ? kEmpty : *part_before, name);
      }
      if (values.empty()) resources.erase(part);
    }
    if (resources.empty() && was == nullptr) container.erase("resources");
    copy_member(container, (*before)[i], "resizePolicy");
  }
}

bool same_names(const Json& spec, const Json& old, std::string_view key) {
  const JsonArray* a = array_of(spec, key);
  const JsonArray* b = array_of(old, key);
  for (size_t i = 0; i < count_of(spec, key); ++i) {
    if (text_of((*a)[i], "name") != text_of((*b)[i], "name")) return false;
  }
  return true;
}

}  // namespace

void check_resize(const Json& object, const Json& old_object, Findings& out) {
  Path path("spec");
  const Json& spec = spec_of(object);
  const Json& old = spec_of(old_object);
  if (qos_class(spec) != qos_class(old)) {
    out.invalid_text(path, qos_class(old), "Pod QOS Class may not change as a result of resizing");
  }
  for (std::string_view key : {"containers", "initContainers"}) {
    if (count_of(spec, key) != count_of(old, key)) {
      out.forbidden(path.child(key), fmt::format("{} may not be added or removed on resize", key));
      return;
    }
    if (!same_names(spec, old, key)) {
      Path list = path.child(key, 0);
      out.forbidden(list.child("name"), fmt::format("{} may not be renamed or reordered on resize", key));
      return;
    }
  }
  if (!out.empty()) return;
  Json comparable = spec;
  restore_compute(comparable, old, "containers");
  restore_compute(comparable, old, "initContainers");
  if (!kube::json_equal(comparable, old)) out.forbidden(path, "only cpu and memory resources are mutable");
}

void check_pod_status(const Json& object, const Json& old_object, Findings& out) {
  static const Json kEmpty = JsonObject();
  const Json* status = member(object, "status");
  const Json* before = member(old_object, "status");
  if (status == nullptr) status = &kEmpty;
  if (before == nullptr) before = &kEmpty;
  Path path("status");
  if (text_of(*status, "qosClass") != text_of(*before, "qosClass")) {
    out.invalid_text(path.child("qosClass"), text_of(*status, "qosClass"), kImmutable);
  }
  std::string_view restart = text_of(spec_of(old_object), "restartPolicy");
  if (restart == "Always") return;
  const JsonArray* now = array_of(*status, "containerStatuses");
  const JsonArray* then = array_of(*before, "containerStatuses");
  for (size_t i = 0; then != nullptr && now != nullptr && i < then->size(); ++i) {
    const Json* state = member((*then)[i], "state");
    const Json* terminated = state == nullptr ? nullptr : member(*state, "terminated");
    if (terminated == nullptr) continue;
    if (int_of(*terminated, "exitCode") != 0 && restart == "OnFailure") continue;
    const Json* found = named(now, text_of((*then)[i], "name"));
    const Json* new_state = found == nullptr ? nullptr : member(*found, "state");
    if (found == nullptr || (new_state != nullptr && member(*new_state, "terminated") != nullptr)) continue;
    Path statuses = path.child("containerStatuses");
    out.forbidden(statuses.index(i).child("state"), "may not be transitioned to non-terminated state");
  }
}

}  // namespace ghostfleet::controlplane
