#include "controlplane/apiserver/list_options.h"

#include <charconv>

#include "base/digest.h"
#include "controlplane/auth/tokens.h"

namespace ghostfleet::controlplane {
namespace {

using kube::ApiError;
using kube::ApiResult;
using kube::FieldError;
using kube::FieldErrorType;

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

bool parse_int(std::string_view text, int64_t* value) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return failure == std::errc() && end == text.data() + text.size();
}

void forbid(std::vector<FieldError>* errors, std::string field, std::string detail) {
  errors->push_back({FieldErrorType::kForbidden, std::move(field), "", std::move(detail)});
}

void check_match(const ListQuery& q, std::vector<FieldError>* errors) {
  const std::string field = "resourceVersionMatch";
  if (q.version_match.empty()) return;
  if (q.resource_version.empty()) {
    forbid(errors, field, "resourceVersionMatch is forbidden unless resourceVersion is provided");
  }
  if (!q.continue_token.empty()) {
    forbid(errors, field, "resourceVersionMatch is forbidden when continue is provided");
  }
  if (q.version_match != "Exact" && q.version_match != "NotOlderThan") {
    errors->push_back({FieldErrorType::kNotSupported, field, quoted(q.version_match),
                       "supported values: \"Exact\", \"NotOlderThan\", \"\""});
  }
  if (q.version_match == "Exact" && q.resource_version == "0") {
    forbid(errors, field, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
  }
}

void check_list(const ListQuery& q, std::vector<FieldError>* errors) {
  check_match(q, errors);
  if (q.send_initial_events) forbid(errors, "sendInitialEvents", "sendInitialEvents is forbidden for list");
}

void check_watch(const ListQuery& q, std::vector<FieldError>* errors) {
  const std::string field = "resourceVersionMatch";
  if (q.send_initial_events) {
    if (q.version_match.empty()) {
      forbid(errors, field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    } else if (q.version_match != "NotOlderThan") {
      errors->push_back(
          {FieldErrorType::kNotSupported, field, quoted(q.version_match), "supported values: \"NotOlderThan\""});
    }
  } else if (!q.version_match.empty()) {
    forbid(errors, field, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
  }
  if (!q.continue_token.empty()) {
    forbid(errors, field, "resourceVersionMatch is forbidden when continue is provided");
  }
}

// A flag of a query the way the API's conversion reads it.
bool parse_flag(std::string_view text) { return text != "false" && text != "0" && text != "False" && text != "FALSE"; }

}  // namespace

ApiResult<ListQuery> parse_list_query(const Resource& r, const KindConfig& config, const Query& query, bool watch) {
  ListQuery q;
  ApiResult<ObjectFilter> filter =
      ObjectFilter::parse(r, config, query.get("labelSelector"), query.get("fieldSelector"));
  if (!filter.ok()) return filter.error();
  q.filter = std::move(*filter);
  int64_t number = 0;
  if (const std::string& text = query.get("limit"); !text.empty()) {
    if (!parse_int(text, &number))
      return kube::bad_request("strconv.ParseInt: parsing " + quoted(text) + ": invalid syntax");
    q.limit = number > 0 ? static_cast<size_t>(number) : 0;
  }
  if (const std::string& text = query.get("timeoutSeconds"); !text.empty()) {
    if (!parse_int(text, &number))
      return kube::bad_request("strconv.ParseInt: parsing " + quoted(text) + ": invalid syntax");
    q.timeout_seconds = number;
  }
  q.continue_token = query.get("continue");
  q.resource_version = query.get("resourceVersion");
  q.version_match = query.get("resourceVersionMatch");
  q.allow_bookmarks = query.has("allowWatchBookmarks") && parse_flag(query.get("allowWatchBookmarks"));
  if (query.has("sendInitialEvents")) q.send_initial_events = parse_flag(query.get("sendInitialEvents"));
  std::vector<FieldError> errors;
  if (watch) {
    check_watch(q, &errors);
  } else {
    check_list(q, &errors);
  }
  if (!errors.empty()) return kube::invalid("meta.k8s.io", "ListOptions", "", errors);
  return q;
}

bool parse_version(std::string_view text, Revision* revision, std::string* error) {
  *revision = 0;
  if (text.empty() || text == "0") return true;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), *revision);
  if (failure == std::errc() && end == text.data() + text.size()) return true;
  const bool range = failure == std::errc::result_out_of_range;
  *error = "strconv.ParseUint: parsing " + quoted(text) + (range ? ": value out of range" : ": invalid syntax");
  return false;
}

ApiError too_large_version(Revision asked, Revision current) {
  ApiError error = kube::timeout_error("");
  error.message =
      "Timeout: Too large resource version: " + std::to_string(asked) + ", current: " + std::to_string(current);
  error.causes = {{"ResourceVersionTooLarge", "Too large resource version", ""}};
  error.retry_after_seconds = 1;
  return error;
}

std::string encode_continue(const ContinueToken& token) {
  std::string json = "{\"v\":\"meta.k8s.io/v1\",\"rv\":" + std::to_string(token.revision) + ",\"start\":";
  kube::append_json_string(token.start + '\0', &json);
  return base64url_encode(json + "}");
}

ApiResult<ContinueToken> decode_continue(std::string_view text) {
  const std::string prefix = "invalid continue token: ";
  std::string json;
  if (!base64url_decode(text, &json)) return kube::bad_request(prefix + "invalid key: illegal base64 data");
  Result<kube::Json> parsed = kube::parse_json(json);
  if (!parsed.ok()) return kube::bad_request(prefix + "invalid key: " + parsed.error().message());
  if (kube::get_string(*parsed, "v") != "meta.k8s.io/v1") {
    return kube::bad_request(prefix + "unrecognized encoded version");
  }
  ContinueToken token;
  token.revision = kube::get_int(*parsed, "rv");
  token.start = kube::get_string(*parsed, "start");
  if (token.revision == 0) {
    return kube::bad_request(prefix + "incorrect encoded start resourceVersion (version meta.k8s.io/v1)");
  }
  if (token.start.empty()) return kube::bad_request(prefix + "encoded start key empty (version meta.k8s.io/v1)");
  if (token.start.back() == '\0') token.start.pop_back();
  return token;
}

}  // namespace ghostfleet::controlplane
