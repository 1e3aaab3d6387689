// The headers and trailers of gRPC as values: grpc-timeout, grpc-status, grpc-message, content-type. Formats: "gRPC
// over HTTP2"; where that leaves a choice, and in the texts of errors, as grpc-go has it.
//
// Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "kube/grpc/rpc_status.h"
#include "kube/http/message.h"

namespace ghostfleet::kube::grpc {

// "100m" (H, M, S, m, u, n; at most eight digits). Hours beyond what a Duration holds come out as the longest one.
Result<Duration> parse_grpc_timeout(std::string_view text);
// The finest unit whose number has eight digits at most, rounded up; "0n" for what is over already.
std::string format_grpc_timeout(Duration timeout);

// Percent-encodes what is not printable ASCII, and '%'. Bytes that are no UTF-8 become U+FFFD.
std::string encode_grpc_message(std::string_view text);
// A bad escape stays as it is.
std::string decode_grpc_message(std::string_view text);

// "application/grpc", alone or followed by "+codec" or ";parameter".
bool is_grpc_content_type(std::string_view value);

// Encodings that need no decompressor: none is offered here.
bool is_identity_encoding(std::string_view value);

// "/package.Service/Method" in its parts. False for another shape.
bool split_method(std::string_view path, std::string_view* service, std::string_view* method);

// grpc-status and grpc-message, for trailers.
http::HeaderList status_trailers(const RpcStatus& status);
// The same behind the headers of an answer without messages ("trailers-only").
http::HeaderList trailers_only(const RpcStatus& status);
// The headers of an answer that messages follow.
http::HeaderList answer_headers();

// The status in trailers, or in the headers of a trailers-only answer. One without grpc-status, or with one that is no
// number, is kUnknown.
RpcStatus read_status(const http::HeaderList& trailers);
// What an answer means whose headers are not gRPC's: a proxy's error page, another server.
RpcStatus status_of_foreign_answer(int http_status, const http::HeaderList& headers);

}  // namespace ghostfleet::kube::grpc
