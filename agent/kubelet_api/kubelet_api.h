// KubeletApi: the HTTPS server of nodes as a library: one object answers for every node of a fleet; whoever accepts
// connections says which node a request is for. Logs, exec, attach, port-forward, run, pods, stats, metrics, health.
//
// Nothing a client asks for is executed or read on the machine: exec is answered by the sandbox (sandbox/), a forwarded
// port by a small HTTP responder, a log by its model.
//
// Thread rule: the loop of the exchanges. Ownership: backend and clock outlive it; sessions end with it.
// Limits: KubeletApiOptions; docs/limits.md. Errors: the texts of a kubelet 1.36.
// Source: the server of a kubelet 1.36.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "agent/kubelet_api/backend.h"
#include "agent/kubelet_api/gate.h"
#include "agent/kubelet_api/log_streams.h"
#include "agent/kubelet_api/route.h"
#include "agent/kubelet_api/stats.h"
#include "agent/kubelet_api/usage.h"
#include "kube/api/json.h"
#include "kube/http/server.h"
#include "kube/stream/timers.h"

namespace ghostfleet::kubelet_api {

class FileSystem;

struct KubeletApiOptions {
  bool authenticate = true;
  size_t max_sessions = 5000;                         // exec, attach and port-forward at a time; 503 beyond
  size_t max_followed_logs = 20000;                   // 503 beyond
  size_t max_kept_containers = 256;                   // whose written files are remembered; the oldest is forgotten
  std::shared_ptr<const UsageModel> usage = nullptr;  // null: the default
};

class KubeletApi {
 public:
  KubeletApi(Backend& backend, const Clock& clock, std::shared_ptr<kube::stream::Timers> timers,
             const KubeletApiOptions& options = {});
  ~KubeletApi();
  KubeletApi(const KubeletApi&) = delete;
  KubeletApi& operator=(const KubeletApi&) = delete;

  void handle(NodeId node, std::shared_ptr<kube::http::Exchange> exchange);
  size_t open_sessions() const { return sessions_.size(); }
  size_t open_logs() const { return logs_.open_count(); }

 private:
  struct Call;
  class Session;
  class ExecSession;
  class AttachSession;
  class ForwardSession;
  class RunSession;
  using CallPtr = std::shared_ptr<Call>;
  using PodHandler = std::function<void(const agent::PodView& pod)>;

  void let_in(const CallPtr& call);
  void with_pod(const CallPtr& call, PodHandler next, std::string missing);
  void with_spec(const CallPtr& call, const agent::PodView& pod, std::function<void(kube::Json)> next);
  void with_maps(const CallPtr& call, std::vector<std::string> names,
                 std::function<void(std::map<std::string, kube::Json>)> next);
  void with_disk(const CallPtr& call, std::function<void(NodeInfo)> next);
  void with_pods(const CallPtr& call, std::function<void(std::vector<agent::PodView>)> next);
  bool room_for_session(const CallPtr& call);

  void list_pods(const CallPtr& call);
  void answer_stats(const CallPtr& call);
  void answer_stats(const CallPtr& call, const NodeInfo& node, const std::vector<agent::PodView>& pods);
  void logs(const CallPtr& call);
  void begin_log(const CallPtr& call, const agent::PodView& pod, const LogOptions& options);
  void exec(const CallPtr& call);
  void begin_exec(const CallPtr& call, const agent::PodView& pod);
  void attach(const CallPtr& call);
  void run(const CallPtr& call);
  void forward(const CallPtr& call);
  void checkpoint(const CallPtr& call);

  // Files of a container: those it was given, and what was written by earlier sessions.
  std::shared_ptr<FileSystem> files_of(const std::string& key);
  void keep_files(const std::string& key, const std::shared_ptr<FileSystem>& files);
  void add_session(std::shared_ptr<Session> session);
  void drop_session(Session* session);

  Backend& backend_;
  const Clock& clock_;
  std::shared_ptr<kube::stream::Timers> timers_;
  KubeletApiOptions options_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  Gate gate_;
  Stats stats_;
  LogStreams logs_;
  std::map<Session*, std::shared_ptr<Session>> sessions_;
  std::list<std::pair<std::string, std::shared_ptr<FileSystem>>> kept_;  // newest first
};

}  // namespace ghostfleet::kubelet_api
