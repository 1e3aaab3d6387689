// Volumes, claims, storage classes, CSI drivers.
#include <fmt/format.h>

#include <array>

#include "controlplane/apiserver/strategies/go_diff.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/pod_defaults.h"
#include "controlplane/apiserver/strategies/pod_validation.h"
#include "controlplane/apiserver/strategies/resources.h"
#include "controlplane/apiserver/strategies/workload_common.h"
#include "kube/api/names.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

void check_access_modes(const Json& spec, const Path& path, std::string_view missing, Findings& out) {
  const JsonArray* modes = array_of(spec, "accessModes");
  Path at = path.child("accessModes");
  if (modes == nullptr || modes->empty()) {
    out.required(at, missing);
    return;
  }
  bool one_pod = false;
  bool others = false;
  for (const Json& mode : *modes) {
    std::string_view name = as_text(mode);
    if (!one_of(name, {"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"})) {
      out.not_supported(at, name, {"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"});
    }
    (name == "ReadWriteOncePod" ? one_pod : others) = true;
  }
  if (one_pod && others) out.forbidden(at, "may not use ReadWriteOncePod with other access modes");
}

void check_volume_mode(const Json& spec, const Path& path, Findings& out) {
  std::string_view mode = text_of(spec, "volumeMode");
  if (!one_of(mode, {"", "Block", "Filesystem"})) {
    out.not_supported(path.child("volumeMode"), mode, {"Block", "Filesystem"});
  }
}

// Everything a volume may be made of.
constexpr std::array<std::string_view, 22> kSources = {"hostPath",
                                                       "nfs",
                                                       "csi",
                                                       "local",
                                                       "awsElasticBlockStore",
                                                       "gcePersistentDisk",
                                                       "iscsi",
                                                       "fc",
                                                       "rbd",
                                                       "cephfs",
                                                       "azureDisk",
                                                       "azureFile",
                                                       "cinder",
                                                       "glusterfs",
                                                       "quobyte",
                                                       "flexVolume",
                                                       "vsphereVolume",
                                                       "photonPersistentDisk",
                                                       "portworxVolume",
                                                       "scaleIO",
                                                       "storageos",
                                                       "flocker"};

// ---- PersistentVolume ---------------------------------------------------------------------------------------------

class PersistentVolumeStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    JsonObject& spec = make_spec(object);
    default_text(object_in(object.get_object(), "status"), "phase", "Pending");
    default_text(spec, "persistentVolumeReclaimPolicy", "Retain");
    default_to(spec, "volumeMode", "Filesystem");
    if (Json* path = spec.if_contains("hostPath")) {
      if (path->is_object()) default_to(path->get_object(), "type", "");
    }
  }

  void prepare_for_create(Json& object, StrategyContext& ctx) const override {
    object.get_object()["status"] = JsonObject{{"phase", "Pending"}, {"lastPhaseTransitionTime", now_text(ctx)}};
  }

  void prepare_for_update(Json& object, const Json& old, StrategyContext& ctx) const override {
    KindStrategy::prepare_for_update(object, old, ctx);
    if (ctx.subresource != "status") return;
    JsonObject& status = object_in(object.get_object(), "status");
    const Json& before = status_of(old);
    std::string_view then = text_of(before, "lastPhaseTransitionTime");
    bool moved = text_of(status_of(object), "phase") != text_of(before, "phase");
    bool same_time = text_of(status_of(object), "lastPhaseTransitionTime") == then;
    if (!moved && text_of(status_of(object), "lastPhaseTransitionTime").empty()) {
      copy_member(status, before, "lastPhaseTransitionTime");
    } else if (moved && (same_time || text_of(status_of(object), "lastPhaseTransitionTime").empty())) {
      status["lastPhaseTransitionTime"] = now_text(ctx);
    }
  }

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    const Json& spec = spec_of(object);
    Path path("spec");
    check_access_modes(spec, path, "", out);
    const JsonObject* capacity = object_of(spec, "capacity");
    Path capacity_path = path.child("capacity");
    if (capacity == nullptr || capacity->empty()) out.required(capacity_path);
    if (quantity_text(member(spec, "capacity"), "storage").empty() || capacity->size() > 1) {
      out.not_supported(capacity_path, "", {"storage"});
    } else if (!quantity_is_positive(quantity_text(member(spec, "capacity"), "storage"))) {
      out.invalid_text(capacity_path.key("storage"), quantity_text(member(spec, "capacity"), "storage"),
                       "must be greater than zero");
    }
    std::string_view reclaim = text_of(spec, "persistentVolumeReclaimPolicy");
    if (!one_of(reclaim, {"Delete", "Recycle", "Retain"})) {
      out.not_supported(path.child("persistentVolumeReclaimPolicy"), reclaim, {"Delete", "Recycle", "Retain"});
    }
    check_source(spec, path, out);
    check_volume_mode(spec, path, out);
  }

  void check_update(const Json& object, const Json& old, StrategyContext& ctx, Findings& out) const override {
    check(object, ctx, out);
    const Json& spec = spec_of(object);
    const Json& before = spec_of(old);
    for (std::string_view key : kSources) {
      if (!equal_members(spec, before, key)) {
        out.forbidden(Path("spec.persistentvolumesource"), "spec.persistentvolumesource is immutable after creation\n");
        break;
      }
    }
    if (!equal_members(spec, before, "volumeMode")) {
      out.invalid_text(Path("volumeMode"), text_of(spec, "volumeMode"), kImmutable);
    }
  }

 private:
  static void check_source(const Json& spec, const Path& path, Findings& out) {
    int count = 0;
    for (std::string_view key : kSources) {
      if (member(spec, key) == nullptr) continue;
      if (++count > 1) out.forbidden(path.child(key), "may not specify more than 1 volume type");
    }
    if (count == 0) out.required(path, "must specify a volume type");
    if (const Json* host = member(spec, "hostPath"); host != nullptr && text_of(*host, "path").empty()) {
      out.required(path.child("hostPath.path"));
    }
    if (const Json* csi = member(spec, "csi")) {
      Path at = path.child("csi");
      for (std::string_view key : {"driver", "volumeHandle"}) {
        if (text_of(*csi, key).empty()) out.required(at.child(key));
      }
    }
  }
};

// ---- PersistentVolumeClaim ----------------------------------------------------------------------------------------

class PersistentVolumeClaimStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    default_text(object_in(object.get_object(), "status"), "phase", "Pending");
    default_claim_spec(object.get_object()["spec"]);
  }

  void prepare_for_create(Json& object, StrategyContext&) const override {
    object.get_object()["status"] = JsonObject{{"phase", "Pending"}};
  }

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    const Json& spec = spec_of(object);
    Path path("spec");
    check_access_modes(spec, path, "at least 1 access mode is required", out);
    check_label_selector(member(spec, "selector"), path.child("selector"), out);
    const Json* resources = member(spec, "resources");
    std::string_view size = resources == nullptr ? "" : quantity_text(member(*resources, "requests"), "storage");
    Path at = path.child("resources");
    if (size.empty()) {
      out.required(at.key("storage"));
    } else if (!quantity_is_positive(size)) {
      out.invalid_text(at.key("storage"), size, "must be greater than zero");
    }
    std::string_view storage_class = text_of(spec, "storageClassName");
    if (!storage_class.empty()) {
      out.messages(path.child("storageClassName"), storage_class, kube::check_dns1123_subdomain(storage_class));
    }
    check_volume_mode(spec, path, out);
  }

  void check_update(const Json& object, const Json& old, StrategyContext& ctx, Findings& out) const override {
    check(object, ctx, out);
    const Json& spec = spec_of(object);
    const Json& before = spec_of(old);
    Json comparable = spec;
    Json base = before;
    if (text_of(before, "volumeName").empty()) copy_member(base.get_object(), spec, "volumeName");
    if (member(before, "storageClassName") == nullptr) copy_member(base.get_object(), spec, "storageClassName");
    std::string_view old_size = size_of(before);
    std::string_view new_size = size_of(spec);
    if (text_of(status_of(object), "phase") == "Bound") {
      copy_member(comparable.get_object(), before, "volumeAttributesClassName");
      if (Json* resources = member(comparable, "resources"); resources != nullptr && !old_size.empty()) {
        object_in(resources->get_object(), "requests")["storage"] = old_size;
      }
    }
    if (!kube::json_equal(comparable, base)) {
      out.forbidden(Path("spec"), fmt::format("spec is immutable after creation except resources.requests and "
                                              "volumeAttributesClassName for bound claims\n{}",
                                              go_diff("core/v1.PersistentVolumeClaimSpec", base, comparable)));
    }
    std::string_view capacity = quantity_text(member(status_of(old), "capacity"), "storage");
    if (quantity_of(new_size) < quantity_of(old_size) && quantity_of(new_size) <= quantity_of(capacity)) {
      out.forbidden(Path("spec.resources.requests.storage"), "field can not be less than status.capacity");
    }
    if (!equal_members(spec, before, "volumeMode")) {
      out.invalid_text(Path("volumeMode"), text_of(spec, "volumeMode"), kImmutable);
    }
  }

 private:
  static std::string_view size_of(const Json& spec) {
    const Json* resources = member(spec, "resources");
    return resources == nullptr ? "" : quantity_text(member(*resources, "requests"), "storage");
  }
};

// ---- StorageClass, CSIDriver --------------------------------------------------------------------------------------

class StorageClassStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    default_text(object.get_object(), "reclaimPolicy", "Delete");
    default_text(object.get_object(), "volumeBindingMode", "Immediate");
  }

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    std::string_view provisioner = text_of(object, "provisioner");
    if (provisioner.empty()) {
      out.required(Path("provisioner"));
    } else {
      out.messages(Path("provisioner"), provisioner, kube::check_qualified_name(provisioner));
    }
    std::string_view reclaim = text_of(object, "reclaimPolicy");
    if (!one_of(reclaim, {"Delete", "Retain"})) out.not_supported(Path("reclaimPolicy"), reclaim, {"Delete", "Retain"});
    std::string_view mode = text_of(object, "volumeBindingMode");
    if (!one_of(mode, {"Immediate", "WaitForFirstConsumer"})) {
      out.not_supported(Path("volumeBindingMode"), mode, {"Immediate", "WaitForFirstConsumer"});
    }
  }

  void check_update(const Json& object, const Json& old, StrategyContext&, Findings& out) const override {
    if (!equal_members(object, old, "parameters")) {
      out.forbidden(Path("parameters"), "updates to parameters are forbidden.");
    }
    for (std::string_view key : {"provisioner", "reclaimPolicy"}) {
      if (text_of(object, key) != text_of(old, key)) {
        out.forbidden(Path(key), fmt::format("updates to {} are forbidden.", key));
      }
    }
    if (text_of(object, "volumeBindingMode") != text_of(old, "volumeBindingMode")) {
      out.invalid_text(Path("volumeBindingMode"), text_of(object, "volumeBindingMode"), kImmutable);
    }
  }
};

class CsiDriverStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    JsonObject& spec = make_spec(object);
    default_to(spec, "attachRequired", true);
    default_to(spec, "podInfoOnMount", false);
    default_to(spec, "storageCapacity", false);
    default_to(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    default_to(spec, "volumeLifecycleModes", JsonArray{"Persistent"});
    default_to(spec, "requiresRepublish", false);
    default_to(spec, "seLinuxMount", false);
  }
};

}  // namespace

StrategyPointer make_persistent_volume_strategy(const KindTraits& traits) {
  return std::make_unique<PersistentVolumeStrategy>(traits);
}
StrategyPointer make_persistent_volume_claim_strategy(const KindTraits& traits) {
  return std::make_unique<PersistentVolumeClaimStrategy>(traits);
}
StrategyPointer make_storage_class_strategy(const KindTraits& traits) {
  return std::make_unique<StorageClassStrategy>(traits);
}
StrategyPointer make_csi_driver_strategy(const KindTraits& traits) {
  return std::make_unique<CsiDriverStrategy>(traits);
}

}  // namespace ghostfleet::controlplane
