// Context: what all controllers of one manager share: the Api and who they are to it, one watch per kind, the pod
// cache, the recorder of Events. Controller: one of them.
//
// Thread rule: the controllers' loop. A write through Context is seen by the shared watches at once, so a controller
// never decides on what was there before its own last write. That takes the place of "expectations".
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/event_loop.h"
#include "base/metrics.h"
#include "base/random.h"
#include "controlplane/controllers/controllers.h"
#include "controlplane/controllers/node_cache.h"
#include "controlplane/controllers/pod_cache.h"
#include "controlplane/informer/event_recorder.h"
#include "controlplane/informer/kind_watch.h"
#include "controlplane/informer/work_queue.h"

namespace ghostfleet::controlplane::controllers {

class Context {
 public:
  Context(Api& api, EventLoop& loop, const ControllerManager::Options& options, MetricsRegistry& metrics);

  Api& api() { return api_; }
  Store& store() { return api_.store(); }
  EventLoop& loop() { return loop_; }
  const ControllerManager::Options& options() const { return options_; }
  MetricsRegistry& metrics() { return metrics_; }
  EventRecorder& events() { return events_; }
  Rng& rng() { return rng_; }
  WallTime now() const { return api_.clock().wall_now(); }

  // Null pointer when the kind is not served here: the controller then does without.
  const Resource* find(std::string_view group, std::string_view version, std::string_view resource) const {
    return api_.find(group, version, resource);
  }
  // By apiVersion and kind, as owner references name it.
  const Resource* find_kind(std::string_view api_version, std::string_view kind) const;

  // The shared watch of a kind, started on first use.
  KindWatch& watch(const Resource& resource);
  PodCache& pods();
  NodeCache& nodes();
  const Resource& pod_resource() const { return *pods_resource_; }
  bool ready() const { return pods_resource_ != nullptr; }
  // Calls back when every watch that exists now has listed.
  void when_synced(std::function<void()> done);

  kube::ApiResult<ObjectRef> create(std::string_view component, const Resource& r, std::string_view ns,
                                    kube::Json object);
  kube::ApiResult<ObjectRef> modify(std::string_view component, const Resource& r, std::string_view ns,
                                    std::string_view name, std::string_view subresource,
                                    const std::function<kube::ApiResult<bool>(kube::Json&)>& change);
  kube::ApiResult<DeleteOutcome> remove(std::string_view component, const Resource& r, std::string_view ns,
                                        std::string_view name, const DeleteOptions& options);

 private:
  RequestContext& as(std::string_view component);
  KindWatch* existing(const Resource& r) {
    const auto it = watches_.find(r.store_kind);
    return it == watches_.end() ? nullptr : it->second.get();
  }

  Api& api_;
  EventLoop& loop_;
  const ControllerManager::Options& options_;
  MetricsRegistry& metrics_;
  EventRecorder events_;
  Rng rng_;
  const Resource* pods_resource_;
  std::map<KindId, std::unique_ptr<KindWatch>> watches_;
  std::unique_ptr<PodCache> pods_;
  std::unique_ptr<NodeCache> nodes_;
  std::map<std::string, RequestContext, std::less<>> contexts_;
};

class Controller {
 public:
  virtual ~Controller() = default;
  virtual void start() = 0;  // on the loop's thread
};

// An error that trying again cannot help: the object is gone or its namespace goes away.
bool is_moot(const kube::ApiError& error);

}  // namespace ghostfleet::controlplane::controllers
