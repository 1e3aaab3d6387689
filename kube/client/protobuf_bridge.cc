#include "kube/client/protobuf_bridge.h"

#include "kube/api/codec.h"
#include "kube/api/codec_errors.h"
#include "kube/api/protobuf_wire.h"

namespace ghostfleet::kube {
namespace {

constexpr size_t kLengthBytes = 4;

const TypeInfo* type_of(const Gvk& gvk) {
  if (gvk.kind == "Status" || gvk.kind == "DeleteOptions") return find_type("meta/v1." + gvk.kind);
  return find_type(gvk.group(), gvk.version(), gvk.kind);
}

Status unknown_type(const Gvk& gvk) {
  return invalid_argument("no such type: apiVersion \"" + gvk.api_version + "\", kind \"" + gvk.kind + "\"");
}

Status open(std::string_view envelope, Gvk* gvk, std::string_view* message) {
  std::string error;
  return open_envelope(envelope, gvk, message, &error) ? Status() : Status(Code::kDataLoss, "protobuf: " + error);
}

bool read_watch_event(std::string_view frame, std::string_view* type, std::string_view* envelope) {
  WireReader wire(frame);
  std::string_view object;
  while (!wire.at_end()) {
    uint32_t number = 0;
    WireType kind{};
    if (!wire.read_tag(&number, &kind)) return false;
    const bool wanted = kind == WireType::kBytes && (number == 1 || number == 2);
    if (!(wanted ? wire.read_bytes(number == 1 ? type : &object) : wire.skip(kind))) return false;
  }
  WireReader extension(object);
  while (!extension.at_end()) {
    uint32_t number = 0;
    WireType kind{};
    if (!extension.read_tag(&number, &kind)) return false;
    const bool wanted = kind == WireType::kBytes && number == 1;
    if (!(wanted ? extension.read_bytes(envelope) : extension.skip(kind))) return false;
  }
  return !type->empty();
}

}  // namespace

Result<std::string> protobuf_of_json(std::string_view json) {
  const auto object = parse_json(json);
  if (!object.ok()) return object.error();
  const Gvk gvk{std::string(get_string(*object, "kind")), std::string(get_string(*object, "apiVersion"))};
  const TypeInfo* type = type_of(gvk);
  if (type == nullptr) return unknown_type(gvk);
  const auto decoded = decode_type(json, MediaType::kJson, *type, {FieldValidation::kIgnore});
  if (!decoded.ok()) return invalid_argument(decoded.error().message);
  std::string message;
  append_protobuf_message(*decoded, *type, &message);
  return protobuf_envelope(gvk.api_version, gvk.kind, message);
}

Result<std::string> json_of_protobuf(std::string_view envelope) {
  Gvk gvk;
  std::string_view message;
  GF_RETURN_IF_ERROR(open(envelope, &gvk, &message));
  const TypeInfo* type = type_of(gvk);
  if (type == nullptr) return unknown_type(gvk);
  const auto object = decode_protobuf(envelope, *type);
  if (!object.ok()) return Status(Code::kDataLoss, object.error().message);
  return encode_json(*object, type);
}

// Objects have their metadata in field 1.
Result<std::string> metadata_of_protobuf(std::string_view envelope) {
  Gvk gvk;
  std::string_view message, metadata;
  GF_RETURN_IF_ERROR(open(envelope, &gvk, &message));
  WireReader wire(message);
  while (!wire.at_end()) {
    uint32_t number = 0;
    WireType kind{};
    if (!wire.read_tag(&number, &kind)) return Status(Code::kDataLoss, "protobuf: " + wire.error());
    const bool wanted = kind == WireType::kBytes && number == 1;
    if (!(wanted ? wire.read_bytes(&metadata) : wire.skip(kind))) {
      return Status(Code::kDataLoss, "protobuf: " + wire.error());
    }
  }
  static const TypeInfo* type = find_type("meta/v1.ObjectMeta");
  const auto object = decode_protobuf(protobuf_envelope({}, {}, metadata), *type);
  if (!object.ok()) return Status(Code::kDataLoss, object.error().message);
  return "{\"metadata\":" + encode_json(*object, type) + "}";
}

Status ProtobufWatchDecoder::feed(std::string_view bytes,
                                  const std::function<bool(std::string_view, std::string_view)>& fn) {
  // Whole frames are taken where they are; what is left of one is kept.
  std::string joined;
  if (!buffer_.empty()) {
    joined.swap(buffer_);
    joined.append(bytes);
    bytes = joined;
  }
  while (bytes.size() >= kLengthBytes) {
    size_t length = 0;
    for (size_t i = 0; i < kLengthBytes; ++i) length = length << 8 | static_cast<unsigned char>(bytes[i]);
    if (length > max_frame_) {
      return Status(Code::kResourceExhausted, "a frame of the watch is longer than " + std::to_string(max_frame_));
    }
    if (bytes.size() - kLengthBytes < length) break;
    std::string_view type, envelope;
    if (!read_watch_event(bytes.substr(kLengthBytes, length), &type, &envelope)) {
      return Status(Code::kDataLoss, "a frame of the watch is no event");
    }
    bytes.remove_prefix(kLengthBytes + length);
    if (!fn(type, envelope)) return Status();
  }
  buffer_.assign(bytes);
  return Status();
}

}  // namespace ghostfleet::kube
