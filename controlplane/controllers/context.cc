#include "controlplane/controllers/context.h"

namespace ghostfleet::controlplane::controllers {

Context::Context(Api& api, EventLoop& loop, const ControllerManager::Options& options, MetricsRegistry& metrics)
    : api_(api),
      loop_(loop),
      options_(options),
      metrics_(metrics),
      events_(api, loop, "kube-controller-manager"),
      rng_(static_cast<uint64_t>(api.clock().wall_now().ns)),
      pods_resource_(api.find("", "v1", "pods")) {}

const Resource* Context::find_kind(std::string_view api_version, std::string_view kind) const {
  const size_t slash = api_version.find('/');
  const std::string_view group = slash == std::string_view::npos ? std::string_view() : api_version.substr(0, slash);
  const std::string_view version = slash == std::string_view::npos ? api_version : api_version.substr(slash + 1);
  if (const kube::KindInfo* info = kube::find_kind(group, version, kind))
    return api_.find(group, version, info->resource);
  for (const Resource* r : api_.resources()) {
    if (r->info.kind == kind && r->info.group == group && r->info.version == version) return r;
  }
  return nullptr;
}

KindWatch& Context::watch(const Resource& resource) {
  std::unique_ptr<KindWatch>& slot = watches_[resource.store_kind];
  if (!slot) {
    slot = std::make_unique<KindWatch>(api_.store(), resource.store_kind, loop_);
    slot->start();
  }
  return *slot;
}

PodCache& Context::pods() {
  if (!pods_) pods_ = std::make_unique<PodCache>(watch(*pods_resource_));
  return *pods_;
}

NodeCache& Context::nodes() {
  if (!nodes_) nodes_ = std::make_unique<NodeCache>(watch(*api_.find("", "v1", "nodes")));
  return *nodes_;
}

void Context::when_synced(std::function<void()> done) {
  auto left = std::make_shared<size_t>(watches_.size());
  auto shared_done = std::make_shared<std::function<void()>>(std::move(done));
  if (*left == 0) return (*shared_done)();
  for (const auto& [kind, watch] : watches_) {
    watch->when_synced([left, shared_done] {
      if (--*left == 0) (*shared_done)();
    });
  }
}

RequestContext& Context::as(std::string_view component) {
  auto it = contexts_.find(component);
  if (it == contexts_.end()) it = contexts_.emplace(std::string(component), internal_context(component)).first;
  it->second.warnings.clear();
  return it->second;
}

kube::ApiResult<ObjectRef> Context::create(std::string_view component, const Resource& r, std::string_view ns,
                                           kube::Json object) {
  auto made = api_.create(r, ns, std::move(object), as(component));
  if (!made.ok()) return made.error();
  if (KindWatch* w = existing(r)) w->observe(made->object);
  return made->object;
}

kube::ApiResult<ObjectRef> Context::modify(std::string_view component, const Resource& r, std::string_view ns,
                                           std::string_view name, std::string_view subresource,
                                           const std::function<kube::ApiResult<bool>(kube::Json&)>& change) {
  auto changed = api_.modify(r, ns, name, subresource, change, as(component));
  if (!changed.ok()) return changed.error();
  if (KindWatch* w = existing(r)) w->observe(changed->object);
  return changed->object;
}

kube::ApiResult<DeleteOutcome> Context::remove(std::string_view component, const Resource& r, std::string_view ns,
                                               std::string_view name, const DeleteOptions& options) {
  auto removed = api_.remove(r, ns, name, options, as(component));
  if (!removed.ok()) return removed;
  KindWatch* w = existing(r);
  if (w != nullptr && removed->object) {
    if (removed->gone) {
      w->observe_removed(removed->object);
    } else {
      w->observe(removed->object);
    }
  }
  return removed;
}

bool is_moot(const kube::ApiError& error) {
  if (error.code == 404) return true;
  return error.code == 403 && error.message.find("because it is being terminated") != std::string::npos;
}

}  // namespace ghostfleet::controlplane::controllers
