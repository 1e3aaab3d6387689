// Paths that are no resources: health, version, discovery, OpenAPI, keys of service account tokens, metrics.
#include <algorithm>

#include "base/digest.h"
#include "controlplane/apiserver/call.h"
#include "controlplane/apiserver/documents.h"
#include "controlplane/apiserver/pretty.h"
#include "controlplane/apiserver/server_metrics.h"
#include "controlplane/apiserver/version.h"
#include "kube/api/discovery.h"

namespace ghostfleet::controlplane {
namespace {

using kube::Json;
using kube::JsonObject;

constexpr const char* kDiscoveryParameters = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

// ---- health

const std::vector<std::string>& health_checks() {
  static const std::vector<std::string> checks = {"ping",
                                                  "log",
                                                  "etcd",
                                                  "informer-sync",
                                                  "poststarthook/start-apiextensions-controllers",
                                                  "poststarthook/rbac/bootstrap-roles",
                                                  "poststarthook/scheduling/bootstrap-system-priority-classes"};
  return checks;
}

void serve_health(Call& call, std::string_view probe, std::string_view check) {
  const std::vector<std::string>& checks = health_checks();
  if (!check.empty() && std::find(checks.begin(), checks.end(), check) == checks.end()) {
    return send_text(call, 404, "404 page not found\n");
  }
  const bool ready = call.parts.ready.load();
  const bool healthy = ready || probe == "livez" || !check.empty();
  if (check.empty() && call.info.query.has("verbose")) {
    const std::vector<std::string> excluded = call.info.query.all("exclude");
    std::string text;
    for (const std::string& name : checks) {
      const bool left_out = std::find(excluded.begin(), excluded.end(), name) != excluded.end();
      text += "[+]" + name + (left_out ? " excluded: ok\n" : " ok\n");
    }
    if (!healthy) text += "[-]startup failed: not finished\n";
    return send_text(call, healthy ? 200 : 500,
                     text + std::string(probe) + (healthy ? " check passed\n" : " check failed\n"));
  }
  send_text(call, healthy ? 200 : 500,
            healthy ? "ok" : "[-]startup failed: not finished\n" + std::string(probe) + " check failed\n");
}

// ---- version and roots

void serve_version(Call& call) {
  // As a real server writes it: indented, whatever the client prefers.
  send_bytes(call, 200, "application/json", pretty_json(version_info()));
}

std::vector<std::string> root_paths(Documents& documents) {
  std::vector<std::string> paths = {"/.well-known/openid-configuration", "/api", "/api/v1", "/apis", "/apis/"};
  for (const kube::KindInfo* kind : documents.kinds()) {
    if (kind->group.empty()) continue;
    paths.push_back("/apis/" + kind->group);
    paths.push_back(kind->root_path());
  }
  for (const char* path :
       {"/healthz", "/livez", "/metrics", "/openapi/v3", "/openapi/v3/", "/openid/v1/jwks", "/readyz", "/version"}) {
    paths.emplace_back(path);
  }
  for (const std::string& check : health_checks()) {
    paths.push_back("/healthz/" + check);
    paths.push_back("/livez/" + check);
    paths.push_back("/readyz/" + check);
  }
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

void serve_root(Call& call) {
  kube::JsonArray paths;
  for (const std::string& path : root_paths(*call.parts.documents)) paths.emplace_back(path);
  send_bytes(call, 200, "application/json", pretty_json(JsonObject{{"paths", std::move(paths)}}));
}

// ---- discovery

void send_cacheable(Call& call, std::string content_type, const std::string& etag, std::string body) {
  kube::http::HeaderList headers = answer_headers(call, std::move(content_type));
  headers.set("cache-control", "public");
  headers.add("etag", "\"" + etag + "\"");
  headers.add("vary", "Accept");
  const bool same = call.request().headers.get("if-none-match") == "\"" + etag + "\"";
  record_answer(call, same ? 304 : 200);
  call.exchange->respond(same ? 304 : 200, std::move(headers), share(same ? std::string() : std::move(body)));
}

bool is_discovery_clause(const AcceptClause& clause) {
  return clause.parameter("as") == "APIGroupDiscoveryList" && clause.parameter("g") == "apidiscovery.k8s.io" &&
         clause.parameter("v") == "v2";
}

// Answers aggregated discovery when a clause asks for it before any plain one. False: legacy, or 406 was sent.
bool serve_aggregated(Call& call, bool core, bool* refused) {
  bool known = false, plain = false;
  for (const AcceptClause& clause : parse_accept(call.request().headers)) {
    const bool json = clause.type == "application/json" || clause.type == "*/*";
    const bool protobuf = clause.type == "application/vnd.kubernetes.protobuf";
    known = known || json || protobuf || clause.type == "application/yaml";
    if (clause.parameter("as").empty()) {
      plain = plain || json || protobuf || clause.type == "application/yaml";
      if (plain) return false;
      continue;
    }
    if (!is_discovery_clause(clause) || (!json && !protobuf)) continue;
    const auto document = call.parts.documents->aggregated(core);
    if (json) {
      send_cacheable(call, std::string("application/json") + kDiscoveryParameters, document->hash,
                     document->json + "\n");
      return true;
    }
    Result<Json> value = kube::parse_json(document->json);
    AnswerType answer;
    answer.media = kube::MediaType::kProtobuf;
    send_cacheable(call, answer.content_type() + kDiscoveryParameters, document->hash,
                   render_value(*value, answer, "apidiscovery.k8s.io/v2.APIGroupDiscoveryList"));
    return true;
  }
  if (known && !plain) {
    send_error(call,
               kube::not_acceptable({"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"}));
    *refused = true;
  }
  return false;
}

void send_discovery(Call& call, const Json& document, std::string_view type_name) {
  if (document.is_null()) return send_error(call, unknown_path_error());
  if (!negotiate_or_fail(call, Endpoint::kOther)) return;
  send_bytes(call, 200, call.answer.content_type(), render_value(document, call.answer, type_name));
}

void serve_api_root(Call& call, bool core) {
  bool refused = false;
  if (serve_aggregated(call, core, &refused) || refused) return;
  if (!core)
    return send_discovery(call, kube::legacy_group_list(call.parts.documents->kinds()), "meta/v1.APIGroupList");
  const std::string host(call.request().headers.get("host"));
  send_discovery(call, kube::legacy_api_versions(host), "meta/v1.APIVersions");
}

// ---- OpenAPI

void send_openapi_document(Call& call, std::string_view path) {
  const auto set = call.parts.documents->openapi();
  const auto it = set->documents.find(std::string(path));
  if (it == set->documents.end()) return send_text(call, 404, "404 page not found\n");
  const std::string& hash = call.info.query.get("hash");
  if (!hash.empty() && hash != it->second.hash) {
    kube::http::HeaderList headers = answer_headers(call, "");
    headers.add("location", "/openapi/v3/" + it->first + "?hash=" + it->second.hash);
    record_answer(call, 301);
    return call.exchange->respond(301, std::move(headers), share(""));
  }
  kube::http::HeaderList headers = answer_headers(call, "application/json");
  headers.add("etag", "\"" + it->second.hash + "\"");
  headers.add("vary", "Accept");
  if (!hash.empty()) {
    headers.set("cache-control", "public, immutable");
    headers.add("expires", "Thu, 31 Dec 2099 00:00:00 GMT");
  }
  const bool same = call.request().headers.get("if-none-match") == "\"" + it->second.hash + "\"";
  record_answer(call, same ? 304 : 200);
  call.exchange->respond(same ? 304 : 200, std::move(headers), share(same ? std::string() : it->second.json));
}

void serve_openapi(Call& call, std::string_view rest) {
  if (!rest.empty()) return send_openapi_document(call, rest);
  const auto set = call.parts.documents->openapi();
  send_cacheable(call, "application/json", set->index.hash, set->index.json);
}

// A JSON document here would break clients that read protobuf without asking: others get nothing.
void serve_openapi_v2(Call& call) {
  if (call.request().headers.get("accept").find("proto-openapi.spec.v2") == std::string_view::npos) {
    return send_text(call, 404, "404 page not found\n");
  }
  const auto set = call.parts.documents->openapi();
  send_cacheable(call, std::string(kube::kOpenApiV2MediaType), set->v2.hash, set->v2.json);
}

void serve_metrics(Call& call) {
  std::vector<const MetricsRegistry*> registries = call.parts.metrics->registries();
  MetricsRegistry now;
  now.gauge("apiserver_current_inflight_requests", "Requests being served", {{"request_kind", "readOnly"}})
      .set(call.parts.in_flight.load());
  now.gauge("apiserver_current_inflight_requests", "Requests being served", {{"request_kind", "mutating"}})
      .set(call.parts.mutating_in_flight.load());
  now.gauge("apiserver_longrunning_requests", "Watches being served", {{"verb", "watch"}})
      .set(call.parts.watches.load());
  registries.push_back(&now);
  send_bytes(call, 200, "text/plain; version=0.0.4; charset=utf-8", MetricsRegistry::expose(registries));
}

void serve_issuer(Call& call, bool keys) {
  if (!call.parts.issuer) return send_error(call, unknown_path_error());
  const Json document = keys ? call.parts.issuer->jwks() : call.parts.issuer->openid_configuration();
  send_bytes(call, 200, keys ? "application/jwk-set+json" : "application/json", kube::to_json(document));
}

std::vector<std::string_view> split(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    if (slash != 0) parts.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  return parts;
}

void serve_groups(Call& call, const std::vector<std::string_view>& parts) {
  const kube::KindList kinds = call.parts.documents->kinds();
  if (parts.size() == 1) return serve_api_root(call, false);
  if (parts.size() == 2) return send_discovery(call, kube::legacy_group(kinds, parts[1]), "meta/v1.APIGroup");
  send_discovery(call, kube::legacy_resource_list(kinds, parts[1], parts[2]), "meta/v1.APIResourceList");
}

}  // namespace

void serve_other(const CallRef& ref) {
  Call& call = *ref;
  const std::string& path = call.info.path;
  const std::vector<std::string_view> parts = split(path);
  if (parts.empty()) return serve_root(call);
  const std::string_view first = parts[0];
  if (first == "healthz" || first == "livez" || first == "readyz") {
    const size_t skip = first.size() + 2;
    return serve_health(call, first, path.size() > skip ? std::string_view(path).substr(skip) : std::string_view());
  }
  if (first == "version" && parts.size() == 1) return serve_version(call);
  if (first == "metrics" && parts.size() == 1) return serve_metrics(call);
  if (first == "api" && parts.size() == 1) return serve_api_root(call, true);
  if (first == "api" && parts.size() == 2) {
    return send_discovery(call, kube::legacy_resource_list(call.parts.documents->kinds(), "", parts[1]),
                          "meta/v1.APIResourceList");
  }
  if (first == "apis" && parts.size() <= 3) return serve_groups(call, parts);
  if (path == "/openapi/v2") return serve_openapi_v2(call);
  if (path == "/openapi/v3" || path == "/openapi/v3/") return serve_openapi(call, "");
  if (path.starts_with("/openapi/v3/")) return serve_openapi(call, std::string_view(path).substr(12));
  if (path == "/openid/v1/jwks") return serve_issuer(call, true);
  if (path == "/.well-known/openid-configuration") return serve_issuer(call, false);
  if (first == "api" || first == "apis") return send_error(call, unknown_path_error());
  send_text(call, 404, "404 page not found\n");
}

}  // namespace ghostfleet::controlplane
