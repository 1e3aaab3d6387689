#include "kube/grpc/rpc_headers.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include "base/text.h"
#include "kube/http/server_session.h"

namespace ghostfleet::kube::grpc {
namespace {

constexpr std::string_view kContentType = "application/grpc";
constexpr size_t kTimeoutDigits = 8;
constexpr int64_t kMaxTimeoutNumber = 99'999'999;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

struct Unit {
  char letter;
  int64_t ns;
};
// From the finest on.
constexpr std::array<Unit, 6> kUnits = {{
    {'n', 1},
    {'u', 1'000},
    {'m', 1'000'000},
    {'S', 1'000'000'000},
    {'M', 60'000'000'000},
    {'H', 3'600'000'000'000},
}};

Status bad_timeout(std::string_view what, std::string_view text) {
  return invalid_argument(fmt::format("transport: timeout {}: {}", what, go_quote(text)));
}

bool printable(char c) { return c >= ' ' && c <= '~' && c != '%'; }

// How many bytes of valid UTF-8 the text begins with; 0: none.
size_t utf8_length(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xE0 && at(1) < 0xA0) || (first == 0xF0 && at(1) < 0x90);
  const bool beyond = (first == 0xED && at(1) > 0x9F) || (first == 0xF4 && at(1) > 0x8F);
  return overlong || beyond ? 0 : size;
}

void append_escaped(std::string* out, std::string_view bytes) {
  for (const char c : bytes) *out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
}

std::optional<char> hex_byte(std::string_view two) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(two.data(), two.data() + two.size(), value, 16);
  if (error != std::errc() || end != two.data() + two.size()) return std::nullopt;
  return static_cast<char>(value);
}

}  // namespace

Result<Duration> parse_grpc_timeout(std::string_view text) {
  if (text.size() < 2) return bad_timeout("string is too short", text);
  if (text.size() > kTimeoutDigits + 1) return bad_timeout("string is too long", text);
  const std::string_view digits = text.substr(0, text.size() - 1);
  const Unit* unit = nullptr;
  for (const Unit& u : kUnits) {
    if (u.letter == text.back()) unit = &u;
  }
  if (unit == nullptr) return bad_timeout("unit is not recognized", text);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return invalid_argument("strconv.ParseUint: parsing " + go_quote(digits) + ": invalid syntax");
  }
  const auto most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max() / unit->ns);
  return number > most ? Duration::max() : Duration(static_cast<int64_t>(number) * unit->ns);
}

std::string format_grpc_timeout(Duration timeout) {
  if (timeout.count() <= 0) return "0n";
  for (const Unit& unit : kUnits) {
    const int64_t number = (timeout.count() - 1) / unit.ns + 1;
    if (number <= kMaxTimeoutNumber) return std::to_string(number) + unit.letter;
  }
  return std::to_string(kMaxTimeoutNumber) + 'H';  // a Duration has fewer hours
}

std::string encode_grpc_message(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t size = utf8_length(text);
    if (size == 0) {
      append_escaped(&out, kReplacement);
    } else if (size == 1 && printable(text[0])) {
      out += text[0];
    } else {
      append_escaped(&out, text.substr(0, size));
    }
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return out;
}

std::string decode_grpc_message(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size();
    const std::optional<char> byte = escape ? hex_byte(text.substr(i + 1, 2)) : std::nullopt;
    out += byte.value_or(text[i]);
    if (byte) i += 2;
  }
  return out;
}

bool is_grpc_content_type(std::string_view value) {
  std::string lower(value.substr(0, kContentType.size()));
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  if (lower != kContentType) return false;
  const std::string_view rest = value.substr(kContentType.size());
  return rest.empty() || rest[0] == '+' || rest[0] == ';';
}

bool is_identity_encoding(std::string_view value) { return value.empty() || value == "identity"; }

bool split_method(std::string_view path, std::string_view* service, std::string_view* method) {
  if (path.empty() || path[0] != '/') return false;
  const size_t slash = path.rfind('/');
  if (slash == 0) return false;
  *service = path.substr(1, slash - 1);
  *method = path.substr(slash + 1);
  return true;
}

http::HeaderList status_trailers(const RpcStatus& status) {
  http::HeaderList out{{"grpc-status", std::to_string(static_cast<uint32_t>(status.code))}};
  if (!status.message.empty()) out.add("grpc-message", encode_grpc_message(status.message));
  return out;
}

http::HeaderList trailers_only(const RpcStatus& status) {
  http::HeaderList out = answer_headers();
  for (const auto& [name, value] : status_trailers(status)) out.add(name, value);
  return out;
}

http::HeaderList answer_headers() { return {{"content-type", std::string(kContentType)}}; }

RpcStatus read_status(const http::HeaderList& trailers) {
  const std::string* text = trailers.find("grpc-status");
  const std::string message = decode_grpc_message(trailers.get("grpc-message"));
  if (text == nullptr) return rpc_error(RpcCode::kUnknown, message);
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || end != text->data() + text->size()) {
    return rpc_error(RpcCode::kUnknown, "transport: malformed grpc-status: strconv.ParseInt: parsing " +
                                            go_quote(*text) + ": invalid syntax");
  }
  return rpc_error(static_cast<RpcCode>(number), message);
}

RpcStatus status_of_foreign_answer(int http_status, const http::HeaderList& headers) {
  const std::string* type = headers.find("content-type");
  const std::string about_type = type ? "transport: received unexpected content-type " + go_quote(*type)
                                      : "malformed header: missing HTTP content-type";
  return rpc_error(rpc_code_of_http(http_status),
                   fmt::format("unexpected HTTP status code received from server: {} ({}); {}", http_status,
                               http::reason_phrase(http_status), about_type));
}

}  // namespace ghostfleet::kube::grpc
