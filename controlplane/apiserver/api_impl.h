// ApiImpl: the Api over a Store, with the table of served resources. Private to the API server; everybody else holds an
// Api.
//
// Thread rule: as Api. Resources live as long as this object; removing a custom one only unlists it.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <tuple>

#include "controlplane/apiserver/api.h"
#include "controlplane/apiserver/kind_fields.h"
#include "controlplane/apiserver/strategy.h"

namespace ghostfleet::controlplane {

struct ApiOptions {
  StoreOptions store;
  // Ownership of fields for every write, as a real server keeps it. Off: only for objects touched by an Apply.
  bool managed_fields = true;
};

// A version of a custom resource, as its definition has it.
struct CustomVersion {
  kube::KindInfo info;
  std::shared_ptr<const kube::Json> schema, scale;  // scale: paths of the scale subresource
  std::vector<SelectableField> fields;
  std::shared_ptr<const kube::TablePrinter> printer;
  bool terminating = false;
};

// One read-modify-write of PUT, PATCH, apply or a controller.
struct Change {
  const Resource& resource;
  std::string_view ns, name, subresource;
  // Makes the wanted object from the live one (null Json when there is none and `may_create`). A null answer: leave it.
  std::function<kube::ApiResult<kube::Json>(const kube::Json& live)> make;
  bool may_create = false;
  bool owns_fields = false;       // `make` has set managedFields itself (apply)
  bool retry_on_conflict = true;  // off when the caller gave a resourceVersion
  bool is_put = false;            // a missing resourceVersion is refused by some kinds
};

class ApiImpl final : public Api {
 public:
  ApiImpl(ApiOptions options, const Clock& clock);

  Store& store() override { return *store_; }
  const Clock& clock() const override { return clock_; }
  const Resource* find(std::string_view group, std::string_view version, std::string_view resource) const override;
  std::vector<const Resource*> resources() const override;
  kube::ApiResult<ObjectRef> get(const Resource& r, std::string_view ns, std::string_view name) override;
  kube::ApiResult<WriteOutcome> create(const Resource& r, std::string_view ns, kube::Json object,
                                       RequestContext& ctx) override;
  kube::ApiResult<WriteOutcome> update(const Resource& r, std::string_view ns, std::string_view name, kube::Json object,
                                       std::string_view subresource, RequestContext& ctx) override;
  kube::ApiResult<WriteOutcome> modify(const Resource& r, std::string_view ns, std::string_view name,
                                       std::string_view subresource,
                                       const std::function<kube::ApiResult<bool>(kube::Json&)>& change,
                                       RequestContext& ctx) override;
  kube::ApiResult<DeleteOutcome> remove(const Resource& r, std::string_view ns, std::string_view name,
                                        const DeleteOptions& options, RequestContext& ctx) override;
  kube::Json decode(const Resource& r, const Object& object) const override;
  kube::ApiResult<ObjectRef> bind(std::string_view ns, std::string_view pod, std::string_view uid,
                                  std::string_view node, RequestContext& ctx) override;

  kube::ApiResult<WriteOutcome> write(const Change& change, RequestContext& ctx);
  // A PUT of a lease whose body renews it and does nothing else; null when it is something else, which update()
  // decides.
  ObjectRef renew_lease(const Resource& r, std::string_view ns, std::string_view name, std::string_view body,
                        const RequestContext& ctx);
  const KindConfig& config_of(const Resource& r) const;
  KindId kind_of(std::string_view storage_resource) const;

  // Serves a custom kind; the same group, version and resource again replaces what was there.
  const Resource* add_custom(CustomVersion custom);
  void remove_custom(std::string_view group, std::string_view resource);
  // Unlists one version (it is no longer served).
  void remove_custom_version(std::string_view group, std::string_view version, std::string_view resource);
  // Called after every commit of that kind, on the writer's thread and outside locks, before the write returns.
  void on_commit(KindId kind, std::function<void(const ObjectRef& object, bool gone)> listener);

  // Raised by every add_custom and remove_custom; discovery documents are cached by it.
  uint64_t table_version() const;

 private:
  using Key = std::tuple<std::string, std::string, std::string>;  // group, version, resource
  struct Live {
    ObjectRef object;
    kube::Json json;
  };

  void add_builtin();
  void committed(KindId kind, const ObjectRef& object, bool gone) const;
  EncodedObject encode(const Resource& r, kube::Json& object) const;
  kube::ApiResult<WriteOutcome> commit_update(const Change& change, const Live& live, kube::Json updated,
                                              RequestContext& ctx, bool* lost_race);
  kube::ApiResult<bool> check_version(const Change& change, const Live& live, kube::Json& updated) const;
  kube::ApiResult<WriteOutcome> store_new(const Resource& r, std::string_view key, kube::Json& object,
                                          StrategyContext& sctx, bool* exists);
  kube::ApiResult<WriteOutcome> create_as(const Change& change, kube::Json object, RequestContext& ctx);
  void track_fields(const Resource& r, const kube::Json& before, kube::Json* after, std::string_view subresource,
                    const RequestContext& ctx) const;
  kube::ApiResult<DeleteOutcome> remove_once(const Resource& r, std::string_view key, const DeleteOptions& options,
                                             StrategyContext& sctx, bool* lost_race);
  kube::ApiResult<DeleteOutcome> remove_now(const Resource& r, const Live& live, StrategyContext& sctx,
                                            bool* lost_race);
  ObjectRef shown_as_ended(const Resource& r, const Live& live, const Object& removed) const;
  kube::ApiResult<DeleteOutcome> mark_deleted(const Resource& r, const Live& live, kube::Json marked, int64_t grace,
                                              StrategyContext& sctx, bool* lost_race);

  const ApiOptions options_;
  const Clock& clock_;
  std::unique_ptr<Store> store_;

  mutable std::shared_mutex mutex_;
  std::deque<Resource> all_;
  std::map<Key, const Resource*, std::less<>> table_;
  std::vector<const Resource*> order_;
  std::map<KindId, KindConfig> configs_;
  uint64_t table_version_ = 0;
  // Set before requests are served.
  std::vector<std::pair<KindId, std::function<void(const ObjectRef&, bool)>>> listeners_;
};

}  // namespace ghostfleet::controlplane
