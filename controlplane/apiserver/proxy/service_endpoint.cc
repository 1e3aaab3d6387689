// Where the server behind a Service is.
#include <fmt/format.h>

#include "controlplane/apiserver/object_bytes.h"
#include "controlplane/apiserver/proxy/aggregation.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/workload_common.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;

namespace {

ServiceEndpoint missing(std::string_view reason, std::string message) {
  ServiceEndpoint none;
  none.reason = reason;
  none.message = std::move(message);
  return none;
}

bool belongs_to_a_pod(const Json& endpoint) {
  const Json* target = member(endpoint, "targetRef");
  return target != nullptr && text_of(*target, "kind") == "Pod";
}

// The first ready address; empty when there is none.
std::string address_in_slice(const Json& slice) {
  const JsonArray* endpoints = array_of(slice, "endpoints");
  for (size_t i = 0; endpoints != nullptr && i < endpoints->size(); ++i) {
    const Json& endpoint = (*endpoints)[i];
    const Json* conditions = member(endpoint, "conditions");
    const Json* ready = member(conditions, "ready");
    const bool is_ready = ready == nullptr || (ready->is_bool() && ready->get_bool());
    const JsonArray* addresses = array_of(endpoint, "addresses");
    if (is_ready && !belongs_to_a_pod(endpoint) && addresses != nullptr && !addresses->empty()) {
      return std::string(as_text(addresses->front()));
    }
  }
  return {};
}

uint16_t port_named(const JsonArray* ports, std::string_view name) {
  for (size_t i = 0; ports != nullptr && i < ports->size(); ++i) {
    const int64_t port = int_of((*ports)[i], "port");
    if (text_of((*ports)[i], "name") == name && port > 0 && port <= 65535) return static_cast<uint16_t>(port);
  }
  return 0;
}

bool find_in_slices(Api& api, const std::string& ns, const std::string& service, std::string_view port_name, bool* any,
                    ServiceEndpoint* out) {
  const Resource* slices = api.find("discovery.k8s.io", "v1", "endpointslices");
  ListOptions options;
  options.prefix = ns + "/";
  options.filter = [&service](const Object& object) {
    for (const auto& [key, value] : object.labels) {
      if (key == "kubernetes.io/service-name") return value == service;
    }
    return false;
  };
  Result<ListResult> found = api.store().list(slices->store_kind, options);
  if (!found.ok()) return false;
  for (const ObjectRef& object : found->items) {
    *any = true;
    const Json slice = decode_stored(*object);
    out->host = address_in_slice(slice);
    out->port = port_named(array_of(slice, "ports"), port_name);
    if (!out->host.empty() && out->port != 0) return true;
  }
  return false;
}

// Endpoints that a user wrote; nothing here mirrors them into slices.
bool find_in_endpoints(Api& api, const std::string& ns, const std::string& service, std::string_view port_name,
                       bool* any, ServiceEndpoint* out) {
  const Resource* endpoints = api.find("", "v1", "endpoints");
  const kube::ApiResult<ObjectRef> found = api.get(*endpoints, ns, service);
  if (!found.ok()) return false;
  const Json object = decode_stored(**found);
  const JsonArray* subsets = array_of(object, "subsets");
  for (size_t i = 0; subsets != nullptr && i < subsets->size(); ++i) {
    *any = true;
    out->port = port_named(array_of((*subsets)[i], "ports"), port_name);
    const JsonArray* addresses = array_of((*subsets)[i], "addresses");
    for (size_t a = 0; addresses != nullptr && a < addresses->size(); ++a) {
      if (belongs_to_a_pod((*addresses)[a]) || out->port == 0) continue;
      out->host = text_of((*addresses)[a], "ip");
      return true;
    }
  }
  return false;
}

}  // namespace

ServiceEndpoint resolve_service(Api& api, const std::string& ns, const std::string& name, uint16_t port) {
  const Resource* services = api.find("", "v1", "services");
  const kube::ApiResult<ObjectRef> found = api.get(*services, ns, name);
  if (!found.ok()) {
    return missing("ServiceNotFound", fmt::format("service/{} in \"{}\" is not present", name, ns));
  }
  const Json service = decode_stored(**found);
  const Json& spec = spec_of(service);
  ServiceEndpoint out;
  if (text_of(spec, "type") == "ExternalName") {
    out.host = text_of(spec, "externalName");
    out.port = port;
    return out;
  }
  const JsonArray* ports = array_of(spec, "ports");
  const Json* listening = nullptr;
  for (size_t i = 0; ports != nullptr && i < ports->size(); ++i) {
    if (int_of((*ports)[i], "port") == port) listening = &(*ports)[i];
  }
  if (listening == nullptr) {
    return missing("ServicePortError", fmt::format("service/{} in \"{}\" is not listening on port {}", name, ns, port));
  }
  const std::string port_name(text_of(*listening, "name"));
  bool any = false;
  if (find_in_slices(api, ns, name, port_name, &any, &out)) return out;
  if (find_in_endpoints(api, ns, name, port_name, &any, &out)) return out;
  if (!any) {
    return missing("EndpointsNotFound", fmt::format("cannot find endpointslices for service/{} in \"{}\"", name, ns));
  }
  return missing("MissingEndpoints",
                 fmt::format("endpointslices for service/{} in \"{}\" have no addresses with port name \"{}\"", name,
                             ns, port_name));
}

}  // namespace ghostfleet::controlplane
