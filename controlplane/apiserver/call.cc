#include "controlplane/apiserver/call.h"

#include "controlplane/apiserver/server_metrics.h"
#include "kube/api/codec.h"

namespace ghostfleet::controlplane {
namespace {

constexpr size_t kMaxWarningBytes = 4096;

// RFC 7234 warning text: quotes and backslashes escaped, no control characters.
std::string warning_header(std::string_view text) {
  std::string out = "299 - \"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out + "\"";
}

}  // namespace

kube::http::HeaderList answer_headers(const Call& call, std::string content_type) {
  kube::http::HeaderList headers;
  headers.add("audit-id", call.audit_id);
  headers.add("cache-control", "no-cache, private");
  if (!content_type.empty()) headers.add("content-type", std::move(content_type));
  size_t bytes = 0;
  for (const std::string& warning : call.ctx.warnings) {
    bytes += warning.size();
    if (bytes > kMaxWarningBytes) break;
    headers.add("warning", warning_header(warning));
  }
  return headers;
}

void record_answer(Call& call, int code) {
  if (call.parts.metrics) call.parts.metrics->record(call, code);
  call.slot.reset();
}

void send_bytes(Call& call, int code, std::string content_type, std::string body) {
  kube::http::HeaderList headers = answer_headers(call, std::move(content_type));
  record_answer(call, code);
  call.exchange->respond(code, std::move(headers), share(std::move(body)));
}

void send_text(Call& call, int code, std::string text) {
  send_bytes(call, code, "text/plain; charset=utf-8", std::move(text));
}

void send_error(Call& call, const kube::ApiError& error) {
  const AnswerType answer = negotiate_error(call.request().headers, call.info.query.get("pretty"));
  std::string body = render_value(error.to_json(), answer, "meta/v1.Status");
  kube::http::HeaderList headers = answer_headers(call, answer.content_type());
  if (error.retry_after_seconds > 0) headers.add("retry-after", std::to_string(error.retry_after_seconds));
  record_answer(call, error.code);
  call.exchange->respond(error.code, std::move(headers), share(std::move(body)));
}

void send_value(Call& call, int code, const kube::Json& value) {
  AnswerType answer = call.answer;
  answer.transform = Transform::kNone;
  send_bytes(call, code, answer.content_type(), render_value(value, answer, type_name_of(value)));
}

void send_object(Call& call, int code, const Object& object) {
  const Renderer renderer(call.parts.api, *call.resource, call.answer, include_object(call.info.query));
  send_bytes(call, code, call.answer.content_type(), renderer.object(object));
}

kube::IncludeObject include_object(const Query& query) {
  const std::string& text = query.get("includeObject");
  if (text == "None") return kube::IncludeObject::kNone;
  return text == "Object" ? kube::IncludeObject::kObject : kube::IncludeObject::kMetadata;
}

bool negotiate_or_fail(Call& call, Endpoint endpoint) {
  const bool custom = call.resource && call.resource->info.custom();
  kube::ApiResult<AnswerType> answer =
      negotiate(call.request().headers, call.info.query.get("pretty"), endpoint, custom);
  if (!answer.ok()) {
    send_error(call, answer.error());
    return false;
  }
  call.answer = std::move(*answer);
  return true;
}

kube::ApiError unknown_path_error() {
  kube::ApiError error;
  error.code = 404;
  error.reason = "NotFound";
  error.message = "the server could not find the requested resource";
  error.empty_details = true;
  return error;
}

}  // namespace ghostfleet::controlplane
