#include "agent/pod/static_pod.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/pod/pod_resources.h"
#include "base/hash.h"
#include "kube/api/names.h"

namespace ghostfleet::agent {

using kube::get_array;
using kube::get_string;
using kube::Json;
using kube::JsonObject;

namespace {

constexpr std::string_view kConfigSource = "kubernetes.io/config.source";
constexpr std::string_view kConfigSeen = "kubernetes.io/config.seen";

Status bad(std::string_view source, std::string_view what) {
  return invalid_argument(fmt::format("{}: {}", source, what));
}

Status check_manifest(const Json& manifest, std::string_view source, std::string_view node_name) {
  if (!manifest.is_object() || get_string(manifest, "kind") != "Pod" || get_string(manifest, "apiVersion") != "v1") {
    return bad(source, "a manifest with apiVersion: v1 and kind: Pod is expected");
  }
  const std::string_view name = get_string(manifest, "metadata.name");
  if (const auto faults = kube::check_dns1123_subdomain(fmt::format("{}-{}", name, node_name));
      name.empty() || !faults.empty()) {
    return bad(source, fmt::format("metadata.name \"{}\": {}", name, name.empty() ? "is required" : faults.front()));
  }
  const std::string_view ns = get_string(manifest, "metadata.namespace");
  if (!ns.empty() && !kube::check_dns1123_label(ns).empty()) {
    return bad(source, fmt::format("metadata.namespace \"{}\": a DNS label is expected", ns));
  }
  const auto* containers = get_array(manifest, "spec.containers");
  if (containers == nullptr || containers->empty()) return bad(source, "spec.containers: at least one is expected");
  for (const Json& c : *containers) {
    if (get_string(c, "name").empty()) return bad(source, "spec.containers: each needs a name");
  }
  // Nothing else can follow from a file: what lies in the API is not the node's to refer to.
  for (const std::string_view field : {"serviceAccountName", "serviceAccount"}) {
    const std::string path = "spec." + std::string(field);
    if (!get_string(manifest, path).empty()) return bad(source, path + ": a static pod has none");
  }
  if (get_array(manifest, "spec.resourceClaims") != nullptr) {
    return bad(source, "spec.resourceClaims: static pods may not use ResourceClaims");
  }
  return Status();
}

void set_default(Json& object, std::string_view path, Json value) {
  const Json* have = kube::find_path(object, path);
  if (have == nullptr || have->is_null()) kube::set_path(object, path, std::move(value));
}

std::string_view default_pull_policy(std::string_view image) {
  const size_t slash = image.rfind('/');
  const size_t colon = image.find(':', slash == std::string_view::npos ? 0 : slash);
  const bool fixed = image.find('@') != std::string_view::npos ||
                     (colon != std::string_view::npos && image.substr(colon) != ":latest");
  return fixed ? "IfNotPresent" : "Always";
}

void fill_defaults(Json& pod) {
  set_default(pod, "spec.restartPolicy", "Always");
  set_default(pod, "spec.terminationGracePeriodSeconds", 30);
  set_default(pod, "spec.dnsPolicy", "ClusterFirst");
  for (const std::string_view list : {"spec.initContainers", "spec.containers"}) {
    Json* containers = kube::find_path(pod, list);
    if (containers == nullptr || !containers->is_array()) continue;
    for (Json& c : containers->get_array()) {
      if (c.is_object()) set_default(c, "imagePullPolicy", Json(default_pull_policy(get_string(c, "image"))));
    }
  }
}

void tolerate_all(Json& pod) {
  kube::JsonArray& list = kube::ensure_array(pod, "spec.tolerations");
  const auto same = [](const Json& t) {
    return get_string(t, "operator") == "Exists" && get_string(t, "effect") == "NoExecute" &&
           get_string(t, "key").empty();
  };
  if (std::none_of(list.begin(), list.end(), same)) {
    list.push_back(JsonObject{{"effect", "NoExecute"}, {"operator", "Exists"}});
  }
}

// RFC 3339 with as many digits of a second as there are.
std::string format_nanos(WallTime t) {
  std::string out = format_time(t);
  std::string fraction = fmt::format("{:09}", t.ns % 1000000000);
  while (!fraction.empty() && fraction.back() == '0') fraction.pop_back();
  if (!fraction.empty()) out.insert(out.size() - 1, "." + fraction);
  return out;
}

}  // namespace

Result<Json> make_static_pod(const Json& manifest, std::string_view source, std::string_view node_name, WallTime now) {
  GF_RETURN_IF_ERROR(check_manifest(manifest, source, node_name));
  const std::string text = fmt::format("{}host:{}file:{}", kube::to_json(manifest), node_name, source);
  const std::string uid = fmt::format("{:016x}{:016x}", hash_text(text, 1), hash_text(text, 2));
  Json pod = manifest;
  fill_defaults(pod);
  tolerate_all(pod);
  kube::set_path(pod, "metadata.name", Json(fmt::format("{}-{}", get_string(manifest, "metadata.name"), node_name)));
  set_default(pod, "metadata.namespace", "default");
  kube::set_path(pod, "metadata.uid", Json(uid));
  JsonObject& notes = kube::ensure_object(pod, "metadata.annotations");
  notes[kConfigHash] = uid;
  notes[kConfigSeen] = format_nanos(now);
  notes[kConfigSource] = "file";
  kube::set_path(pod, "spec.nodeName", Json(node_name));
  kube::set_path(pod, "status", JsonObject{{"phase", "Pending"}, {"qosClass", qos_class(pod)}});
  return pod;
}

Json make_mirror_pod(const Json& static_pod, std::string_view node_name, std::string_view node_uid) {
  Json mirror = static_pod;
  JsonObject& metadata = kube::ensure_object(mirror, "metadata");
  const std::string hash(get_string(static_pod, "metadata.uid"));
  kube::ensure_object(mirror, "metadata.annotations")[kConfigMirror] = hash;
  JsonObject owner{
      {"apiVersion", "v1"}, {"kind", "Node"}, {"name", node_name}, {"uid", node_uid}, {"controller", true}};
  metadata["ownerReferences"] = kube::JsonArray{std::move(owner)};
  kube::set_path(mirror, "status", JsonObject{{"phase", "Pending"}});
  return mirror;
}

std::string_view mirror_hash(const Json& pod) {
  const JsonObject* notes = kube::get_object(pod, "metadata.annotations");
  const Json* hash = notes == nullptr ? nullptr : notes->if_contains(kConfigMirror);
  return hash != nullptr && hash->is_string() ? std::string_view(hash->get_string()) : std::string_view();
}

}  // namespace ghostfleet::agent
