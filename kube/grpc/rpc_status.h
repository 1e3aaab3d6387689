// RpcStatus: how a gRPC call ended: a code and a message for people. Codes and their numbers: gRPC's "Status codes and
// their use in gRPC"; names and texts as grpc-go shows them, because Kubernetes puts these texts into events and pod
// statuses.
//
// Thread rule: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ghostfleet::kube::grpc {

enum class RpcCode : uint32_t {
  kOk = 0,
  kCanceled = 1,
  kUnknown = 2,  // also every error of a handler that names no code
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

// "OK", "Canceled", "InvalidArgument"; "Code(17)" for a number that gRPC does not know.
std::string rpc_code_name(RpcCode code);

struct RpcStatus {
  RpcCode code = RpcCode::kOk;
  std::string message;

  bool ok() const { return code == RpcCode::kOk; }
  // "rpc error: code = Unknown desc = no such device": what a grpc-go client prints. Empty when it is OK.
  std::string text() const;
  // For callers that know nothing of gRPC: the nearest code, and text().
  Status to_status() const;
};

RpcStatus rpc_error(RpcCode code, std::string message);
// An error of a handler of ours: grpc-go makes kUnknown of an error without a code.
RpcStatus rpc_unknown(std::string message);

// What an HTTP status means that comes without a grpc-status.
RpcCode rpc_code_of_http(int status);
// What a reset stream means, by its error code of HTTP/2.
RpcCode rpc_code_of_reset(uint32_t h2_error);

}  // namespace ghostfleet::kube::grpc
