#include "agent/image/manifest.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include "agent/image/digest.h"
#include "kube/api/json.h"

namespace ghostfleet::image {
namespace {

using kube::get_string;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

constexpr std::string_view kOciIndex = "application/vnd.oci.image.index.v1+json";
constexpr std::string_view kOciManifest = "application/vnd.oci.image.manifest.v1+json";
constexpr std::string_view kDockerList = "application/vnd.docker.distribution.manifest.list.v2+json";
constexpr std::string_view kDockerManifest = "application/vnd.docker.distribution.manifest.v2+json";
constexpr uint64_t kMaxBlobBytes = 1ull << 40;
constexpr size_t kMaxAnnotations = 1000;
constexpr int kMaxJsonDepth = 64;

Result<Json> parse(std::string_view bytes, size_t limit, std::string_view what) {
  if (bytes.size() > limit)
    return Status(Code::kResourceExhausted,
                  fmt::format("{} of {} bytes: at most {} are taken", what, bytes.size(), limit));
  auto json = kube::parse_json(bytes, {.max_depth = kMaxJsonDepth});
  if (!json.ok()) return json.error().with_context(what);
  if (!json->is_object()) return invalid_argument(fmt::format("{}: a JSON object is expected", what));
  return json;
}

std::vector<std::pair<std::string, std::string>> annotations_of(const Json& value) {
  std::vector<std::pair<std::string, std::string>> out;
  const JsonObject* found = kube::get_object(value, "annotations");
  if (found == nullptr) return out;
  for (const auto& [key, text] : *found) {
    if (text.is_string() && out.size() < kMaxAnnotations)
      out.emplace_back(std::string(key), std::string(std::string_view(text.get_string())));
  }
  return out;
}

std::string_view find_annotation(const std::vector<std::pair<std::string, std::string>>& all, std::string_view key) {
  for (const auto& [name, value] : all) {
    if (name == key) return value;
  }
  return {};
}

Platform platform_of(const Json& value) {
  Platform p;
  p.os = get_string(value, "os");
  p.architecture = get_string(value, "architecture");
  p.variant = get_string(value, "variant");
  return p;
}

Result<Descriptor> descriptor_of(const Json& value, const std::string& field) {
  if (!value.is_object()) return invalid_argument(fmt::format("{}: an object is expected", field));
  Descriptor d;
  d.media_type = get_string(value, "mediaType");
  d.artifact_type = get_string(value, "artifactType");
  d.digest = get_string(value, "digest");
  if (Status s = check_digest(d.digest); !s.ok()) return s.with_context(field);
  const Json* size = kube::find_key(value, "size");
  const bool whole = size != nullptr && (size->is_int64() || size->is_uint64());
  if (!whole || kube::get_int(value, "size", -1) < 0)
    return invalid_argument(fmt::format("{}.size: a number of bytes is expected", field));
  d.size = static_cast<uint64_t>(kube::get_int(value, "size"));
  if (d.size > kMaxBlobBytes)
    return Status(Code::kResourceExhausted,
                  fmt::format("{}.size {}: at most {} bytes are taken", field, d.size, kMaxBlobBytes));
  if (const JsonArray* urls = kube::get_array(value, "urls"); urls != nullptr) {
    for (const Json& url : *urls) {
      if (url.is_string()) d.urls.emplace_back(std::string_view(url.get_string()));
    }
  }
  d.annotations = annotations_of(value);
  if (const Json* platform = kube::find_key(value, "platform"); platform != nullptr)
    d.platform = platform_of(*platform);
  return d;
}

Result<std::vector<Descriptor>> descriptors_of(const Json& value, const std::string& field, size_t limit) {
  const JsonArray* items = kube::get_array(value, field);
  if (items == nullptr) return invalid_argument(fmt::format("{}: a list is expected", field));
  if (items->size() > limit)
    return Status(Code::kResourceExhausted,
                  fmt::format("{}: {} entries; at most {} are taken", field, items->size(), limit));
  std::vector<Descriptor> out;
  for (size_t i = 0; i < items->size(); ++i) {
    auto one = descriptor_of((*items)[i], fmt::format("{}[{}]", field, i));
    if (!one.ok()) return one.error();
    out.push_back(std::move(*one));
  }
  return out;
}

bool fits(const Platform& offered, const Platform& wanted) {
  if (offered.os != wanted.os || offered.architecture != wanted.architecture) return false;
  if (wanted.variant.empty() || offered.variant.empty() || offered.variant == wanted.variant) return true;
  return false;
}

std::string_view without_parameters(std::string_view content_type) {
  return content_type.substr(0, content_type.find_first_of("; "));
}

}  // namespace

std::string Platform::to_string() const {
  return variant.empty() ? fmt::format("{}/{}", os, architecture) : fmt::format("{}/{}/{}", os, architecture, variant);
}

Result<Platform> parse_platform(std::string_view text) {
  Platform p;
  const size_t first = text.find('/');
  if (first != std::string_view::npos) {
    const size_t second = text.find('/', first + 1);
    p.os = text.substr(0, first);
    p.architecture = text.substr(first + 1, second == std::string_view::npos ? second : second - first - 1);
    if (second != std::string_view::npos) p.variant = text.substr(second + 1);
  }
  if (p.os.empty() || p.architecture.empty() || p.variant.find('/') != std::string::npos)
    return invalid_argument(fmt::format("platform \"{}\": OS/ARCHITECTURE is expected, e.g. linux/arm64", text));
  return p;
}

Platform host_platform() {
  utsname name{};
  uname(&name);
  const std::string_view machine = name.machine;
  if (machine == "aarch64") return {"linux", "arm64", ""};
  if (machine == "x86_64") return {"linux", "amd64", ""};
  return {"linux", std::string(machine), ""};
}

std::string_view Descriptor::annotation(std::string_view key) const { return find_annotation(annotations, key); }
std::string_view Manifest::annotation(std::string_view key) const { return find_annotation(annotations, key); }

std::string_view manifest_accept() {
  return "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
         "application/vnd.docker.distribution.manifest.list.v2+json, "
         "application/vnd.docker.distribution.manifest.v2+json";
}

Result<Document> parse_document(std::string_view bytes, std::string_view content_type) {
  auto json = parse(bytes, kMaxManifestBytes, "manifest");
  if (!json.ok()) return json.error();
  if (const int64_t version = kube::get_int(*json, "schemaVersion", 2); version != 2) {
    return Status(
        Code::kUnimplemented,
        fmt::format("manifest: schemaVersion {} is not supported (2 is expected; the image must be pushed anew)",
                    version));
  }
  std::string type(get_string(*json, "mediaType"));
  if (type.empty()) type = without_parameters(content_type);
  const bool has_list = kube::get_array(*json, "manifests") != nullptr;
  const bool has_layers = kube::get_array(*json, "layers") != nullptr;
  if (has_list && has_layers) return invalid_argument("manifest: has both manifests and layers; one is expected");
  const bool index_type = type == kOciIndex || type == kDockerList;
  const bool manifest_type = type == kOciManifest || type == kDockerManifest;
  if (!index_type && !manifest_type) {
    return Status(Code::kUnimplemented,
                  fmt::format("manifest: media type \"{}\" is not supported ({} are)", type, manifest_accept()));
  }
  Document out;
  out.is_index = index_type;
  if (out.is_index) {
    auto manifests = descriptors_of(*json, "manifests", kMaxManifests);
    if (!manifests.ok()) return manifests.error().with_context("index");
    out.manifests = std::move(*manifests);
    return out;
  }
  Manifest& m = out.manifest;
  m.media_type = type;
  m.artifact_type = get_string(*json, "artifactType");
  m.subject = get_string(*json, "subject.digest");
  m.annotations = annotations_of(*json);
  const Json* config = kube::find_key(*json, "config");
  if (config == nullptr) return invalid_argument("manifest: config: is required");
  auto parsed = descriptor_of(*config, "config");
  if (!parsed.ok()) return parsed.error().with_context("manifest");
  m.config = std::move(*parsed);
  auto layers = descriptors_of(*json, "layers", kMaxLayers);
  if (!layers.ok()) return layers.error().with_context("manifest");
  m.layers = std::move(*layers);
  return out;
}

Result<Descriptor> choose_platform(const std::vector<Descriptor>& manifests, const Platform& platform) {
  std::string there;
  const Descriptor* loose = nullptr;
  for (const Descriptor& d : manifests) {
    if (d.platform.os.empty()) continue;
    if (fits(d.platform, platform)) {
      if (d.platform.variant == platform.variant) return d;
      if (loose == nullptr) loose = &d;
    }
    const std::string name = d.platform.to_string();
    if (there.size() < 500 && there.find(name) == std::string::npos) there += (there.empty() ? "" : ", ") + name;
  }
  if (loose != nullptr) return *loose;
  return not_found(fmt::format("the image is not there for {}; there are: {}", platform.to_string(),
                               there.empty() ? "none with a platform" : there));
}

Result<LayerKind> layer_kind(std::string_view media_type, bool strict) {
  struct Row {
    std::string_view type;
    Compression compression;
    bool foreign, loose;
  };
  static constexpr Row kRows[] = {
      {"application/vnd.oci.image.layer.v1.tar", Compression::kNone, false, false},
      {"application/vnd.oci.image.layer.v1.tar+gzip", Compression::kGzip, false, false},
      {"application/vnd.oci.image.layer.v1.tar+zstd", Compression::kZstd, false, false},
      {"application/vnd.docker.image.rootfs.diff.tar", Compression::kNone, false, false},
      {"application/vnd.docker.image.rootfs.diff.tar.gzip", Compression::kGzip, false, false},
      {"application/vnd.docker.image.rootfs.diff.tar.zstd", Compression::kZstd, false, true},
      {"application/vnd.oci.image.layer.nondistributable.v1.tar", Compression::kNone, true, false},
      {"application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", Compression::kGzip, true, false},
      {"application/vnd.oci.image.layer.nondistributable.v1.tar+zstd", Compression::kZstd, true, false},
      {"application/vnd.docker.image.rootfs.foreign.diff.tar", Compression::kNone, true, false},
      {"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", Compression::kGzip, true, false},
  };
  for (const Row& row : kRows) {
    if (row.type == media_type && !(strict && row.loose)) return LayerKind{row.compression, row.foreign};
  }
  return Status(Code::kUnimplemented, fmt::format("layer media type \"{}\" is not supported", media_type));
}

Result<ImageConfig> parse_config(std::string_view bytes) {
  auto json = parse(bytes, kMaxConfigBytes, "image configuration");
  if (!json.ok()) return json.error();
  ImageConfig out;
  out.platform = platform_of(*json);
  const JsonArray* ids = kube::get_array(*json, "rootfs.diff_ids");
  if (ids == nullptr) return invalid_argument("image configuration: rootfs.diff_ids: a list is expected");
  if (ids->size() > kMaxLayers)
    return Status(
        Code::kResourceExhausted,
        fmt::format("image configuration: rootfs.diff_ids: {} entries; at most {} are taken", ids->size(), kMaxLayers));
  for (size_t i = 0; i < ids->size(); ++i) {
    const std::string id((*ids)[i].is_string() ? std::string_view((*ids)[i].get_string()) : std::string_view());
    if (Status s = check_digest(id); !s.ok())
      return s.with_context(fmt::format("image configuration: rootfs.diff_ids[{}]", i));
    out.diff_ids.push_back(id);
  }
  return out;
}

std::string chain_id(const std::vector<std::string>& diff_ids) {
  std::string chain;
  for (const std::string& id : diff_ids) chain = chain.empty() ? id : digest_of(chain + " " + id);
  return chain.empty() ? digest_of("") : chain;
}

}  // namespace ghostfleet::image
