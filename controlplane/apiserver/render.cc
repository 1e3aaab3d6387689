#include "controlplane/apiserver/render.h"

#include "controlplane/apiserver/json_scan.h"
#include "controlplane/apiserver/object_bytes.h"
#include "controlplane/apiserver/pretty.h"
#include "kube/api/codec.h"

namespace ghostfleet::controlplane {
namespace {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;
using kube::MediaType;

void append_varint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

// A length-delimited field.
void append_field(uint32_t number, std::string_view bytes, std::string* out) {
  append_varint(number << 3 | 2, out);
  append_varint(bytes.size(), out);
  out->append(bytes);
}

Json list_meta_json(const ListMeta& meta) {
  JsonObject json;
  if (!meta.resource_version.empty()) json["resourceVersion"] = meta.resource_version;
  if (!meta.continue_token.empty()) json["continue"] = meta.continue_token;
  if (meta.remaining > 0) json["remainingItemCount"] = static_cast<int64_t>(meta.remaining);
  return json;
}

std::string api_version_of(std::string_view group, std::string_view version) {
  return group.empty() ? std::string(version) : std::string(group) + "/" + std::string(version);
}

// The members after kind and apiVersion, which lists of built-in kinds leave out.
std::string_view after_type_meta(std::string_view json) {
  size_t pos = 1;
  while (true) {
    const std::string_view rest = json.substr(pos);
    const bool skip = rest.starts_with("\"kind\":") || rest.starts_with("\"apiVersion\":");
    if (!skip) return rest;
    const size_t end = skip_json_value(json, json.find(':', pos) + 1);
    if (end == std::string_view::npos) return rest;
    if (json[end] != ',') return json.substr(end);
    pos = end + 1;
  }
}

}  // namespace

std::string type_name_of(const Json& object) {
  const std::string_view api_version = kube::get_string(object, "apiVersion");
  const std::string_view kind = kube::get_string(object, "kind");
  if (kind == "Status") return "meta/v1.Status";
  const std::string prefix = api_version == "v1" ? "core/v1" : std::string(api_version);
  const std::string name = prefix + "." + std::string(kind);
  return kube::find_type(name) ? name : std::string();
}

std::string render_value(const Json& value, const AnswerType& answer, std::string_view type_name) {
  const kube::TypeInfo* type = type_name.empty() ? nullptr : kube::find_type(type_name);
  if (answer.media == MediaType::kYaml) return kube::to_yaml(value);
  if (answer.media == MediaType::kProtobuf && type) {
    std::string message;
    kube::append_protobuf_message(value, *type, &message);
    return kube::protobuf_envelope(kube::get_string(value, "apiVersion"), kube::get_string(value, "kind"), message);
  }
  std::string json = type ? kube::encode_json(value, type) : kube::to_json(value);
  if (!answer.pretty) return json + "\n";
  Result<Json> ordered = kube::parse_json(json);
  return ordered.ok() ? pretty_json(*ordered) : json;
}

Renderer::Renderer(const Api& api, const Resource& resource, AnswerType answer, kube::IncludeObject include)
    : api_(api),
      resource_(resource),
      answer_(std::move(answer)),
      include_(include),
      printer_(resource.printer ? *resource.printer : kube::TablePrinter::for_kind(resource.info)) {}

Json Renderer::decoded(const Object& object) const { return api_.decode(resource_, object); }

bool Renderer::stored_as_served() const {
  return resource_.info.custom() || resource_.stored == &resource_.info ||
         resource_.stored->api_version() == resource_.info.api_version();
}

std::string Renderer::plain_json(const Object& object) const {
  if (stored_as_served()) {
    std::string json;
    json.reserve(object.json.size() + 1);  // a line feed follows
    return json.append(object.json);
  }
  return kube::encode_json(decoded(object), resource_.info.type);
}

std::string Renderer::partial_json(const Object& object) const {
  std::string json = "{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/";
  json += answer_.transform_version + "\",\"metadata\":";
  json.append(json_member(object.json, "metadata"));
  return json + "}";
}

std::string Renderer::table_json(const std::vector<const Object*>& objects, const ListMeta& meta, bool columns) const {
  std::string json =
      "{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/" + answer_.transform_version + "\",\"metadata\":";
  kube::append_json(list_meta_json(meta), &json);
  json += ",\"columnDefinitions\":";
  json += columns ? kube::to_json(kube::table_column_definitions(printer_)) : "null";
  json += ",\"rows\":[";
  const WallTime now = api_.clock().wall_now();
  for (size_t i = 0; i < objects.size(); i++) {
    if (i > 0) json += ',';
    kube::append_json(kube::table_row(printer_, decoded(*objects[i]), include_, now), &json);
  }
  return json + "]}";
}

std::string Renderer::partial_protobuf(const Json& object) const {
  std::string message;
  Json partial = kube::partial_object_metadata(object);
  kube::append_protobuf_message(partial, *kube::find_type("meta/v1.PartialObjectMetadata"), &message);
  return message;
}

std::string Renderer::item_protobuf(const Object& object) const {
  if (answer_.transform != Transform::kNone) return partial_protobuf(decoded(object));
  std::string message;
  kube::append_protobuf_message(decoded(object), *resource_.info.type, &message);
  return message;
}

std::string Renderer::object(const Object& object) const {
  if (answer_.media == MediaType::kProtobuf) {
    const bool partial = answer_.transform != Transform::kNone;
    return kube::protobuf_envelope(partial ? "meta.k8s.io/" + answer_.transform_version : resource_.info.api_version(),
                                   partial ? "PartialObjectMetadata" : resource_.info.kind, item_protobuf(object));
  }
  std::string json;
  if (answer_.transform == Transform::kTable) {
    json = table_json({&object}, {object.revision ? format_revision(object.revision) : "", "", 0}, true);
  } else if (answer_.transform != Transform::kNone) {
    json = partial_json(object);
  } else {
    json = plain_json(object);
  }
  if (answer_.media == MediaType::kJson && !answer_.pretty) {
    json += '\n';
    return json;
  }
  Result<Json> value = kube::parse_json(json);
  if (!value.ok()) return json;
  return answer_.pretty ? pretty_json(*value) : kube::to_yaml(*value);
}

void Renderer::append_item(const Object& object, std::string* out) const {
  if (answer_.transform == Transform::kTable) {
    kube::append_json(kube::table_row(printer_, decoded(object), include_, api_.clock().wall_now()), out);
    return;
  }
  if (answer_.transform != Transform::kNone) {
    out->append(partial_json(object));
    return;
  }
  std::string converted;
  const std::string_view json = stored_as_served() ? std::string_view(object.json) : (converted = plain_json(object));
  if (resource_.info.custom()) {
    out->append(json);
  } else {
    out->append("{").append(after_type_meta(json));
  }
}

std::string Renderer::list_kind() const {
  if (answer_.transform == Transform::kTable) return "Table";
  return answer_.transform == Transform::kNone ? resource_.info.list_kind() : "PartialObjectMetadataList";
}

std::string Renderer::list_api_version() const {
  return answer_.transform == Transform::kNone ? resource_.info.api_version()
                                               : api_version_of("meta.k8s.io", answer_.transform_version);
}

std::string Renderer::list_head(const ListMeta& meta) const {
  std::string head = "{\"kind\":\"" + list_kind() + "\",\"apiVersion\":\"" + list_api_version() + "\",\"metadata\":";
  kube::append_json(list_meta_json(meta), &head);
  if (answer_.transform != Transform::kTable) return head + ",\"items\":[";
  head += ",\"columnDefinitions\":";
  kube::append_json(kube::table_column_definitions(printer_), &head);
  return head + ",\"rows\":[";
}

std::string Renderer::list_tail() const { return "]}\n"; }

bool Renderer::streams_lists() const { return answer_.media == MediaType::kJson && !answer_.pretty; }

std::string Renderer::whole_list(const ListMeta& meta, const std::vector<ObjectRef>& objects) const {
  if (answer_.media == MediaType::kProtobuf) {
    std::string message, head;
    kube::append_protobuf_message(list_meta_json(meta), *kube::find_type("meta/v1.ListMeta"), &head);
    append_field(1, head, &message);
    for (const ObjectRef& object : objects) append_field(2, item_protobuf(*object), &message);
    return kube::protobuf_envelope(list_api_version(), list_kind(), message);
  }
  std::string json = list_head(meta);
  for (size_t i = 0; i < objects.size(); i++) {
    if (i > 0) json += separator();
    append_item(*objects[i], &json);
  }
  json += list_tail();
  if (streams_lists()) return json;
  Result<Json> value = kube::parse_json(json);
  if (!value.ok()) return json;
  return answer_.pretty ? pretty_json(*value) : kube::to_yaml(*value);
}

std::string Renderer::watch_object(const Object& object, bool first) const {
  if (answer_.media == MediaType::kProtobuf) return this->object(object);
  if (answer_.transform == Transform::kTable) {
    return table_json({&object}, {format_revision(object.revision), "", 0}, first);
  }
  return answer_.transform == Transform::kNone ? plain_json(object) : partial_json(object);
}

std::string Renderer::bookmark_object(std::string_view revision, bool initial_end, bool first) const {
  JsonObject metadata{{"resourceVersion", revision}, {"creationTimestamp", nullptr}};
  if (initial_end) metadata["annotations"] = JsonObject{{"k8s.io/initial-events-end", "true"}};
  const bool partial = answer_.transform == Transform::kPartial;
  Json object =
      JsonObject{{"kind", partial ? std::string("PartialObjectMetadata") : resource_.info.kind},
                 {"apiVersion", partial ? "meta.k8s.io/" + answer_.transform_version : resource_.info.api_version()},
                 {"metadata", std::move(metadata)}};
  if (answer_.media == MediaType::kProtobuf) {
    kube::erase_path(object, "metadata.creationTimestamp");
    std::string message;
    const kube::TypeInfo* type = partial ? kube::find_type("meta/v1.PartialObjectMetadata") : resource_.info.type;
    kube::append_protobuf_message(object, *type, &message);
    return kube::protobuf_envelope(kube::get_string(object, "apiVersion"), kube::get_string(object, "kind"), message);
  }
  if (answer_.transform != Transform::kTable) {
    // An empty typed object of the kind, as a real server sends it, has the empty structs of its type too.
    return resource_.info.custom() || partial ? kube::to_json(object) : kube::encode_json(object, resource_.info.type);
  }
  Json table = JsonObject{{"kind", "Table"},
                          {"apiVersion", "meta.k8s.io/" + answer_.transform_version},
                          {"metadata", JsonObject{{"resourceVersion", revision}}},
                          {"columnDefinitions", first ? kube::table_column_definitions(printer_) : Json()},
                          {"rows", JsonArray{kube::table_row(printer_, object, include_, api_.clock().wall_now())}}};
  return kube::to_json(table);
}

std::string Renderer::frame(std::string_view type, std::string_view object) const {
  std::string out;
  if (answer_.media != MediaType::kProtobuf) {
    out.reserve(object.size() + type.size() + 24);
    return out.append("{\"type\":\"").append(type).append("\",\"object\":").append(object).append("}\n");
  }
  std::string raw, event;
  append_field(1, object, &raw);
  append_field(1, type, &event);
  append_field(2, raw, &event);
  const auto size = static_cast<uint32_t>(event.size());
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(size >> shift));
  return out + event;
}

}  // namespace ghostfleet::controlplane
