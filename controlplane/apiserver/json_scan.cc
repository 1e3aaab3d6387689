#include "controlplane/apiserver/json_scan.h"

#include "kube/api/json.h"

namespace ghostfleet::controlplane {
namespace {

constexpr size_t kNpos = std::string_view::npos;

// The position after the string that begins at `pos` (a quote).
size_t skip_string(std::string_view text, size_t pos) {
  for (size_t i = pos + 1; i < text.size(); i++) {
    if (text[i] == '\\') {
      i++;
    } else if (text[i] == '"') {
      return i + 1;
    }
  }
  return kNpos;
}

size_t skip_nested(std::string_view text, size_t pos) {
  int depth = 0;
  while (pos < text.size()) {
    const char c = text[pos];
    if (c == '"') {
      pos = skip_string(text, pos);
      if (pos == kNpos) return kNpos;
      continue;
    }
    if (c == '{' || c == '[') depth++;
    pos++;
    if ((c == '}' || c == ']') && --depth == 0) return pos;
  }
  return kNpos;
}

}  // namespace

size_t skip_json_value(std::string_view text, size_t pos) {
  if (pos >= text.size()) return kNpos;
  if (text[pos] == '"') return skip_string(text, pos);
  if (text[pos] == '{' || text[pos] == '[') return skip_nested(text, pos);
  const size_t end = text.find_first_of(",}]", pos);
  return end == kNpos ? text.size() : end;
}

void for_each_json_member(std::string_view object,
                          const std::function<bool(std::string_view, std::string_view)>& visit) {
  if (object.size() < 2 || object[0] != '{') return;
  size_t pos = 1;
  while (pos < object.size() && object[pos] == '"') {
    const size_t key_end = skip_string(object, pos);
    if (key_end == kNpos || key_end >= object.size() || object[key_end] != ':') return;
    const size_t value_end = skip_json_value(object, key_end + 1);
    if (value_end == kNpos) return;
    const std::string_view key = object.substr(pos + 1, key_end - pos - 2);
    if (!visit(key, object.substr(key_end + 1, value_end - key_end - 1))) return;
    if (value_end >= object.size() || object[value_end] != ',') return;
    pos = value_end + 1;
  }
}

std::string_view json_member(std::string_view object, std::string_view key) {
  if (object.size() < 2 || object[0] != '{') return {};
  size_t pos = 1;
  while (pos < object.size() && object[pos] == '"') {
    const size_t key_end = skip_string(object, pos);
    if (key_end == kNpos || key_end >= object.size() || object[key_end] != ':') return {};
    const size_t value_end = skip_json_value(object, key_end + 1);
    if (value_end == kNpos) return {};
    if (object.substr(pos + 1, key_end - pos - 2) == key) return object.substr(key_end + 1, value_end - key_end - 1);
    if (value_end >= object.size() || object[value_end] != ',') return {};
    pos = value_end + 1;
  }
  return {};
}

std::string_view json_at_path(std::string_view object, std::string_view path) {
  while (!path.empty() && !object.empty()) {
    const size_t dot = path.find('.');
    object = json_member(object, path.substr(0, dot));
    path = dot == kNpos ? std::string_view() : path.substr(dot + 1);
  }
  return object;
}

std::string json_text(std::string_view raw) {
  if (raw.empty() || raw[0] == '{' || raw[0] == '[' || raw == "null") return {};
  if (raw[0] != '"') return std::string(raw);
  const std::string_view inner = raw.substr(1, raw.size() - 2);
  if (inner.find('\\') == kNpos) return std::string(inner);
  Result<kube::Json> parsed = kube::parse_json(raw);
  return parsed.ok() && parsed->is_string() ? std::string(parsed->as_string()) : std::string();
}

}  // namespace ghostfleet::controlplane
