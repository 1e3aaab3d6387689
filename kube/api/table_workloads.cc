// Printers of apps, batch and autoscaling.
#include <fmt/format.h>

#include <algorithm>

#include "kube/api/table_cells.h"

namespace ghostfleet::kube::table {
namespace {

constexpr std::string_view kContainers = "spec.template.spec.containers";

std::string ready_of(const Json& o) {
  return fmt::format("{}/{}", get_int(o, "status.readyReplicas"), get_int(o, "spec.replicas"));
}

JsonArray deployment_cells(const Json& o, WallTime now) {
  return {name_of(o),
          ready_of(o),
          get_int(o, "status.updatedReplicas"),
          get_int(o, "status.availableReplicas"),
          age(o, now),
          container_names(o, kContainers),
          container_images(o, kContainers),
          format_label_selector(find_path(o, "spec.selector"))};
}

JsonArray replica_cells(const Json& o, WallTime now, std::string selector) {
  return {name_of(o),
          get_int(o, "spec.replicas"),
          get_int(o, "status.replicas"),
          get_int(o, "status.readyReplicas"),
          age(o, now),
          container_names(o, kContainers),
          container_images(o, kContainers),
          std::move(selector)};
}

JsonArray daemonset_cells(const Json& o, WallTime now) {
  return {name_of(o),
          get_int(o, "status.desiredNumberScheduled"),
          get_int(o, "status.currentNumberScheduled"),
          get_int(o, "status.numberReady"),
          get_int(o, "status.updatedNumberScheduled"),
          get_int(o, "status.numberAvailable"),
          format_labels(get_object(o, "spec.template.spec.nodeSelector")),
          age(o, now),
          container_names(o, kContainers),
          container_images(o, kContainers),
          format_label_selector(find_path(o, "spec.selector"))};
}

std::string job_status(const Json& o) {
  if (has_condition(o, "Complete")) return "Complete";
  if (has_condition(o, "Failed")) return "Failed";
  if (!get_string(o, "metadata.deletionTimestamp").empty()) return "Terminating";
  for (const char* type : {"Suspended", "FailureTarget", "SuccessCriteriaMet"}) {
    if (has_condition(o, type)) return type;
  }
  return "Running";
}

std::string job_completions(const Json& o) {
  const int64_t succeeded = get_int(o, "status.succeeded");
  if (const Json* completions = find_path(o, "spec.completions"); completions != nullptr && completions->is_int64()) {
    return fmt::format("{}/{}", succeeded, completions->get_int64());
  }
  const int64_t parallelism = get_int(o, "spec.parallelism", 1);
  return parallelism > 1 ? fmt::format("{}/1 of {}", succeeded, parallelism) : fmt::format("{}/1", succeeded);
}

std::string job_duration(const Json& o, WallTime now) {
  WallTime start;
  WallTime end = now;
  if (!parse_time(get_string(o, "status.startTime"), &start)) return "";
  parse_time(get_string(o, "status.completionTime"), &end);
  return human_duration(end - start);
}

JsonArray job_cells(const Json& o, WallTime now) {
  return {name_of(o),
          job_status(o),
          job_completions(o),
          job_duration(o, now),
          age(o, now),
          container_names(o, kContainers),
          container_images(o, kContainers),
          format_label_selector(find_path(o, "spec.selector"))};
}

JsonArray cronjob_cells(const Json& o, WallTime now) {
  const std::string_view last = get_string(o, "status.lastScheduleTime");
  constexpr std::string_view kPath = "spec.jobTemplate.spec.template.spec.containers";
  return {name_of(o),
          get_string(o, "spec.schedule"),
          text_or(get_string(o, "spec.timeZone"), "<none>"),
          get_bool(o, "spec.suspend") ? "True" : "False",
          size_at(o, "status.active"),
          last.empty() ? "<none>" : since(last, now),
          age(o, now),
          container_names(o, kPath),
          container_images(o, kPath),
          format_label_selector(find_path(o, "spec.jobTemplate.spec.selector"))};
}

JsonArray revision_cells(const Json& o, WallTime now) {
  std::string controller = "<none>";
  if (const JsonArray* owners = get_array(o, "metadata.ownerReferences")) {
    for (const Json& owner : *owners) {
      if (!get_bool(owner, "controller")) continue;
      std::string kind(get_string(owner, "kind"));
      std::transform(kind.begin(), kind.end(), kind.begin(), [](unsigned char c) { return std::tolower(c); });
      const std::string_view version = get_string(owner, "apiVersion");
      const size_t slash = version.find('/');
      const std::string group = slash == std::string_view::npos ? "" : "." + std::string(version.substr(0, slash));
      controller = fmt::format("{}{}/{}", kind, group, get_string(owner, "name"));
    }
  }
  return {name_of(o), controller, get_int(o, "revision"), age(o, now)};
}

// "cpu: 40%/80%": current and target of each metric, as far as they are known.
std::string hpa_targets(const Json& o) {
  std::string out;
  const JsonArray* metrics = get_array(o, "spec.metrics");
  const JsonArray* current = get_array(o, "status.currentMetrics");
  for (size_t i = 0; metrics != nullptr && i < metrics->size(); ++i) {
    const Json& m = (*metrics)[i];
    const Json* target = find_path(m, "resource.target");
    if (target == nullptr) continue;
    const Json* now =
        current != nullptr && i < current->size() ? find_path((*current)[i], "resource.current") : nullptr;
    const bool percent = find_key(*target, "averageUtilization") != nullptr;
    const std::string want = percent ? fmt::format("{}%", get_int(*target, "averageUtilization"))
                                     : std::string(get_string(*target, "averageValue"));
    std::string have = "<unknown>";
    if (now != nullptr)
      have = percent ? fmt::format("{}%", get_int(*now, "averageUtilization"))
                     : std::string(get_string(*now, "averageValue"));
    out += fmt::format("{}{}: {}/{}", out.empty() ? "" : ", ", get_string(m, "resource.name"), have, want);
  }
  if (const Json* target = find_path(o, "spec.targetCPUUtilizationPercentage");
      target != nullptr && target->is_int64()) {
    const Json* now = find_path(o, "status.currentCPUUtilizationPercentage");
    out = fmt::format("cpu: {}/{}%",
                      now != nullptr && now->is_int64() ? fmt::format("{}%", now->get_int64()) : "<unknown>",
                      target->get_int64());
  }
  return out.empty() ? "<none>" : out;
}

JsonArray hpa_cells(const Json& o, WallTime now) {
  const Json* minimum = find_path(o, "spec.minReplicas");
  return {
      name_of(o),
      fmt::format("{}/{}", get_string(o, "spec.scaleTargetRef.kind"), get_string(o, "spec.scaleTargetRef.name")),
      hpa_targets(o),
      minimum == nullptr || minimum->is_null() ? Json("<unset>") : Json(std::to_string(get_int(o, "spec.minReplicas"))),
      get_int(o, "spec.maxReplicas"),
      get_int(o, "status.currentReplicas"),
      age(o, now)};
}

}  // namespace

SpecList workload_printers() {
  return {
      {"Deployment.apps", "Name/name, Ready, Up-to-date, Available, Age, Containers[w], Images[w], Selector[w]",
       deployment_cells},
      {"ReplicaSet.apps",
       "Name/name, Desired:integer, Current:integer, Ready:integer, Age, Containers[w], Images[w], Selector[w]",
       [](const Json& o, WallTime now) {
         return replica_cells(o, now, format_label_selector(find_path(o, "spec.selector")));
       }},
      {"ReplicationController",
       "Name/name, Desired:integer, Current:integer, Ready:integer, Age, Containers[w], Images[w], Selector[w]",
       [](const Json& o, WallTime now) {
         return replica_cells(o, now, format_labels(get_object(o, "spec.selector")));
       }},
      {"StatefulSet.apps", "Name/name, Ready, Age, Containers[w], Images[w]",
       [](const Json& o, WallTime now) {
         return JsonArray{name_of(o), ready_of(o), age(o, now), container_names(o, kContainers),
                          container_images(o, kContainers)};
       }},
      {"DaemonSet.apps",
       "Name/name, Desired:integer, Current:integer, Ready:integer, Up-to-date:integer, Available:integer, Node "
       "Selector, Age, Containers[w], Images[w], Selector[w]",
       daemonset_cells},
      {"ControllerRevision.apps", "Name/name, Controller, Revision, Age", revision_cells},
      {"Job.batch", "Name/name, Status, Completions, Duration, Age, Containers[w], Images[w], Selector[w]", job_cells},
      {"CronJob.batch",
       "Name/name, Schedule, Timezone, Suspend:boolean, Active:integer, Last Schedule, Age, Containers[w], Images[w], "
       "Selector[w]",
       cronjob_cells},
      {"HorizontalPodAutoscaler.autoscaling", "Name/name, Reference, Targets, MinPods, MaxPods, Replicas, Age",
       hpa_cells},
  };
}

}  // namespace ghostfleet::kube::table
