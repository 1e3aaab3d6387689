#include "base/status.h"

namespace ghostfleet {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kOk: return "OK";
    case Code::kInvalidArgument: return "InvalidArgument";
    case Code::kNotFound: return "NotFound";
    case Code::kAlreadyExists: return "AlreadyExists";
    case Code::kConflict: return "Conflict";
    case Code::kUnauthenticated: return "Unauthenticated";
    case Code::kPermissionDenied: return "PermissionDenied";
    case Code::kResourceExhausted: return "ResourceExhausted";
    case Code::kUnavailable: return "Unavailable";
    case Code::kDeadlineExceeded: return "DeadlineExceeded";
    case Code::kExpired: return "Expired";
    case Code::kCancelled: return "Cancelled";
    case Code::kDataLoss: return "DataLoss";
    case Code::kUnimplemented: return "Unimplemented";
    case Code::kInternal: return "Internal";
  }
  return "Unknown";
}

Status Status::with_context(std::string_view context) const {
  if (ok()) return *this;
  std::string text(context);
  text += ": ";
  text += message_;
  return Status(code_, std::move(text));
}

std::string Status::to_string() const {
  if (ok()) return "OK";
  return std::string(code_name(code_)) + ": " + message_;
}

Status invalid_argument(std::string message) { return Status(Code::kInvalidArgument, std::move(message)); }
Status not_found(std::string message) { return Status(Code::kNotFound, std::move(message)); }
Status unavailable(std::string message) { return Status(Code::kUnavailable, std::move(message)); }
Status internal_error(std::string message) { return Status(Code::kInternal, std::move(message)); }

}  // namespace ghostfleet
