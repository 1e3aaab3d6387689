#include "kube/grpc/rpc_status.h"

#include <fmt/format.h>
#include <nghttp2/nghttp2.h>

#include <array>

namespace ghostfleet::kube::grpc {
namespace {

struct Row {
  std::string_view name;
  Code code;
};

constexpr std::array<Row, 17> kRows = {{
    {"OK", Code::kOk},
    {"Canceled", Code::kCancelled},
    {"Unknown", Code::kInternal},
    {"InvalidArgument", Code::kInvalidArgument},
    {"DeadlineExceeded", Code::kDeadlineExceeded},
    {"NotFound", Code::kNotFound},
    {"AlreadyExists", Code::kAlreadyExists},
    {"PermissionDenied", Code::kPermissionDenied},
    {"ResourceExhausted", Code::kResourceExhausted},
    {"FailedPrecondition", Code::kConflict},
    {"Aborted", Code::kConflict},
    {"OutOfRange", Code::kInvalidArgument},
    {"Unimplemented", Code::kUnimplemented},
    {"Internal", Code::kInternal},
    {"Unavailable", Code::kUnavailable},
    {"DataLoss", Code::kDataLoss},
    {"Unauthenticated", Code::kUnauthenticated},
}};

const Row* row_of(RpcCode code) {
  const auto index = static_cast<size_t>(code);
  return index < kRows.size() ? &kRows[index] : nullptr;
}

}  // namespace

std::string rpc_code_name(RpcCode code) {
  if (const Row* row = row_of(code)) return std::string(row->name);
  return fmt::format("Code({})", static_cast<uint32_t>(code));
}

std::string RpcStatus::text() const {
  if (ok()) return {};
  return "rpc error: code = " + rpc_code_name(code) + " desc = " + message;
}

Status RpcStatus::to_status() const {
  if (ok()) return Status();
  const Row* row = row_of(code);
  return Status(row ? row->code : Code::kInternal, text());
}

RpcStatus rpc_error(RpcCode code, std::string message) { return {code, std::move(message)}; }

RpcStatus rpc_unknown(std::string message) { return {RpcCode::kUnknown, std::move(message)}; }

RpcCode rpc_code_of_http(int status) {
  switch (status) {
    case 400: return RpcCode::kInternal;
    case 401: return RpcCode::kUnauthenticated;
    case 403: return RpcCode::kPermissionDenied;
    case 404: return RpcCode::kUnimplemented;
    case 429:
    case 502:
    case 503:
    case 504: return RpcCode::kUnavailable;
    default: return RpcCode::kUnknown;
  }
}

RpcCode rpc_code_of_reset(uint32_t h2_error) {
  switch (h2_error) {
    case NGHTTP2_FLOW_CONTROL_ERROR:
    case NGHTTP2_ENHANCE_YOUR_CALM: return RpcCode::kResourceExhausted;
    case NGHTTP2_REFUSED_STREAM: return RpcCode::kUnavailable;
    case NGHTTP2_CANCEL: return RpcCode::kCanceled;
    case NGHTTP2_INADEQUATE_SECURITY: return RpcCode::kPermissionDenied;
    default: return h2_error <= NGHTTP2_HTTP_1_1_REQUIRED ? RpcCode::kInternal : RpcCode::kUnknown;
  }
}

}  // namespace ghostfleet::kube::grpc
