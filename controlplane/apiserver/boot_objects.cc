#include "controlplane/apiserver/boot_objects.h"

#include "base/log.h"
#include "controlplane/auth/authorizer.h"
#include "kube/api/codec.h"

namespace ghostfleet::controlplane {
namespace {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

const Resource* resource_of(const Api& api, const Json& object) {
  const std::string_view version = kube::get_string(object, "apiVersion"), kind = kube::get_string(object, "kind");
  for (const Resource* r : api.resources()) {
    if (r->info.kind == kind && r->info.api_version() == version) return r;
  }
  return nullptr;
}

Status create(Api& api, Json object) {
  const Resource* r = resource_of(api, object);
  if (!r) return internal_error("no resource for " + kube::to_json(object));
  const std::string ns(kube::get_string(object, "metadata.namespace"));
  const std::string name(kube::get_string(object, "metadata.name"));
  if (kube::ApiResult<ObjectRef> there = api.get(*r, ns, name); there.ok()) return Status();
  if (r->info.type) {
    kube::ApiResult<Json> normal = kube::normalize(std::move(object), *r->info.type);
    if (!normal.ok()) return normal.error().to_status().with_context(name);
    object = std::move(*normal);
  }
  RequestContext ctx = internal_context("apiserver");
  ctx.field_manager = "kube-apiserver";
  kube::ApiResult<WriteOutcome> created = api.create(*r, ns, std::move(object), ctx);
  if (created.ok()) return Status();
  return created.error().to_status().with_context(r->info.kind + " " + name);
}

Json object(std::string_view version, std::string_view kind, std::string_view ns, std::string_view name) {
  JsonObject metadata{{"name", name}};
  if (!ns.empty()) metadata["namespace"] = ns;
  return JsonObject{{"apiVersion", version}, {"kind", kind}, {"metadata", std::move(metadata)}};
}

Json priority_class(std::string_view name, int64_t value, std::string_view description) {
  Json made = object("scheduling.k8s.io/v1", "PriorityClass", "", name);
  made.as_object()["value"] = value;
  made.as_object()["description"] = description;
  made.as_object()["preemptionPolicy"] = "PreemptLowerPriority";
  return made;
}

// The first address of the range belongs to the API server.
std::string first_service_ip(const std::string& cidr) {
  const std::string base = cidr.substr(0, cidr.find('/'));
  const size_t dot = base.rfind('.');
  return dot == std::string::npos ? "10.96.0.1" : base.substr(0, dot) + ".1";
}

Json kubernetes_service(const std::string& cidr) {
  Json service = object("v1", "Service", "default", "kubernetes");
  kube::set_path(service, "metadata.labels", JsonObject{{"component", "apiserver"}, {"provider", "kubernetes"}});
  service.as_object()["spec"] = JsonObject{
      {"clusterIP", first_service_ip(cidr)},
      {"type", "ClusterIP"},
      {"sessionAffinity", "None"},
      {"ports", JsonArray{JsonObject{{"name", "https"}, {"port", 443}, {"protocol", "TCP"}, {"targetPort", 6443}}}}};
  return service;
}

Json service_range(const std::string& cidr) {
  Json range = object("networking.k8s.io/v1", "ServiceCIDR", "", "kubernetes");
  range.as_object()["spec"] = JsonObject{{"cidrs", JsonArray{Json(kube::JsonString(cidr))}}};
  return range;
}

// What an aggregated API server reads to know whom to believe. A user's own additions stay; what is ours is set again.
Status publish_authentication(Api& api, const Pki& pki) {
  const std::pair<std::string_view, std::string> ours[] = {
      {"client-ca-file", pki.ca().cert_pem},
      {"requestheader-allowed-names", kube::to_json(JsonArray{Json(kube::JsonString(kFrontProxyClientName))})},
      {"requestheader-client-ca-file", pki.front_proxy_ca().cert_pem},
      {"requestheader-extra-headers-prefix", R"(["X-Remote-Extra-"])"},
      {"requestheader-group-headers", R"(["X-Remote-Group"])"},
      {"requestheader-username-headers", R"(["X-Remote-User"])"}};
  const Resource* maps = api.find("", "v1", "configmaps");
  RequestContext ctx = internal_context("apiserver");
  ctx.field_manager = "kube-apiserver";
  const auto change = [&](Json& live) -> kube::ApiResult<bool> {
    JsonObject& data = kube::ensure_object(live, "data");
    for (const auto& [key, value] : ours) data[key] = value;
    return true;
  };
  const kube::ApiResult<WriteOutcome> done =
      api.modify(*maps, "kube-system", "extension-apiserver-authentication", "", change, ctx);
  return done.ok() ? Status() : done.error().to_status().with_context("extension-apiserver-authentication");
}

}  // namespace

Status create_boot_objects(Api& api, const std::string& service_cidr, const Pki* pki) {
  for (const char* ns : {"kube-system", "kube-public", "kube-node-lease", "default"}) {
    GF_RETURN_IF_ERROR(create(api, object("v1", "Namespace", "", ns)));
  }
  GF_RETURN_IF_ERROR(create(api, priority_class("system-node-critical", 2000001000,
                                                "For pods a node cannot do without: never moved off their node.")));
  GF_RETURN_IF_ERROR(
      create(api, priority_class("system-cluster-critical", 2000000000,
                                 "For pods a cluster cannot do without: may be moved to another node.")));
  GF_RETURN_IF_ERROR(create(api, service_range(service_cidr)));
  GF_RETURN_IF_ERROR(create(api, kubernetes_service(service_cidr)));
  GF_RETURN_IF_ERROR(create(api, object("v1", "ConfigMap", "kube-system", "extension-apiserver-authentication")));
  if (pki) GF_RETURN_IF_ERROR(publish_authentication(api, *pki));
  for (Json& role : bootstrap_rbac_objects()) GF_RETURN_IF_ERROR(create(api, std::move(role)));
  return Status();
}

Status create_api_endpoints(Api& api, const std::string& address, uint16_t port) {
  Json endpoints = object("v1", "Endpoints", "default", "kubernetes");
  kube::set_path(endpoints, "metadata.labels", JsonObject{{"endpointslice.kubernetes.io/skip-mirror", "true"}});
  endpoints.as_object()["subsets"] =
      JsonArray{JsonObject{{"addresses", JsonArray{JsonObject{{"ip", address}}}},
                           {"ports", JsonArray{JsonObject{{"name", "https"}, {"port", port}, {"protocol", "TCP"}}}}}};
  GF_RETURN_IF_ERROR(create(api, std::move(endpoints)));
  Json slice = object("discovery.k8s.io/v1", "EndpointSlice", "default", "kubernetes");
  kube::set_path(slice, "metadata.labels", JsonObject{{"kubernetes.io/service-name", "kubernetes"}});
  JsonObject& fields = slice.as_object();
  fields["addressType"] = "IPv4";
  fields["endpoints"] = JsonArray{JsonObject{{"addresses", JsonArray{Json(kube::JsonString(address))}},
                                             {"conditions", JsonObject{{"ready", true}}}}};
  fields["ports"] = JsonArray{JsonObject{{"name", "https"}, {"port", port}, {"protocol", "TCP"}}};
  return create(api, std::move(slice));
}

}  // namespace ghostfleet::controlplane
