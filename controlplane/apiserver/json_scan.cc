#include "controlplane/apiserver/json_scan.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>

namespace ghostfleet::controlplane {
namespace {

constexpr size_t kNpos = std::string_view::npos;

#ifdef __SSE2__
// Sixteen bytes at a time: most of what is passed over is text.
constexpr size_t kBlock = 16;

__m128i load(std::string_view text, size_t pos) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() + pos));
}

// Which of the bytes end a string or escape something in it.
unsigned in_string_marks(__m128i block) {
  return static_cast<unsigned>(_mm_movemask_epi8(
      _mm_or_si128(_mm_cmpeq_epi8(block, _mm_set1_epi8('"')), _mm_cmpeq_epi8(block, _mm_set1_epi8('\\')))));
}

// Which of the bytes are quotes, braces or brackets; '[' and ']' differ from '{' and '}' by one bit.
unsigned nesting_marks(__m128i block) {
  const __m128i folded = _mm_or_si128(block, _mm_set1_epi8(0x20));
  const __m128i nesting =
      _mm_or_si128(_mm_cmpeq_epi8(folded, _mm_set1_epi8('{')), _mm_cmpeq_epi8(folded, _mm_set1_epi8('}')));
  return static_cast<unsigned>(_mm_movemask_epi8(_mm_or_si128(nesting, _mm_cmpeq_epi8(block, _mm_set1_epi8('"')))));
}

template <unsigned (*kMarks)(__m128i)>
size_t next_mark(std::string_view text, size_t pos) {
  for (; pos + kBlock <= text.size(); pos += kBlock) {
    if (const unsigned marks = kMarks(load(text, pos))) return pos + static_cast<size_t>(std::countr_zero(marks));
  }
  return pos;  // the rest is looked at one by one
}
size_t next_in_string(std::string_view text, size_t pos) { return next_mark<in_string_marks>(text, pos); }
size_t next_nesting(std::string_view text, size_t pos) { return next_mark<nesting_marks>(text, pos); }
#else
size_t next_in_string(std::string_view, size_t pos) { return pos; }
size_t next_nesting(std::string_view, size_t pos) { return pos; }
#endif

// The position after the string that begins at `pos` (a quote).
size_t skip_string(std::string_view text, size_t pos) {
  for (size_t i = next_in_string(text, pos + 1); i < text.size(); i = next_in_string(text, i + 1)) {
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
  while ((pos = next_nesting(text, pos)) < text.size()) {
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

kube::Json pick_json(std::string_view object, std::initializer_list<JsonPick> picks) {
  std::string text = "{";
  const auto put = [&text](std::string_view key, std::string_view value) {
    if (text.back() != '{') text += ',';
    text.append("\"").append(key).append("\":").append(value);
  };
  for_each_json_member(object, [&](std::string_view key, std::string_view value) {
    const auto pick = std::find_if(picks.begin(), picks.end(), [&](const JsonPick& p) { return p.parent == key; });
    if (pick == picks.end()) return true;
    put(key, "{");
    for_each_json_member(value, [&](std::string_view inner, std::string_view raw) {
      if (std::find(pick->members.begin(), pick->members.end(), inner) != pick->members.end()) put(inner, raw);
      return true;
    });
    text += '}';
    return true;
  });
  Result<kube::Json> parsed = kube::parse_json(text + "}");
  return parsed.ok() ? std::move(*parsed) : kube::Json(kube::JsonObject());
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
