#include "kube/api/codec.h"

#include <fmt/format.h>

#include <optional>

#include "kube/api/codec_errors.h"
#include "kube/api/typed_reader.h"

namespace ghostfleet::kube {

namespace {

// Puts kind and apiVersion first.
void put_gvk(Json* object, std::string_view kind, std::string_view api_version) {
  JsonObject& old = object->get_object();
  const bool there = old.size() >= 2 && old.begin()->key() == "kind" && (old.begin() + 1)->key() == "apiVersion";
  if (there) {
    old.begin()->value().emplace_string().assign(kind.data(), kind.size());
    (old.begin() + 1)->value().emplace_string().assign(api_version.data(), api_version.size());
    return;
  }
  JsonObject fresh;
  fresh.reserve(old.size() + 2);
  fresh.emplace("kind", boost::json::string_view(kind.data(), kind.size()));
  fresh.emplace("apiVersion", boost::json::string_view(api_version.data(), api_version.size()));
  for (auto& m : old) {
    if (m.key() != "kind" && m.key() != "apiVersion") fresh.emplace(m.key(), std::move(m.value()));
  }
  *object = std::move(fresh);
}

Gvk gvk_of(const Json& object) {
  Gvk gvk;
  gvk.kind = get_string(object, "kind");
  gvk.api_version = get_string(object, "apiVersion");
  return gvk;
}

// A body as JSON text: YAML is turned into it, as a real server does.
struct JsonBody {
  std::string converted;
  std::string_view text;
  std::string error;                    // no YAML at all
  std::vector<std::string> duplicates;  // `line 7: key "a" already set in map`
};

JsonBody to_json_body(std::string_view body, MediaType media) {
  JsonBody out;
  out.text = body;
  if (media != MediaType::kYaml) return out;
  auto value = parse_yaml(body, &out.duplicates);
  if (!value.ok()) {
    out.error = value.error().message();
    return out;
  }
  append_encoded_json(*value, nullptr, &out.converted);  // keys sorted, as they come out of a Go map
  out.text = out.converted;
  return out;
}

// What strict decoding found: an error, warnings, or nothing said.
std::string settle_strict(const JsonBody& body, const std::vector<std::string>& found, const DecodeOptions& options) {
  if (options.validation == FieldValidation::kIgnore || (found.empty() && body.duplicates.empty())) return {};
  if (options.validation == FieldValidation::kWarn) {
    if (options.warnings == nullptr) return {};
    options.warnings->insert(options.warnings->end(), body.duplicates.begin(), body.duplicates.end());
    options.warnings->insert(options.warnings->end(), found.begin(), found.end());
    return {};
  }
  std::string text = "strict decoding error: ";
  if (!body.duplicates.empty()) {
    text += "yaml: unmarshal errors:";
    for (const std::string& line : body.duplicates) text += "\n  " + line;
    if (!found.empty()) text += ", ";
  }
  return text + fmt::format("{}", fmt::join(found, ", "));
}

// Custom resources say what they are.
std::optional<ApiError> missing_gvk(const Gvk& given, const KindInfo& expected, std::string_view body) {
  if (given.kind.empty()) {
    return unrecognized(expected, fmt::format("Object 'Kind' is missing in '{}'", body), body);
  }
  if (!given.api_version.empty()) return std::nullopt;
  return bad_request(fmt::format("the API version in the data () does not match the expected API version ({})",
                                 expected.api_version()));
}

ApiResult<Json> decode_json_object(std::string_view original, const JsonBody& body, const KindInfo& expected,
                                   const DecodeOptions& options) {
  TypedReader reader(body.text);
  Json object;
  const bool read = expected.custom() ? reader.read_custom(&object) : reader.read(*expected.type, &object);
  if (!read)
    return unrecognized(expected, "couldn't get version/kind; json parse error: " + reader.syntax_error(), original);
  if (!reader.meta_error().empty()) {
    return unrecognized(expected, "couldn't get version/kind; json parse error: " + reader.meta_error(), original);
  }
  const Gvk given = gvk_of(object);
  if (auto bad = bad_api_version(given); !bad.empty()) return unrecognized(expected, bad, original);
  if (expected.custom() && !options.default_gvk) {
    if (auto error = missing_gvk(given, expected, original)) return *error;
  }
  const Gvk gvk = fill_gvk(given, expected);
  if (!matches(gvk, expected)) return wrong_kind(gvk, expected);
  if (!reader.type_error().empty()) return cannot_handle(gvk, expected, reader.type_error());
  if (expected.custom() && options.prune) {
    for (const std::string& path : options.prune(&object)) {
      reader.strict_errors().push_back(fmt::format("unknown field \"{}\"", path));
    }
  }
  if (auto error = settle_strict(body, reader.strict_errors(), options); !error.empty()) {
    return cannot_handle(gvk, expected, error);
  }
  put_gvk(&object, expected.kind, expected.api_version());
  return object;
}

ApiResult<Json> decode_protobuf_object(std::string_view body, const KindInfo& expected) {
  std::string error;
  Gvk given;
  std::string_view message;
  if (!open_envelope(body, &given, &message, &error)) return unrecognized(expected, error, body);
  const Gvk gvk = fill_gvk(given, expected);
  if (!matches(gvk, expected)) return wrong_kind(gvk, expected);
  Json object;
  if (!read_message(message, *expected.type, &object, &error)) return cannot_handle(gvk, expected, error);
  put_gvk(&object, expected.kind, expected.api_version());
  return object;
}

}  // namespace

ApiResult<Json> decode_object(std::string_view body, MediaType media, const KindInfo& expected,
                              const DecodeOptions& options) {
  if (media == MediaType::kCbor || (media == MediaType::kProtobuf && expected.custom())) {
    return unsupported_media_type("", {"application/json", "application/yaml"});
  }
  if (media == MediaType::kProtobuf) return decode_protobuf_object(body, expected);
  const JsonBody json = to_json_body(body, media);
  if (!json.error.empty()) return unrecognized(expected, json.error, body);
  return decode_json_object(body, json, expected, options);
}

ApiResult<Json> decode_type(std::string_view body, MediaType media, const TypeInfo& type,
                            const DecodeOptions& options) {
  if (media == MediaType::kCbor) return unsupported_media_type("", {"application/json", "application/yaml"});
  Json object;
  if (media == MediaType::kProtobuf) {
    std::string error;
    Gvk given;
    std::string_view message;
    if (!open_envelope(body, &given, &message, &error) || !read_message(message, type, &object, &error)) {
      return bad_request(error);
    }
    if (!given.kind.empty()) put_gvk(&object, given.kind, given.api_version);
    return object;
  }
  const JsonBody json = to_json_body(body, media);
  if (!json.error.empty()) return bad_request(json.error);
  TypedReader reader(json.text);
  if (!reader.read(type, &object)) {
    return bad_request("couldn't get version/kind; json parse error: " + reader.syntax_error());
  }
  if (!reader.meta_error().empty()) {
    return bad_request("couldn't get version/kind; json parse error: " + reader.meta_error());
  }
  if (!reader.type_error().empty()) return bad_request(reader.type_error());
  if (auto error = settle_strict(json, reader.strict_errors(), options); !error.empty()) return bad_request(error);
  return object;
}

ApiResult<Json> normalize(Json value, const TypeInfo& type, std::vector<std::string>* unknown) {
  const std::string text = to_json(value);
  TypedReader reader(text);
  reader.unknown_paths = unknown;
  Json out;
  if (!reader.read(type, &out)) return bad_request(reader.syntax_error());
  if (!reader.meta_error().empty()) return bad_request(reader.meta_error());
  if (!reader.type_error().empty()) return bad_request(reader.type_error());
  return out;
}

}  // namespace ghostfleet::kube
