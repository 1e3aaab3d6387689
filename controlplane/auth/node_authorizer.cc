#include "controlplane/auth/node_authorizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "controlplane/auth/rbac.h"

namespace ghostfleet::controlplane {
namespace {

using kube::Json;
using kube::JsonObject;

constexpr std::string_view kNodePrefix = "system:node:";
constexpr const char* kNodeGroup = "system:nodes";
constexpr const char* kLeaseNamespace = "kube-node-lease";

bool one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

Decision allow() { return {Decision::Kind::kAllow, "", ""}; }
Decision pass(std::string reason = "") { return {Decision::Kind::kNoOpinion, std::move(reason), ""}; }

// How a pod names objects of a kind, wherever in its spec: {"secretRef":{"name":N}}, {"secret":{"secretName":N}}, ...
struct ReferenceWords {
  std::initializer_list<std::string_view> name_of;  // keys whose object holds "name"
  std::string_view source, source_field;            // a volume source and its field
  std::string_view list;                            // a list of {"name":N}
};
const ReferenceWords kSecretWords = {
    {"secretRef", "secretKeyRef", "secret", "nodePublishSecretRef"}, "secret", "secretName", "imagePullSecrets"};
const ReferenceWords kConfigMapWords = {{"configMapRef", "configMapKeyRef", "configMap"}, "", "", ""};
const ReferenceWords kClaimWords = {{}, "persistentVolumeClaim", "claimName", ""};

bool refers(const Json& value, const ReferenceWords& words, std::string_view name);

bool member_refers(std::string_view key, const Json& value, const ReferenceWords& words, std::string_view name) {
  if (value.is_object()) {
    const bool named = std::find(words.name_of.begin(), words.name_of.end(), key) != words.name_of.end();
    if (named && kube::get_string(value, "name") == name) return true;
    if (!words.source.empty() && key == words.source && kube::get_string(value, words.source_field) == name)
      return true;
  }
  if (value.is_array() && !words.list.empty() && key == words.list) {
    for (const Json& item : value.get_array()) {
      if (kube::get_string(item, "name") == name) return true;
    }
  }
  // Azure files and flex volumes of old name their secret directly.
  if (value.is_string() && key == words.source_field) return value.get_string() == name;
  return refers(value, words, name);
}

bool refers(const Json& value, const ReferenceWords& words, std::string_view name) {
  if (value.is_array()) {
    return std::any_of(value.get_array().begin(), value.get_array().end(),
                       [&](const Json& item) { return refers(item, words, name); });
  }
  if (!value.is_object()) return false;
  return std::any_of(value.get_object().begin(), value.get_object().end(),
                     [&](const auto& m) { return member_refers(m.key(), m.value(), words, name); });
}

bool uses_ephemeral_claim(const Json& pod, std::string_view claim) {
  const kube::JsonArray* volumes = kube::get_array(pod, "spec.volumes");
  if (volumes == nullptr) return false;
  const std::string prefix = std::string(kube::get_string(pod, "metadata.name")) + "-";
  return std::any_of(volumes->begin(), volumes->end(), [&](const Json& v) {
    return kube::find_key(v, "ephemeral") != nullptr && prefix + std::string(kube::get_string(v, "name")) == claim;
  });
}

bool uses_resource_claim(const Json& pod, std::string_view claim) {
  for (const char* path : {"spec.resourceClaims", "status.resourceClaimStatuses"}) {
    const kube::JsonArray* claims = kube::get_array(pod, path);
    if (claims == nullptr) continue;
    for (const Json& c : *claims) {
      if (kube::get_string(c, "resourceClaimName") == claim) return true;
    }
  }
  return false;
}

bool pod_uses(const Json& pod, std::string_view resource, std::string_view name) {
  if (resource == "serviceaccounts") return kube::get_string(pod, "spec.serviceAccountName") == name;
  // Mirror pods are written by the node itself and prove nothing.
  const JsonObject* annotations = kube::get_object(pod, "metadata.annotations");
  if (annotations != nullptr && annotations->contains("kubernetes.io/config.mirror")) return false;
  const Json* spec = kube::find_key(pod, "spec");
  if (spec == nullptr) return false;
  if (resource == "secrets") return refers(*spec, kSecretWords, name);
  if (resource == "configmaps") return refers(*spec, kConfigMapWords, name);
  if (resource == "persistentvolumeclaims") return refers(*spec, kClaimWords, name) || uses_ephemeral_claim(pod, name);
  if (resource == "resourceclaims") return uses_resource_claim(pod, name);
  return false;
}

class NodeAuthorizer final : public Authorizer {
 public:
  explicit NodeAuthorizer(ClusterObjects objects) : objects_(std::move(objects)) {
    for (const Json& role : bootstrap_rbac_objects()) {
      const bool is_node_role =
          kube::get_string(role, "kind") == "ClusterRole" && kube::get_string(role, "metadata.name") == "system:node";
      if (!is_node_role) continue;
      for (const Json& rule : *kube::get_array(role, "rules")) rules_.push_back(policy_rule_from_json(rule));
    }
  }

  Decision authorize(const Attributes& a) const override {
    std::string node;
    if (!node_identity(*a.user, &node)) return pass();
    if (node.empty()) return pass(fmt::format("unknown node for user \"{}\"", a.user->name));
    if (a.is_resource) {
      if (std::optional<Decision> decision = by_resource(node, a)) return *decision;
    }
    const bool allowed =
        std::any_of(rules_.begin(), rules_.end(), [&](const PolicyRule& rule) { return rule_allows(rule, a); });
    return allowed ? allow() : pass();
  }

  std::vector<PolicyRule> rules_for(const UserInfo& user, std::string_view, std::string* error) const override {
    std::string node;
    if (node_identity(user, &node) && error != nullptr) {
      *error = "node authorizer does not support user rule resolution";
    }
    return {};
  }

 private:
  std::optional<Decision> by_resource(const std::string& node, const Attributes& a) const {
    if (a.group.empty()) return core(node, a);
    if (a.group == "coordination.k8s.io" && a.resource == "leases") return lease(node, a);
    if (a.group == "storage.k8s.io" && a.resource == "csinodes") return csi_node(node, a);
    if (a.group == "storage.k8s.io" && a.resource == "volumeattachments") return read_one(node, a);
    if (a.group == "resource.k8s.io" && a.resource == "resourceclaims") return read_one(node, a);
    if (a.group == "resource.k8s.io" && a.resource == "resourceslices") return resource_slice(node, a);
    return std::nullopt;
  }

  std::optional<Decision> core(const std::string& node, const Attributes& a) const {
    if (a.resource == "secrets" || a.resource == "configmaps") return read_namespaced(node, a);
    if (a.resource == "persistentvolumeclaims")
      return a.subresource == "status" ? claim_status(node, a) : read_one(node, a);
    if (a.resource == "persistentvolumes") return read_one(node, a);
    if (a.resource == "serviceaccounts") return service_account(node, a);
    if (a.resource == "nodes") return node_object(node, a);
    if (a.resource == "pods") return pod(node, a);
    return std::nullopt;
  }

  Decision related(const std::string& node, const Attributes& a) const {
    if (a.name.empty()) return pass("No Object name found");
    if (is_related(node, a)) return allow();
    return unrelated(node);
  }
  static Decision unrelated(const std::string& node) {
    return pass(fmt::format("no relationship found between node '{}' and this object", node));
  }

  Decision read_one(const std::string& node, const Attributes& a) const {
    if (a.verb != "get") return pass("can only get individual resources of this type");
    if (!a.subresource.empty()) return pass("cannot get subresource");
    return related(node, a);
  }

  Decision read_namespaced(const std::string& node, const Attributes& a) const {
    if (!one_of(a.verb, {"get", "list", "watch"})) return pass("can only read resources of this type");
    if (!a.subresource.empty()) return pass("cannot read subresource");
    if (a.ns.empty()) return pass("can only read namespaced object of this type");
    return related(node, a);
  }

  Decision claim_status(const std::string& node, const Attributes& a) const {
    if (!one_of(a.verb, {"update", "patch"})) return pass("can only get/update/patch this type");
    return related(node, a);
  }

  Decision service_account(const std::string& node, const Attributes& a) const {
    if (a.verb == "get" && a.subresource.empty()) return read_namespaced(node, a);
    if (a.verb != "create" || a.name.empty()) return pass("can only create tokens for individual service accounts");
    if (a.subresource != "token") return pass("can only create token subresource of serviceaccount");
    return is_related(node, a) ? allow() : unrelated(node);
  }

  static Decision lease(const std::string& node, const Attributes& a) {
    if (!one_of(a.verb, {"get", "create", "update", "patch", "delete"})) {
      return pass("can only get, create, update, patch, or delete a node lease");
    }
    if (a.ns != kLeaseNamespace) {
      return pass(fmt::format("can only access leases in the \"{}\" system namespace", kLeaseNamespace));
    }
    if (a.verb != "create" && a.name != node) {
      return pass("can only access node lease with the same name as the requesting node");
    }
    return allow();
  }

  static Decision csi_node(const std::string& node, const Attributes& a) {
    if (!one_of(a.verb, {"get", "create", "update", "patch", "delete"})) {
      return pass("can only get, create, update, patch, or delete a CSINode");
    }
    if (!a.subresource.empty()) return pass("cannot authorize CSINode subresources");
    if (a.verb != "create" && a.name != node) {
      return pass("can only access CSINode with the same name as the requesting node");
    }
    return allow();
  }

  static bool selects(const Attributes& a, std::string_view field, const std::string& value) {
    return std::any_of(a.field_selector.begin(), a.field_selector.end(), [&](const kube::FieldRequirement& r) {
      return r.equals && r.field == field && r.value == value;
    });
  }

  Decision resource_slice(const std::string& node, const Attributes& a) const {
    if (!a.subresource.empty()) return pass("cannot authorize ResourceSlice subresources");
    if (a.verb == "create") return allow();
    if (one_of(a.verb, {"get", "update", "patch", "delete"})) return related(node, a);
    if (one_of(a.verb, {"watch", "list", "deletecollection"})) {
      if (selects(a, "spec.nodeName", node)) return allow();
      return pass("can only list/watch/deletecollection resourceslices with nodeName field selector");
    }
    return pass(
        "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, "
        "deletecollection");
  }

  static Decision node_object(const std::string& node, const Attributes& a) {
    if (a.subresource == "status") return one_of(a.verb, {"update", "patch"}) ? allow() : pass();
    if (!a.subresource.empty()) return pass();
    if (one_of(a.verb, {"create", "update", "patch"})) return allow();
    if (!one_of(a.verb, {"get", "list", "watch"})) return pass();
    // A list or watch of one name asks for that name.
    std::string name = a.name;
    for (const kube::FieldRequirement& r : a.field_selector) {
      if (name.empty() && r.equals && r.field == "metadata.name") name = r.value;
    }
    if (name == node) return allow();
    if (name.empty()) return pass(fmt::format("node '{}' cannot read all nodes, only its own Node object", node));
    return pass(fmt::format("node '{}' cannot read '{}', only its own Node object", node, name));
  }

  Decision pod(const std::string& node, const Attributes& a) const {
    if (a.subresource == "status") return one_of(a.verb, {"update", "patch"}) ? allow() : pass();
    if (a.subresource == "eviction") return a.verb == "create" ? allow() : pass();
    if (!a.subresource.empty()) return pass();
    if (a.verb == "get") return related(node, a);
    if (a.verb == "create" || a.verb == "delete") return allow();
    if (!one_of(a.verb, {"list", "watch"})) return pass();
    if (selects(a, "spec.nodeName", node)) return allow();
    if (!a.name.empty()) return related(node, a);
    return pass("can only list/watch pods with spec.nodeName field selector");
  }

  // ---- relations, read from the store

  bool is_related(const std::string& node, const Attributes& a) const {
    if (objects_.get("nodes", "", node) == nullptr && a.resource != "pods") return false;
    if (a.resource == "pods") return object_names(objects_.get("pods", a.ns, a.name), "spec.nodeName", node);
    if (a.resource == "volumeattachments") {
      return object_names(objects_.get("volumeattachments.storage.k8s.io", "", a.name), "spec.nodeName", node);
    }
    if (a.resource == "resourceslices") {
      return object_names(objects_.get("resourceslices.resource.k8s.io", "", a.name), "spec.nodeName", node);
    }
    if (a.resource == "persistentvolumes") return volume_related(node, a.name);
    return used_by_pod(node, a.resource, a.ns, a.name);
  }

  static bool object_names(const ObjectRef& object, std::string_view path, const std::string& value) {
    if (object == nullptr) return false;
    Result<Json> json = kube::parse_json(object->json);
    return json.ok() && kube::get_string(*json, path) == value;
  }

  bool volume_related(const std::string& node, const std::string& name) const {
    const ObjectRef volume = objects_.get("persistentvolumes", "", name);
    if (volume == nullptr) return false;
    Result<Json> json = kube::parse_json(volume->json);
    if (!json.ok()) return false;
    const std::string_view ns = kube::get_string(*json, "spec.claimRef.namespace");
    const std::string_view claim = kube::get_string(*json, "spec.claimRef.name");
    return !claim.empty() && used_by_pod(node, "persistentvolumeclaims", ns, claim);
  }

  bool used_by_pod(const std::string& node, std::string_view resource, std::string_view ns,
                   std::string_view name) const {
    if (objects_.store == nullptr || !objects_.kind_of) return false;
    const KindId pods = objects_.kind_of("pods");
    if (pods == ClusterObjects::kNoKind) return false;
    ListOptions options;
    options.prefix = std::string(ns) + "/";
    const int field = objects_.pod_node_name_field;
    const std::string needle = "\"nodeName\":\"" + node + "\"";
    options.filter = [&](const Object& pod) {
      if (field >= 0 && static_cast<size_t>(field) < pod.fields.size())
        return pod.fields[static_cast<size_t>(field)] == node;
      return pod.json.find(needle) != std::string::npos;
    };
    Result<ListResult> list = objects_.store->list(pods, options);
    if (!list.ok()) return false;
    return std::any_of(list->items.begin(), list->items.end(), [&](const ObjectRef& object) {
      Result<Json> pod = kube::parse_json(object->json);
      return pod.ok() && kube::get_string(*pod, "spec.nodeName") == node && pod_uses(*pod, resource, name);
    });
  }

  ClusterObjects objects_;
  std::vector<PolicyRule> rules_;
};

}  // namespace

bool node_identity(const UserInfo& user, std::string* node) {
  if (user.name.compare(0, kNodePrefix.size(), kNodePrefix) != 0 || !user.in_group(kNodeGroup)) return false;
  *node = user.name.substr(kNodePrefix.size());
  return true;
}

std::unique_ptr<Authorizer> make_node_authorizer(ClusterObjects objects) {
  return std::make_unique<NodeAuthorizer>(std::move(objects));
}

}  // namespace ghostfleet::controlplane
