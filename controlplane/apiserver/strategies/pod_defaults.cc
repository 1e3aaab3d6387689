#include "controlplane/apiserver/strategies/pod_defaults.h"

#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/resources.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

JsonArray* items(Json& parent, std::string_view key) {
  Json* found = member(parent, key);
  return found != nullptr && found->is_array() ? &found->get_array() : nullptr;
}

template <class Change>
void for_each(Json& parent, std::string_view key, Change change) {
  if (JsonArray* list = items(parent, key)) {
    for (Json& item : *list) {
      if (item.is_object()) change(item);
    }
  }
}

void default_http_get(Json& owner) {
  Json* http = member(owner, "httpGet");
  if (http == nullptr || !http->is_object()) return;
  default_text(http->get_object(), "path", "/");
  default_text(http->get_object(), "scheme", "HTTP");
}

void default_probe(Json& container, std::string_view key) {
  Json* probe = member(container, key);
  if (probe == nullptr || !probe->is_object()) return;
  JsonObject& p = probe->get_object();
  default_number(p, "timeoutSeconds", 1);
  default_number(p, "periodSeconds", 10);
  default_number(p, "successThreshold", 1);
  default_number(p, "failureThreshold", 3);
  default_http_get(*probe);
  if (Json* grpc = member(*probe, "grpc")) default_to(grpc->get_object(), "service", "");
}

void default_lifecycle(Json& container) {
  Json* lifecycle = member(container, "lifecycle");
  if (lifecycle == nullptr) return;
  for (std::string_view key : {"postStart", "preStop"}) {
    if (Json* handler = member(*lifecycle, key)) default_http_get(*handler);
  }
}

void default_field_ref(Json& owner) {
  Json* ref = member(owner, "fieldRef");
  if (ref != nullptr && ref->is_object()) default_text(ref->get_object(), "apiVersion", "v1");
}

void default_container(Json& container) {
  JsonObject& c = container.get_object();
  if (text_of(container, "imagePullPolicy").empty()) {
    c["imagePullPolicy"] = image_tag_is_latest(text_of(container, "image")) ? "Always" : "IfNotPresent";
  }
  default_text(c, "terminationMessagePath", "/dev/termination-log");
  default_text(c, "terminationMessagePolicy", "File");
  for_each(container, "ports", [](Json& port) { default_text(port.get_object(), "protocol", "TCP"); });
  for_each(container, "env", [](Json& env) {
    if (Json* from = member(env, "valueFrom")) default_field_ref(*from);
  });
  for (std::string_view key : {"livenessProbe", "readinessProbe", "startupProbe"}) default_probe(container, key);
  default_lifecycle(container);
  if (Json* resources = member(container, "resources")) round_up_resources(*resources);
  if (Json* security = member(container, "securityContext")) {
    if (security->is_object() && member(*security, "procMount") != nullptr) {
      default_text(security->get_object(), "procMount", "Default");
    }
  }
}

void default_mode(Json& source) {
  if (source.is_object()) default_to(source.get_object(), "defaultMode", 420);
}

void default_projection(Json& source) {
  if (Json* token = member(source, "serviceAccountToken")) {
    default_to(token->get_object(), "expirationSeconds", 3600);
  }
  if (Json* downward = member(source, "downwardAPI")) {
    for_each(*downward, "items", [](Json& item) { default_field_ref(item); });
  }
}

void default_disk_sources(Json& volume) {
  if (Json* rbd = member(volume, "rbd")) {
    default_text(rbd->get_object(), "pool", "rbd");
    default_text(rbd->get_object(), "user", "admin");
    default_text(rbd->get_object(), "keyring", "/etc/ceph/keyring");
  }
  if (Json* iscsi = member(volume, "iscsi")) default_text(iscsi->get_object(), "iscsiInterface", "default");
  if (Json* disk = member(volume, "azureDisk")) {
    default_to(disk->get_object(), "cachingMode", "ReadWrite");
    default_to(disk->get_object(), "kind", "Shared");
    default_to(disk->get_object(), "fsType", "ext4");
    default_to(disk->get_object(), "readOnly", false);
  }
  if (Json* scale_io = member(volume, "scaleIO")) {
    default_text(scale_io->get_object(), "storageMode", "ThinProvisioned");
    default_text(scale_io->get_object(), "fsType", "xfs");
  }
}

bool has_source(const Json& volume) {
  for (const auto& entry : volume.get_object()) {
    if (entry.key() != "name" && !entry.value().is_null()) return true;
  }
  return false;
}

void default_volume(Json& volume) {
  JsonObject& v = volume.get_object();
  if (!has_source(volume)) v["emptyDir"] = JsonObject();
  for (std::string_view key : {"secret", "configMap"}) {
    if (Json* source = member(volume, key)) default_mode(*source);
  }
  if (Json* downward = member(volume, "downwardAPI")) {
    default_mode(*downward);
    for_each(*downward, "items", [](Json& item) { default_field_ref(item); });
  }
  if (Json* projected = member(volume, "projected")) {
    default_mode(*projected);
    for_each(*projected, "sources", default_projection);
  }
  if (Json* host_path = member(volume, "hostPath")) default_to(host_path->get_object(), "type", "");
  if (Json* image = member(volume, "image")) {
    if (text_of(*image, "pullPolicy").empty()) {
      image->get_object()["pullPolicy"] = image_tag_is_latest(text_of(*image, "reference")) ? "Always" : "IfNotPresent";
    }
  }
  if (Json* ephemeral = member(volume, "ephemeral")) {
    if (Json* claim = member(*ephemeral, "volumeClaimTemplate")) {
      default_claim_spec(claim->get_object()["spec"]);
    }
  }
  default_disk_sources(volume);
}

void requests_from_limits(Json& container) {
  Json* resources = member(container, "resources");
  if (resources == nullptr) return;
  const JsonObject* limits = object_of(*resources, "limits");
  if (limits == nullptr || limits->empty()) return;
  JsonObject copy = *limits;
  JsonObject& requests = object_in(resources->get_object(), "requests");
  for (auto& entry : copy) {
    if (requests.if_contains(entry.key()) == nullptr) requests.emplace(entry.key(), std::move(entry.value()));
  }
}

void host_ports(Json& container) {
  for_each(container, "ports",
           [](Json& port) { default_number(port.get_object(), "hostPort", int_of(port, "containerPort")); });
}

}  // namespace

bool image_tag_is_latest(std::string_view image) {
  if (image.find('@') != std::string_view::npos) return false;
  size_t slash = image.rfind('/');
  size_t colon = image.rfind(':');
  bool tagged = colon != std::string_view::npos && (slash == std::string_view::npos || colon > slash);
  return !tagged || image.substr(colon + 1) == "latest";
}

void default_pod_spec(Json& spec) {
  if (!spec.is_object()) spec = JsonObject();
  JsonObject& s = spec.get_object();
  default_text(s, "dnsPolicy", "ClusterFirst");
  default_text(s, "restartPolicy", "Always");
  default_to(s, "securityContext", JsonObject());
  default_to(s, "terminationGracePeriodSeconds", 30);
  default_text(s, "schedulerName", "default-scheduler");
  // The deprecated copy of the service account's name.
  std::string_view account = text_of(spec, "serviceAccountName");
  if (account.empty()) account = text_of(spec, "serviceAccount");
  if (!account.empty()) {
    std::string name(account);
    s["serviceAccountName"] = name;
    s["serviceAccount"] = name;
  }
  for (std::string_view key : {"containers", "initContainers", "ephemeralContainers"}) {
    for_each(spec, key, default_container);
  }
  for_each(spec, "volumes", default_volume);
  for_each(spec, "topologySpreadConstraints", [](Json&) {});
  if (Json* overhead = member(spec, "overhead")) round_up_list(*overhead);
  if (Json* resources = member(spec, "resources")) round_up_resources(*resources);
}

void default_pod_only(Json& spec) {
  JsonObject& s = spec.get_object();
  default_to(s, "enableServiceLinks", true);
  bool host_network = bool_of(spec, "hostNetwork");
  for (std::string_view key : {"containers", "initContainers"}) {
    for_each(spec, key, [host_network](Json& container) {
      requests_from_limits(container);
      if (host_network) host_ports(container);
    });
  }
}

void default_template(Json& template_object) {
  if (!template_object.is_object()) template_object = JsonObject();
  default_pod_spec(template_object.get_object()["spec"]);
}

void default_claim_spec(Json& spec) {
  if (!spec.is_object()) spec = JsonObject();
  default_to(spec.get_object(), "volumeMode", "Filesystem");
  if (Json* resources = member(spec, "resources")) round_up_resources(*resources);
}

namespace {

// Adds what a container contributes to the two sums; answers whether it limits both cpu and memory.
struct QosSums {
  bool any = false;         // some request or limit of cpu or memory above zero
  bool all_limited = true;  // every container limits cpu and memory
  bool equal = true;        // requests equal limits everywhere
};

void add_to_qos(const Json& container, QosSums& sums) {
  const Json* resources = member(container, "resources");
  int limits = 0;
  for (std::string_view name : {"cpu", "memory"}) {
    std::string_view limit = resources == nullptr ? "" : quantity_text(member(*resources, "limits"), name);
    std::string_view request = resources == nullptr ? "" : quantity_text(member(*resources, "requests"), name);
    bool has_limit = quantity_is_positive(limit);
    bool has_request = quantity_is_positive(request);
    sums.any = sums.any || has_limit || has_request;
    if (has_limit) ++limits;
    if (has_request != has_limit || (has_limit && !same_quantity(limit, request))) sums.equal = false;
  }
  if (limits != 2) sums.all_limited = false;
}

}  // namespace

std::string_view qos_class(const Json& spec) {
  QosSums sums;
  const Json* pod_level = member(spec, "resources");
  if (pod_level != nullptr && (member(*pod_level, "limits") != nullptr || member(*pod_level, "requests") != nullptr)) {
    add_to_qos(spec, sums);
  } else {
    for (std::string_view key : {"containers", "initContainers"}) {
      if (const JsonArray* list = array_of(spec, key)) {
        for (const Json& container : *list) add_to_qos(container, sums);
      }
    }
  }
  if (!sums.any) return "BestEffort";
  return sums.all_limited && sums.equal ? "Guaranteed" : "Burstable";
}

}  // namespace ghostfleet::controlplane
