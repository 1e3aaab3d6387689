// Nodes, namespaces, secrets and config maps.
#include <fmt/format.h>

#include <set>

#include "base/digest.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/pod_validation.h"
#include "controlplane/apiserver/strategies/resources.h"
#include "controlplane/apiserver/strategies/workload_common.h"
#include "kube/api/names.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr size_t kMaxSecretBytes = 1024 * 1024;
constexpr std::string_view kWhenImmutable = "field is immutable when `immutable` is set";

// ---- Node ---------------------------------------------------------------------------------------------------------

class NodeStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    align_pod_ranges(object);
    Json* status = member(object, "status");
    if (status == nullptr || !status->is_object()) return;
    for (std::string_view key : {"capacity", "allocatable"}) {
      if (Json* list = member(*status, key)) round_up_list(*list);
    }
    const Json* capacity = member(*status, "capacity");
    if (capacity == nullptr || member(*status, "allocatable") != nullptr) return;
    Json copy = *capacity;
    status->get_object()["allocatable"] = std::move(copy);
  }

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    const Json& spec = spec_of(object);
    check_taints(array_of(spec, "taints"), Path("metadata.taints"), out);
    check_resources(object, out);
    const JsonArray* ranges = array_of(spec, "podCIDRs");
    for (size_t i = 0; ranges != nullptr && i < ranges->size(); ++i) {
      Path path("spec");
      std::string_view range = as_text((*ranges)[i]);
      if (!kube::is_valid_cidr(range)) {
        out.invalid_text(path.child("podCIDRs", i), range,
                         "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
      }
    }
    if (ranges != nullptr && ranges->size() > 2) {
      out.invalid(Path("spec.podCIDRs"), json_text(*ranges), "may specify no more than one CIDR for each IP family");
    }
  }

  void check_update(const Json& object, const Json& old, StrategyContext& ctx, Findings& out) const override {
    check(object, ctx, out);
    check_kept(object, old, out);
  }

  void check_status(const Json& object, const Json& old, StrategyContext&, Findings& out) const override {
    check_resources(object, out);
    check_kept(object, old, out);
  }

 private:
  static void align_pod_ranges(Json& object) {
    Json* spec = member(object, "spec");
    if (spec == nullptr || !spec->is_object()) return;
    std::string_view first = text_of(*spec, "podCIDR");
    const JsonArray* ranges = array_of(*spec, "podCIDRs");
    bool has_ranges = ranges != nullptr && !ranges->empty();
    if (!first.empty() && !has_ranges) {
      std::string copy(first);
      spec->get_object()["podCIDRs"] = JsonArray{Json(copy)};
    } else if (first.empty() && has_ranges) {
      std::string copy(as_text((*ranges)[0]));
      spec->get_object()["podCIDR"] = copy;
    } else if (has_ranges && as_text((*ranges)[0]) != first) {
      // A client that knows only the single field changes it alone.
      std::string copy(first);
      spec->get_object()["podCIDRs"] = JsonArray{Json(copy)};
    }
  }

  static void check_resources(const Json& object, Findings& out) {
    const Json& status = status_of(object);
    for (std::string_view key : {"capacity", "allocatable"}) {
      Path path("status");
      Path at = path.child(key);
      const JsonObject* list = object_of(status, key);
      if (list == nullptr) continue;
      for (const auto& entry : *list) {
        check_resource_value(entry.key(), entry.value(), at.key(entry.key()), out);
      }
    }
  }

  static void check_kept(const Json& object, const Json& old, Findings& out) {
    const Json& spec = spec_of(object);
    const Json& before = spec_of(old);
    const JsonArray* ranges = array_of(before, "podCIDRs");
    if (ranges != nullptr && !ranges->empty() && !equal_members(spec, before, "podCIDRs")) {
      out.forbidden(Path("spec.podCIDRs"), "node updates may not change podCIDR except from \"\" to valid");
    }
    std::string_view provider = text_of(before, "providerID");
    if (!provider.empty() && provider != text_of(spec, "providerID")) {
      out.forbidden(Path("spec.providerID"), "node updates may not change providerID except from \"\" to valid");
    }
    const JsonArray* addresses = array_of(status_of(object), "addresses");
    std::set<std::string> seen;
    for (size_t i = 0; addresses != nullptr && i < addresses->size(); ++i) {
      std::string key = fmt::format("{{\"Type\":{},\"Address\":{}}}", quoted(text_of((*addresses)[i], "type")),
                                    quoted(text_of((*addresses)[i], "address")));
      Path path("status");
      if (!seen.insert(key).second) out.duplicate_value(path.child("addresses", i), key);
    }
  }
};

// ---- Namespace ----------------------------------------------------------------------------------------------------

class NamespaceStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    std::string name(name_of(object));
    if (!name.empty()) set_name_label(object, name);
    default_text(object_in(object.get_object(), "status"), "phase", "Active");
  }

  void prepare_for_create(Json& object, StrategyContext&) const override {
    JsonObject& root = object.get_object();
    root["status"] = JsonObject{{"phase", "Active"}};
    JsonObject& spec = make_spec(object);
    Json& finalizers = spec["finalizers"];
    if (!finalizers.is_array()) finalizers = JsonArray();
    bool has = false;
    for (const Json& f : finalizers.get_array()) has = has || as_text(f) == "kubernetes";
    if (!has) finalizers.get_array().emplace_back("kubernetes");
    set_name_label(object, std::string(name_of(object)));
  }

  void prepare_for_update(Json& object, const Json& old, StrategyContext& ctx) const override {
    JsonObject& root = object.get_object();
    if (ctx.subresource != "finalize") copy_member(root, old, "spec");
    if (ctx.subresource != "status") copy_member(root, old, "status");
    set_generation(object, generation_of(old));
  }

  void prepare_for_delete(Json& object, StrategyContext&) const override {
    metadata_of(object).get_object().erase("deletionGracePeriodSeconds");
    object_in(object.get_object(), "status")["phase"] = "Terminating";
  }

  // The first delete only marks, whatever holds it.
  bool held_by_spec(const Json& object) const override {
    if (text_of(metadata_of(object), "deletionTimestamp").empty()) return true;
    const JsonArray* finalizers = array_of(spec_of(object), "finalizers");
    return finalizers != nullptr && !finalizers->empty();
  }

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override { check_spec(object, out); }

  void check_status(const Json& object, const Json&, StrategyContext& ctx, Findings& out) const override {
    if (ctx.subresource == "finalize") {
      check_spec(object, out);
      return;
    }
    std::string_view phase = text_of(status_of(object), "phase");
    bool deleting = !text_of(metadata_of(object), "deletionTimestamp").empty();
    if (!deleting && phase != "Active") {
      out.invalid_text(Path("status.Phase"), phase, "may only be 'Active' if `deletionTimestamp` is empty");
    } else if (deleting && phase != "Terminating") {
      out.invalid_text(Path("status.Phase"), phase, "may only be 'Terminating' if `deletionTimestamp` is not empty");
    }
  }

 private:
  static void set_name_label(Json& object, const std::string& name) {
    object_in(metadata_of(object).get_object(), "labels")["kubernetes.io/metadata.name"] = name;
  }

  static void check_spec(const Json& object, Findings& out) {
    const JsonArray* finalizers = array_of(spec_of(object), "finalizers");
    for (size_t i = 0; finalizers != nullptr && i < finalizers->size(); ++i) {
      std::string_view name = as_text((*finalizers)[i]);
      Path path("spec");
      Path at = path.child("finalizers", i);
      out.messages(at, name, kube::check_qualified_name(name));
      if (name.find('/') == std::string_view::npos && name != "kubernetes" && name != "orphan" &&
          name != "foregroundDeletion") {
        out.invalid_text(at, name, "name is neither a standard finalizer name nor is it fully qualified");
      }
    }
  }
};

// ---- Secret, ConfigMap --------------------------------------------------------------------------------------------

size_t decoded_size(const Json& value) {
  std::string_view text = as_text(value);
  return text.size() / 4 * 3;
}

void check_keys(const Json& object, std::string_view member_name, Findings& out) {
  const JsonObject* data = object_of(object, member_name);
  if (data == nullptr) return;
  Path path(member_name);
  for (const auto& entry : *data) {
    out.messages(path.key(entry.key()), entry.key(), kube::check_config_map_key(entry.key()));
  }
}

void check_immutable_data(const Json& object, const Json& old, std::initializer_list<std::string_view> members,
                          Findings& out) {
  if (!bool_of(old, "immutable")) return;
  if (!bool_of(object, "immutable")) out.forbidden(Path("immutable"), kWhenImmutable);
  for (std::string_view key : members) {
    const JsonObject* now = object_of(object, key);
    const JsonObject* before = object_of(old, key);
    bool both_empty = (now == nullptr || now->empty()) && (before == nullptr || before->empty());
    if (!both_empty && !equal_members(object, old, key)) out.forbidden(Path(key), kWhenImmutable);
  }
}

class SecretStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    JsonObject& root = object.get_object();
    default_text(root, "type", "Opaque");
    const JsonObject* plain = object_of(object, "stringData");
    if (plain != nullptr && !plain->empty()) {
      JsonObject copy = *plain;
      JsonObject& data = object_in(root, "data");
      for (const auto& entry : copy) data[entry.key()] = base64_encode(as_text(entry.value()));
    }
    root.erase("stringData");
  }

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    check_keys(object, "data", out);
    size_t total = 0;
    const JsonObject* data = object_of(object, "data");
    for (auto it = data == nullptr ? nullptr : data->begin(); data != nullptr && it != data->end(); ++it) {
      total += decoded_size(it->value());
    }
    if (total > kMaxSecretBytes) out.too_long(Path("data"), kMaxSecretBytes);
    check_type(object, out);
  }

  void check_update(const Json& object, const Json& old, StrategyContext& ctx, Findings& out) const override {
    if (text_of(object, "type") != text_of(old, "type")) {
      out.invalid_text(Path("type"), text_of(object, "type"), kImmutable);
    }
    check_immutable_data(object, old, {"data"}, out);
    check(object, ctx, out);
  }

 private:
  static void need(const Json& object, std::string_view key, Findings& out) {
    const Json* data = member(object, "data");
    Path path("data");
    if (data == nullptr || member(*data, key) == nullptr) out.required(path.key(key));
  }

  static void check_type(const Json& object, Findings& out) {
    std::string_view type = text_of(object, "type");
    if (type == "kubernetes.io/service-account-token") {
      const Json* annotations = member(metadata_of(object), "annotations");
      constexpr std::string_view kName = "kubernetes.io/service-account.name";
      Path path("metadata.annotations");
      if (annotations == nullptr || text_of(*annotations, kName).empty()) out.required(path.key(kName));
    } else if (type == "kubernetes.io/dockercfg") {
      need(object, ".dockercfg", out);
    } else if (type == "kubernetes.io/dockerconfigjson") {
      need(object, ".dockerconfigjson", out);
    } else if (type == "kubernetes.io/tls") {
      need(object, "tls.crt", out);
      need(object, "tls.key", out);
    } else if (type == "kubernetes.io/ssh-auth") {
      need(object, "ssh-privatekey", out);
    } else if (type == "kubernetes.io/basic-auth") {
      const Json* data = member(object, "data");
      if (data == nullptr || (member(*data, "username") == nullptr && member(*data, "password") == nullptr)) {
        need(object, "username", out);
        need(object, "password", out);
      }
    }
  }
};

class ConfigMapStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    check_keys(object, "data", out);
    const JsonObject* data = object_of(object, "data");
    const JsonObject* binary = object_of(object, "binaryData");
    Path path("data");
    size_t total = 0;
    if (data != nullptr) {
      for (const auto& entry : *data) {
        if (binary != nullptr && binary->if_contains(entry.key()) != nullptr) {
          out.invalid_text(path.key(entry.key()), entry.key(), "duplicate of key present in binaryData");
        }
        total += as_text(entry.value()).size();
      }
    }
    check_keys(object, "binaryData", out);
    if (binary != nullptr) {
      for (const auto& entry : *binary) total += decoded_size(entry.value());
    }
    if (total > kMaxSecretBytes) out.too_long(Path(""), kMaxSecretBytes);
  }

  void check_update(const Json& object, const Json& old, StrategyContext& ctx, Findings& out) const override {
    check_immutable_data(object, old, {"data", "binaryData"}, out);
    check(object, ctx, out);
  }
};

}  // namespace

StrategyPointer make_node_strategy(const KindTraits& traits) { return std::make_unique<NodeStrategy>(traits); }
StrategyPointer make_namespace_strategy(const KindTraits& traits) {
  return std::make_unique<NamespaceStrategy>(traits);
}
StrategyPointer make_secret_strategy(const KindTraits& traits) { return std::make_unique<SecretStrategy>(traits); }
StrategyPointer make_config_map_strategy(const KindTraits& traits) {
  return std::make_unique<ConfigMapStrategy>(traits);
}

}  // namespace ghostfleet::controlplane
