// A store with a few kinds for the tests of this folder.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "controlplane/auth/objects.h"
#include "kube/api/json.h"

namespace ghostfleet::controlplane {

class TestCluster {
 public:
  TestCluster() : store_(Store::create({}, clock)) {
    for (const char* kind : {"pods", "nodes", "secrets", "serviceaccounts", "clusterroles.rbac.authorization.k8s.io",
                             "roles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io",
                             "rolebindings.rbac.authorization.k8s.io"}) {
      KindConfig config;
      config.name = kind;
      kinds_[kind] = store_->add_kind(config);
    }
  }

  ClusterObjects objects() {
    ClusterObjects out;
    out.store = store_.get();
    out.kind_of = [this](std::string_view name) {
      const auto it = kinds_.find(name);
      return it == kinds_.end() ? ClusterObjects::kNoKind : it->second;
    };
    return out;
  }

  // `json` with metadata; replaces what is there.
  void put(const std::string& kind, std::string_view json) {
    kube::Json object = *kube::parse_json(json);
    const std::string ns(kube::get_string(object, "metadata.namespace")),
        name(kube::get_string(object, "metadata.name"));
    const std::string key = ns.empty() ? name : ns + "/" + name;
    kube::set_path(object, "metadata.resourceVersion", "0000000000000000");
    EncodedObject encoded{kube::to_json(object), 0};
    encoded.revision_offset = encoded.json.find("0000000000000000");
    const ObjectRef old = store_->get(kinds_.at(kind), key);
    (void)store_->put(kinds_.at(kind), key, old, std::move(encoded)).ok();
  }
  void remove(const std::string& kind, const std::string& key) {
    (void)store_->remove(kinds_.at(kind), key, store_->get(kinds_.at(kind), key)).ok();
  }

  ManualClock clock;

 private:
  std::unique_ptr<Store> store_;
  std::map<std::string, KindId, std::less<>> kinds_;
};

}  // namespace ghostfleet::controlplane
