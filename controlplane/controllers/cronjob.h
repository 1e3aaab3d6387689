// CronJobController: makes a Job each time a CronJob is due, minds overlapping ones as its concurrencyPolicy says, and
// keeps as many finished ones as its history limits allow.
//
// Of several times that were missed only the latest is made up for.
// Thread rule: the controllers' loop.
#pragma once

#include "controlplane/controllers/context.h"
#include "controlplane/controllers/cron.h"

namespace ghostfleet::controlplane::controllers {

class CronJobController final : public Controller {
 public:
  explicit CronJobController(Context& context);
  void start() override;

 private:
  struct Owned {
    std::string name, uid;
    bool finished = false, succeeded = false;
    int64_t started_ns = 0;
    std::string completed;  // completionTime
  };
  struct Times {
    std::optional<WallTime> due;   // the latest that has come and was not served
    std::optional<WallTime> next;  // the first to come
    int missed = 0;
  };

  SyncResult sync(const std::string& key);
  std::vector<Owned> jobs_of(const kube::Json& cron);
  void follow_jobs(const std::vector<Owned>& jobs, kube::Json* status, const kube::Json& cron);
  void prune(const kube::Json& cron, std::vector<Owned> jobs, bool succeeded, int64_t limit);
  Times times_of(const kube::Json& cron, const CronSchedule& schedule, const TimeZone& zone) const;
  // False: to be tried again.
  bool serve(const kube::Json& cron, WallTime due, const std::vector<Owned>& jobs, kube::Json* status);
  bool replace_active(const kube::Json& cron, const std::vector<Owned>& jobs, kube::Json* status);
  bool write_status(const kube::Json& cron, const kube::Json& status);
  void record(const kube::Json& cron, const char* type, const char* reason, const std::string& message);

  Context& context_;
  const Resource& resource_;
  const Resource& job_resource_;
  KindWatch& crons_;
  KindWatch& jobs_;
  WorkQueue queue_;
  StringMap<std::vector<std::string>> by_owner_;  // uid of a CronJob: keys of Jobs
};

}  // namespace ghostfleet::controlplane::controllers
