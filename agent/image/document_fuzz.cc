// Bytes to everything that reads what a registry says: manifests, configurations, challenges, tokens, references,
// docker configs, and the tables of contents of lazy layers. What a table says lies inside its blob.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "agent/image/auth.h"
#include "agent/image/layer_unpacker.h"
#include "agent/image/lazy_table.h"
#include "agent/image/manifest.h"
#include "agent/image/reference.h"

using namespace ghostfleet;
using namespace ghostfleet::image;

namespace {

void check_path(const std::string& path) {
  if (path.empty() || path[0] == '/' || ("/" + path + "/").find("/../") != std::string::npos) std::abort();
}

void check_ztoc(std::string_view bytes) {
  const auto z = parse_ztoc(bytes);
  if (!z.ok()) return;
  if (z->checkpoints.empty() || z->checkpoints.size() != z->span_digests.size()) std::abort();
  for (size_t i = 0; i < z->checkpoints.size(); ++i) {
    if (z->span_first(i) > z->span_end(i) || z->span_end(i) > z->blob_bytes) std::abort();
  }
  for (const auto& [path, file] : z->table.files) {
    check_path(path);
    if (file.tar_offset + file.size > z->tar_bytes) std::abort();
    if (z->span_at(file.tar_offset) >= z->checkpoints.size()) std::abort();
  }
}

void check_stargz(std::string_view bytes) {
  (void)parse_stargz_footer(bytes.substr(0, kStargzFooter));
  for (const auto& toc : {parse_chunked_position(bytes, 1 << 20), parse_chunked_footer(bytes, 1 << 20)}) {
    if (toc.ok() && (toc->offset < 8 || toc->offset + toc->packed > 1 << 20)) std::abort();
  }
  constexpr uint64_t kToc = 1000;
  const auto t = parse_stargz_toc(bytes, kToc);
  if (!t.ok()) return;
  for (const auto& [path, file] : t->files) {
    check_path(path);
    uint64_t at = 0;
    for (const TocPiece& p : file.pieces) {
      if (p.blob_first >= p.blob_end || p.blob_end > kToc || p.file_offset != at) std::abort();
      at += p.size;
    }
    if (at != file.size) std::abort();
  }
}

// A FlatBuffer is mostly zeros and small offsets: those of the text are turned into some.
std::string as_flat(std::string_view bytes) {
  std::string out(bytes);
  for (char& c : out) c = c >= '0' && c <= '9' ? static_cast<char>((c - '0') * 4) : c == '.' ? '\0' : c;
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto d = parse_document(bytes, "application/vnd.oci.image.manifest.v1+json");
  if (d.ok() && d->is_index) (void)choose_platform(d->manifests, {"linux", "amd64", ""});
  (void)parse_config(bytes);
  for (const Challenge& c : parse_challenges(bytes)) {
    if (c.scheme.empty()) std::abort();
  }
  (void)parse_token(bytes);
  (void)DockerConfig::parse(bytes);
  (void)marks_from_json(bytes);
  if (const auto r = parse_reference(bytes); r.ok()) {
    const auto again = parse_reference(r->to_string());
    if (!again.ok() || again->to_string() != r->to_string()) std::abort();
  }
  check_ztoc(bytes);
  check_ztoc(as_flat(bytes));
  check_stargz(bytes);
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const std::string digest = "sha256:" + std::string(64, 'a');
  const std::string d = R"({"mediaType":"m","size":3,"digest":")" + digest +
                        R"(","annotations":{"a":"b"},"platform":{"os":"linux","architecture":"amd64"}})";
  std::string footer("\x1f\x8b\x08\x04\0\0\0\0\0\xff\x1a\0SG\x16\0", 16);
  footer += "00000000000003e8STARGZ" + std::string(13, '\0');
  // Root table at 32 with a vtable of six fields; a zTOC that breaks at its checkpoints.
  std::string flat(160, '\0');
  const auto put16 = [&](size_t at, uint16_t v) { std::memcpy(&flat[at], &v, 2); };
  const auto put32 = [&](size_t at, uint32_t v) { std::memcpy(&flat[at], &v, 4); };
  put32(0, 32);
  put16(8, 16);
  put16(10, 56);
  for (uint16_t i = 0; i < 6; ++i) put16(static_cast<size_t>(12 + 2 * i), static_cast<uint16_t>(8 + 8 * i));
  put32(32, 24);
  put32(56, 1000);
  put32(64, 5000);
  put32(72, 24);
  put32(80, 16);
  put32(96, 88);
  return {
      R"({"schemaVersion":2,"config":)" + d + R"(,"layers":[)" + d + "," + d + "]}",
      R"({"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[)" + d + "]}",
      R"({"os":"linux","architecture":"amd64","rootfs":{"diff_ids":[")" + digest + R"("]}})",
      R"(Bearer realm="https://a/b",service="s",scope="x", Basic realm=y)",
      R"({"auths":{"https://h/v1/":{"auth":"YTpi"}},"credHelpers":{"a":"b"},"token":"t"})",
      "registry.example:5000/a/b_c:v1.2@" + digest,
      R"({"version":1,"entries":[{"name":"d/","type":"dir"},{"name":"d/f","type":"reg","size":9,"offset":10,"chunkSize":4,"chunkDigest":")" +
          digest + R"("},{"name":"d/f","type":"chunk","offset":50,"chunkOffset":4,"chunkDigest":")" + digest +
          R"("},{"name":"d/.wh.g","type":"reg"}]})",
      footer,
      flat,
  };
}
