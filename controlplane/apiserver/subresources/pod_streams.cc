// log, exec, attach, portforward, proxy: which node answers, and how it is asked. What is asked is checked as a real
// API server checks it.
#include <fmt/format.h>

#include <charconv>
#include <map>

#include "controlplane/apiserver/request_info.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/workload_common.h"
#include "controlplane/apiserver/subresources/handlers.h"
#include "controlplane/apiserver/subresources/node_location.h"
#include "kube/http/message.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;

namespace {

// Parameters of a URL as Go writes them: sorted by name.
class Parameters {
 public:
  void add(const std::string& name, std::string value) { values_[name].push_back(std::move(value)); }

  std::string encoded() const {
    std::string out;
    for (const auto& [name, values] : values_) {
      for (const std::string& value : values) {
        out += fmt::format("{}{}={}", out.empty() ? "" : "&", name, kube::http::percent_encode(value));
      }
    }
    return out;
  }

 private:
  std::map<std::string, std::vector<std::string>> values_;
};

struct Asked {
  Query query;
  std::string_view pod_name;
};

size_t count_of(const Json& pod, std::string_view key) {
  const JsonArray* list = array_of(spec_of(pod), key);
  return list == nullptr ? 0 : list->size();
}

std::vector<std::string_view> container_names(const Json& pod) {
  std::vector<std::string_view> names;
  for (std::string_view key : {"initContainers", "containers", "ephemeralContainers"}) {
    const JsonArray* list = array_of(spec_of(pod), key);
    for (size_t i = 0; list != nullptr && i < list->size(); ++i) names.push_back(text_of((*list)[i], "name"));
  }
  return names;
}

// The container asked for, or the only one beside init and ephemeral containers; else the refusal.
kube::ApiResult<std::string> choose_container(const Asked& asked, const Json& pod) {
  const std::vector<std::string_view> names = container_names(pod);
  const std::string& wanted = asked.query.get("container");
  if (!wanted.empty()) {
    for (std::string_view name : names) {
      if (name == wanted) return wanted;
    }
    return kube::bad_request(fmt::format("container {} is not valid for pod {}", wanted, asked.pod_name));
  }
  if (count_of(pod, "containers") == 1) {
    return std::string(text_of(array_of(spec_of(pod), "containers")->front(), "name"));
  }
  std::string list;
  for (std::string_view name : names) list += fmt::format("{}{}", list.empty() ? "" : " ", name);
  return kube::bad_request(
      fmt::format("a container name must be specified for pod {}, choose one of: [{}]", asked.pod_name, list));
}

// ---- options of a log

struct Number {
  const char* name;
  int64_t min;
  const char* rule;
};
constexpr Number kNumbers[] = {{"tailLines", 0, "must be greater than or equal to 0"},
                               {"limitBytes", 1, "must be greater than 0"},
                               {"sinceSeconds", 1, "must be greater than 0"}};

kube::ApiResult<bool> read_log_options(const Asked& asked, Parameters* out) {
  Findings findings;
  for (const char* flag : {"follow", "previous", "timestamps"}) {
    if (asked.query.flag(flag)) out->add(flag, "true");
  }
  const bool both = !asked.query.get("sinceSeconds").empty() && !asked.query.get("sinceTime").empty();
  for (const Number& number : kNumbers) {
    const std::string& text = asked.query.get(number.name);
    if (text.empty()) continue;
    int64_t n = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc() || end != text.data() + text.size()) {
      return kube::bad_request(
          fmt::format("strconv.ParseInt: parsing {}: {}", quoted(text),
                      error == std::errc::result_out_of_range ? "value out of range" : "invalid syntax"));
    }
    const bool skipped = both && std::string_view(number.name) == "sinceSeconds";
    if (n < number.min && !skipped) findings.invalid_number(Path(number.name), n, number.rule);
    out->add(number.name, std::to_string(n));
  }
  if (const std::string& since = asked.query.get("sinceTime"); !since.empty()) {
    WallTime at;
    if (!parse_time(since, &at)) {
      return kube::bad_request(fmt::format(
          "parsing time {0} as \"2006-01-02T15:04:05Z07:00\": cannot parse {0} as \"2006\"", quoted(since)));
    }
    out->add("sinceTime", format_time(at));
  }
  if (both) findings.forbidden(Path("[]"), "at most one of `sinceTime` or `sinceSeconds` may be specified");
  if (findings.empty()) return true;
  return kube::invalid("", "PodLogOptions", asked.pod_name, findings.take());
}

// ---- where to

SubresourceAnswer forward_to(const NodeLocation& node, Forward::Mode mode, std::string path, std::string query) {
  Forward forward;
  forward.mode = mode;
  forward.host = node.host;
  forward.port = node.port;
  forward.path = std::move(path);
  forward.query = std::move(query);
  SubresourceAnswer answer;
  answer.forward = std::move(forward);
  return answer;
}

Parameters stream_parameters(const Asked& asked, std::string_view subresource) {
  static constexpr std::pair<const char*, const char*> kFlags[] = {
      {"stdin", "input"}, {"stdout", "output"}, {"stderr", "error"}, {"tty", "tty"}};
  Parameters parameters;
  if (subresource == "portforward") {
    std::string ports;
    for (const std::string& port : asked.query.all("ports")) ports += (ports.empty() ? "" : ",") + port;
    if (!ports.empty()) parameters.add("port", ports);
    return parameters;
  }
  for (const auto& [given, passed] : kFlags) {
    if (asked.query.flag(given)) parameters.add(passed, "1");
  }
  if (subresource == "exec") {
    for (std::string& word : asked.query.all("command")) parameters.add("command", std::move(word));
  }
  return parameters;
}

Answered stream_of_pod(const SubresourceCall& call, const Json& pod, Api& api) {
  const Asked asked{Query(call.query), call.name};
  std::string container;
  if (call.subresource != "portforward") {
    kube::ApiResult<std::string> chosen = choose_container(asked, pod);
    if (!chosen.ok()) return chosen.error();
    container = "/" + *chosen;
  }
  const std::string_view node = text_of(spec_of(pod), "nodeName");
  if (node.empty()) return kube::bad_request(fmt::format("pod {} does not have a host assigned", call.name));
  kube::ApiResult<NodeLocation> location = locate_node(api, node);
  if (!location.ok()) return location.error();
  const std::string_view door = call.subresource == "portforward" ? "portForward" : call.subresource;
  return forward_to(*location, Forward::Mode::kStream, fmt::format("/{}/{}/{}{}", door, call.ns, call.name, container),
                    stream_parameters(asked, call.subresource).encoded());
}

bool parse_port(std::string_view text, uint16_t* port) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *port);
  return error == std::errc() && end == text.data() + text.size() && *port != 0;
}

Answered proxy_to_node(const SubresourceCall& call, Api& api) {
  ProxiedName name;
  if (!split_proxied_name(call.name, &name)) {
    return kube::bad_request(fmt::format("invalid node request {}", quoted(call.name)));
  }
  kube::ApiResult<NodeLocation> location = locate_node(api, name.name);
  if (!location.ok()) return location.error();
  uint16_t port = location->port;
  if (!name.port.empty() && !parse_port(name.port, &port)) {
    return kube::bad_request(fmt::format("invalid node request {}", quoted(call.name)));
  }
  Answered answer = forward_to(*location, Forward::Mode::kProxy, "", "");
  if (port == location->port) return answer;
  // Another port of the node: not its kubelet, so nothing of ours is shown to it.
  answer->forward->port = port;
  answer->forward->tls = name.scheme == "https" ? Forward::Tls::kBlind : Forward::Tls::kNone;
  return answer;
}

kube::ApiError no_endpoints(std::string_view service) {
  kube::ApiError error;
  error.code = 503;
  error.reason = "ServiceUnavailable";
  error.message = fmt::format("no endpoints available for service \"{}\"", service);
  return error;
}

}  // namespace

Answered serve_log(SubresourceCall& call, Api& api, RequestContext&) {
  if (call.verb != "get") return kube::method_not_allowed(call.resource.info, call.verb);
  const Asked asked{Query(call.query), call.name};
  Parameters parameters;
  if (auto fine = read_log_options(asked, &parameters); !fine.ok()) return fine.error();
  auto pod = parent_of(call, api);
  if (!pod.ok()) return pod.error();
  auto container = choose_container(asked, *pod);
  if (!container.ok()) return container.error();
  const std::string_view node = text_of(spec_of(*pod), "nodeName");
  if (node.empty()) {
    SubresourceAnswer nothing;
    nothing.code = 204;
    return nothing;
  }
  kube::ApiResult<NodeLocation> location = locate_node(api, node);
  if (!location.ok()) return location.error();
  Answered answer =
      forward_to(*location, Forward::Mode::kLog, fmt::format("/containerLogs/{}/{}/{}", call.ns, call.name, *container),
                 parameters.encoded());
  if (asked.query.flag("insecureSkipTLSVerifyBackend")) answer->forward->tls = Forward::Tls::kNodeBlind;
  return answer;
}

Answered serve_connect(SubresourceCall& call, Api& api, RequestContext&) {
  if (call.resource.info.resource == "nodes") return proxy_to_node(call, api);
  auto parent = parent_of(call, api);
  if (!parent.ok()) return parent.error();
  // Pods and what stands behind services have no network here.
  if (call.resource.info.resource != "pods") return no_endpoints(call.name);
  if (call.subresource == "proxy") return kube::bad_request("address not allowed");
  return stream_of_pod(call, *parent, api);
}

}  // namespace ghostfleet::controlplane
