#include "kube/api/json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include "kube/api/json_number.h"

namespace ghostfleet::kube {

namespace {

boost::json::string_view bsv(std::string_view s) { return {s.data(), s.size()}; }
std::string_view sv(const JsonString& s) { return {s.data(), s.size()}; }

// 0: copy as it is.
constexpr std::array<char, 256> make_escapes() {
  std::array<char, 256> t{};
  for (int i = 0; i < 0x20; ++i) t[static_cast<size_t>(i)] = 'u';
  t['"'] = '"';
  t['\\'] = '\\';
  t['\b'] = 'b';
  t['\f'] = 'f';
  t['\n'] = 'n';
  t['\r'] = 'r';
  t['\t'] = 't';
  t['<'] = t['>'] = t['&'] = 'u';
  t[0xE2] = 'L';  // perhaps U+2028 or U+2029
  return t;
}
constexpr std::array<char, 256> kEscapes = make_escapes();

void append_escape(const char* p, const char* end, std::string* out, size_t* used) {
  static constexpr char kHex[] = "0123456789abcdef";
  const auto c = static_cast<unsigned char>(*p);
  const char e = kEscapes[c];
  *used = 1;
  if (e == 'u') {
    out->append("\\u00");
    out->push_back(kHex[c >> 4]);
    out->push_back(kHex[c & 15]);
  } else if (e == 'L') {
    const bool separator = end - p >= 3 && p[1] == '\x80' && (p[2] == '\xA8' || p[2] == '\xA9');
    if (separator) {
      out->append(p[2] == '\xA8' ? "\\u2028" : "\\u2029");
      *used = 3;
    } else {
      out->push_back(*p);
    }
  } else {
    out->push_back('\\');
    out->push_back(e);
  }
}

double as_double(const Json& v) {
  if (v.is_int64()) return static_cast<double>(v.get_int64());
  if (v.is_uint64()) return static_cast<double>(v.get_uint64());
  return v.get_double();
}

bool numbers_equal(const Json& a, const Json& b) {
  if (a.is_int64() && b.is_int64()) return a.get_int64() == b.get_int64();
  if (a.is_uint64() && b.is_uint64()) return a.get_uint64() == b.get_uint64();
  if (a.is_int64() && b.is_uint64()) {
    return a.get_int64() >= 0 && static_cast<uint64_t>(a.get_int64()) == b.get_uint64();
  }
  if (a.is_uint64() && b.is_int64()) return numbers_equal(b, a);
  return as_double(a) == as_double(b);
}

// Splits the first step off a dotted path.
std::string_view next_step(std::string_view* path) {
  const size_t dot = path->find('.');
  const std::string_view step = path->substr(0, dot);
  *path = dot == std::string_view::npos ? std::string_view() : path->substr(dot + 1);
  return step;
}

Json& step_into(Json& value, std::string_view key) {
  JsonObject& object = value.is_object() ? value.get_object() : value.emplace_object();
  return object.emplace(bsv(key), nullptr).first->value();
}

Json& walk_making(Json& value, std::string_view path) {
  Json* at = &value;
  while (!path.empty()) at = &step_into(*at, next_step(&path));
  return *at;
}

}  // namespace

void append_json_string(std::string_view text, std::string* out) {
  out->push_back('"');
  const char* p = text.data();
  const char* end = p + text.size();
  const char* from = p;
  while (p < end) {
    if (kEscapes[static_cast<unsigned char>(*p)] == 0) {
      ++p;
      continue;
    }
    out->append(from, p);
    size_t used;
    append_escape(p, end, out, &used);
    p += used;
    from = p;
  }
  out->append(from, p);
  out->push_back('"');
}

void append_int(int64_t value, std::string* out) {
  std::array<char, 24> buffer;
  const auto r = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  out->append(buffer.data(), r.ptr);
}

void append_double(double value, std::string* out) {
  if (!std::isfinite(value)) {
    out->append("null");
    return;
  }
  const double size = std::fabs(value);
  const bool exponent = size != 0 && (size < 1e-6 || size >= 1e21);
  std::array<char, 400> buffer;
  const auto format = exponent ? std::chars_format::scientific : std::chars_format::fixed;
  const auto r = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format);
  std::string text(buffer.data(), r.ptr);
  // Go writes e-9, not e-09, but e+21 as it stands.
  const size_t n = text.size();
  if (exponent && n >= 4 && text[n - 4] == 'e' && text[n - 3] == '-' && text[n - 2] == '0') text.erase(n - 2, 1);
  out->append(text);
}

void append_json(const Json& value, std::string* out) {
  switch (value.kind()) {
    case boost::json::kind::null: out->append("null"); return;
    case boost::json::kind::bool_: out->append(value.get_bool() ? "true" : "false"); return;
    case boost::json::kind::int64: append_int(value.get_int64(), out); return;
    case boost::json::kind::uint64: out->append(std::to_string(value.get_uint64())); return;
    case boost::json::kind::double_: append_double(value.get_double(), out); return;
    case boost::json::kind::string: append_json_string(sv(value.get_string()), out); return;
    case boost::json::kind::array: {
      char separator = '[';
      for (const Json& item : value.get_array()) {
        out->push_back(separator);
        append_json(item, out);
        separator = ',';
      }
      out->append(separator == '[' ? "[]" : "]");
      return;
    }
    case boost::json::kind::object: {
      char separator = '{';
      for (const auto& member : value.get_object()) {
        out->push_back(separator);
        append_json_string({member.key().data(), member.key().size()}, out);
        out->push_back(':');
        append_json(member.value(), out);
        separator = ',';
      }
      out->append(separator == '{' ? "{}" : "}");
      return;
    }
  }
}

std::string to_json(const Json& value) {
  std::string out;
  append_json(value, &out);
  return out;
}

const Json* find_key(const Json& value, std::string_view key) {
  return value.is_object() ? value.get_object().if_contains(bsv(key)) : nullptr;
}

Json* find_key(Json& value, std::string_view key) {
  return value.is_object() ? value.get_object().if_contains(bsv(key)) : nullptr;
}

const Json* find_path(const Json& value, std::string_view path) {
  const Json* at = &value;
  while (at != nullptr && !path.empty()) at = find_key(*at, next_step(&path));
  return at;
}

Json* find_path(Json& value, std::string_view path) {
  Json* at = &value;
  while (at != nullptr && !path.empty()) at = find_key(*at, next_step(&path));
  return at;
}

std::string_view get_string(const Json& value, std::string_view path) {
  const Json* v = find_path(value, path);
  return v != nullptr && v->is_string() ? sv(v->get_string()) : std::string_view();
}

int64_t get_int(const Json& value, std::string_view path, int64_t fallback) {
  const Json* v = find_path(value, path);
  if (v == nullptr) return fallback;
  if (v->is_int64()) return v->get_int64();
  if (v->is_uint64()) return static_cast<int64_t>(v->get_uint64());
  if (v->is_double() && std::fabs(v->get_double()) < 9e18) return static_cast<int64_t>(v->get_double());
  return fallback;
}

bool get_bool(const Json& value, std::string_view path, bool fallback) {
  const Json* v = find_path(value, path);
  return v != nullptr && v->is_bool() ? v->get_bool() : fallback;
}

const JsonArray* get_array(const Json& value, std::string_view path) {
  const Json* v = find_path(value, path);
  return v == nullptr ? nullptr : v->if_array();
}

const JsonObject* get_object(const Json& value, std::string_view path) {
  const Json* v = find_path(value, path);
  return v == nullptr ? nullptr : v->if_object();
}

Json& set_path(Json& value, std::string_view path, Json v) {
  Json& at = walk_making(value, path);
  at = std::move(v);
  return at;
}

JsonObject& ensure_object(Json& value, std::string_view path) {
  Json& at = walk_making(value, path);
  return at.is_object() ? at.get_object() : at.emplace_object();
}

JsonArray& ensure_array(Json& value, std::string_view path) {
  Json& at = walk_making(value, path);
  return at.is_array() ? at.get_array() : at.emplace_array();
}

void erase_path(Json& value, std::string_view path) {
  const size_t dot = path.rfind('.');
  Json* parent = dot == std::string_view::npos ? &value : find_path(value, path.substr(0, dot));
  if (parent == nullptr || !parent->is_object()) return;
  JsonObject& object = parent->get_object();
  const auto it = object.find(bsv(dot == std::string_view::npos ? path : path.substr(dot + 1)));
  if (it != object.end()) object.stable_erase(it);
}

bool json_equal(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return numbers_equal(a, b);
  if (a.kind() != b.kind()) return false;
  if (a.is_array()) {
    const JsonArray& x = a.get_array();
    const JsonArray& y = b.get_array();
    if (x.size() != y.size()) return false;
    for (size_t i = 0; i < x.size(); ++i) {
      if (!json_equal(x[i], y[i])) return false;
    }
    return true;
  }
  if (a.is_object()) {
    const JsonObject& x = a.get_object();
    const JsonObject& y = b.get_object();
    if (x.size() != y.size()) return false;
    for (const auto& member : x) {
      const Json* other = y.if_contains(member.key());
      if (other == nullptr || !json_equal(member.value(), *other)) return false;
    }
    return true;
  }
  if (a.is_string()) return a.get_string() == b.get_string();
  return !a.is_bool() || a.get_bool() == b.get_bool();
}

}  // namespace ghostfleet::kube
