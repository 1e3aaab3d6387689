// The status of a Deployment: counts, and the conditions Available, Progressing and ReplicaFailure.
#include <fmt/format.h>

#include <algorithm>

#include "controlplane/controllers/deployment.h"

namespace ghostfleet::controlplane::controllers {

using kube::get_int;
using kube::get_string;
using kube::Json;

namespace {
constexpr const char* kName = "deployment-controller";

struct Totals {
  int64_t replicas = 0, updated = 0, ready = 0, available = 0, wanted = 0, terminating = 0;
};

void set_count(Json& object, std::string_view path, int64_t value) {
  if (value == 0) {
    kube::erase_path(object, path);
  } else {
    kube::set_path(object, path, value);
  }
}

Totals totals_of(const std::vector<Json>& sets, int newest) {
  Totals t;
  for (size_t i = 0; i < sets.size(); ++i) {
    const Json& set = sets[i];
    t.replicas += get_int(set, "status.replicas");
    t.ready += get_int(set, "status.readyReplicas");
    t.available += get_int(set, "status.availableReplicas");
    t.terminating += get_int(set, "status.terminatingReplicas");
    t.wanted += get_int(set, "spec.replicas", 1);
    if (static_cast<int>(i) == newest) t.updated = get_int(set, "status.replicas");
  }
  return t;
}

bool made_progress(const Json& before, const Totals& now) {
  const int64_t old_before = get_int(before, "status.replicas") - get_int(before, "status.updatedReplicas");
  return now.updated > get_int(before, "status.updatedReplicas") || now.replicas - now.updated < old_before ||
         now.ready > get_int(before, "status.readyReplicas") ||
         now.available > get_int(before, "status.availableReplicas");
}

std::string subject_of(const std::vector<Json>& sets, int newest, const Json& deployment) {
  if (newest < 0) return fmt::format("Deployment \"{}\"", get_string(deployment, "metadata.name"));
  return fmt::format("ReplicaSet \"{}\"", get_string(sets[static_cast<size_t>(newest)], "metadata.name"));
}

}  // namespace

bool DeploymentController::complete(const Work& work) const {
  const Totals t = totals_of(work.sets, work.newest);
  const int64_t replicas = get_int(work.deployment, "spec.replicas", 1);
  return t.updated == replicas && t.replicas == replicas && t.available == replicas;
}

Duration DeploymentController::deadline_left(const Json& deployment) const {
  const int64_t seconds = get_int(deployment, "spec.progressDeadlineSeconds", 600);
  WallTime since;
  const auto updated = condition_text(deployment, "Progressing", "lastUpdateTime");
  if (seconds >= 2147483647 || updated.empty() || !parse_time(updated, &since)) return Duration(-1);
  const Duration left = since + std::chrono::seconds(seconds) - context_.now();
  return std::max(left, Duration(0));
}

void DeploymentController::fill_progress(Json* d, const Work& work, bool complete_now) {
  const WallTime now = context_.now();
  const std::string subject = subject_of(work.sets, work.newest, *d);
  const std::string_view reason = condition_text(*d, "Progressing", "reason");
  if (kube::get_bool(*d, "spec.paused")) {
    if (reason != "DeploymentPaused") {
      set_condition(*d, "Progressing", "Unknown", "DeploymentPaused", "Deployment is paused", now, true);
    }
    return;
  }
  if (reason == "DeploymentPaused") {
    set_condition(*d, "Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed", now, true);
  }
  if (complete_now) {
    set_condition(*d, "Progressing", "True", "NewReplicaSetAvailable", subject + " has successfully progressed.", now,
                  true);
    return;
  }
  if (!work.progress_reason.empty() && reason.empty()) {
    set_condition(*d, "Progressing", "True", work.progress_reason, work.progress_message, now, true);
    return;
  }
  if (work.progressed || made_progress(*d, totals_of(work.sets, work.newest)) ||
      get_int(*d, "status.observedGeneration") < get_int(*d, "metadata.generation")) {
    const std::string message = subject + " is progressing.";
    if (!set_condition(*d, "Progressing", "True", "ReplicaSetUpdated", message, now, true)) {
      // Only the time moves: the deadline counts from the last progress.
      auto* c = const_cast<kube::JsonObject*>(find_condition(*d, "Progressing"));
      (*c)["lastUpdateTime"] = format_time(now);
    }
    return;
  }
  if (reason == "NewReplicaSetAvailable" || reason == "ProgressDeadlineExceeded") return;
  if (deadline_left(*d).count() == 0) {
    set_condition(*d, "Progressing", "False", "ProgressDeadlineExceeded", subject + " has timed out progressing.", now,
                  true);
  }
}

SyncResult DeploymentController::write_status(Work* work) {
  const Totals t = totals_of(work->sets, work->newest);
  const int64_t generation = get_int(work->deployment, "metadata.generation");
  const bool complete_now = complete(*work);
  const auto fill = [&](Json& d) {
    kube::ensure_object(d, "status");
    const std::string before = kube::to_json(*kube::find_path(d, "status"));
    fill_progress(&d, *work, complete_now);
    kube::set_path(d, "status.observedGeneration", generation);
    set_count(d, "status.replicas", t.replicas);
    set_count(d, "status.updatedReplicas", t.updated);
    set_count(d, "status.readyReplicas", t.ready);
    set_count(d, "status.availableReplicas", t.available);
    set_count(d, "status.unavailableReplicas", std::max<int64_t>(0, t.wanted - t.available));
    if (t.terminating > 0 || kube::find_path(d, "status.terminatingReplicas") != nullptr) {
      kube::set_path(d, "status.terminatingReplicas", t.terminating);
    }
    const int64_t replicas = get_int(d, "spec.replicas", 1);
    const bool recreate = get_string(d, "spec.strategy.type") == "Recreate";
    const int64_t may_lack = recreate || replicas == 0 ? 0 : rolling_limits(d).max_unavailable;
    if (t.available >= replicas - may_lack) {
      set_condition(d, "Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.",
                    context_.now(), true);
    } else {
      set_condition(d, "Available", "False", "MinimumReplicasUnavailable",
                    "Deployment does not have minimum availability.", context_.now(), true);
    }
    const Json* newest = work->newest < 0 ? nullptr : &work->sets[static_cast<size_t>(work->newest)];
    if (newest != nullptr && condition_text(*newest, "ReplicaFailure", "status") == "True") {
      set_condition(d, "ReplicaFailure", "True", condition_text(*newest, "ReplicaFailure", "reason"),
                    condition_text(*newest, "ReplicaFailure", "message"), context_.now(), true);
    } else if (!work->failure.empty()) {
      set_condition(d, "ReplicaFailure", "True", work->failure_reason, work->failure, context_.now(), true);
    } else {
      remove_condition(d, "ReplicaFailure");
    }
    return kube::to_json(*kube::find_path(d, "status")) != before;
  };
  Json probe = work->deployment;
  if (fill(probe)) {
    const auto done = context_.modify(
        kName, resource_, get_string(work->deployment, "metadata.namespace"),
        get_string(work->deployment, "metadata.name"), "status", [&](Json& live) -> kube::ApiResult<bool> {
          if (get_string(live, "metadata.uid") != get_string(work->deployment, "metadata.uid")) return false;
          return fill(live);
        });
    if (!done.ok() && !is_moot(done.error())) return SyncResult::retry();
  }
  if (complete_now || condition_text(probe, "Progressing", "reason") == "ProgressDeadlineExceeded") {
    return SyncResult::done();
  }
  const Duration left = deadline_left(probe);
  return left.count() < 0 ? SyncResult::done() : SyncResult::again(left + std::chrono::seconds(1));
}

}  // namespace ghostfleet::controlplane::controllers
