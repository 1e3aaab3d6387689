// Decoding and encoding of API objects, driven by the field table.
//
// Decoded form: a Json object in JSON field names, with only known fields (for built-in types), values of the right
// JSON types (Quantity as canonical string, Time as text), zero values of `omitempty` fields left out, and those that
// Go writes always (`status: {}`, `containers: null`) filled in. kind and apiVersion come first. Encoded form: compact
// JSON, keys in the order of the type's fields (maps sorted by key), as a real API server writes it.
//
// Thread rule: pure functions.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "kube/api/api_error.h"
#include "kube/api/json.h"
#include "kube/api/kinds.h"

namespace ghostfleet::kube {

enum class MediaType : unsigned char { kJson, kYaml, kProtobuf, kCbor };
enum class FieldValidation : unsigned char { kIgnore, kWarn, kStrict };

struct DecodeOptions {
  FieldValidation validation = FieldValidation::kWarn;
  // With kWarn: texts for Warning headers (`unknown field "spec.foo"`).
  std::vector<std::string>* warnings = nullptr;
  // A body may leave apiVersion and kind out: they are filled from `expected`. False: a custom resource must name them,
  // as a real server demands in the body of a create or an update.
  bool default_gvk = true;
  // Custom resources: takes out of the object what its schema does not know and names it (`spec.foo`); those names are
  // strict errors like the unknown fields of a built-in kind.
  std::function<std::vector<std::string>(Json*)> prune;
};

// Decodes a request body into an object of the expected kind. Errors are those of a real server: malformed input is
// 400, a wrong apiVersion or kind 400, wrong JSON types 400, unknown or duplicate fields under kStrict 400. For a
// custom resource (type == nullptr) only options.prune prunes.
ApiResult<Json> decode_object(std::string_view body, MediaType media, const KindInfo& expected,
                              const DecodeOptions& options);

// The same for any type of the table by name ("meta/v1.DeleteOptions"), without kind check.
ApiResult<Json> decode_type(std::string_view body, MediaType media, const TypeInfo& type, const DecodeOptions& options);

// Brings an edited Json back to the decoded form: prunes unknown fields, converts quantities and times, drops empty
// omitempty values. Paths of unknown fields go to `unknown` when given; wrong JSON types are an error naming the path.
ApiResult<Json> normalize(Json value, const TypeInfo& type, std::vector<std::string>* unknown = nullptr);

// JSON in table order; fields a real server writes even when zero (`status: {}`) are filled in, empty ones of omitempty
// fields are left out. For a null type (custom resources): keys sorted at every depth.
std::string encode_json(const Json& object, const TypeInfo* type);
void append_encoded_json(const Json& object, const TypeInfo* type, std::string* out);
// Protobuf: the k8s\0 envelope around the message.
ApiResult<std::string> encode_protobuf(const Json& object, const KindInfo& kind);
// Only the message, for lists and watch frames.
void append_protobuf_message(const Json& object, const TypeInfo& type, std::string* out);
// Wraps an encoded message.
std::string protobuf_envelope(std::string_view api_version, std::string_view kind, std::string_view message);
// One frame of a protobuf watch stream: length, WatchEvent, in it an object that carries its own envelope.
void append_protobuf_watch_frame(std::string_view event_type, std::string_view enveloped_object, std::string* out);
// Takes an enveloped body; kind and apiVersion of the envelope go into the object.
ApiResult<Json> decode_protobuf(std::string_view body, const TypeInfo& type);

// YAML 1.1 as sigs.k8s.io/yaml reads it (one document) to Json; and several documents of a file ("---").
Result<Json> parse_yaml(std::string_view text, std::vector<std::string>* duplicates = nullptr);
Result<std::vector<Json>> parse_yaml_documents(std::string_view text);
// As parse_yaml_documents, and for each value the line of the file it began at: `line_of("spec.groups[0].count")`, 0 if
// unknown.
class YamlLines {
 public:
  int line_of(std::string_view path) const;
  void set(std::string path, int line);

 private:
  std::map<std::string, int, std::less<>> lines_;
};
Result<Json> parse_yaml_with_lines(std::string_view text, YamlLines* lines);
std::string to_yaml(const Json& value);

}  // namespace ghostfleet::kube
