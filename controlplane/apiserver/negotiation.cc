#include "controlplane/apiserver/negotiation.h"

#include <algorithm>
#include <cstdlib>

#include "base/text.h"

namespace ghostfleet::controlplane {
namespace {

using kube::ApiError;
using kube::ApiResult;
using kube::MediaType;

constexpr const char* kJson = "application/json";
constexpr const char* kYaml = "application/yaml";
constexpr const char* kProtobuf = "application/vnd.kubernetes.protobuf";

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

std::string_view next_part(std::string_view* text, char separator) {
  const size_t at = text->find(separator);
  const std::string_view part = text->substr(0, at);
  *text = at == std::string_view::npos ? std::string_view() : text->substr(at + 1);
  return trimmed(part, " \t");
}

std::vector<std::string> accepted_types(Endpoint endpoint, bool custom) {
  if (endpoint == Endpoint::kWatch && custom) return {"application/json;stream=watch"};
  if (endpoint == Endpoint::kWatch) {
    return {"application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"};
  }
  if (custom) return {kJson, kYaml};
  return {kJson, kYaml, kProtobuf};
}

// The router in front of a real server's handlers has its own words.
ApiError router_error(int code, std::string reason, std::string message) {
  ApiError error;
  error.code = code;
  error.reason = std::move(reason);
  error.message = std::move(message);
  error.empty_details = true;
  return error;
}

bool media_of(std::string_view type, bool custom, Endpoint endpoint, MediaType* media) {
  if (type == "*/*" || type == kJson) {
    *media = MediaType::kJson;
    return true;
  }
  if (type == kYaml && endpoint != Endpoint::kWatch) {
    *media = MediaType::kYaml;
    return true;
  }
  if (type == kProtobuf && !custom) {
    *media = MediaType::kProtobuf;
    return true;
  }
  return false;
}

// False when the clause asks for something the endpoint does not offer.
bool transform_of(const AcceptClause& clause, Endpoint endpoint, AnswerType* answer) {
  const std::string_view as = clause.parameter("as"), stream = clause.parameter("stream");
  if (!stream.empty() && (stream != "watch" || endpoint == Endpoint::kOther)) return false;
  if (as.empty()) return true;
  const std::string_view group = clause.parameter("g"), version = clause.parameter("v");
  if (group != "meta.k8s.io" || (version != "v1" && version != "v1beta1")) return false;
  if (endpoint == Endpoint::kOther) return false;
  if (as == "Table" && answer->media != MediaType::kProtobuf) {
    answer->transform = Transform::kTable;
  } else if (as == "PartialObjectMetadata" && endpoint != Endpoint::kList) {
    answer->transform = Transform::kPartial;
  } else if (as == "PartialObjectMetadataList" && endpoint == Endpoint::kList) {
    answer->transform = Transform::kPartialList;
  } else {
    return false;
  }
  answer->transform_version = version;
  return true;
}

bool wants_pretty(const kube::http::HeaderList& headers, std::string_view query) {
  if (!query.empty()) return query == "1" || query == "t" || lower(query) == "true";
  const std::string_view agent = headers.get("user-agent");
  return agent.starts_with("curl") || agent.starts_with("Wget") || agent.starts_with("Mozilla/5.0");
}

std::string content_type_of(const kube::http::HeaderList& headers) {
  std::string_view text = headers.get("content-type");
  return lower(next_part(&text, ';'));
}

}  // namespace

std::string_view AcceptClause::parameter(std::string_view name) const {
  for (const auto& [key, value] : parameters) {
    if (key == name) return value;
  }
  return {};
}

std::string AnswerType::content_type() const {
  if (media == MediaType::kYaml) return kYaml;
  return media == MediaType::kProtobuf ? kProtobuf : kJson;
}

std::string AnswerType::watch_content_type() const {
  return media == MediaType::kProtobuf ? "application/vnd.kubernetes.protobuf;stream=watch" : kJson;
}

std::vector<AcceptClause> parse_accept(const kube::http::HeaderList& headers) {
  std::vector<AcceptClause> clauses;
  for (const auto& [name, value] : headers) {
    if (name != "accept") continue;
    std::string_view rest = value;
    while (!rest.empty()) {
      std::string_view element = next_part(&rest, ',');
      if (element.empty()) continue;
      AcceptClause& clause = clauses.emplace_back();
      clause.type = lower(next_part(&element, ';'));
      while (!element.empty()) {
        std::string_view parameter = next_part(&element, ';');
        const std::string key = lower(next_part(&parameter, '='));
        if (key == "q") {
          clause.quality = std::strtod(std::string(parameter).c_str(), nullptr);
        } else {
          clause.parameters.emplace_back(key, std::string(trimmed(parameter, " \t")));
        }
      }
    }
  }
  if (clauses.empty()) clauses.push_back({"*/*", 1, {}});
  std::stable_sort(clauses.begin(), clauses.end(),
                   [](const AcceptClause& a, const AcceptClause& b) { return a.quality > b.quality; });
  return clauses;
}

ApiResult<AnswerType> negotiate(const kube::http::HeaderList& headers, std::string_view pretty_query, Endpoint endpoint,
                                bool custom) {
  bool known_type = custom;
  for (const AcceptClause& clause : parse_accept(headers)) {
    MediaType ignored;
    known_type = known_type || media_of(clause.type, false, Endpoint::kObject, &ignored);
    AnswerType answer;
    if (clause.quality <= 0 || !media_of(clause.type, custom, endpoint, &answer.media)) continue;
    if (!transform_of(clause, endpoint, &answer)) continue;
    answer.pretty =
        answer.media == MediaType::kJson && endpoint != Endpoint::kWatch && wants_pretty(headers, pretty_query);
    return answer;
  }
  if (known_type) return kube::not_acceptable(accepted_types(endpoint, custom));
  std::string offered = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
  if (endpoint == Endpoint::kList || endpoint == Endpoint::kWatch) {
    offered += ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
  }
  return router_error(406, "NotAcceptable", "406: Not Acceptable\n\nAvailable representations: " + offered);
}

AnswerType negotiate_error(const kube::http::HeaderList& headers, std::string_view pretty_query) {
  AnswerType answer;
  for (const AcceptClause& clause : parse_accept(headers)) {
    if (media_of(clause.type, false, Endpoint::kObject, &answer.media)) break;
  }
  answer.pretty = answer.media == MediaType::kJson && wants_pretty(headers, pretty_query);
  return answer;
}

ApiResult<MediaType> body_media_type(const kube::http::HeaderList& headers, bool custom) {
  const std::string type = content_type_of(headers);
  if (type.empty() || type == kJson) return MediaType::kJson;
  if (type == kYaml) return MediaType::kYaml;
  if (type == kProtobuf && !custom) return MediaType::kProtobuf;
  return kube::unsupported_media_type(type, accepted_types(Endpoint::kObject, custom));
}

ApiResult<PatchType> patch_type(const kube::http::HeaderList& headers, bool custom) {
  const std::string type = content_type_of(headers);
  if (type == "application/json-patch+json") return PatchType::kJson;
  if (type == "application/merge-patch+json") return PatchType::kMerge;
  if (type == "application/strategic-merge-patch+json" && !custom) return PatchType::kStrategic;
  if (type == "application/apply-patch+yaml") return PatchType::kApply;
  if (custom) {
    return kube::unsupported_media_type(
        type, {"application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"});
  }
  return router_error(415, "UnsupportedMediaType", "415: Unsupported Media Type");
}

}  // namespace ghostfleet::controlplane
