#include "agent/node/json_scan.h"

#include <cstring>

namespace ghostfleet::agent {
namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

size_t skip_space(std::string_view text, size_t at) {
  while (at < text.size() && is_space(text[at])) ++at;
  return at;
}

// The place after the string that begins at `at` (its opening quote); npos when it is cut.
size_t skip_string(std::string_view text, size_t at) {
  ++at;
  while (at < text.size()) {
    const char* quote = static_cast<const char*>(std::memchr(text.data() + at, '"', text.size() - at));
    if (quote == nullptr) return std::string_view::npos;
    const size_t end = static_cast<size_t>(quote - text.data());
    size_t slashes = 0;
    while (end > at + slashes && text[end - 1 - slashes] == '\\') ++slashes;
    if (slashes % 2 == 0) return end + 1;
    at = end + 1;
  }
  return std::string_view::npos;
}

size_t skip_nested(std::string_view text, size_t at) {
  size_t depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = skip_string(text, at);
      if (at == std::string_view::npos) return at;
      continue;
    }
    ++at;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth == 0) return at;
  }
  return std::string_view::npos;
}

size_t skip_scalar(std::string_view text, size_t at) {
  const size_t begin = at;
  while (at < text.size() && text[at] != ',' && text[at] != '}' && text[at] != ']' && !is_space(text[at])) ++at;
  return at == begin ? std::string_view::npos : at;
}

size_t skip_value(std::string_view text, size_t at) {
  if (at >= text.size()) return std::string_view::npos;
  if (text[at] == '"') return skip_string(text, at);
  if (text[at] == '{' || text[at] == '[') return skip_nested(text, at);
  return skip_scalar(text, at);
}

std::string_view after_opening(std::string_view text, char opening, bool* open) {
  const size_t at = skip_space(text, 0);
  *open = at < text.size() && text[at] == opening;
  return *open ? text.substr(at + 1) : std::string_view();
}

// Steps over the comma (or what follows the opening); false at the end.
bool step_to_item(std::string_view* rest, char closing) {
  size_t at = skip_space(*rest, 0);
  if (at < rest->size() && (*rest)[at] == ',') at = skip_space(*rest, at + 1);
  if (at >= rest->size() || (*rest)[at] == closing) return false;
  rest->remove_prefix(at);
  return true;
}

}  // namespace

ObjectScan::ObjectScan(std::string_view object) : rest_(after_opening(object, '{', &open_)) {}

bool ObjectScan::next_key(std::string_view* key) {
  if (!open_ || !step_to_item(&rest_, '}') || rest_[0] != '"') return open_ = false;
  const size_t key_end = skip_string(rest_, 0);
  if (key_end == std::string_view::npos) return open_ = false;
  *key = rest_.substr(1, key_end - 2);
  const size_t at = skip_space(rest_, key_end);
  if (at >= rest_.size() || rest_[at] != ':') return open_ = false;
  rest_.remove_prefix(skip_space(rest_, at + 1));
  return true;
}

bool ObjectScan::next(std::string_view* key, std::string_view* value) {
  if (!next_key(key)) return false;
  const size_t end = skip_value(rest_, 0);
  if (end == std::string_view::npos) return open_ = false;
  *value = rest_.substr(0, end);
  rest_.remove_prefix(end);
  return true;
}

std::string_view ObjectScan::from_value_of(std::string_view wanted) {
  std::string_view key;
  while (next_key(&key)) {
    if (key == wanted) return rest_;
    const size_t end = skip_value(rest_, 0);
    if (end == std::string_view::npos) break;
    rest_.remove_prefix(end);
  }
  return {};
}

ArrayScan::ArrayScan(std::string_view array) : rest_(after_opening(array, '[', &open_)) {}

bool ArrayScan::next(std::string_view* value) {
  if (!open_ || !step_to_item(&rest_, ']')) return open_ = false;
  const size_t end = skip_value(rest_, 0);
  if (end == std::string_view::npos) return open_ = false;
  *value = rest_.substr(0, end);
  rest_.remove_prefix(end);
  return true;
}

std::string_view scan_member(std::string_view object, std::string_view key) {
  ObjectScan scan(object);
  std::string_view k;
  std::string_view value;
  while (scan.next(&k, &value)) {
    if (k == key) return value;
  }
  return {};
}

// Goes down into each object as soon as its key is met: what comes after the value sought is never looked at.
std::string_view scan_path(std::string_view object, std::initializer_list<std::string_view> keys) {
  for (auto key = keys.begin(); key != keys.end(); ++key) {
    if (key + 1 == keys.end()) return scan_member(object, *key);
    object = ObjectScan(object).from_value_of(*key);
  }
  return object;
}

std::string_view scan_string(std::string_view value) {
  if (value.size() < 2 || value.front() != '"' || value.back() != '"') return {};
  value = value.substr(1, value.size() - 2);
  return value.find('\\') == std::string_view::npos ? value : std::string_view();
}

size_t value_length(std::string_view text) {
  const size_t end = skip_value(text, skip_space(text, 0));
  return end == std::string_view::npos ? 0 : end;
}

}  // namespace ghostfleet::agent
