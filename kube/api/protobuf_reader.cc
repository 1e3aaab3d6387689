// Protobuf to the decoded form.
#include <bit>
#include <cctype>

#include "base/digest.h"
#include "kube/api/codec.h"
#include "kube/api/codec_errors.h"
#include "kube/api/json_scanner.h"
#include "kube/api/protobuf_wire.h"
#include "kube/api/quantity.h"
#include "kube/api/scalars.h"
#include "kube/api/typed_object.h"

namespace ghostfleet::kube {

namespace {

// Messages nest no deeper than this; only JSON schemas come anywhere near.
constexpr int kMaxMessageDepth = 500;

constexpr std::string_view kMagic("k8s\0", 4);

void assign(Json* out, std::string_view text) { out->emplace_string().assign(text.data(), text.size()); }

void assign_utf8(Json* out, std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) return assign(out, to_valid_utf8(text));
  }
  assign(out, text);
}

class MessageReader {
 public:
  bool read(std::string_view bytes, const TypeInfo& type, Json* out) {
    if (++depth_ > kMaxMessageDepth) return fail("proto: message nested too deep");
    const size_t base = slots_.size();
    if (!read_fields(bytes, type, type, base)) return false;
    build_object(type, &slots_, base, out);
    --depth_;
    return true;
  }

  const std::string& error() const { return error_; }

 private:
  bool fail(std::string error) {
    if (error_.empty()) error_ = std::move(error);
    return false;
  }

  // The fields of a message of `type` that is `root` itself or embedded in it.
  bool read_fields(std::string_view bytes, const TypeInfo& type, const TypeInfo& root, size_t base) {
    WireReader wire(bytes);
    while (!wire.at_end()) {
      uint32_t number;
      WireType wire_type;
      if (!wire.read_tag(&number, &wire_type)) return fail(wire.error());
      const FieldInfo* f = type.find_number(number);
      if (f == nullptr) {
        if (!wire.skip(wire_type)) return fail(wire.error());
        continue;
      }
      if (f->json_name.empty()) {
        std::string_view inner;
        if (wire_type != WireType::kBytes) return wrong_wire_type(wire_type, *f);
        if (!wire.read_bytes(&inner)) return fail(wire.error());
        if (!read_fields(inner, *f->message, root, base)) return false;
      } else if (!read_field(&wire, wire_type, *f, root.find_flat(f->json_name), base)) {
        return fail(wire.error());
      }
    }
    return true;
  }

  bool wrong_wire_type(WireType type, const FieldInfo& f) {
    std::string name = f.proto_name.empty() ? f.json_name : f.proto_name;
    if (!name.empty()) name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
    return fail("proto: wrong wireType = " + std::to_string(static_cast<int>(type)) + " for field " + name);
  }

  // The slot of a list or map that grows; a single value replaces what was there.
  Json* slot(int field, size_t base) {
    for (size_t i = slots_.size(); i > base; --i) {
      if (slots_[i - 1].field == field) return &slots_[i - 1].value;
    }
    return &slots_.emplace_back(FieldSlot{field, nullptr}).value;
  }

  bool read_field(WireReader* wire, WireType type, const FieldInfo& f, int flat, size_t base) {
    if (f.map) {
      std::string_view entry;
      if (type != WireType::kBytes) return wrong_wire_type(type, f);
      return wire->read_bytes(&entry) && read_entry(entry, f, flat, base);
    }
    if (f.repeated && f.wrapped_list) {
      std::string_view list;
      if (type != WireType::kBytes) return wrong_wire_type(type, f);
      return wire->read_bytes(&list) && read_texts(list, slot(flat, base));
    }
    Json value;
    if (!read_single(wire, type, f, &value)) return false;
    Json* at = slot(flat, base);
    if (!f.repeated) {
      *at = std::move(value);
    } else {
      (at->is_array() ? at->get_array() : at->emplace_array()).emplace_back(std::move(value));
    }
    return true;
  }

  bool read_texts(std::string_view bytes, Json* out) {
    JsonArray& list = out->is_array() ? out->get_array() : out->emplace_array();
    WireReader wire(bytes);
    while (!wire.at_end()) {
      uint32_t number;
      WireType type;
      std::string_view text;
      if (!wire.read_tag(&number, &type)) return fail(wire.error());
      if (number != 1 || type != WireType::kBytes) {
        if (!wire.skip(type)) return fail(wire.error());
        continue;
      }
      if (!wire.read_bytes(&text)) return fail(wire.error());
      assign_utf8(&list.emplace_back(nullptr), text);
    }
    return true;
  }

  bool read_entry(std::string_view bytes, const FieldInfo& f, int flat, size_t base) {
    WireReader wire(bytes);
    std::string key;
    Json value = f.map_of_lists ? Json(JsonArray()) : zero_element(f);
    while (!wire.at_end()) {
      uint32_t number;
      WireType type;
      if (!wire.read_tag(&number, &type)) return fail(wire.error());
      std::string_view text;
      bool ok;
      if (number == 1 && type == WireType::kBytes) {
        ok = wire.read_bytes(&text);
        key = to_valid_utf8(text);
      } else if (number == 2 && f.map_of_lists) {
        ok = type == WireType::kBytes ? wire.read_bytes(&text) && read_texts(text, &value) : wrong_wire_type(type, f);
      } else if (number == 2) {
        ok = read_single(&wire, type, f, &value);
      } else {
        ok = wire.skip(type);
      }
      if (!ok) return fail(wire.error());
    }
    Json* at = slot(flat, base);
    JsonObject& map = at->is_object() ? at->get_object() : at->emplace_object();
    map.insert_or_assign(key, std::move(value));
    return true;
  }

  bool read_single(WireReader* wire, WireType type, const FieldInfo& f, Json* out) {
    const bool number = f.kind == FieldKind::kBool || f.kind == FieldKind::kInt32 || f.kind == FieldKind::kInt64;
    if (number) {
      uint64_t value;
      if (type != WireType::kVarint) return wrong_wire_type(type, f);
      if (!wire->read_varint(&value)) return false;
      if (f.kind == FieldKind::kBool) {
        *out = value != 0;
      } else if (f.kind == FieldKind::kInt32) {
        *out = int64_t{static_cast<int32_t>(value)};
      } else {
        *out = static_cast<int64_t>(value);
      }
      return true;
    }
    if (f.kind == FieldKind::kDouble) {
      uint64_t bits;
      if (type != WireType::kFixed64) return wrong_wire_type(type, f);
      if (!wire->read_fixed64(&bits)) return false;
      *out = std::bit_cast<double>(bits);
      return true;
    }
    std::string_view bytes;
    if (type != WireType::kBytes) return wrong_wire_type(type, f);
    return wire->read_bytes(&bytes) && read_body(bytes, f, out);
  }

  bool read_body(std::string_view bytes, const FieldInfo& f, Json* out) {
    switch (f.kind) {
      case FieldKind::kString: assign_utf8(out, bytes); return true;
      case FieldKind::kBytes: assign(out, base64_encode(bytes)); return true;
      case FieldKind::kMessage: return read(bytes, *f.message, out);
      case FieldKind::kSchemaOrBool:
      case FieldKind::kSchemaOrArray:
      case FieldKind::kSchemaOrStringArray: return read_schema(bytes, f, out);
      default: break;
    }
    Parts parts;
    if (!read_parts(bytes, &parts)) return false;
    return read_special(f.kind, parts, bytes.empty(), out);
  }

  // All special messages have up to two integers and a text or bytes.
  struct Parts {
    uint64_t first = 0;
    uint64_t second = 0;
    std::string_view text;  // of field 1 or 3
    bool has_text = false;
  };

  bool read_parts(std::string_view bytes, Parts* parts) {
    WireReader wire(bytes);
    while (!wire.at_end()) {
      uint32_t number;
      WireType type;
      if (!wire.read_tag(&number, &type)) return fail(wire.error());
      bool ok;
      if (type == WireType::kVarint && (number == 1 || number == 2)) {
        ok = wire.read_varint(number == 1 ? &parts->first : &parts->second);
      } else if (type == WireType::kBytes && (number == 1 || number == 3)) {
        ok = wire.read_bytes(&parts->text);
        parts->has_text = true;
      } else {
        ok = wire.skip(type);
      }
      if (!ok) return fail(wire.error());
    }
    return true;
  }

  bool read_special(FieldKind kind, const Parts& parts, bool empty, Json* out) {
    switch (kind) {
      case FieldKind::kTime:
      case FieldKind::kMicroTime: {
        const bool micro = kind == FieldKind::kMicroTime;
        *out = nullptr;
        const ApiTime time{static_cast<int64_t>(parts.first), static_cast<int32_t>(parts.second)};
        if (!empty) assign(out, format_time(time, micro));
        return true;
      }
      case FieldKind::kDuration: assign(out, format_duration(static_cast<int64_t>(parts.first))); return true;
      case FieldKind::kQuantity: return read_quantity(parts, out);
      case FieldKind::kIntOrString:
        if (parts.first == 1) {
          assign_utf8(out, parts.text);
        } else {
          *out = int64_t{static_cast<int32_t>(parts.second)};
        }
        return true;
      default: return read_raw(parts, out);
    }
  }

  bool read_quantity(const Parts& parts, Json* out) {
    if (parts.text.empty()) {
      assign(out, "0");
      return true;
    }
    auto quantity = Quantity::parse(parts.text);
    if (!quantity.ok()) return fail(quantity.error().message());
    assign(out, quantity->to_string());
    return true;
  }

  // JSON bytes; an object in an envelope of its own is decoded by its kind.
  bool read_raw(const Parts& parts, Json* out) {
    *out = nullptr;
    if (!parts.has_text || parts.text.empty()) return true;
    if (parts.text.substr(0, kMagic.size()) == kMagic) {
      Gvk gvk;
      std::string_view message;
      std::string error;
      if (!open_envelope(parts.text, &gvk, &message, &error)) return fail(error);
      const TypeInfo* type = find_type(gvk.group(), gvk.version(), gvk.kind);
      if (type == nullptr) return fail("no kind \"" + gvk.kind + "\" is known for version \"" + gvk.api_version + "\"");
      if (!read(message, *type, out)) return false;
      put_kind(gvk, out);
      return true;
    }
    auto value = parse_json(parts.text);
    if (!value.ok()) return fail(value.error().message());
    *out = std::move(*value);
    return true;
  }

  static void put_kind(const Gvk& gvk, Json* object) {
    object->get_object()["kind"] = gvk.kind;
    object->get_object()["apiVersion"] = gvk.api_version;
  }

  bool read_schema(std::string_view bytes, const FieldInfo& f, Json* out) {
    WireReader wire(bytes);
    const bool or_bool = f.kind == FieldKind::kSchemaOrBool;
    *out = or_bool ? Json(false) : Json(nullptr);
    while (!wire.at_end()) {
      uint32_t number;
      WireType type;
      if (!wire.read_tag(&number, &type)) return fail(wire.error());
      if (or_bool && number == 1 && type == WireType::kVarint) {
        uint64_t allows;
        if (!wire.read_varint(&allows)) return fail(wire.error());
        if (!out->is_object()) *out = allows != 0;
      } else if (type == WireType::kBytes && number <= 2) {
        std::string_view inner;
        if (!wire.read_bytes(&inner)) return fail(wire.error());
        if (!read_schema_part(inner, f, number, out)) return false;
      } else if (!wire.skip(type)) {
        return fail(wire.error());
      }
    }
    return true;
  }

  bool read_schema_part(std::string_view bytes, const FieldInfo& f, uint32_t number, Json* out) {
    const bool one = number == (f.kind == FieldKind::kSchemaOrBool ? 2U : 1U);
    if (one) return read(bytes, *f.message, out);
    if (f.kind == FieldKind::kSchemaOrBool) return true;
    Json item;
    if (f.kind == FieldKind::kSchemaOrStringArray) {
      assign_utf8(&item, bytes);
    } else if (!read(bytes, *f.message, &item)) {
      return false;
    }
    (out->is_array() ? out->get_array() : out->emplace_array()).emplace_back(std::move(item));
    return true;
  }

  std::vector<FieldSlot> slots_;
  int depth_ = 0;
  std::string error_;
};

bool read_type_meta(std::string_view bytes, Gvk* gvk, std::string* error) {
  WireReader wire(bytes);
  while (!wire.at_end()) {
    uint32_t number;
    WireType type;
    std::string_view text;
    bool ok = wire.read_tag(&number, &type);
    if (ok && number <= 2 && type == WireType::kBytes) {
      ok = wire.read_bytes(&text);
      (number == 1 ? gvk->api_version : gvk->kind) = to_valid_utf8(text);
    } else if (ok) {
      ok = wire.skip(type);
    }
    if (!ok) {
      *error = wire.error();
      return false;
    }
  }
  return true;
}

}  // namespace

bool open_envelope(std::string_view body, Gvk* gvk, std::string_view* message, std::string* error) {
  if (body.empty()) {
    *error = "empty data";
    return false;
  }
  if (body.substr(0, kMagic.size()) != kMagic) {
    *error = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
    return false;
  }
  if (body.size() == kMagic.size()) {
    *error = "empty body";
    return false;
  }
  *message = {};
  WireReader wire(body.substr(kMagic.size()));
  while (!wire.at_end()) {
    uint32_t number;
    WireType type;
    bool ok = wire.read_tag(&number, &type);
    if (ok && number <= 2 && type == WireType::kBytes) {
      std::string_view bytes;
      ok = wire.read_bytes(&bytes);
      if (ok && number == 1 && !read_type_meta(bytes, gvk, error)) return false;
      if (ok && number == 2) *message = bytes;
    } else if (ok) {
      ok = wire.skip(type);
    }
    if (!ok) {
      *error = wire.error();
      return false;
    }
  }
  return true;
}

bool read_message(std::string_view message, const TypeInfo& type, Json* out, std::string* error) {
  MessageReader reader;
  if (reader.read(message, type, out)) return true;
  *error = reader.error();
  return false;
}

ApiResult<Json> decode_protobuf(std::string_view body, const TypeInfo& type) {
  return decode_type(body, MediaType::kProtobuf, type, {});
}

}  // namespace ghostfleet::kube
