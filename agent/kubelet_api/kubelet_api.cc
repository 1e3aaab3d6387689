#include "agent/kubelet_api/kubelet_api.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/kubelet_api/kubelet_api_impl.h"
#include "agent/kubelet_api/sandbox/file_system.h"

namespace ghostfleet::kubelet_api {

using agent::ContainerState;
using agent::ContainerView;
using agent::PodView;
using kube::Json;

namespace {

constexpr std::string_view kMetricsType = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

std::string query_value(std::string_view query, std::string_view key) {
  for (const auto& [k, v] : kube::http::parse_query(query)) {
    if (k == key) return v;
  }
  return {};
}

// Why there is no log to read; empty when `*attempt` is set. The order of the questions is a kubelet's.
std::string log_refusal(const PodView& pod, const ContainerView& c, bool previous, const agent::AttemptView** attempt) {
  const bool waiting = c.state == ContainerState::kWaiting;
  // While a container waits to be started again its last attempt counts as the one before.
  const agent::AttemptView* last = waiting && c.current.known ? &c.current : &c.previous;
  if (previous) {
    if (last->known) *attempt = last;
    return last->known ? ""
                       : fmt::format("previous terminated container \"{}\" in pod \"{}\" not found", c.name, pod.name);
  }
  if (!waiting) {
    *attempt = &c.current;
    return {};
  }
  if (last->known) {
    *attempt = last;
    return {};
  }
  const std::string_view reason = c.waiting_reason;
  const std::string_view why = reason == "ErrImagePull"       ? "image can't be pulled"
                               : reason == "ImagePullBackOff" ? "trying and failing to pull image"
                                                              : reason;
  return fmt::format("container \"{}\" in pod \"{}\" is waiting to start: {}", c.name, pod.name, why);
}

}  // namespace

KubeletApi::KubeletApi(Backend& backend, const Clock& clock, std::shared_ptr<kube::stream::Timers> timers,
                       const KubeletApiOptions& options)
    : backend_(backend),
      clock_(clock),
      timers_(std::move(timers)),
      options_(options),
      gate_(backend, clock, options.authenticate),
      stats_(options.usage ? options.usage : default_usage_model(), clock),
      logs_(backend, clock, timers_) {}

KubeletApi::~KubeletApi() { *alive_ = false; }

void KubeletApi::handle(NodeId node, std::shared_ptr<kube::http::Exchange> exchange) {
  auto call = std::make_shared<Call>();
  call->node = node;
  call->route = parse_route(exchange->request().path());
  call->exchange = std::move(exchange);
  gate_.check(node, call->request(), [this, alive = alive_, call](const Verdict& verdict) {
    if (!*alive) return;
    if (!verdict.ok()) return call->text(verdict.status, verdict.text);
    let_in(call);
  });
}

void KubeletApi::let_in(const CallPtr& call) {
  const Endpoint endpoint = call->route.endpoint;
  if (!method_allowed(endpoint, call->request().method)) return call->text(405, "405: Method Not Allowed");
  switch (endpoint) {
    case Endpoint::kUnknown: return call->text(404, "404: Page Not Found");
    case Endpoint::kDisabled: return call->text(405, "logs, debug and statusz endpoints are disabled.\n");
    case Endpoint::kHealthz: {
      const std::string& check = call->route.rest;
      const bool known = check.empty() || check == "ping" || check == "log" || check == "syncloop";
      return known ? call->text(200, "ok") : call->text(404, "404 page not found\n");
    }
    case Endpoint::kPods: return list_pods(call);
    case Endpoint::kContainerLogs: return logs(call);
    case Endpoint::kExec: return exec(call);
    case Endpoint::kAttach: return attach(call);
    case Endpoint::kRun: return run(call);
    case Endpoint::kPortForward: return forward(call);
    case Endpoint::kCheckpoint: return checkpoint(call);
    case Endpoint::kConfigz: return call->json(configz(backend_.node(call->node)));
    default: return answer_stats(call);
  }
}

// ---- what is asked before an answer

void KubeletApi::with_pods(const CallPtr& call, std::function<void(std::vector<PodView>)> next) {
  backend_.describe(call->node, {}, [alive = alive_, call, next = std::move(next)](std::vector<PodView> pods) {
    if (*alive && !call->exchange->closed()) next(std::move(pods));
  });
}

void KubeletApi::with_pod(const CallPtr& call, PodHandler next, std::string missing) {
  backend_.describe(
      call->node, {call->route.ns, call->route.pod},
      [alive = alive_, call, next = std::move(next), missing = std::move(missing)](std::vector<PodView> pods) {
        if (!*alive || call->exchange->closed()) return;
        for (const PodView& pod : pods) {
          if (call->route.uid.empty() || pod.uid == call->route.uid) return next(pod);
        }
        call->text(404, missing);
      });
}

// The pod as the API server has it; an empty object when it cannot be had.
void KubeletApi::with_spec(const CallPtr& call, const PodView& pod, std::function<void(Json)> next) {
  const std::string target = fmt::format("/api/v1/namespaces/{}/pods/{}", kube::http::percent_encode(pod.ns),
                                         kube::http::percent_encode(pod.name));
  backend_.call_api(call->node, target, {},
                    [alive = alive_, call, uid = pod.uid, next = std::move(next)](const ApiAnswer& answer) {
                      if (!*alive || call->exchange->closed()) return;
                      auto json = answer.ok() ? kube::parse_json(answer.body) : Result<Json>(not_found("no pod"));
                      const bool same = json.ok() && kube::get_string(*json, "metadata.uid") == uid;
                      next(same ? std::move(json).value() : Json(kube::JsonObject()));
                    });
}

void KubeletApi::with_maps(const CallPtr& call, std::vector<std::string> names,
                           std::function<void(std::map<std::string, Json>)> next) {
  struct Gathering {
    std::map<std::string, Json> maps;
    size_t left = 0;
    std::function<void(std::map<std::string, Json>)> next;
  };
  auto gathering = std::make_shared<Gathering>();
  gathering->left = names.size();
  gathering->next = std::move(next);
  if (names.empty()) return gathering->next({});
  for (const std::string& name : names) {
    const std::string target =
        fmt::format("/api/v1/namespaces/{}/configmaps/{}", kube::http::percent_encode(call->route.ns),
                    kube::http::percent_encode(name));
    backend_.call_api(call->node, target, {}, [alive = alive_, call, name, gathering](const ApiAnswer& answer) {
      if (!*alive) return;
      auto json = answer.ok() ? kube::parse_json(answer.body) : Result<Json>(not_found("no map"));
      if (json.ok()) gathering->maps[name] = std::move(json).value();
      if (--gathering->left == 0 && !call->exchange->closed()) gathering->next(std::move(gathering->maps));
    });
  }
}

bool KubeletApi::room_for_session(const CallPtr& call) {
  if (sessions_.size() < options_.max_sessions) return true;
  call->text(503, fmt::format("too many sessions: {} are open\n", sessions_.size()));
  return false;
}

void KubeletApi::add_session(std::shared_ptr<Session> session) {
  Session* key = session.get();
  sessions_.emplace(key, std::move(session));
}

// Later, since a session asks for it from inside its own events.
void KubeletApi::drop_session(Session* session) {
  if (std::exchange(session->dropped, true)) return;
  timers_->run_after(Duration(0), [this, alive = alive_, session] {
    if (*alive) sessions_.erase(session);
  });
}

std::shared_ptr<FileSystem> KubeletApi::files_of(const std::string& key) {
  const auto it = std::find_if(kept_.begin(), kept_.end(), [&key](const auto& e) { return e.first == key; });
  if (it == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, it);
  return it->second;
}

void KubeletApi::keep_files(const std::string& key, const std::shared_ptr<FileSystem>& files) {
  if (!files->changed() || files_of(key) != nullptr) return;
  kept_.emplace_front(key, files);
  if (kept_.size() > options_.max_kept_containers) kept_.pop_back();
}

// ---- answers

void KubeletApi::list_pods(const CallPtr& call) {
  const std::string name = backend_.node(call->node).identity.name;
  const std::string target = "/api/v1/pods?fieldSelector=spec.nodeName%3D" + kube::http::percent_encode(name);
  backend_.call_api(call->node, target, {}, [alive = alive_, call](const ApiAnswer& answer) {
    if (!*alive || call->exchange->closed()) return;
    if (answer.ok()) return call->json(answer.body);
    call->text(500, fmt::format("the pods cannot be listed: {}\n", answer.status == 0
                                                                       ? "the API server does not answer"
                                                                       : fmt::format("HTTP {}", answer.status)));
  });
}

void KubeletApi::with_disk(const CallPtr& call, std::function<void(NodeInfo)> next) {
  backend_.disk(call->node, [this, alive = alive_, call, next = std::move(next)](std::optional<agent::DiskRoom> disk) {
    if (!*alive || call->exchange->closed()) return;
    NodeInfo node = backend_.node(call->node);
    node.disk = disk;
    next(std::move(node));
  });
}

void KubeletApi::answer_stats(const CallPtr& call) {
  const auto with_node = [this, call](const NodeInfo& node) {
    with_pods(call, [this, call, node](const std::vector<PodView>& pods) { answer_stats(call, node, pods); });
  };
  const Endpoint endpoint = call->route.endpoint;
  const bool tells_disk = endpoint == Endpoint::kStatsSummary || endpoint == Endpoint::kMetricsCadvisor;
  tells_disk ? with_disk(call, with_node) : with_node(backend_.node(call->node));
}

void KubeletApi::answer_stats(const CallPtr& call, const NodeInfo& node, const std::vector<PodView>& pods) {
  const auto metrics = [&call](std::string text) {
    call->exchange->respond(200, {{"content-type", std::string(kMetricsType)}}, share(std::move(text)));
  };
  switch (call->route.endpoint) {
    case Endpoint::kStatsSummary: {
      const std::string brief = query_value(call->request().query(), "only_cpu_and_memory");
      return call->json(stats_.summary(call->node, node, pods, brief == "true" || brief == "1"));
    }
    case Endpoint::kRunningPods: return call->json(running_pods(pods));
    case Endpoint::kMetrics: return metrics(stats_.kubelet_metrics(node, pods));
    case Endpoint::kMetricsResource: return metrics(stats_.resource_metrics(call->node, node, pods));
    case Endpoint::kMetricsCadvisor: return metrics(stats_.cadvisor_metrics(call->node, node, pods));
    default: return metrics(stats_.probe_metrics(node, pods));
  }
}

void KubeletApi::logs(const CallPtr& call) {
  bool unprocessable = false;
  const auto options = parse_log_options(call->request().query(), clock_.wall_now(), &unprocessable);
  if (!options.ok()) {
    if (unprocessable) return call->text(422, R"({"message": "Invalid request."})");
    return call->text(400, fmt::format(R"({{"message": "Unable to decode query: {}."}})", options.error().message()));
  }
  with_pod(
      call, [this, call, options = *options](const PodView& pod) { begin_log(call, pod, options); },
      fmt::format("pod \"{}\" does not exist", call->route.pod));
}

void KubeletApi::begin_log(const CallPtr& call, const PodView& pod, const LogOptions& options) {
  const ContainerView* c = pod.find(call->route.container);
  if (c == nullptr)
    return call->text(404, fmt::format("container \"{}\" not found in pod \"{}\"", call->route.container, pod.name));
  const agent::AttemptView* attempt = nullptr;
  const std::string refusal = log_refusal(pod, *c, options.previous, &attempt);
  if (attempt == nullptr) return call->text(400, refusal);
  if (logs_.open_count() >= options_.max_followed_logs)
    return call->text(503, fmt::format("too many logs: {} are being read\n", logs_.open_count()));
  const LogModel model(pod, *c, *attempt, backend_.node(call->node).identity.name);
  const LogSource source{call->node, pod.ns, pod.name, pod.uid, c->name, attempt->attempt};
  call->exchange->start(200, {{"content-type", "text/plain"}});
  logs_.open(source, model, options, exchange_sink(call->exchange));
}

void KubeletApi::checkpoint(const CallPtr& call) {
  with_pod(
      call,
      [this, call](const PodView& pod) {
        const ContainerView* c = pod.find(call->route.container);
        if (c == nullptr || c->state != ContainerState::kRunning)
          return call->text(404, fmt::format("container {} does not exist", call->route.container));
        call->json(fmt::format(R"({{"items":["/var/lib/kubelet/checkpoints/checkpoint-{}_{}-{}-{}.tar"]}})", pod.name,
                               pod.ns, c->name, format_time(clock_.wall_now())));
      },
      "pod does not exist");
}

}  // namespace ghostfleet::kubelet_api
