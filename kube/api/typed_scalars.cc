// TypedReader: single values.
#include <charconv>
#include <cmath>
#include <limits>

#include "base/digest.h"
#include "base/text.h"
#include "kube/api/json_number.h"
#include "kube/api/quantity.h"
#include "kube/api/scalars.h"
#include "kube/api/typed_reader.h"

namespace ghostfleet::kube {

namespace {

void assign(Json* out, std::string_view text) { out->emplace_string().assign(text.data(), text.size()); }

bool starts_number(char c) { return c == '-' || (c >= '0' && c <= '9'); }

// Small whole numbers are canonical as they stand; most quantities of a node are such.
bool plain_count(std::string_view text) {
  if (text.empty() || text.size() > 15 || (text[0] == '0' && text.size() > 1)) return false;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
  }
  return text.size() < 4 || text.substr(text.size() - 3) != "000";
}

}  // namespace

bool TypedReader::read_scalar(const FieldInfo& f, Json* out) {
  switch (f.kind) {
    case FieldKind::kString: return read_text(f, out);
    case FieldKind::kBool: return read_bool(f, out);
    case FieldKind::kInt32: return read_integer(f.go_element, false, false, out);
    case FieldKind::kInt64: return read_integer(f.go_element, true, false, out);
    case FieldKind::kDouble: return read_double(f, out);
    case FieldKind::kBytes: return read_bytes(f, out);
    case FieldKind::kTime: return read_time(false, out);
    case FieldKind::kMicroTime: return read_time(true, out);
    case FieldKind::kDuration: return read_duration(out);
    case FieldKind::kQuantity: return read_quantity(out);
    case FieldKind::kIntOrString: return read_int_or_string(out);
    case FieldKind::kSchemaOrBool:
    case FieldKind::kSchemaOrArray:
    case FieldKind::kSchemaOrStringArray: return read_schema(f, out);
    default: return read_any(out);
  }
}

bool TypedReader::read_text(const FieldInfo& f, Json* out) {
  if (scan_.peek() != '"') return wrong_type(f.go_element, false);
  std::string_view text;
  if (!scan_.read_string(&text)) return false;
  assign(out, text);
  return true;
}

bool TypedReader::read_bool(const FieldInfo& f, Json* out) {
  const char c = scan_.peek();
  if (c != 't' && c != 'f') return wrong_type(f.go_element, false);
  *out = c == 't';
  return scan_.read_word(c == 't' ? "true" : "false");
}

bool TypedReader::read_integer(std::string_view go_type, bool wide, bool fatal, Json* out) {
  if (!starts_number(scan_.peek())) return wrong_type(go_type, fatal);
  std::string_view raw;
  bool integer;
  if (!scan_.read_number(&raw, &integer)) return false;
  int64_t value = 0;
  const auto r = std::from_chars(raw.data(), raw.data() + raw.size(), value);
  const bool fits =
      wide || (value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max());
  if (!integer || r.ec != std::errc() || !fits) return wrong_number(raw, go_type, fatal);
  *out = value;
  return true;
}

bool TypedReader::read_double(const FieldInfo& f, Json* out) {
  if (!starts_number(scan_.peek())) return wrong_type(f.go_element, false);
  std::string_view raw;
  bool integer;
  if (!scan_.read_number(&raw, &integer)) return false;
  return number_from_text(raw, integer, out) || wrong_number(raw, f.go_element, false);
}

bool TypedReader::read_any_number(Json* out) {
  if (!starts_number(scan_.peek())) return scan_.fail("looking for beginning of value");
  std::string_view raw;
  bool integer;
  if (!scan_.read_number(&raw, &integer)) return false;
  return number_from_text(raw, integer, out) || wrong_number(raw, "float64", false);
}

bool TypedReader::read_bytes(const FieldInfo& f, Json* out) {
  if (scan_.peek() != '"') return wrong_type(f.go_element, false);
  std::string_view text;
  if (!scan_.read_string(&text)) return false;
  assign(out, text);
  auto bytes = decode_base64(text);
  if (!bytes.ok()) {
    note_error(bytes.error().message(), false);
  } else if (text.find_first_of("\r\n") != text.npos) {
    assign(out, base64_encode(*bytes));
  }
  return true;
}

bool TypedReader::read_time(bool micro, Json* out) {
  if (scan_.peek() != '"') return wrong_type("string", true);
  std::string_view text;
  if (!scan_.read_string(&text)) return false;
  auto time = parse_time(text, micro);
  if (time.ok()) {
    assign(out, format_time(*time, micro));
  } else {
    note_error(time.error().message(), true);
  }
  return true;
}

bool TypedReader::read_duration(Json* out) {
  if (scan_.peek() != '"') return wrong_type("string", true);
  std::string_view text;
  if (!scan_.read_string(&text)) return false;
  auto duration = parse_duration(text);
  if (duration.ok()) {
    assign(out, format_duration(*duration));
  } else {
    note_error(duration.error().message(), true);
  }
  return true;
}

bool TypedReader::read_quantity(Json* out) {
  const size_t start = scan_.offset();
  std::string_view text;
  if (scan_.peek() == '"') {
    if (!scan_.read_string(&text)) return false;
  } else {
    if (!scan_.skip_value(depth_)) return false;
    text = scan_.since(start);
  }
  if (plain_count(text)) {
    assign(out, text);
    return true;
  }
  auto quantity = Quantity::parse(text);
  if (quantity.ok()) {
    assign(out, quantity->to_string());
  } else {
    note_error(quantity.error().message(), true);
  }
  return true;
}

bool TypedReader::read_int_or_string(Json* out) {
  if (scan_.peek() != '"') return read_integer("int32", false, true, out);
  std::string_view text;
  if (!scan_.read_string(&text)) return false;
  assign(out, text);
  return true;
}

// One schema, or what may stand in its place: a bool, a list of schemas, a list of names.
bool TypedReader::read_schema(const FieldInfo& f, Json* out) {
  const char c = scan_.peek();
  if (c == '{') {
    ++lenient_;
    const bool ok = read_struct(*f.message, out);
    --lenient_;
    return ok;
  }
  if (f.kind == FieldKind::kSchemaOrBool && (c == 't' || c == 'f')) {
    *out = c == 't';
    return scan_.read_word(c == 't' ? "true" : "false");
  }
  if (f.kind == FieldKind::kSchemaOrBool) note_error("boolean or JSON schema expected", true);
  if (f.kind == FieldKind::kSchemaOrBool || c != '[') return scan_.skip_value(depth_);
  FieldInfo list = f;
  list.repeated = true;
  list.kind = f.kind == FieldKind::kSchemaOrArray ? FieldKind::kMessage : FieldKind::kString;
  list.go_type = f.kind == FieldKind::kSchemaOrArray ? "[]v1.JSONSchemaProps" : "[]string";
  list.go_element = list.go_type.substr(2);
  ++lenient_;
  const bool ok = read_list(list, out);
  --lenient_;
  return ok;
}

}  // namespace ghostfleet::kube
