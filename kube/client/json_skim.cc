#include "kube/client/json_skim.h"

#include <charconv>
#include <cstdint>
#include <cstring>

namespace ghostfleet::kube {
namespace {

void skip_space(std::string_view* text) {
  while (!text->empty() &&
         (text->front() == ' ' || text->front() == '\n' || text->front() == '\r' || text->front() == '\t')) {
    text->remove_prefix(1);
  }
}

// The size of the string that begins at `at` with its quote, both quotes included; 0 when it does not end.
size_t string_size(std::string_view text, size_t at) {
  size_t i = at + 1;
  while (i < text.size()) {
    const char* quote = static_cast<const char*>(std::memchr(text.data() + i, '"', text.size() - i));
    if (!quote) return 0;
    const auto end = static_cast<size_t>(quote - text.data());
    size_t slashes = 0;
    while (end - slashes > at + 1 && text[end - slashes - 1] == '\\') ++slashes;
    if (slashes % 2 == 0) return end - at + 1;
    i = end + 1;
  }
  return 0;
}

// Of the object or array that begins the text.
size_t nested_size(std::string_view text) {
  size_t depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '{':
      case '[': ++depth; break;
      case '}':
      case ']':
        if (--depth == 0) return i + 1;
        break;
      case '"': {
        const size_t n = string_size(text, i);
        if (n == 0) return 0;
        i += n - 1;
        break;
      }
      default: break;
    }
  }
  return 0;
}

size_t scalar_size(std::string_view text) {
  const size_t end = text.find_first_of(",}] \n\r\t:");
  return end == std::string_view::npos ? text.size() : end;
}

bool take_char(std::string_view* text, char c) {
  skip_space(text);
  if (text->empty() || text->front() != c) return false;
  text->remove_prefix(1);
  return true;
}

void append_utf8(uint32_t c, std::string* out) {
  if (c < 0x80) {
    *out += static_cast<char>(c);
  } else if (c < 0x800) {
    *out += static_cast<char>(0xc0 | c >> 6);
    *out += static_cast<char>(0x80 | (c & 63));
  } else if (c < 0x10000) {
    *out += static_cast<char>(0xe0 | c >> 12);
    *out += static_cast<char>(0x80 | (c >> 6 & 63));
    *out += static_cast<char>(0x80 | (c & 63));
  } else {
    *out += static_cast<char>(0xf0 | c >> 18);
    *out += static_cast<char>(0x80 | (c >> 12 & 63));
    *out += static_cast<char>(0x80 | (c >> 6 & 63));
    *out += static_cast<char>(0x80 | (c & 63));
  }
}

// Four digits of \u at `at`; 0xfffd when they are none.
uint32_t hex4(std::string_view raw, size_t at) {
  uint32_t value = 0;
  if (at + 4 > raw.size()) return 0xfffd;
  const auto parsed = std::from_chars(raw.data() + at, raw.data() + at + 4, value, 16);
  return parsed.ptr == raw.data() + at + 4 ? value : 0xfffd;
}

std::string unescape(std::string_view raw) {
  std::string out;
  out.reserve(raw.size());
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\' || i + 1 == raw.size()) {
      out += raw[i];
      continue;
    }
    const char c = raw[++i];
    if (c == 'u') {
      uint32_t code = hex4(raw, i + 1);
      i += 4;
      const bool pair =
          code >= 0xd800 && code < 0xdc00 && i + 2 < raw.size() && raw[i + 1] == '\\' && raw[i + 2] == 'u';
      if (pair) {
        code = 0x10000 + ((code - 0xd800) << 10) + ((hex4(raw, i + 3) - 0xdc00) & 0x3ff);
        i += 6;
      }
      append_utf8(code >= 0xd800 && code < 0xe000 ? 0xfffd : code, &out);
      continue;
    }
    out += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c == 'b' ? '\b' : c == 'f' ? '\f' : c;
  }
  return out;
}

}  // namespace

std::string_view take_json_value(std::string_view* text) {
  skip_space(text);
  if (text->empty()) return {};
  const char c = text->front();
  const size_t size = c == '"' ? string_size(*text, 0) : c == '{' || c == '[' ? nested_size(*text) : scalar_size(*text);
  const std::string_view value = text->substr(0, size);
  text->remove_prefix(size);
  return value;
}

bool for_each_json_member(std::string_view object,
                          const std::function<bool(std::string_view key, std::string_view value)>& fn) {
  if (!take_char(&object, '{')) return false;
  if (take_char(&object, '}')) return true;
  while (true) {
    const std::string_view key = take_json_value(&object);
    if (key.size() < 2 || key.front() != '"' || !take_char(&object, ':')) return false;
    const std::string_view value = take_json_value(&object);
    if (value.empty()) return false;
    if (!fn(key.substr(1, key.size() - 2), value)) return true;
    if (take_char(&object, ',')) continue;
    return take_char(&object, '}');
  }
}

bool for_each_json_item(std::string_view array, const std::function<bool(std::string_view value)>& fn) {
  if (!take_char(&array, '[')) return false;
  if (take_char(&array, ']')) return true;
  while (true) {
    const std::string_view value = take_json_value(&array);
    if (value.empty()) return false;
    if (!fn(value)) return true;
    if (take_char(&array, ',')) continue;
    return take_char(&array, ']');
  }
}

std::string_view json_member(std::string_view object, std::string_view key) {
  std::string_view found;
  for_each_json_member(object, [&](std::string_view name, std::string_view value) {
    if (name != key) return true;
    found = value;
    return false;
  });
  return found;
}

std::string_view json_raw_string(std::string_view value) {
  if (value.size() < 2 || value.front() != '"') return {};
  return value.substr(1, value.size() - 2);
}

std::string json_string_member(std::string_view object, std::string_view key) {
  return unescape(json_raw_string(json_member(object, key)));
}

}  // namespace ghostfleet::kube
