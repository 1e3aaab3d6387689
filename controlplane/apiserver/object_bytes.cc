#include "controlplane/apiserver/object_bytes.h"

#include <random>

#include "kube/api/codec.h"

namespace ghostfleet::controlplane {
namespace {

using kube::Json;

// Stands where the revision will be. Random for each process, so that no client can put the same digits elsewhere.
const std::string& revision_marker() {
  static const std::string marker = [] {
    std::random_device random;
    std::string digits = "9";
    while (digits.size() < 16) digits += static_cast<char>('0' + random() % 10);
    return digits;
  }();
  return marker;
}

}  // namespace

std::string object_key(std::string_view ns, std::string_view name) {
  if (ns.empty()) return std::string(name);
  std::string key;
  key.reserve(ns.size() + name.size() + 1);
  return key.append(ns).append("/").append(name);
}

EncodedObject encode_object(Json& object, const kube::KindInfo& stored_kind) {
  object.as_object()["apiVersion"] = stored_kind.api_version();
  object.as_object()["kind"] = stored_kind.kind;
  kube::ensure_object(object, "metadata")["resourceVersion"] = revision_marker();
  EncodedObject encoded;
  encoded.json = kube::encode_json(object, stored_kind.type);
  encoded.revision_offset = encoded.json.find("\"resourceVersion\":\"" + revision_marker()) + 19;
  return encoded;
}

Json decode_stored(const Object& object) {
  Result<Json> parsed = kube::parse_json(object.json);
  return parsed.ok() ? std::move(*parsed) : Json();
}

bool same_content(const EncodedObject& encoded, const Object& object) {
  const size_t at = encoded.revision_offset, after = at + 16;
  const std::string_view a = encoded.json, b = object.json;
  return a.size() == b.size() && at == object.revision_offset && a.substr(0, at) == b.substr(0, at) &&
         a.substr(after) == b.substr(after);
}

ObjectRef unstored_object(std::string_view key, EncodedObject encoded, Revision revision) {
  auto object = std::make_shared<Object>();
  object->key = key;
  object->json = std::move(encoded.json);
  object->revision_offset = encoded.revision_offset;
  object->revision = revision;
  if (revision > 0) {
    object->json.replace(object->revision_offset, 16, format_revision(revision));
    return object;
  }
  // `"resourceVersion":"0000000000000000"` and the comma beside it go.
  size_t begin = object->revision_offset - 19, end = object->revision_offset + 17;
  if (end < object->json.size() && object->json[end] == ',') {
    end++;
  } else if (begin > 0 && object->json[begin - 1] == ',') {
    begin--;
  }
  object->json.erase(begin, end - begin);
  return object;
}

}  // namespace ghostfleet::controlplane
