#include "kube/api/api_error.h"

#include <fmt/format.h>

#include <algorithm>

#include "kube/api/kinds.h"

namespace ghostfleet::kube {
namespace {

std::string_view cause_reason(FieldErrorType type) {
  switch (type) {
    case FieldErrorType::kRequired: return "FieldValueRequired";
    case FieldErrorType::kInvalid: return "FieldValueInvalid";
    case FieldErrorType::kNotSupported: return "FieldValueNotSupported";
    case FieldErrorType::kForbidden: return "FieldValueForbidden";
    case FieldErrorType::kDuplicate: return "FieldValueDuplicate";
    case FieldErrorType::kNotFound: return "FieldValueNotFound";
    case FieldErrorType::kTooLong: return "FieldValueTooLong";
    case FieldErrorType::kTooMany: return "FieldValueTooMany";
    case FieldErrorType::kTypeInvalid: return "FieldValueTypeInvalid";
    case FieldErrorType::kInternal: return "InternalError";
  }
  return "FieldValueInvalid";
}

std::string_view words(FieldErrorType type) {
  switch (type) {
    case FieldErrorType::kRequired: return "Required value";
    case FieldErrorType::kInvalid:
    case FieldErrorType::kTypeInvalid: return "Invalid value";
    case FieldErrorType::kNotSupported: return "Unsupported value";
    case FieldErrorType::kForbidden: return "Forbidden";
    case FieldErrorType::kDuplicate: return "Duplicate value";
    case FieldErrorType::kNotFound: return "Not found";
    case FieldErrorType::kTooLong: return "Too long";
    case FieldErrorType::kTooMany: return "Too many";
    case FieldErrorType::kInternal: return "Internal error";
  }
  return "Invalid value";
}

// "Invalid value: \"x\": why"
std::string body_of(const FieldError& e) {
  std::string text(words(e.type));
  if (!e.value.empty()) text += ": " + e.value;
  if (!e.detail.empty()) text += ": " + e.detail;
  return text;
}

ApiError make(int code, std::string reason, std::string message) {
  ApiError e;
  e.code = code;
  e.reason = std::move(reason);
  e.message = std::move(message);
  return e;
}

ApiError about(int code, std::string reason, std::string message, const KindInfo& kind, std::string_view name) {
  ApiError e = make(code, std::move(reason), std::move(message));
  e.name = name;
  e.group = kind.group;
  e.kind = kind.resource;
  return e;
}

std::string join(const std::vector<std::string>& parts) { return fmt::format("{}", fmt::join(parts, ", ")); }

Code status_code(int http) {
  switch (http) {
    case 400:
    case 422: return Code::kInvalidArgument;
    case 401: return Code::kUnauthenticated;
    case 403: return Code::kPermissionDenied;
    case 404: return Code::kNotFound;
    case 409: return Code::kConflict;
    case 410: return Code::kExpired;
    case 413:
    case 429: return Code::kResourceExhausted;
    case 503: return Code::kUnavailable;
    case 504: return Code::kDeadlineExceeded;
    default: return Code::kInternal;
  }
}

}  // namespace

Json ApiError::to_json() const {
  JsonObject metadata;
  if (!continue_token.empty()) metadata["continue"] = continue_token;
  JsonObject out{{"kind", "Status"}, {"apiVersion", "v1"}, {"metadata", std::move(metadata)}, {"status", "Failure"}};
  if (!message.empty()) out["message"] = message;
  if (!reason.empty()) out["reason"] = reason;
  JsonObject details;
  if (!name.empty()) details["name"] = name;
  if (!group.empty()) details["group"] = group;
  if (!kind.empty()) details["kind"] = kind;
  if (!uid.empty()) details["uid"] = uid;
  JsonArray list;
  for (const ErrorCause& c : causes) {
    JsonObject cause;
    if (!c.reason.empty()) cause["reason"] = c.reason;
    if (!c.message.empty()) cause["message"] = c.message;
    if (!c.field.empty()) cause["field"] = c.field;
    list.emplace_back(std::move(cause));
  }
  if (!list.empty()) details["causes"] = std::move(list);
  if (retry_after_seconds > 0) details["retryAfterSeconds"] = retry_after_seconds;
  if (!details.empty() || empty_details) out["details"] = std::move(details);
  out["code"] = code;
  return out;
}

Status ApiError::to_status() const { return Status(status_code(code), message); }

ApiError bad_request(std::string message) { return make(400, "BadRequest", std::move(message)); }
ApiError unauthorized(std::string message) { return make(401, "Unauthorized", std::move(message)); }

ApiError not_found_error(const KindInfo& kind, std::string_view name) {
  return about(404, "NotFound", fmt::format("{} \"{}\" not found", kind.group_resource(), name), kind, name);
}

ApiError already_exists(const KindInfo& kind, std::string_view name) {
  return about(409, "AlreadyExists", fmt::format("{} \"{}\" already exists", kind.group_resource(), name), kind, name);
}

ApiError conflict(const KindInfo& kind, std::string_view name, std::string_view why) {
  return about(409, "Conflict",
               fmt::format("Operation cannot be fulfilled on {} \"{}\": {}", kind.group_resource(), name, why), kind,
               name);
}

ApiError forbidden(const KindInfo& kind, std::string_view name, std::string_view why) {
  // Go quotes a name only when there is one.
  const std::string what = name.empty() ? kind.group_resource() : fmt::format("{} \"{}\"", kind.group_resource(), name);
  return about(403, "Forbidden", fmt::format("{} is forbidden: {}", what, why), kind, name);
}

ApiError method_not_allowed(const KindInfo& kind, std::string_view verb) {
  return about(405, "MethodNotAllowed",
               fmt::format("{} is not supported on resources of kind \"{}\"", verb, kind.group_resource()), kind, "");
}

ApiError invalid(std::string_view group, std::string_view kind, std::string_view name,
                 const std::vector<FieldError>& errors) {
  ApiError e = make(422, "Invalid", "");
  e.name = name;
  e.group = group;
  e.kind = kind;
  std::vector<std::string> texts;
  for (const FieldError& f : errors) {
    e.causes.push_back({std::string(cause_reason(f.type)), body_of(f), f.field});
    std::string text = f.to_string();
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(std::move(text));
  }
  const std::string what = group.empty() ? std::string(kind) : fmt::format("{}.{}", kind, group);
  e.message = fmt::format("{} \"{}\" is invalid: ", what, name);
  e.message += texts.size() == 1 ? texts.front() : "[" + join(texts) + "]";
  return e;
}

ApiError expired(std::string message) { return make(410, "Expired", std::move(message)); }

ApiError too_many_requests(std::string message, int retry_after_seconds) {
  ApiError e = make(429, "TooManyRequests", std::move(message));
  e.retry_after_seconds = retry_after_seconds;
  return e;
}

ApiError unsupported_media_type(std::string_view, const std::vector<std::string>& accepted) {
  return make(415, "UnsupportedMediaType",
              "the body of the request was in an unknown format - accepted media types include: " + join(accepted));
}

ApiError not_acceptable(const std::vector<std::string>& accepted) {
  return make(406, "NotAcceptable", "only the following media types are accepted: " + join(accepted));
}

ApiError entity_too_large(std::string message) { return make(413, "RequestEntityTooLarge", std::move(message)); }

ApiError internal_api_error(std::string message) {
  ApiError e = make(500, "InternalError", "Internal error occurred: " + message);
  e.causes.push_back({"", std::move(message), ""});
  return e;
}

ApiError timeout_error(std::string message) {
  ApiError e = make(504, "Timeout", "Timeout: " + std::move(message));
  return e;
}

std::string FieldError::to_string() const { return field + ": " + body_of(*this); }

}  // namespace ghostfleet::kube
