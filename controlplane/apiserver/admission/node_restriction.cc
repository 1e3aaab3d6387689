// NodeRestriction: a node writes only itself, its lease, its CSINode, its slices, and its pods' status.
#include <fmt/format.h>

#include <algorithm>

#include "controlplane/apiserver/admission/lookup.h"
#include "controlplane/apiserver/admission/plugins.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/workload_common.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr std::string_view kNodePrefix = "system:node:";
constexpr std::string_view kMirror = "kubernetes.io/config.mirror";

struct NodeWrite {
  Operation operation;
  const Json& object;
  const Json* old;
  StrategyContext& ctx;
  std::string_view node;

  Admitted refuse(std::string_view why) const { return controlplane::refuse(ctx, object, why); }
};

// A node's own labels may be set by it only in these families.
bool is_forbidden_label(std::string_view key) {
  size_t slash = key.find('/');
  if (slash == std::string_view::npos) return false;
  std::string_view domain = key.substr(0, slash);
  auto within = [domain](std::string_view suffix) {
    return domain == suffix || (domain.size() > suffix.size() && domain.ends_with(suffix) &&
                                domain[domain.size() - suffix.size() - 1] == '.');
  };
  if (within("node-restriction.kubernetes.io")) return true;
  if (within("kubelet.kubernetes.io") || within("node.kubernetes.io")) return false;
  if (!within("kubernetes.io") && !within("k8s.io")) return false;
  return !one_of(key, {"kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os", "beta.kubernetes.io/arch",
                       "beta.kubernetes.io/os", "beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type",
                       "topology.kubernetes.io/region", "topology.kubernetes.io/zone",
                       "failure-domain.beta.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone"});
}

std::string changed_labels(const Json& object, const Json* old, bool* any) {
  static const Json kEmpty = JsonObject();
  const Json* now = member(metadata_of(object), "labels");
  const Json* before = old == nullptr ? nullptr : member(metadata_of(*old), "labels");
  std::vector<std::string> keys;
  auto collect = [&keys](const Json* from, const Json* against) {
    if (from == nullptr || !from->is_object()) return;
    for (const auto& entry : from->get_object()) {
      const Json* other = member(against, entry.key());
      if (other != nullptr && *other == entry.value()) continue;
      if (is_forbidden_label(entry.key())) keys.emplace_back(entry.key());
    }
  };
  collect(now, before);
  if (old != nullptr) collect(before, now);
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  std::string out;
  for (const std::string& key : keys) out += (out.empty() ? "" : ", ") + key;
  *any = !keys.empty();
  return out;
}

Admitted admit_node_object(const NodeWrite& w) {
  std::string_view name = name_of(w.object);
  if (name != w.node) {
    return w.refuse(fmt::format("node \"{}\" is not allowed to modify node \"{}\"", w.node, name));
  }
  bool any = false;
  if (w.operation == Operation::kCreate) {
    std::string labels = changed_labels(w.object, nullptr, &any);
    if (any) {
      return w.refuse(fmt::format("node \"{}\" is not allowed to set the following labels: {}", w.node, labels));
    }
  }
  if (w.operation != Operation::kUpdate || w.old == nullptr) return true;
  if (!equal_members(spec_of(w.object), spec_of(*w.old), "taints") && w.ctx.subresource != "status") {
    return w.refuse(fmt::format("node \"{}\" is not allowed to modify taints", w.node));
  }
  if (!equal_members(metadata_of(w.object), metadata_of(*w.old), "ownerReferences")) {
    return w.refuse(fmt::format("node \"{}\" is not allowed to modify ownerReferences", w.node));
  }
  std::string labels = changed_labels(w.object, w.old, &any);
  if (any) return w.refuse(fmt::format("is not allowed to modify labels: {}", labels));
  return true;
}

Admitted admit_node_pod(const NodeWrite& w) {
  const Json& shown = w.old != nullptr ? *w.old : w.object;
  bool own = text_of(spec_of(shown), "nodeName") == w.node;
  if (w.ctx.subresource == "status") {
    if (!own) {
      return w.refuse(
          fmt::format("node \"{}\" can only update pod status for pods with spec.nodeName set to itself", w.node));
    }
    if (!equal_members(metadata_of(w.object), metadata_of(shown), "labels")) {
      return w.refuse(fmt::format("node \"{}\" cannot update labels through pod status", w.node));
    }
    return true;
  }
  if (w.ctx.subresource == "eviction") {
    if (own) return true;
    return w.refuse(fmt::format("node {} can only evict pods with spec.nodeName set to itself", w.node));
  }
  if (!w.ctx.subresource.empty()) {
    return w.refuse(
        fmt::format("unexpected pod subresource \"{}\", only 'status' and 'eviction' are allowed", w.ctx.subresource));
  }
  if (w.operation == Operation::kDelete) {
    if (own) return true;
    return w.refuse(fmt::format("node \"{}\" can only delete pods with spec.nodeName set to itself", w.node));
  }
  if (w.operation != Operation::kCreate) {
    return w.refuse(
        fmt::format("unexpected operation \"UPDATE\", node \"{}\" can only create and delete mirror pods", w.node));
  }
  const Json* annotations = member(metadata_of(w.object), "annotations");
  if (annotations == nullptr || member(*annotations, kMirror) == nullptr) {
    return w.refuse(
        fmt::format("pod does not have \"{}\" annotation, node \"{}\" can only create mirror pods", kMirror, w.node));
  }
  if (!own) return w.refuse(fmt::format("node \"{}\" can only create pods with spec.nodeName set to itself", w.node));
  return true;
}

Admitted admit_node_lease(const NodeWrite& w) {
  if (w.ctx.ns != "kube-node-lease") {
    return w.refuse("can only access leases in the \"kube-node-lease\" system namespace");
  }
  if (name_of(w.object) != w.node) {
    return w.refuse("can only access node lease with the same name as the requesting node");
  }
  return true;
}

Admitted admit_node_slice(const NodeWrite& w) {
  if (text_of(spec_of(w.object), "nodeName") == w.node) return true;
  if (w.operation == Operation::kCreate) {
    return w.refuse("can only create ResourceSlice with the same NodeName as the requesting node");
  }
  if (w.operation == Operation::kDelete) {
    return w.refuse("can only delete ResourceSlice with the same NodeName as the requesting node");
  }
  return true;
}

// `object` is the TokenRequest.
Admitted admit_node_token(const NodeWrite& w) {
  const Json* bound = member(spec_of(w.object), "boundObjectRef");
  std::string_view kind = bound == nullptr ? "" : text_of(*bound, "kind");
  if (kind != "Pod" || text_of(*bound, "name").empty()) {
    return w.refuse("node requested token not bound to a pod");
  }
  if (text_of(*bound, "uid").empty()) return w.refuse("node requested token with a pod binding without a uid");
  Json pod = stored_json(w.ctx.api, KnownKind::kPods, w.ctx.ns, text_of(*bound, "name"));
  if (pod.is_null()) return w.refuse(fmt::format("pod \"{}\" not found", text_of(*bound, "name")));
  if (uid_of(pod) != text_of(*bound, "uid")) {
    return w.refuse(
        fmt::format("the UID in the bound object reference ({}) does not match the UID in record. The "
                    "object might have been deleted and then recreated",
                    text_of(*bound, "uid")));
  }
  if (text_of(spec_of(pod), "nodeName") != w.node) {
    return w.refuse("node requested token bound to a pod scheduled on a different node");
  }
  return true;
}

}  // namespace

Admitted admit_node_user(Operation operation, const Json& object, const Json* old, StrategyContext& ctx) {
  const UserInfo& user = ctx.request.user;
  std::string_view name = user.name;
  if (!name.starts_with(kNodePrefix) || !user.in_group("system:nodes")) return true;
  NodeWrite w{operation, object, old, ctx, name.substr(kNodePrefix.size())};
  if (is_kind(ctx, "", "nodes")) return admit_node_object(w);
  if (is_kind(ctx, "", "pods")) return admit_node_pod(w);
  if (is_kind(ctx, "coordination.k8s.io", "leases")) return admit_node_lease(w);
  if (is_kind(ctx, "resource.k8s.io", "resourceslices")) return admit_node_slice(w);
  if (is_kind(ctx, "", "serviceaccounts") && ctx.subresource == "token") return admit_node_token(w);
  if (is_kind(ctx, "storage.k8s.io", "csinodes") && name_of(object) != w.node) {
    return w.refuse("can only access CSINode with the same name as the requesting node");
  }
  return true;
}

}  // namespace ghostfleet::controlplane
