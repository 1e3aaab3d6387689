#include "controlplane/apiserver/documents.h"

#include "base/digest.h"
#include "controlplane/apiserver/proxy/aggregation.h"
#include "kube/api/discovery.h"

namespace ghostfleet::controlplane {
namespace {

std::string etag_of(std::string_view text) { return sha256_hex(text); }

std::shared_ptr<const kube::OpenApiDocument> with_etag(std::string json) {
  auto document = std::make_shared<kube::OpenApiDocument>();
  document->hash = etag_of(json);
  document->json = std::move(json);
  return document;
}

}  // namespace

kube::KindList Documents::own_kinds() const {
  kube::KindList list;
  for (const Resource* r : api_.resources()) list.push_back(&r->info);
  return list;
}

kube::KindList Documents::kinds() const {
  kube::KindList list = own_kinds();
  for (const kube::KindInfo* kind : aggregator_.kinds()) list.push_back(kind);
  return list;
}

void Documents::refresh_locked() {
  const uint64_t version = api_.table_version(), remote = aggregator_.version();
  if (version_ == version && remote_version_ == remote) return;
  version_ = version;
  remote_version_ = remote;
  core_.reset();
  groups_.reset();
  openapi_.reset();
}

std::shared_ptr<const kube::OpenApiDocument> Documents::aggregated(bool core) {
  std::lock_guard lock(mutex_);
  refresh_locked();
  auto& slot = core ? core_ : groups_;
  if (!slot) slot = with_etag(kube::to_json(kube::aggregated_discovery(kinds(), core)));
  return slot;
}

std::shared_ptr<const OpenApiSet> Documents::openapi() {
  std::lock_guard lock(mutex_);
  refresh_locked();
  if (openapi_) return openapi_;
  std::map<std::string, kube::KindList> groups;
  std::map<const kube::KindInfo*, const kube::Json*> schemas;
  for (const Resource* r : api_.resources()) {
    groups[kube::openapi_path(r->info)].push_back(&r->info);
    schemas[&r->info] = r->schema.get();
  }
  auto set = std::make_shared<OpenApiSet>();
  std::vector<std::pair<std::string, std::string>> hashes;
  for (const auto& [path, kinds] : groups) {
    kube::OpenApiDocument document =
        kube::openapi_document(kinds, [&](const kube::KindInfo& kind) { return schemas[&kind]; });
    hashes.emplace_back(path, document.hash);
    set->documents.emplace(path, std::move(document));
  }
  set->v2 = kube::openapi_v2_document(own_kinds());
  set->index.json = kube::openapi_index(hashes);
  set->index.hash = etag_of(set->index.json);
  openapi_ = set;
  return openapi_;
}

}  // namespace ghostfleet::controlplane
