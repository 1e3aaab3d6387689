#include "controlplane/controllers/job.h"

#include <fmt/format.h>

#include <algorithm>

namespace ghostfleet::controlplane::controllers {

using kube::get_array;
using kube::get_int;
using kube::get_string;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {
constexpr const char* kName = "job-controller";
constexpr const char* kFinalizer = "batch.kubernetes.io/job-tracking";
constexpr const char* kIndex = "batch.kubernetes.io/job-completion-index";
constexpr Duration kCoalesce = std::chrono::milliseconds(20);
constexpr size_t kMaxUncounted = 500;

int64_t index_of(const PodInfo& pod) {
  const std::string* text = label_of(*pod.object, kIndex);
  if (text == nullptr) return -1;
  return std::strtoll(text->c_str(), nullptr, 10);
}

bool holds_text(const JsonArray* list, std::string_view text) {
  return list != nullptr && std::any_of(list->begin(), list->end(), [&](const Json& v) {
           return v.is_string() && std::string_view(v.get_string()) == text;
         });
}

}  // namespace

bool job_finished(const Json& job) {
  return condition_text(job, "Complete", "status") == "True" || condition_text(job, "Failed", "status") == "True";
}

JobController::JobController(Context& context)
    : context_(context),
      resource_(*context.find("batch", "v1", "jobs")),
      jobs_(context.watch(resource_)),
      queue_(context.loop(), [this](const std::string& key) { return sync(key); }),
      pods_(context, kName, resource_, [this](std::string_view key) { queue_.add_after(key, kCoalesce); }) {}

void JobController::start() {
  queue_.hold(true);
  jobs_.subscribe([this](const ObjectRef& old, const ObjectRef& now) { queue_.add((now ? now : old)->key); });
  // A pod whose Job is gone must not be held by our finalizer.
  context_.pods().subscribe([this](const PodInfo*, const PodInfo* now) {
    if (now != nullptr && now->tracked && (now->owner_kind != "Job" || now->deleting)) {
      queue_.add_after(key_of(now->ns(), now->owner_kind == "Job" ? now->owner_name : "?" + std::string(now->name())),
                       kCoalesce);
    }
  });
  context_.when_synced([this] { queue_.hold(false); });
}

void JobController::load(Work* work) {
  const Json& job = work->job;
  work->indexed = get_string(job, "spec.completionMode") == "Indexed";
  work->parallelism = get_int(job, "spec.parallelism", 1);
  work->completions = get_int(job, "spec.completions", -1);
  work->backoff_limit = get_int(job, "spec.backoffLimit", 6);
  work->succeeded = get_int(job, "status.succeeded");
  work->failed = get_int(job, "status.failed");
  work->done_indexes =
      parse_indexes(get_string(job, "status.completedIndexes"), std::max<int64_t>(0, work->completions));
}

// Reads the pods anew: counting may have let some of them go.
void JobController::group(Work* work) {
  const auto& owned = context_.pods().owned_by(get_string(work->job, "metadata.uid"));
  work->pods.assign(owned.begin(), owned.end());
  work->active.clear();
  work->ready = work->terminating = 0;
  for (const PodInfo* pod : work->pods) {
    if (pod->finished()) continue;
    if (pod->deleting) {
      ++work->terminating;
      continue;
    }
    work->active.push_back(pod);
    if (pod->ready) ++work->ready;
  }
}

// Ignore, FailJob, Count or "" of spec.podFailurePolicy for a failed pod.
std::string JobController::policy_action(const Work& work, const PodInfo& pod, std::string* message) const {
  const JsonArray* rules = get_array(work.job, "spec.podFailurePolicy.rules");
  if (rules == nullptr) return "";
  const Json object = parse_object(pod.object);
  for (size_t i = 0; i < rules->size(); ++i) {
    const Json& rule = (*rules)[i];
    const std::string action(get_string(rule, "action"));
    if (const JsonArray* patterns = get_array(rule, "onPodConditions")) {
      for (const Json& p : *patterns) {
        const std::string_view wanted = get_string(p, "status");
        if (condition_text(object, get_string(p, "type"), "status") == (wanted.empty() ? "True" : wanted)) {
          *message = fmt::format("Pod {} has condition {} matching {} rule at index {}", pod.object->key,
                                 get_string(p, "type"), action, i);
          return action;
        }
      }
    }
    const Json* codes = kube::find_key(rule, "onExitCodes");
    const JsonArray* values = codes == nullptr ? nullptr : get_array(*codes, "values");
    if (values == nullptr) continue;
    const std::string_view only = get_string(*codes, "containerName");
    const bool in = get_string(*codes, "operator") != "NotIn";
    for (const char* list_name : {"status.initContainerStatuses", "status.containerStatuses"}) {
      const JsonArray* statuses = get_array(object, list_name);
      if (statuses == nullptr) continue;
      for (const Json& s : *statuses) {
        const int64_t code = get_int(s, "state.terminated.exitCode");
        if (code == 0 || (!only.empty() && only != get_string(s, "name"))) continue;
        const bool listed = std::any_of(values->begin(), values->end(),
                                        [&](const Json& v) { return v.is_int64() && v.get_int64() == code; });
        if (listed == in) {
          *message = fmt::format("Container {} for pod {} failed with exit code {} matching {} rule at index {}",
                                 get_string(s, "name"), pod.object->key, code, action, i);
          return action;
        }
      }
    }
  }
  return "";
}

bool JobController::release_pods(Work* work, const std::vector<const PodInfo*>& pods) {
  bool all = true;
  std::vector<std::pair<std::string, std::string>> names;
  for (const PodInfo* pod : pods) names.emplace_back(pod->ns(), pod->name());
  for (const auto& [ns, name] : names) {
    const auto done =
        context_.modify(kName, context_.pod_resource(), ns, name, "",
                        [](Json& live) -> kube::ApiResult<bool> { return remove_finalizer(live, kFinalizer); });
    all &= done.ok() || is_moot(done.error());
  }
  (void)work;
  return all;
}

// Counts pods that ended: first their uids are written down, then the finalizers go, then the counters include them.
bool JobController::count_finished(Work* work) {
  std::vector<const PodInfo*> finished;
  const JsonArray* noted_ok = get_array(work->job, "status.uncountedTerminatedPods.succeeded");
  const JsonArray* noted_bad = get_array(work->job, "status.uncountedTerminatedPods.failed");
  JsonArray succeeded, failed;
  for (const PodInfo* pod : work->pods) {
    const bool gone_unrun = pod->deleting && pod->node.empty();
    const bool over = pod->finished() || gone_unrun || (pod->deleting && job_finished(work->job));
    if (!pod->tracked || !over || finished.size() >= kMaxUncounted) continue;
    finished.push_back(pod);
    if (holds_text(noted_ok, pod->uid) || holds_text(noted_bad, pod->uid)) continue;
    if (pod->phase == PodPhase::kSucceeded) {
      const int64_t index = index_of(*pod);
      if (work->indexed && (index < 0 || index >= work->completions || work->done_indexes.contains(index))) continue;
      if (work->indexed) work->done_indexes.insert(index);
      succeeded.push_back(Json(pod->uid));
      continue;
    }
    std::string message;
    const std::string action = policy_action(*work, *pod, &message);
    if (action == "Ignore") continue;
    if (action == "FailJob") {
      work->fail_reason = "PodFailurePolicy";
      work->fail_message = message;
    }
    failed.push_back(Json(pod->uid));
    work->last_failure_ns =
        std::max(work->last_failure_ns, pod->finished_ns != 0 ? pod->finished_ns : context_.now().ns);
  }
  const int64_t noted = static_cast<int64_t>((noted_ok == nullptr ? 0 : noted_ok->size()));
  const int64_t noted_failures = static_cast<int64_t>((noted_bad == nullptr ? 0 : noted_bad->size()));
  const int64_t more_ok = static_cast<int64_t>(succeeded.size()), more_bad = static_cast<int64_t>(failed.size());
  if (!succeeded.empty() || !failed.empty()) {
    if (!write_status(work, [&](Json& live) {
          for (auto& [path, list] :
               {std::pair<const char*, JsonArray*>{"status.uncountedTerminatedPods.succeeded", &succeeded},
                {"status.uncountedTerminatedPods.failed", &failed}}) {
            if (list->empty()) continue;
            JsonArray& to = kube::ensure_array(live, path);
            for (const Json& uid : *list) {
              if (!holds_text(&to, uid.get_string())) to.push_back(uid);
            }
          }
          if (work->indexed) kube::set_path(live, "status.completedIndexes", Json(format_indexes(work->done_indexes)));
        })) {
      return false;
    }
  }
  if (!release_pods(work, finished)) return false;
  work->succeeded += noted + more_ok;
  work->failed += noted_failures + more_bad;
  if (work->indexed) work->succeeded = static_cast<int64_t>(work->done_indexes.size());
  if (noted + noted_failures + more_ok + more_bad == 0) return true;
  return write_status(work, [&](Json& live) {
    kube::set_path(live, "status.uncountedTerminatedPods", JsonObject{});
    if (work->succeeded > 0) kube::set_path(live, "status.succeeded", work->succeeded);
    if (work->failed > 0) kube::set_path(live, "status.failed", work->failed);
  });
}

bool JobController::write_status(Work* work, const std::function<void(Json&)>& more) {
  const auto done =
      context_.modify(kName, resource_, get_string(work->job, "metadata.namespace"),
                      get_string(work->job, "metadata.name"), "status", [&](Json& live) -> kube::ApiResult<bool> {
                        if (get_string(live, "metadata.uid") != get_string(work->job, "metadata.uid")) return false;
                        kube::ensure_object(live, "status");
                        const std::string before = kube::to_json(*kube::find_key(live, "status"));
                        more(live);
                        return kube::to_json(*kube::find_key(live, "status")) != before;
                      });
  if (done.ok()) work->job = parse_object(*done);
  return done.ok() || is_moot(done.error());
}

void JobController::judge(Work* work) {
  if (!work->fail_reason.empty()) return;
  if (work->failed > work->backoff_limit) {
    work->fail_reason = "BackoffLimitExceeded";
    work->fail_message = "Job has reached the specified backoff limit";
    return;
  }
  const int64_t deadline = get_int(work->job, "spec.activeDeadlineSeconds", -1);
  const int64_t started = time_at(work->job, "status.startTime");
  if (deadline >= 0 && started > 0 && context_.now().ns >= started + deadline * 1000000000) {
    work->fail_reason = "DeadlineExceeded";
    work->fail_message = "Job was active longer than specified deadline";
  }
}

bool JobController::remove_active(Work* work, size_t keep) {
  std::sort(work->active.begin(), work->active.end(), [](const PodInfo* a, const PodInfo* b) {
    const int64_t ia = index_of(*a), ib = index_of(*b);
    if (ia != ib) return ia > ib;
    return goes_before(*a, *b, 0, 0, WallTime{});
  });
  std::vector<std::string> keys;
  for (size_t i = 0; i + keep < work->active.size(); ++i) keys.push_back(work->active[i]->object->key);
  bool all = true;
  for (const std::string& key : keys) {
    if (const PodInfo* pod = context_.pods().find(key)) all &= pods_.remove(work->job, *pod);
  }
  group(work);
  return all;
}

bool JobController::make_pods(Work* work, int64_t count) {
  const Json* pod_template = kube::find_path(work->job, "spec.template");
  const std::string name(get_string(work->job, "metadata.name"));
  Json base = pod_from_template(pod_template == nullptr ? Json() : *pod_template);
  kube::ensure_array(base, "metadata.finalizers").push_back(kFinalizer);
  std::vector<int64_t> indexes(static_cast<size_t>(count), -1);
  if (work->indexed) {
    std::set<int64_t> active;
    for (const PodInfo* pod : work->pods) {
      if (!pod->finished()) active.insert(index_of(*pod));
    }
    indexes = next_indexes(work->completions, work->done_indexes, {}, active, count);
  }
  int batch = 0;
  size_t made = 0;
  while (made < indexes.size()) {
    batch = next_batch(batch, static_cast<int>(indexes.size() - made));
    for (int i = 0; i < batch; ++i) {
      Json pod = base;
      const int64_t index = indexes[made];
      if (index >= 0) {
        const std::string text = std::to_string(index);
        set_annotation(pod, kIndex, text);
        set_label(pod, kIndex, text);
        kube::set_path(pod, "metadata.name",
                       Json(fmt::format("{}-{}-{}", name, index, random_suffix(context_.rng().next()))));
        kube::set_path(pod, "spec.hostname", Json(fmt::format("{}-{}", name, index)));
        for (const char* list : {"spec.containers", "spec.initContainers"}) {
          if (get_array(pod, list) == nullptr) continue;
          for (Json& c : kube::ensure_array(pod, list)) {
            kube::ensure_array(c, "env").push_back(JsonObject{
                {"name", "JOB_COMPLETION_INDEX"},
                {"valueFrom",
                 JsonObject{{"fieldRef", JsonObject{{"apiVersion", "v1"},
                                                    {"fieldPath", fmt::format("metadata.labels['{}']", kIndex)}}}}}});
          }
        }
      }
      if (!pods_.create(work->job, std::move(pod)).ok()) return false;
      ++made;
    }
  }
  return true;
}

bool JobController::end_job(Work* work, bool success) {
  if (!remove_active(work, 0)) return false;
  group(work);
  const WallTime now = context_.now();
  const bool waits = std::any_of(work->pods.begin(), work->pods.end(), [](const PodInfo* p) { return !p->finished(); });
  const char* kBefore = success ? "SuccessCriteriaMet" : "FailureTarget";
  const std::string reason = success ? "CompletionsReached" : work->fail_reason;
  const std::string message = success ? "Reached expected number of succeeded pods" : work->fail_message;
  const bool done = write_status(work, [&](Json& live) {
    set_condition(live, kBefore, "True", reason, message, now);
    if (waits && !success) return;  // Failed only when all pods have ended
    if (set_condition(live, success ? "Complete" : "Failed", "True", reason, message, now)) {
      if (success) kube::set_path(live, "status.completionTime", Json(format_time(now)));
    }
    kube::erase_path(live, "status.active");
    kube::set_path(live, "status.ready", int64_t{0});
    kube::set_path(live, "status.terminating", work->terminating);
    kube::set_path(live, "status.uncountedTerminatedPods", JsonObject{});
  });
  if (done && job_finished(work->job)) {
    context_.events().record(reference_to(work->job), success ? "Normal" : "Warning", success ? "Completed" : reason,
                             success ? "Job completed" : message, kName);
  }
  return done;
}

SyncResult JobController::manage(Work* work) {
  const auto active = static_cast<int64_t>(work->active.size());
  if (kube::get_bool(work->job, "spec.suspend"))
    return remove_active(work, 0) ? SyncResult::done() : SyncResult::retry();
  const int64_t wanted = wanted_active(work->parallelism, work->completions, work->succeeded, active);
  if (active > wanted) {
    return remove_active(work, static_cast<size_t>(wanted)) ? SyncResult::done() : SyncResult::retry();
  }
  // With podReplacementPolicy Failed a pod keeps its place until it has ended; its end brings the next sync.
  const bool only_failed = get_string(work->job, "spec.podReplacementPolicy") == "Failed";
  const int64_t room = wanted - active - (only_failed ? work->terminating : 0);
  if (room <= 0) return SyncResult::done();
  if (work->last_failure_ns == 0 && work->failed > 0) {
    for (const PodInfo* pod : work->pods) {
      if (pod->phase == PodPhase::kFailed) work->last_failure_ns = std::max(work->last_failure_ns, pod->finished_ns);
    }
  }
  if (work->last_failure_ns > 0) {
    const Duration left(work->last_failure_ns + failure_backoff(work->failed).count() - context_.now().ns);
    if (left.count() > 0) return SyncResult::again(left);
  }
  return make_pods(work, std::min<int64_t>(room, kBurstReplicas)) ? SyncResult::done() : SyncResult::retry();
}

SyncResult JobController::sync(const std::string& key) {
  const ObjectRef object = jobs_.get(key);
  if (!object) {  // let go of what pods it left behind
    const auto [ns, name] = split_key(key);
    std::vector<const PodInfo*> left;
    for (const PodInfo* pod : context_.pods().in_namespace(ns)) {
      const bool ours = pod->owner_kind == "Job" ? pod->owner_name == name : "?" + std::string(pod->name()) == name;
      if (pod->tracked && ours) left.push_back(pod);
    }
    return release_pods(nullptr, left) ? SyncResult::done() : SyncResult::retry();
  }
  Work work;
  work.job = parse_object(object);
  const bool over = job_finished(work.job);
  work.pods = pods_.claim(work.job, selector_of(kube::find_path(work.job, "spec.selector")));
  if (over || is_deleting(work.job)) {
    std::vector<const PodInfo*> tracked;
    for (const PodInfo* pod : work.pods) {
      if (pod->tracked && (pod->finished() || pod->deleting)) tracked.push_back(pod);
    }
    return release_pods(&work, tracked) ? SyncResult::done() : SyncResult::retry();
  }
  load(&work);
  if (get_string(work.job, "status.startTime").empty() && !kube::get_bool(work.job, "spec.suspend")) {
    if (!write_status(
            &work, [&](Json& live) { kube::set_path(live, "status.startTime", Json(format_time(context_.now()))); })) {
      return SyncResult::retry();
    }
  }
  const bool suspended = kube::get_bool(work.job, "spec.suspend");
  if (!count_finished(&work)) return SyncResult::retry();
  group(&work);
  judge(&work);
  if (!work.fail_reason.empty()) return end_job(&work, false) ? SyncResult::done() : SyncResult::retry();
  const bool complete =
      work.completions < 0 ? work.succeeded > 0 && work.active.empty() : work.succeeded >= work.completions;
  if (complete) return end_job(&work, true) ? SyncResult::done() : SyncResult::retry();
  const SyncResult result = manage(&work);
  int64_t active = 0;
  for (const PodInfo* pod : context_.pods().owned_by(get_string(work.job, "metadata.uid")))
    active += pod->active() ? 1 : 0;
  const bool written = write_status(&work, [&](Json& live) {
    if (active > 0) {
      kube::set_path(live, "status.active", active);
    } else {
      kube::erase_path(live, "status.active");
    }
    kube::set_path(live, "status.ready", work.ready);
    kube::set_path(live, "status.terminating", work.terminating);
    if (kube::find_path(live, "status.uncountedTerminatedPods") == nullptr) {
      kube::set_path(live, "status.uncountedTerminatedPods", JsonObject{});
    }
    if (suspended) {
      set_condition(live, "Suspended", "True", "JobSuspended", "Job suspended", context_.now());
      kube::erase_path(live, "status.startTime");
    } else if (find_condition(live, "Suspended") != nullptr) {
      set_condition(live, "Suspended", "False", "JobResumed", "Job resumed", context_.now());
    }
  });
  if (result.failed || !written) return SyncResult::retry();
  const int64_t deadline = get_int(work.job, "spec.activeDeadlineSeconds", -1);
  if (deadline >= 0 && result.after.count() < 0) {
    const int64_t left = time_at(work.job, "status.startTime") + deadline * 1000000000 - context_.now().ns;
    return SyncResult::again(std::max(Duration(left), Duration(std::chrono::milliseconds(100))));
  }
  return result;
}

TtlController::TtlController(Context& context)
    : context_(context),
      resource_(*context.find("batch", "v1", "jobs")),
      queue_(context.loop(), [this](const std::string& key) { return sync(key); }) {}

void TtlController::start() {
  context_.watch(resource_).subscribe([this](const ObjectRef&, const ObjectRef& now) {
    if (now && now->json.find("\"ttlSecondsAfterFinished\"") != std::string::npos) queue_.add(now->key);
  });
}

SyncResult TtlController::sync(const std::string& key) {
  const ObjectRef object = context_.watch(resource_).get(key);
  if (!object) return SyncResult::done();
  const Json job = parse_object(object);
  const int64_t ttl = get_int(job, "spec.ttlSecondsAfterFinished", -1);
  if (ttl < 0 || is_deleting(job) || !job_finished(job)) return SyncResult::done();
  WallTime finished;
  const bool failed = condition_text(job, "Failed", "status") == "True";
  if (!parse_time(condition_text(job, failed ? "Failed" : "Complete", "lastTransitionTime"), &finished))
    return SyncResult::done();
  const Duration left = finished + std::chrono::seconds(ttl) - context_.now();
  if (left.count() > 0) return SyncResult::again(left);
  DeleteOptions options;
  options.uid_precondition = get_string(job, "metadata.uid");
  options.propagation_policy = "Foreground";
  const auto removed =
      context_.remove("ttl-after-finished-controller", resource_, object->ns(), object->name(), options);
  return removed.ok() || removed.error().code == 404 ? SyncResult::done() : SyncResult::retry();
}

}  // namespace ghostfleet::controlplane::controllers
