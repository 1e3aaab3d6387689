#include "controlplane/controllers/cronjob.h"

#include <fmt/format.h>

#include <algorithm>

#include "controlplane/controllers/job.h"

namespace ghostfleet::controlplane::controllers {

using kube::get_int;
using kube::get_string;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr const char* kName = "cronjob-controller";
constexpr const char* kScheduledAt = "batch.kubernetes.io/cronjob-scheduled-timestamp";
constexpr int kManyMissed = 100;
constexpr int kMaxSteps = 100000;  // of a schedule whose last run is long ago

Json job_of(const Json& cron, WallTime due) {
  Json job = JsonObject{{"apiVersion", "batch/v1"}, {"kind", "Job"}};
  const std::string name = fmt::format("{}-{}", get_string(cron, "metadata.name"), due.ns / 1000000000 / 60);
  kube::set_path(job, "metadata.name", Json(name));
  for (const char* key : {"labels", "annotations"}) {
    const std::string path = std::string("metadata.") + key;
    if (const Json* given = kube::find_path(cron, "spec.jobTemplate." + path)) kube::set_path(job, path, *given);
  }
  set_annotation(job, kScheduledAt, format_time(due));
  kube::set_path(job, "metadata.ownerReferences", JsonArray{controller_ref_to(cron)});
  if (const Json* spec = kube::find_path(cron, "spec.jobTemplate.spec")) job.get_object()["spec"] = *spec;
  return job;
}

void set_active(Json* status, JsonArray active) {
  if (active.empty()) {
    status->get_object().erase("active");
  } else {
    status->get_object()["active"] = std::move(active);
  }
}

JsonArray active_of(const Json& status) {
  const JsonArray* list = kube::get_array(status, "active");
  return list == nullptr ? JsonArray() : *list;
}

}  // namespace

CronJobController::CronJobController(Context& context)
    : context_(context),
      resource_(*context.find("batch", "v1", "cronjobs")),
      job_resource_(*context.find("batch", "v1", "jobs")),
      crons_(context.watch(resource_)),
      jobs_(context.watch(job_resource_)),
      queue_(context.loop(), [this](const std::string& key) { return sync(key); }) {}

void CronJobController::start() {
  queue_.hold(true);
  crons_.subscribe([this](const ObjectRef& old, const ObjectRef& now) { queue_.add((now ? now : old)->key); });
  jobs_.subscribe([this](const ObjectRef& old, const ObjectRef& now) {
    const ObjectRef& object = now ? now : old;
    const auto owner = controller_of(parse_object(object));
    if (!owner || owner->kind != "CronJob") return;
    std::vector<std::string>& keys = by_owner_[owner->uid];
    keys.erase(std::remove(keys.begin(), keys.end(), object->key), keys.end());
    if (now) keys.push_back(object->key);
    if (keys.empty()) by_owner_.erase(owner->uid);
    queue_.add(key_of(object->ns(), owner->name));
  });
  context_.when_synced([this] { queue_.hold(false); });
}

void CronJobController::record(const Json& cron, const char* type, const char* reason, const std::string& message) {
  context_.events().record(reference_to(cron), type, reason, message, kName);
}

std::vector<CronJobController::Owned> CronJobController::jobs_of(const Json& cron) {
  std::vector<Owned> out;
  const auto keys = by_owner_.find(get_string(cron, "metadata.uid"));
  if (keys == by_owner_.end()) return out;
  for (const std::string& key : keys->second) {
    const ObjectRef object = jobs_.get(key);
    if (!object) continue;
    const Json job = parse_object(object);
    Owned owned{.name = std::string(object->name()), .uid = std::string(get_string(job, "metadata.uid"))};
    owned.finished = job_finished(job);
    owned.succeeded = condition_text(job, "Complete", "status") == "True";
    owned.started_ns = time_at(job, "metadata.creationTimestamp");
    owned.completed = get_string(job, "status.completionTime");
    out.push_back(std::move(owned));
  }
  return out;
}

SyncResult CronJobController::sync(const std::string& key) {
  const ObjectRef object = crons_.get(key);
  if (!object) return SyncResult::done();
  const Json cron = parse_object(object);
  if (is_deleting(cron)) return SyncResult::done();
  std::vector<Owned> jobs = jobs_of(cron);
  const Json* given = kube::find_path(cron, "status");
  Json status = given != nullptr && given->is_object() ? *given : Json(JsonObject());
  follow_jobs(jobs, &status, cron);
  prune(cron, jobs, true, get_int(cron, "spec.successfulJobsHistoryLimit", 3));
  prune(cron, jobs, false, get_int(cron, "spec.failedJobsHistoryLimit", 1));
  SyncResult result = SyncResult::done();
  if (!kube::get_bool(cron, "spec.suspend")) {
    const Result<CronSchedule> schedule = CronSchedule::parse(get_string(cron, "spec.schedule"));
    if (!schedule.ok()) {
      record(cron, "Warning", "UnparseableSchedule",
             fmt::format("unparseable schedule: {}", get_string(cron, "spec.schedule")));
      return SyncResult::done();
    }
    const std::string_view own = get_string(cron, "spec.timeZone");
    const Result<TimeZone> zone = TimeZone::load(own.empty() ? schedule->zone_name() : std::string(own));
    if (!zone.ok()) {
      record(cron, "Warning", "UnknownTimeZone", zone.error().message());
      return SyncResult::done();
    }
    const Times times = times_of(cron, *schedule, *zone);
    if (times.missed > kManyMissed) {
      record(cron, "Warning", "TooManyMissedTimes",
             fmt::format("too many missed start times: {}. Set or decrease .spec.startingDeadlineSeconds or check "
                         "clock skew",
                         times.missed));
    }
    if (times.due && !serve(cron, *times.due, jobs, &status)) result = SyncResult::retry();
    if (!result.failed && times.next) result = SyncResult::again(Duration(times.next->ns - context_.now().ns));
  }
  return write_status(cron, status) ? result : SyncResult::retry();
}

// Finished Jobs leave status.active.
void CronJobController::follow_jobs(const std::vector<Owned>& jobs, Json* status, const Json& cron) {
  JsonArray kept;
  for (const Json& reference : active_of(*status)) {
    const auto job =
        std::find_if(jobs.begin(), jobs.end(), [&](const Owned& o) { return o.uid == get_string(reference, "uid"); });
    if (job == jobs.end()) {
      record(cron, "Normal", "MissingJob", fmt::format("Active job went missing: {}", get_string(reference, "name")));
    } else if (job->finished) {
      record(cron, "Normal", "SawCompletedJob",
             fmt::format("Saw completed job: {}, condition: {}", job->name, job->succeeded ? "Complete" : "Failed"));
    } else {
      kept.push_back(reference);
    }
  }
  set_active(status, std::move(kept));
  for (const Owned& job : jobs) {
    if (!job.succeeded || job.completed.empty()) continue;
    if (job.completed > get_string(*status, "lastSuccessfulTime")) {
      status->get_object()["lastSuccessfulTime"] = job.completed;
    }
  }
}

void CronJobController::prune(const Json& cron, std::vector<Owned> jobs, bool succeeded, int64_t limit) {
  jobs.erase(std::remove_if(jobs.begin(), jobs.end(),
                            [&](const Owned& job) { return !job.finished || job.succeeded != succeeded; }),
             jobs.end());
  std::sort(jobs.begin(), jobs.end(), [](const Owned& a, const Owned& b) {
    return std::tie(a.started_ns, a.name) < std::tie(b.started_ns, b.name);
  });
  for (size_t i = 0; static_cast<int64_t>(i) + limit < static_cast<int64_t>(jobs.size()); ++i) {
    const auto removed = context_.remove(kName, job_resource_, get_string(cron, "metadata.namespace"), jobs[i].name,
                                         {.propagation_policy = "Background"});
    if (removed.ok()) record(cron, "Normal", "SuccessfulDelete", fmt::format("Deleted job {}", jobs[i].name));
  }
}

CronJobController::Times CronJobController::times_of(const Json& cron, const CronSchedule& schedule,
                                                     const TimeZone& zone) const {
  const WallTime now = context_.now();
  int64_t from = time_at(cron, "status.lastScheduleTime");
  if (from == 0) from = time_at(cron, "metadata.creationTimestamp");
  const int64_t deadline = get_int(cron, "spec.startingDeadlineSeconds", -1);
  if (deadline >= 0) from = std::max(from, now.ns - deadline * 1000000000);
  Times times;
  WallTime at{from};
  for (int i = 0; i < kMaxSteps; ++i) {
    const std::optional<WallTime> next = schedule.next(at, zone);
    if (!next) return times;
    if (*next > now) {
      times.next = next;
      return times;
    }
    times.due = at = *next;
    ++times.missed;
  }
  times.next = schedule.next(now, zone);
  return times;
}

bool CronJobController::serve(const Json& cron, WallTime due, const std::vector<Owned>& jobs, Json* status) {
  const std::string_view policy = get_string(cron, "spec.concurrencyPolicy");
  if (policy == "Forbid" && !active_of(*status).empty()) {
    record(cron, "Normal", "JobAlreadyActive",
           "Not starting job because prior execution is running and concurrency policy is Forbid");
    return true;
  }
  if (policy == "Replace" && !replace_active(cron, jobs, status)) return false;
  const std::string_view ns = get_string(cron, "metadata.namespace");
  Json job = job_of(cron, due);
  const std::string name(get_string(job, "metadata.name"));
  const auto made = context_.create(kName, job_resource_, ns, std::move(job));
  if (!made.ok() && made.error().reason != "AlreadyExists") {
    if (is_moot(made.error())) return true;
    record(cron, "Warning", "FailedCreate", fmt::format("Error creating job: {}", made.error().message));
    return false;
  }
  status->get_object()["lastScheduleTime"] = format_time(due);
  if (!made.ok()) return true;  // made before, and not noted then
  record(cron, "Normal", "SuccessfulCreate", fmt::format("Created job {}", name));
  const Json object = parse_object(*made);
  JsonArray active = active_of(*status);
  active.push_back(JsonObject{{"kind", "Job"},
                              {"namespace", ns},
                              {"name", name},
                              {"uid", get_string(object, "metadata.uid")},
                              {"apiVersion", "batch/v1"},
                              {"resourceVersion", get_string(object, "metadata.resourceVersion")}});
  set_active(status, std::move(active));
  return true;
}

bool CronJobController::replace_active(const Json& cron, const std::vector<Owned>& jobs, Json* status) {
  for (const Json& reference : active_of(*status)) {
    const std::string name(get_string(reference, "name"));
    const bool known = std::any_of(jobs.begin(), jobs.end(), [&](const Owned& o) { return o.name == name; });
    if (!known) continue;
    const auto removed = context_.remove(kName, job_resource_, get_string(cron, "metadata.namespace"), name,
                                         {.propagation_policy = "Background"});
    if (!removed.ok() && removed.error().code != 404) return false;
    record(cron, "Normal", "SuccessfulDelete", fmt::format("Deleted job {}", name));
  }
  set_active(status, {});
  return true;
}

bool CronJobController::write_status(const Json& cron, const Json& status) {
  const Json* before = kube::find_path(cron, "status");
  if (before != nullptr && kube::json_equal(*before, status)) return true;
  if (before == nullptr && status.as_object().empty()) return true;
  const auto done =
      context_.modify(kName, resource_, get_string(cron, "metadata.namespace"), get_string(cron, "metadata.name"),
                      "status", [&](Json& live) -> kube::ApiResult<bool> {
                        if (get_string(live, "metadata.uid") != get_string(cron, "metadata.uid")) {
                          return false;
                        }
                        live.get_object()["status"] = status;
                        return true;
                      });
  return done.ok() || is_moot(done.error());
}

}  // namespace ghostfleet::controlplane::controllers
