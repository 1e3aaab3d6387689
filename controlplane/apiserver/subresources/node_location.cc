#include "controlplane/apiserver/subresources/node_location.h"

#include <fmt/format.h>

#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/workload_common.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;

namespace {

constexpr uint16_t kKubeletPort = 10250;
constexpr std::string_view kPreferred[] = {"InternalIP", "ExternalIP", "Hostname"};

kube::ApiError no_address(const JsonArray* addresses) {
  std::string known;
  for (size_t i = 0; addresses != nullptr && i < addresses->size(); ++i) {
    const Json& a = (*addresses)[i];
    known += fmt::format("{}{{{} {}}}", known.empty() ? "" : " ", text_of(a, "type"), text_of(a, "address"));
  }
  kube::ApiError error;
  error.message = fmt::format("no preferred addresses found; known addresses: [{}]", known);
  return error;
}

uint16_t reported_port(const Json& status) {
  const Json* endpoints = member(status, "daemonEndpoints");
  const Json* kubelet = member(endpoints, "kubeletEndpoint");
  const int64_t port = kubelet == nullptr ? 0 : int_of(*kubelet, "Port");
  return port > 0 && port <= 65535 ? static_cast<uint16_t>(port) : kKubeletPort;
}

bool is_name_part(std::string_view text) { return !text.empty() && text.find('/') == std::string_view::npos; }

}  // namespace

kube::ApiResult<NodeLocation> locate_node(Api& api, std::string_view node) {
  const Resource* nodes = api.find("", "v1", "nodes");
  kube::ApiResult<ObjectRef> found = api.get(*nodes, "", node);
  if (!found.ok()) return found.error();
  const Json object = api.decode(*nodes, **found);
  const Json& status = status_of(object);
  const JsonArray* addresses = array_of(status, "addresses");
  for (const std::string_view type : kPreferred) {
    for (size_t i = 0; addresses != nullptr && i < addresses->size(); ++i) {
      const std::string_view address = text_of((*addresses)[i], "address");
      if (text_of((*addresses)[i], "type") == type && !address.empty()) {
        return NodeLocation{std::string(address), reported_port(status)};
      }
    }
  }
  return no_address(addresses);
}

bool split_proxied_name(std::string_view id, ProxiedName* out) {
  std::string_view parts[3];
  size_t count = 0;
  for (;;) {
    if (count == 3) return false;
    const size_t colon = id.find(':');
    parts[count++] = id.substr(0, colon);
    if (colon == std::string_view::npos) break;
    id.remove_prefix(colon + 1);
  }
  *out = {};
  if (count == 3) out->scheme = parts[0];
  if (count > 1) out->port = parts[count - 1];
  out->name = parts[count == 3 ? 1 : 0];
  const bool known_scheme = out->scheme.empty() || out->scheme == "http" || out->scheme == "https";
  return known_scheme && is_name_part(out->name) && out->port.find('/') == std::string::npos;
}

}  // namespace ghostfleet::controlplane
