// log, exec, attach, portforward, proxy. What is asked is checked as a real API server checks it; there is no node
// behind this server that could answer, and that is said.
#include <fmt/format.h>

#include <charconv>

#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/workload_common.h"
#include "controlplane/apiserver/subresources/handlers.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;

namespace {

std::string_view query_value(const SubresourceCall& call, std::string_view key) {
  for (const auto& [name, value] : call.query) {
    if (name == key) return value;
  }
  return {};
}

std::vector<std::string_view> container_names(const Json& pod) {
  std::vector<std::string_view> names;
  for (std::string_view key : {"initContainers", "containers", "ephemeralContainers"}) {
    const JsonArray* list = array_of(spec_of(pod), key);
    for (size_t i = 0; list != nullptr && i < list->size(); ++i) names.push_back(text_of((*list)[i], "name"));
  }
  return names;
}

// The container asked for, or the only one; else the refusal.
kube::ApiResult<std::string> choose_container(const SubresourceCall& call, const Json& pod) {
  std::vector<std::string_view> names = container_names(pod);
  std::string_view wanted = query_value(call, "container");
  if (!wanted.empty()) {
    for (std::string_view name : names) {
      if (name == wanted) return std::string(wanted);
    }
    return kube::bad_request(fmt::format("container {} is not valid for pod {}", wanted, call.name));
  }
  if (names.size() == 1) return std::string(names[0]);
  std::string list;
  for (std::string_view name : names) list += fmt::format("{}{}", list.empty() ? "" : " ", name);
  return kube::bad_request(
      fmt::format("a container name must be specified for pod {}, choose one of: [{}]", call.name, list));
}

void check_number(const SubresourceCall& call, std::string_view key, int64_t min, std::string_view rule,
                  Findings& out) {
  std::string_view text = query_value(call, key);
  if (text.empty()) return;
  int64_t n = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error == std::errc() && end == text.data() + text.size() && n < min) out.invalid_number(Path(key), n, rule);
}

kube::ApiResult<bool> check_log_options(const SubresourceCall& call) {
  Findings out;
  check_number(call, "tailLines", 0, "must be greater than or equal to 0", out);
  check_number(call, "limitBytes", 1, "must be greater than 0", out);
  bool since_seconds = !query_value(call, "sinceSeconds").empty();
  bool since_time = !query_value(call, "sinceTime").empty();
  if (since_seconds && since_time) {
    out.forbidden(Path("[]"), "at most one of `sinceTime` or `sinceSeconds` may be specified");
  } else {
    check_number(call, "sinceSeconds", 1, "must be greater than 0", out);
  }
  if (out.empty()) return true;
  return kube::invalid("", "PodLogOptions", call.name, out.take());
}

kube::ApiError no_node_behind(std::string_view node) {
  return kube::internal_api_error(fmt::format("node \"{}\" offers no address this server can stream from", node));
}

}  // namespace

Answered serve_log(SubresourceCall& call, Api& api, RequestContext&) {
  if (call.verb != "get") return kube::method_not_allowed(call.resource.info, call.verb);
  if (auto fine = check_log_options(call); !fine.ok()) return fine.error();
  auto pod = parent_of(call, api);
  if (!pod.ok()) return pod.error();
  auto container = choose_container(call, *pod);
  if (!container.ok()) return container.error();
  std::string_view node = text_of(spec_of(*pod), "nodeName");
  if (!node.empty()) return no_node_behind(node);
  SubresourceAnswer answer;
  answer.code = 204;
  return answer;
}

Answered serve_connect(SubresourceCall& call, Api& api, RequestContext&) {
  auto parent = parent_of(call, api);
  if (!parent.ok()) return parent.error();
  if (call.resource.info.resource != "pods") {
    if (call.resource.info.resource == "nodes") return no_node_behind(call.name);
    kube::ApiError error;
    error.code = 503;
    error.reason = "ServiceUnavailable";
    error.message = fmt::format("no endpoints available for service \"{}\"", call.name);
    return error;
  }
  if (call.subresource == "proxy") return kube::bad_request("address not allowed");
  if (call.subresource == "exec" || call.subresource == "attach") {
    auto container = choose_container(call, *parent);
    if (!container.ok()) return container.error();
  }
  std::string_view node = text_of(spec_of(*parent), "nodeName");
  if (node.empty()) return kube::bad_request(fmt::format("pod {} does not have a host assigned", call.name));
  return no_node_behind(node);
}

}  // namespace ghostfleet::controlplane
