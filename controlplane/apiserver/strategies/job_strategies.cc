// Jobs and cron jobs.
#include <fmt/format.h>

#include "controlplane/apiserver/strategies/cron_schedule.h"
#include "controlplane/apiserver/strategies/go_diff.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/pod_defaults.h"
#include "controlplane/apiserver/strategies/pod_warnings.h"
#include "controlplane/apiserver/strategies/workload_common.h"
#include "kube/api/names.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr std::string_view kControllerUid = "batch.kubernetes.io/controller-uid";
constexpr int64_t kMaxInt32 = 2147483647;

void default_job_spec(JsonObject& spec) {
  bool has_completions = spec.if_contains("completions") != nullptr;
  bool has_parallelism = spec.if_contains("parallelism") != nullptr;
  if (!has_completions && !has_parallelism) spec["completions"] = 1;
  default_to(spec, "parallelism", 1);
  default_to(spec, "backoffLimit", spec.if_contains("backoffLimitPerIndex") != nullptr ? kMaxInt32 : 6);
  default_to(spec, "completionMode", "NonIndexed");
  default_to(spec, "suspend", false);
  default_to(spec, "podReplacementPolicy",
             spec.if_contains("podFailurePolicy") != nullptr ? "Failed" : "TerminatingOrFailed");
  default_to(spec, "manualSelector", false);
  default_template(spec["template"]);
}

void copy_template_labels(Json& job) {
  const Json* metadata = member(template_of(spec_of(job)), "metadata");
  const JsonObject* labels = metadata == nullptr ? nullptr : object_of(*metadata, "labels");
  if (labels == nullptr || labels->empty()) return;
  const JsonObject* own = object_of(metadata_of(job), "labels");
  if (own != nullptr && !own->empty()) return;
  JsonObject copy = *labels;
  metadata_of(job).get_object()["labels"] = std::move(copy);
}

void check_mode(const Json& spec, const Path& path, Findings& out) {
  std::string_view mode = text_of(spec, "completionMode");
  if (mode == "Indexed") {
    if (member(spec, "completions") == nullptr) {
      out.required(path.child("completions"), "when completion mode is Indexed");
    }
    if (int64_t n = int_of(spec, "parallelism"); n > 100000) {
      out.invalid_number(path.child("parallelism"), n,
                         "must be less than or equal to 100000 when completion mode is Indexed");
    }
    return;
  }
  if (!mode.empty() && mode != "NonIndexed") {
    out.not_supported(path.child("completionMode"), mode, {"NonIndexed", "Indexed"});
  }
  for (std::string_view key : {"backoffLimitPerIndex", "maxFailedIndexes"}) {
    if (const Json* value = member(spec, key)) {
      out.invalid_number(path.child(key), as_int(*value), "requires indexed completion mode");
    }
  }
  if (member(spec, "successPolicy") != nullptr) {
    out.invalid(path.child("successPolicy"), json_text(*member(spec, "successPolicy")),
                "requires indexed completion mode");
  }
}

void check_replacement(const Json& spec, const Path& path, Findings& out) {
  std::string_view policy = text_of(spec, "podReplacementPolicy");
  if (policy.empty()) return;
  if (member(spec, "podFailurePolicy") != nullptr) {
    if (policy != "Failed") out.not_supported(path.child("podReplacementPolicy"), policy, {"Failed"});
  } else if (!one_of(policy, {"Failed", "TerminatingOrFailed"})) {
    out.not_supported(path.child("podReplacementPolicy"), policy, {"Failed", "TerminatingOrFailed"});
  }
}

void check_restart(const Json& spec, const Path& path, Findings& out) {
  std::string_view restart = text_of(spec_of(template_of(spec)), "restartPolicy");
  Path at = path.child("template.spec.restartPolicy");
  if (restart.empty() || restart == "Always") {
    out.required(at, "valid values: \"OnFailure\", \"Never\"");
  } else if (!one_of(restart, {"OnFailure", "Never"})) {
    out.not_supported(at, restart, {"OnFailure", "Never"});
  } else if (member(spec, "podFailurePolicy") != nullptr && restart != "Never") {
    out.invalid_text(at, restart, "only \"Never\" is supported when podFailurePolicy is specified");
  }
}

// What the spec of a job and of a job template have in common.
void check_job_spec(const Json& spec, const Path& path, StrategyContext& ctx, Findings& out) {
  for (std::string_view key : {"parallelism", "completions", "activeDeadlineSeconds", "backoffLimit",
                               "ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes"}) {
    check_not_negative(spec, key, path, out);
  }
  check_mode(spec, path, out);
  check_replacement(spec, path, out);
  check_template(template_of(spec), path.child("template"), template_rules(ctx), out);
  check_restart(spec, path, out);
}

// ---- Job ----------------------------------------------------------------------------------------------------------

class JobStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  std::string_view default_propagation() const override { return "Orphan"; }
  std::string_view delete_warning() const override {
    return "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
           "or set propagationPolicy=Orphan to suppress this warning";
  }

  void apply_defaults(Json& object, StrategyContext&) const override {
    default_job_spec(make_spec(object));
    copy_template_labels(object);
  }

  void prepare_for_create(Json& object, StrategyContext& ctx) const override {
    KindStrategy::prepare_for_create(object, ctx);
    if (bool_of(spec_of(object), "manualSelector")) return;
    std::string uid(uid_of(object));
    std::string name(name_of(object));
    JsonObject& spec = make_spec(object);
    JsonObject& labels = object_in(object_in(object_in(spec, "template"), "metadata"), "labels");
    for (std::string_view key : {kControllerUid, std::string_view("controller-uid")}) default_text(labels, key, uid);
    for (std::string_view key : {"batch.kubernetes.io/job-name", "job-name"}) default_text(labels, key, name);
    JsonObject& match = object_in(object_in(spec, "selector"), "matchLabels");
    if (match.if_contains(kControllerUid) == nullptr) match[kControllerUid] = uid;
    copy_template_labels(object);
  }

 protected:
  void check(const Json& object, StrategyContext& ctx, Findings& out) const override {
    check_generated(object, out);
    check_whole_spec(object, ctx, out);
    const Json& spec = spec_of(object);
    int64_t completions = int_of(spec, "completions");
    if (text_of(spec, "completionMode") == "Indexed" && completions > 0) {
      std::string host = fmt::format("{}-{}", name_of(object), completions - 1);
      if (!kube::check_dns1123_label(host).empty()) {
        out.invalid_text(Path("metadata.name"), name_of(object),
                         fmt::format("will not able to create pod with invalid DNS label: {}", host));
      }
    }
    if (out.empty()) warn_about_pod_spec(spec_of(template_of(spec)), "spec.template.spec", ctx.request);
  }

  // A real server checks the new job as a new one and then once more as an update.
  void check_update(const Json& object, const Json& old, StrategyContext& ctx, Findings& out) const override {
    check(object, ctx, out);
    if (!out.empty()) check_whole_spec(object, ctx, out);
    const Json& spec = spec_of(object);
    const Json& before = spec_of(old);
    Path path("spec");
    if (text_of(spec, "completionMode") != "Indexed") {
      check_immutable(spec, before, "completions", path, out);
    } else if (!equal_members(spec, before, "completions") && member(spec, "completions") != nullptr &&
               int_of(spec, "completions") != int_of(spec, "parallelism")) {
      out.invalid_number(path.child("completions"), int_of(spec, "completions"),
                         "can only be modified in tandem with spec.parallelism");
    }
    check_immutable(spec, before, "selector", path, out);
    check_template_update(spec, before, out);
    for (std::string_view key :
         {"completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"}) {
      check_immutable(spec, before, key, path, out);
    }
  }

  void check_status(const Json& object, const Json&, StrategyContext&, Findings& out) const override {
    Path path("status");
    for (std::string_view key : {"active", "succeeded", "failed", "ready", "terminating"}) {
      check_not_negative(status_of(object), key, path, out);
    }
  }

 private:
  static void check_whole_spec(const Json& object, StrategyContext& ctx, Findings& out) {
    const Json& spec = spec_of(object);
    Path path("spec");
    check_job_spec(spec, path, ctx, out);
    const Json* selector = member(spec, "selector");
    if (selector == nullptr) out.required(path.child("selector"));
    check_label_selector(selector, path.child("selector"), out);
    check_selector_matches(spec, path, out);
  }

  static void check_generated(const Json& object, Findings& out) {
    const Json& spec = spec_of(object);
    if (bool_of(spec, "manualSelector") || member(spec, "selector") == nullptr) return;
    const Json* metadata = member(template_of(spec), "metadata");
    const Json* labels = metadata == nullptr ? nullptr : member(*metadata, "labels");
    Path path("spec");
    const std::pair<std::string_view, std::string_view> expected[] = {{kControllerUid, uid_of(object)},
                                                                      {"controller-uid", uid_of(object)},
                                                                      {"batch.kubernetes.io/job-name", name_of(object)},
                                                                      {"job-name", name_of(object)}};
    for (const auto& [key, value] : expected) {
      std::string_view found = labels == nullptr ? "" : text_of(*labels, key);
      if (found == value) continue;
      Path at = path.child("template.metadata.labels");
      if (found.empty()) {
        out.required(at, fmt::format("must be '{}'", value));
      } else {
        out.invalid(at, json_text(*labels), fmt::format("must be '{}'", value));
      }
    }
    const Json* match = member(*member(spec, "selector"), "matchLabels");
    std::string_view chosen = match == nullptr ? "" : text_of(*match, kControllerUid);
    if (chosen != uid_of(object)) {
      out.invalid(path.child("selector"), json_text(*member(spec, "selector")), "`selector` not auto-generated");
    }
  }

  static void check_template_update(const Json& spec, const Json& old, Findings& out) {
    if (equal_members(spec, old, "template")) return;
    if (bool_of(old, "suspend")) {
      // A job that waits may still change where its pods run and what they ask for.
      Json comparable = template_of(spec);
      JsonObject& pod = object_in(comparable.get_object(), "spec");
      for (std::string_view key : {"affinity", "nodeSelector", "tolerations", "schedulingGates"}) {
        copy_member(pod, spec_of(template_of(old)), key);
      }
      copy_member(comparable.get_object(), template_of(old), "metadata");
      for (std::string_view key : {"containers", "initContainers"}) restore_resources(pod, template_of(old), key);
      if (kube::json_equal(comparable, template_of(old))) return;
    }
    out.invalid(Path("spec.template"), go_text("core/v1.PodTemplateSpec", template_of(spec)), kImmutable);
  }

  static void restore_resources(JsonObject& pod, const Json& old_template, std::string_view key) {
    const JsonArray* before = array_of(spec_of(old_template), key);
    Json* now = pod.if_contains(key);
    if (before == nullptr || now == nullptr || !now->is_array()) return;
    JsonArray& list = now->get_array();
    for (size_t i = 0; i < list.size() && i < before->size(); ++i) {
      copy_member(list[i].get_object(), (*before)[i], "resources");
    }
  }
};

// ---- CronJob ------------------------------------------------------------------------------------------------------

class CronJobStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    JsonObject& spec = make_spec(object);
    default_text(spec, "concurrencyPolicy", "Allow");
    default_to(spec, "suspend", false);
    default_to(spec, "successfulJobsHistoryLimit", 3);
    default_to(spec, "failedJobsHistoryLimit", 1);
    // Only the pod template of the job is defaulted here; the job itself when it is made.
    default_template(object_in(object_in(spec, "jobTemplate"), "spec")["template"]);
  }

 protected:
  void check(const Json& object, StrategyContext& ctx, Findings& out) const override {
    check_spec(object, nullptr, ctx, out);
    if (name_of(object).size() > 52) {
      out.invalid_text(Path("metadata.name"), name_of(object), "must be no more than 52 characters");
    }
  }

  void check_update(const Json& object, const Json& old, StrategyContext& ctx, Findings& out) const override {
    check_spec(object, &old, ctx, out);
  }

 private:
  static void check_schedule(const Json& spec, const Json* old, const Path& path, Findings& out) {
    std::string_view schedule = text_of(spec, "schedule");
    Path at = path.child("schedule");
    if (schedule.empty()) {
      out.required(at);
      return;
    }
    if (std::string error = check_cron_schedule(schedule); !error.empty()) out.invalid_text(at, schedule, error);
    bool zone_before = old != nullptr && text_of(spec_of(*old), "schedule").find("TZ") != std::string_view::npos;
    if (schedule.find("TZ") == std::string_view::npos) return;
    if (!zone_before) {
      out.invalid_text(at, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
    } else if (member(spec, "timeZone") != nullptr) {
      out.invalid_text(at, schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule");
    }
  }

  static void check_zone(const Json& spec, const Path& path, Findings& out) {
    const Json* zone = member(spec, "timeZone");
    if (zone == nullptr) return;
    std::string_view name = as_text(*zone);
    if (name.empty()) {
      out.invalid_text(path.child("timeZone"), name, "timeZone must be nil or non-empty string");
    } else if (!is_known_time_zone(name)) {
      out.invalid_text(path.child("timeZone"), name, fmt::format("unknown time zone {}", name));
    }
  }

  static void check_spec(const Json& object, const Json* old, StrategyContext& ctx, Findings& out) {
    const Json& spec = spec_of(object);
    Path path("spec");
    check_schedule(spec, old, path, out);
    check_not_negative(spec, "startingDeadlineSeconds", path, out);
    if (old == nullptr || !equal_members(spec, spec_of(*old), "timeZone")) check_zone(spec, path, out);
    std::string_view policy = text_of(spec, "concurrencyPolicy");
    if (!one_of(policy, {"Allow", "Forbid", "Replace"})) {
      out.not_supported(path.child("concurrencyPolicy"), policy, {"Allow", "Forbid", "Replace"});
    }
    const Json* job = member(spec, "jobTemplate");
    static const Json kEmpty = JsonObject();
    const Json& job_spec = spec_of(job == nullptr ? kEmpty : *job);
    Path job_path = path.child("jobTemplate.spec");
    check_job_spec(job_spec, job_path, ctx, out);
    if (const Json* selector = member(job_spec, "selector")) {
      out.invalid(job_path.child("selector"), json_text(*selector), "`selector` will be auto-generated");
    }
    check_not_negative(spec, "successfulJobsHistoryLimit", path, out);
    check_not_negative(spec, "failedJobsHistoryLimit", path, out);
    if (out.empty()) {
      warn_about_pod_spec(spec_of(template_of(job_spec)), "spec.jobTemplate.spec.template.spec", ctx.request);
    }
  }
};

}  // namespace

StrategyPointer make_job_strategy(const KindTraits& traits) { return std::make_unique<JobStrategy>(traits); }
StrategyPointer make_cron_job_strategy(const KindTraits& traits) { return std::make_unique<CronJobStrategy>(traits); }

}  // namespace ghostfleet::controlplane
