// Content negotiation: what the answer is to be encoded as and transformed to, and what the body of a request is.
//
// Thread rule: plain values, pure functions. Source: a real kube-apiserver 1.36.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kube/api/api_error.h"
#include "kube/api/codec.h"
#include "kube/http/message.h"

namespace ghostfleet::controlplane {

enum class Transform : unsigned char { kNone, kTable, kPartial, kPartialList };

struct AnswerType {
  kube::MediaType media = kube::MediaType::kJson;
  Transform transform = Transform::kNone;
  std::string transform_version;  // "v1", "v1beta1" with a transform
  bool pretty = false;            // JSON only

  std::string content_type() const;
  std::string watch_content_type() const;
};

// One element of an Accept header.
struct AcceptClause {
  std::string type;  // "application/json"
  double quality = 1;
  std::vector<std::pair<std::string, std::string>> parameters;  // without q
  std::string_view parameter(std::string_view name) const;
};
// By falling quality; a missing header is one clause "*/*".
std::vector<AcceptClause> parse_accept(const kube::http::HeaderList& headers);

enum class Endpoint : unsigned char { kObject, kList, kWatch, kOther };

// 406 when nothing acceptable is offered. `custom`: a custom resource, which has no protobuf.
kube::ApiResult<AnswerType> negotiate(const kube::http::HeaderList& headers, std::string_view pretty_query,
                                      Endpoint endpoint, bool custom);
// What an error is written as when nothing was agreed: JSON unless YAML or protobuf was asked for first.
AnswerType negotiate_error(const kube::http::HeaderList& headers, std::string_view pretty_query);

// The body's media type of POST, PUT and DELETE: JSON when there is no Content-Type; else 415.
kube::ApiResult<kube::MediaType> body_media_type(const kube::http::HeaderList& headers, bool custom);

enum class PatchType : unsigned char { kJson, kMerge, kStrategic, kApply };
kube::ApiResult<PatchType> patch_type(const kube::http::HeaderList& headers, bool custom);

}  // namespace ghostfleet::controlplane
