// ApiError: what an API server says when it refuses, as metav1.Status says it. Clients branch on `code` and `reason`,
// people read `message`; `causes` name the fields.
//
// Source of reasons and texts: a real kube-apiserver 1.36.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kube/api/json.h"

namespace ghostfleet::kube {

struct KindInfo;

struct ErrorCause {
  std::string reason;  // FieldValueRequired, FieldValueInvalid, ...
  std::string message;
  std::string field;
};

struct ApiError {
  int code = 500;
  std::string reason;  // "NotFound"
  std::string message;
  // details; left out when all are empty (unless empty_details)
  std::string name, group, kind, uid;
  std::vector<ErrorCause> causes;
  int retry_after_seconds = 0;
  std::string continue_token;  // metadata.continue of an expired list
  bool empty_details = false;  // some errors carry `details: {}`

  Json to_json() const;  // the Status object
  Status to_status() const;
};

template <class T>
using ApiResult = Result<T, ApiError>;

ApiError bad_request(std::string message);
ApiError unauthorized(std::string message = "Unauthorized");
ApiError not_found_error(const KindInfo& kind, std::string_view name);
ApiError already_exists(const KindInfo& kind, std::string_view name);
// "Operation cannot be fulfilled on pods "x": WHY"
ApiError conflict(const KindInfo& kind, std::string_view name, std::string_view why);
// "pods "x" is forbidden: WHY"
ApiError forbidden(const KindInfo& kind, std::string_view name, std::string_view why);
ApiError method_not_allowed(const KindInfo& kind, std::string_view verb);
// `Pod "x" is invalid: ...` from a list of field errors
struct FieldError;
ApiError invalid(std::string_view group, std::string_view kind, std::string_view name,
                 const std::vector<FieldError>& errors);
ApiError expired(std::string message);
ApiError too_many_requests(std::string message, int retry_after_seconds = 1);
ApiError unsupported_media_type(std::string_view given, const std::vector<std::string>& accepted);
ApiError not_acceptable(const std::vector<std::string>& accepted);
ApiError entity_too_large(std::string message);
ApiError internal_api_error(std::string message);
ApiError timeout_error(std::string message);

// One finding of validation. `type` decides the cause's reason and the words: Required, Invalid, NotSupported,
// Forbidden, Duplicate, NotFound, TooLong, TooMany, TypeInvalid.
enum class FieldErrorType : unsigned char {
  kRequired,
  kInvalid,
  kNotSupported,
  kForbidden,
  kDuplicate,
  kNotFound,
  kTooLong,
  kTooMany,
  kTypeInvalid,
  kInternal
};

struct FieldError {
  FieldErrorType type = FieldErrorType::kInvalid;
  std::string field;  // "spec.containers[0].image"
  std::string value;  // the bad value as it is printed: "\"abc\"", "-1", "{...}"
  std::string detail;
  std::string to_string() const;  // `spec.containers[0].image: Required value: why`
};

}  // namespace ghostfleet::kube
