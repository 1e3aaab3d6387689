// Json to protobuf. Go's generated code writes every scalar, string and struct that is no pointer, also when it is
// zero, in the order of field numbers; clients compare such bytes, so this does the same.
#include <algorithm>
#include <bit>
#include <vector>

#include "kube/api/codec.h"
#include "kube/api/protobuf_wire.h"
#include "kube/api/scalars.h"

namespace ghostfleet::kube {

namespace {

boost::json::string_view bsv(std::string_view s) { return {s.data(), s.size()}; }
std::string_view text_of(const Json* v) {
  return v != nullptr && v->is_string() ? std::string_view(v->get_string().data(), v->get_string().size())
                                        : std::string_view();
}

uint64_t integer_of(const Json* v) {
  if (v == nullptr) return 0;
  if (v->is_int64()) return static_cast<uint64_t>(v->get_int64());
  if (v->is_uint64()) return v->get_uint64();
  if (v->is_double()) return static_cast<uint64_t>(static_cast<int64_t>(v->get_double()));
  return 0;
}

double double_of(const Json* v) {
  if (v == nullptr || !v->is_number()) return 0;
  if (v->is_int64()) return static_cast<double>(v->get_int64());
  return v->is_uint64() ? static_cast<double>(v->get_uint64()) : v->get_double();
}

bool given(const Json* v) { return v != nullptr && !v->is_null(); }

void write_time(const Json* v, bool micro, std::string* out) {
  if (text_of(v).empty()) return;
  const auto time = parse_time(text_of(v), micro && text_of(v).find('.') != std::string_view::npos);
  if (!time.ok()) return;
  append_varint_field(1, static_cast<uint64_t>(time->seconds), out);
  append_varint_field(2, micro ? static_cast<uint64_t>(time->nanos) : 0, out);
}

void write_int_or_string(const Json* v, std::string* out) {
  const bool text = v != nullptr && v->is_string();
  append_varint_field(1, text ? 1 : 0, out);
  append_varint_field(2, text ? 0 : integer_of(v), out);
  append_bytes_field(3, text_of(v), out);
}

void write_raw_json(const Json* v, std::string* out) {
  if (given(v)) append_bytes_field(1, to_json(*v), out);
}

void write_message(const TypeInfo& type, const Json* v, std::string* out);

void write_schema(const FieldInfo& f, const Json* v, std::string* out) {
  const bool object = v != nullptr && v->is_object();
  if (f.kind == FieldKind::kSchemaOrBool) {
    append_varint_field(1, object || (v != nullptr && v->is_bool() && v->get_bool()) ? 1 : 0, out);
  }
  if (object) {
    const uint32_t number = f.kind == FieldKind::kSchemaOrBool ? 2 : 1;
    append_message_field(number, out, [&] { write_message(*f.message, v, out); });
  }
  if (v == nullptr || !v->is_array()) return;
  for (const Json& item : v->get_array()) {
    if (f.kind == FieldKind::kSchemaOrArray) {
      append_message_field(2, out, [&] { write_message(*f.message, &item, out); });
    } else {
      append_bytes_field(2, text_of(&item), out);
    }
  }
}

// The bytes of a value that is a message on the wire.
void write_body(const FieldInfo& f, const Json* v, std::string* out) {
  switch (f.kind) {
    case FieldKind::kMessage: return write_message(*f.message, v, out);
    case FieldKind::kTime: return write_time(v, false, out);
    case FieldKind::kMicroTime: return write_time(v, true, out);
    case FieldKind::kDuration: {
      const auto ns = parse_duration(text_of(v));
      return append_varint_field(1, ns.ok() ? static_cast<uint64_t>(*ns) : 0, out);
    }
    case FieldKind::kQuantity: {
      const std::string_view text = text_of(v);
      return append_bytes_field(1, text.empty() && !given(v) ? "0" : text, out);
    }
    case FieldKind::kIntOrString: return write_int_or_string(v, out);
    case FieldKind::kFieldsV1:
    case FieldKind::kRawExtension:
    case FieldKind::kJsonAny: return write_raw_json(v, out);
    default: return write_schema(f, v, out);
  }
}

// One value under a field number.
void write_single(const FieldInfo& f, uint32_t number, const Json* v, std::string* out) {
  switch (f.kind) {
    case FieldKind::kString: return append_bytes_field(number, text_of(v), out);
    case FieldKind::kBool:
      return append_varint_field(number, v != nullptr && v->is_bool() && v->get_bool() ? 1 : 0, out);
    case FieldKind::kInt32:
    case FieldKind::kInt64: return append_varint_field(number, integer_of(v), out);
    case FieldKind::kDouble: {
      append_tag(number, WireType::kFixed64, out);
      const uint64_t bits = std::bit_cast<uint64_t>(double_of(v));
      for (int shift = 0; shift < 64; shift += 8) out->push_back(static_cast<char>(bits >> shift));
      return;
    }
    case FieldKind::kBytes: {
      auto bytes = decode_base64(text_of(v));
      return append_bytes_field(number, bytes.ok() ? *bytes : std::string(), out);
    }
    default: append_message_field(number, out, [&] { write_body(f, v, out); });
  }
}

void write_texts(const Json* list, std::string* out) {
  if (list == nullptr || !list->is_array()) return;
  for (const Json& item : list->get_array()) append_bytes_field(1, text_of(&item), out);
}

void write_map(const FieldInfo& f, const JsonObject& map, std::string* out) {
  std::vector<const boost::json::key_value_pair*> entries;
  entries.reserve(map.size());
  for (const auto& m : map) entries.push_back(&m);
  std::sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) { return a->key() < b->key(); });
  for (const auto* entry : entries) {
    append_message_field(f.proto_number, out, [&] {
      append_bytes_field(1, {entry->key().data(), entry->key().size()}, out);
      if (f.map_of_lists) {
        append_message_field(2, out, [&] { write_texts(&entry->value(), out); });
      } else {
        write_single(f, 2, &entry->value(), out);
      }
    });
  }
}

void write_field(const FieldInfo& f, const Json* v, std::string* out) {
  if (f.map) {
    if (given(v) && v->is_object()) write_map(f, v->get_object(), out);
    return;
  }
  if (f.repeated) {
    if (!given(v) || !v->is_array()) return;
    if (f.wrapped_list) return append_message_field(f.proto_number, out, [&] { write_texts(v, out); });
    for (const Json& item : v->get_array()) write_single(f, f.proto_number, &item, out);
    return;
  }
  const bool absent = !given(v) && (f.pointer || f.kind == FieldKind::kBytes);
  if (!absent) write_single(f, f.proto_number, v, out);
}

void write_message(const TypeInfo& type, const Json* v, std::string* out) {
  const JsonObject* object = v != nullptr && v->is_object() ? &v->get_object() : nullptr;
  for (const int16_t i : type.by_number) {
    if (i < 0) continue;
    const FieldInfo& f = type.fields[static_cast<size_t>(i)];
    if (f.json_name.empty()) {
      append_message_field(f.proto_number, out, [&] { write_message(*f.message, v, out); });
    } else {
      write_field(f, object == nullptr ? nullptr : object->if_contains(bsv(f.json_name)), out);
    }
  }
}

}  // namespace

void append_protobuf_message(const Json& object, const TypeInfo& type, std::string* out) {
  write_message(type, &object, out);
}

std::string protobuf_envelope(std::string_view api_version, std::string_view kind, std::string_view message) {
  std::string out("k8s\0", 4);
  out.reserve(message.size() + api_version.size() + kind.size() + 24);
  append_message_field(1, &out, [&] {
    append_bytes_field(1, api_version, &out);
    append_bytes_field(2, kind, &out);
  });
  append_bytes_field(2, message, &out);
  append_bytes_field(3, "", &out);
  append_bytes_field(4, "", &out);
  return out;
}

ApiResult<std::string> encode_protobuf(const Json& object, const KindInfo& kind) {
  if (kind.custom()) return not_acceptable({"application/json", "application/yaml"});
  std::string message;
  message.reserve(1024);
  append_protobuf_message(object, *kind.type, &message);
  return protobuf_envelope(kind.api_version(), kind.kind, message);
}

void append_protobuf_watch_frame(std::string_view event_type, std::string_view enveloped_object, std::string* out) {
  const size_t at = out->size();
  out->append(4, '\0');
  append_bytes_field(1, event_type, out);
  append_message_field(2, out, [&] { append_bytes_field(1, enveloped_object, out); });
  const auto size = static_cast<uint32_t>(out->size() - at - 4);
  for (size_t i = 0; i < 4; ++i) (*out)[at + i] = static_cast<char>(size >> (24 - 8 * i));
}

}  // namespace ghostfleet::kube
