#include "tests/support/image_builder.h"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <cstdlib>
#include <cstring>

#include "base/digest.h"

namespace ghostfleet::tests {
namespace {

constexpr size_t kBlock = 512;

void pad(std::string* out) { out->resize((out->size() + kBlock - 1) / kBlock * kBlock, '\0'); }

std::string header(const TarFile& f, const std::string& name, char type, size_t size) {
  std::string block(kBlock, '\0');
  const auto put = [&](size_t at, const std::string& text) { std::memcpy(&block[at], text.data(), text.size()); };
  put(0, name.substr(0, 100));
  put(100, fmt::format("{:07o}", f.mode));
  put(108, "0000000");
  put(116, "0000000");
  put(124, fmt::format("{:011o}", size));
  put(136, fmt::format("{:011o}", 1767607200));
  put(148, "        ");
  block[156] = type;
  put(157, f.link.substr(0, 100));
  put(257, std::string("ustar\0"
                       "00",
                       8));
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  put(148, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  return block;
}

std::string pax_record(const std::string& key, const std::string& value) {
  const std::string body = fmt::format(" {}={}\n", key, value);
  size_t size = body.size() + 1;
  while (fmt::format("{}", size).size() + body.size() != size) size = fmt::format("{}", size).size() + body.size();
  return fmt::format("{}{}", size, body);
}

// Headers of an entry; its content and padding follow.
std::string head_of(const TarFile& f) {
  std::string out;
  if (f.name.size() > 100) {
    const std::string records = pax_record("path", f.name);
    out += header(f, "pax", 'x', records.size()) + records;
    pad(&out);
  }
  return out + header(f, f.name, f.type, f.type == '0' ? f.content.size() : 0);
}

uint64_t next(uint64_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  return *state ^= *state << 17;
}

std::string annotations_json(const std::vector<std::pair<std::string, std::string>>& all) {
  std::string out;
  for (const auto& [key, value] : all) out += fmt::format("{}\"{}\":\"{}\"", out.empty() ? "" : ",", key, value);
  return out;
}

// Just enough of FlatBuffers: written front to back, offsets filled in when their targets are known.
class FlatWriter {
 public:
  std::string out;
  template <class T>
  size_t put(T value) {
    const size_t at = out.size();
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
    return at;
  }
  void align(size_t n) {
    while (out.size() % n != 0) out += '\0';
  }
  void point(size_t from, size_t to) {
    const auto offset = static_cast<uint32_t>(to - from);
    std::memcpy(&out[from], &offset, sizeof offset);
  }
  // A table whose fields are all eight bytes wide; the place of each field.
  std::vector<size_t> table(size_t fields, size_t* begin) {
    align(8);
    const size_t vtable = out.size();
    put<uint16_t>(static_cast<uint16_t>(4 + fields * 2));
    put<uint16_t>(static_cast<uint16_t>(8 + fields * 8));
    for (size_t i = 0; i < fields; ++i) put<uint16_t>(static_cast<uint16_t>(8 + i * 8));
    align(8);
    *begin = put<int32_t>(static_cast<int32_t>(out.size() - vtable));
    put<uint32_t>(0);
    std::vector<size_t> places;
    for (size_t i = 0; i < fields; ++i) places.push_back(put<uint64_t>(0));
    return places;
  }
  void set(size_t at, int64_t value) { std::memcpy(&out[at], &value, sizeof value); }
  void text(size_t from, std::string_view value) {
    align(4);
    point(from, out.size());
    put<uint32_t>(static_cast<uint32_t>(value.size()));
    out += value;
    out += '\0';
  }
  std::vector<size_t> list(size_t from, size_t count) {
    align(4);
    point(from, out.size());
    put<uint32_t>(static_cast<uint32_t>(count));
    std::vector<size_t> places;
    for (size_t i = 0; i < count; ++i) places.push_back(put<uint32_t>(0));
    return places;
  }
};

struct Point {
  uint64_t in, out;
  int bits;
  std::string window;
};

// Inflates block by block and notes where blocks end.
std::vector<Point> checkpoints_of(const std::string& blob, size_t span) {
  z_stream z{};
  if (inflateInit2(&z, 31) != Z_OK) std::abort();
  std::string tar;
  std::vector<Point> points;
  std::string piece(64 * 1024, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(blob.data()));
  z.avail_in = static_cast<uInt>(blob.size());
  int code = Z_OK;
  while (code != Z_STREAM_END) {
    z.next_out = reinterpret_cast<Bytef*>(piece.data());
    z.avail_out = static_cast<uInt>(piece.size());
    code = inflate(&z, Z_BLOCK);
    if (code != Z_OK && code != Z_STREAM_END) std::abort();
    tar.append(piece.data(), piece.size() - z.avail_out);
    const bool block_end = (z.data_type & 128) != 0 && (z.data_type & 64) == 0 && code != Z_STREAM_END;
    if (block_end && (points.empty() || tar.size() - points.back().out > span)) {
      std::string window =
          tar.size() > 32768 ? tar.substr(tar.size() - 32768) : std::string(32768 - tar.size(), '\0') + tar;
      points.push_back({z.total_in, tar.size(), z.data_type & 7, std::move(window)});
    }
  }
  inflateEnd(&z);
  return points;
}

}  // namespace

std::string make_tar(const std::vector<TarFile>& files) {
  std::string out;
  for (const TarFile& f : files) {
    out += head_of(f);
    if (f.type == '0') out += f.content;
    pad(&out);
  }
  return out + std::string(2 * kBlock, '\0');
}

std::string gzip(std::string_view bytes, int level) {
  z_stream z{};
  if (deflateInit2(&z, level, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) != Z_OK) std::abort();
  std::string out(deflateBound(&z, bytes.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  if (deflate(&z, Z_FINISH) != Z_STREAM_END) std::abort();
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::string zstd(std::string_view bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 3));
  return out;
}

std::string digest(std::string_view bytes) { return "sha256:" + sha256_hex(bytes); }

std::string noise(size_t size, uint64_t seed) {
  std::string out(size, '\0');
  uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
  for (char& c : out) c = static_cast<char>(next(&state));
  return out;
}

std::string prose(size_t size, uint64_t seed) {
  static constexpr std::string_view kWords[] = {"node ",  "layer ", "image ",    "tensor ",
                                                "shard ", "0123 ",  "weights\n", "lib"};
  std::string out;
  uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
  while (out.size() < size) {
    const uint64_t r = next(&state);
    out += kWords[r % 8];
    out += static_cast<char>('a' + (r >> 8) % 26);
  }
  out.resize(size);
  return out;
}

LayerSpec gzip_layer(const std::vector<TarFile>& files) {
  LayerSpec l;
  l.tar = make_tar(files);
  l.blob = gzip(l.tar);
  return l;
}

BuiltImage put_image(Shelf* shelf, const std::string& tag, const std::vector<LayerSpec>& layers,
                     const std::string& more) {
  std::string diffs, descriptors;
  for (const LayerSpec& l : layers) {
    diffs += fmt::format("{}\"{}\"", diffs.empty() ? "" : ",", digest(l.tar));
    descriptors += fmt::format(
        R"({}{{"mediaType":"{}","size":{},"digest":"{}"{}{}}})", descriptors.empty() ? "" : ",", l.media_type,
        l.blob.size(), digest(l.blob), l.urls.empty() ? "" : ",\"urls\":" + l.urls,
        l.annotations.empty() ? "" : fmt::format(",\"annotations\":{{{}}}", annotations_json(l.annotations)));
    shelf->blobs[digest(l.blob)] = l.blob;
  }
  BuiltImage out;
  out.config =
      fmt::format(R"({{"architecture":"amd64","os":"linux","rootfs":{{"type":"layers","diff_ids":[{}]}}}})", diffs);
  shelf->blobs[digest(out.config)] = out.config;
  const std::string type = "application/vnd.oci.image.manifest.v1+json";
  out.manifest = fmt::format(
      R"({{"schemaVersion":2,"mediaType":"{}","config":{{"mediaType":"application/vnd.oci.image.config.v1+json","size":{},"digest":"{}"}},"layers":[{}]{}}})",
      type, out.config.size(), digest(out.config), descriptors, more);
  out.digest = digest(out.manifest);
  shelf->manifests[out.digest] = {type, out.manifest};
  shelf->manifests[tag] = {type, out.manifest};
  return out;
}

LayerSpec stargz_layer(const std::vector<TarFile>& files, size_t chunk) {
  LayerSpec l;
  std::string entries, plain;
  const auto member = [&](const std::string& bytes) {
    l.tar += bytes;
    l.blob += gzip(bytes);
  };
  for (const TarFile& f : files) {
    plain += head_of(f);
    const char* type = f.type == '5' ? "dir" : f.type == '2' ? "symlink" : f.type == '1' ? "hardlink" : "reg";
    std::string entry = fmt::format(R"({{"name":"{}","type":"{}","size":{},"mode":{},"linkName":"{}")", f.name, type,
                                    f.content.size(), f.mode, f.link);
    for (size_t at = 0; at < f.content.size(); at += chunk) {
      member(plain);
      plain.clear();
      const std::string part = f.content.substr(at, chunk);
      if (at > 0) entry = fmt::format(R"({{"name":"{}","type":"chunk")", f.name);
      entries += fmt::format(R"({}{},"offset":{},"chunkOffset":{},"chunkSize":{},"chunkDigest":"{}"}})",
                             entries.empty() ? "" : ",", entry, l.blob.size(), at, part.size(), digest(part));
      member(part);
    }
    if (f.content.empty()) entries += fmt::format("{}{}}}", entries.empty() ? "" : ",", entry);
    std::string padding = l.tar + plain;
    const size_t before = padding.size();
    pad(&padding);
    plain += std::string(padding.size() - before, '\0');
  }
  plain += std::string(2 * kBlock, '\0');
  // The TOC is an entry of the tar as well; the archive ends behind it.
  plain.resize(plain.size() - 2 * kBlock);
  if (!plain.empty()) member(plain);
  const std::string toc = fmt::format(R"({{"version":1,"entries":[{}]}})", entries);
  const size_t toc_offset = l.blob.size();
  member(make_tar({{"stargz.index.json", toc}}));
  std::string footer("\x1f\x8b\x08\x04\0\0\0\0\0\xff\x1a\0SG\x16\0", 16);
  footer += fmt::format("{:016x}STARGZ", toc_offset);
  footer += std::string("\x01\0\0\xff\xff\0\0\0\0\0\0\0\0", 13);
  l.blob += footer;
  l.annotations = {{"containerd.io/snapshot/stargz/toc.digest", digest(toc)}};
  return l;
}

LayerSpec chunked_layer(const std::vector<TarFile>& files, size_t chunk, bool position) {
  LayerSpec l;
  l.media_type = "application/vnd.oci.image.layer.v1.tar+zstd";
  std::string entries, plain;
  const auto frame = [&](const std::string& bytes) {
    l.tar += bytes;
    l.blob += zstd(bytes);
  };
  for (const TarFile& f : files) {
    plain += head_of(f);
    const char* type = f.type == '5' ? "dir" : f.type == '2' ? "symlink" : f.type == '1' ? "hardlink" : "reg";
    std::string entry = fmt::format(R"({{"name":"{}","type":"{}","size":{},"mode":{},"linkName":"{}","digest":"{}")",
                                    f.name, type, f.content.size(), f.mode, f.link, digest(f.content));
    const bool one = f.content.size() <= chunk;
    const bool zeros = !f.content.empty() && f.content.find_first_not_of('\0') == std::string::npos;
    for (size_t at = 0; at < f.content.size(); at += chunk) {
      frame(plain);
      plain.clear();
      const std::string part = f.content.substr(at, chunk);
      if (at > 0) entry = fmt::format(R"({{"name":"{}","type":"chunk")", f.name);
      entries += fmt::format(R"({}{},"offset":{})", entries.empty() ? "" : ",", entry, l.blob.size());
      if (!one)
        entries += fmt::format(R"(,"chunkOffset":{},"chunkSize":{},"chunkDigest":"{}")", at, part.size(), digest(part));
      if (zeros) entries += R"(,"chunkType":"zeros")";
      frame(part);
      entries += fmt::format(R"(,"endOffset":{}}})", l.blob.size());
    }
    if (f.content.empty()) entries += fmt::format("{}{}}}", entries.empty() ? "" : ",", entry);
    std::string padding = l.tar + plain;
    const size_t before = padding.size();
    pad(&padding);
    plain += std::string(padding.size() - before, '\0');
  }
  frame(plain + std::string(2 * kBlock, '\0'));
  const std::string toc = fmt::format(R"({{"version":1,"entries":[{}]}})", entries);
  const std::string packed = zstd(toc);
  const auto number = [](auto value) { return std::string(reinterpret_cast<const char*>(&value), sizeof value); };
  const auto skippable = [&](const std::string& bytes) {
    l.blob += "\x50\x2a\x4d\x18" + number(static_cast<uint32_t>(bytes.size())) + bytes;
  };
  const uint64_t offset = l.blob.size() + 8;
  skippable(packed);
  skippable(number(offset) + number(uint64_t{packed.size()}) + number(uint64_t{toc.size()}) + number(uint64_t{1}) +
            "GnUlInUx");
  l.annotations = {{"io.github.containers.zstd-chunked.manifest-checksum", digest(packed)}};
  if (position)
    l.annotations.emplace_back("io.github.containers.zstd-chunked.manifest-position",
                               fmt::format("{}:{}:{}:1", offset, packed.size(), toc.size()));
  return l;
}

std::string make_ztoc(const LayerSpec& layer, const std::vector<TarFile>& files, size_t span) {
  const std::vector<Point> points = checkpoints_of(layer.blob, span);
  std::string blob;
  const auto add = [&](auto value) { blob.append(reinterpret_cast<const char*>(&value), sizeof value); };
  add(static_cast<uint32_t>(points.size()));
  add(static_cast<uint64_t>(span));
  for (const Point& p : points) {
    add(p.in);
    add(p.out);
    blob += static_cast<char>(p.bits);
    blob += p.window;
  }
  FlatWriter w;
  const size_t root = w.put<uint32_t>(0);
  size_t begin = 0;
  const auto fields = w.table(6, &begin);
  w.point(root, begin);
  w.set(fields[2], static_cast<int64_t>(layer.blob.size()));
  w.set(fields[3], static_cast<int64_t>(layer.tar.size()));
  w.text(fields[0], "1.0");
  w.text(fields[1], "ghostfleet tests");
  size_t toc = 0;
  const auto toc_fields = w.table(1, &toc);
  w.point(fields[4], toc);
  const auto rows = w.list(toc_fields[0], files.size());
  size_t offset = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    const TarFile& f = files[i];
    offset += head_of(f).size();
    size_t row = 0;
    const auto row_fields = w.table(6, &row);
    w.point(rows[i], row);
    w.text(row_fields[0], f.name);
    w.text(row_fields[1], f.type == '5' ? "dir" : f.type == '2' ? "symlink" : f.type == '1' ? "hardlink" : "reg");
    w.set(row_fields[2], static_cast<int64_t>(offset));
    w.set(row_fields[3], static_cast<int64_t>(f.content.size()));
    w.text(row_fields[4], f.link);
    w.set(row_fields[5], f.mode);
    offset += (f.content.size() + kBlock - 1) / kBlock * kBlock;
  }
  size_t info = 0;
  const auto info_fields = w.table(4, &info);
  w.point(fields[5], info);
  w.set(info_fields[0], 1);
  w.set(info_fields[1], static_cast<int64_t>(points.size()) - 1);
  const auto digests = w.list(info_fields[2], points.size());
  for (size_t i = 0; i < points.size(); ++i) {
    const size_t from = points[i].in - (points[i].bits != 0 ? 1 : 0);
    const size_t to = i + 1 < points.size() ? points[i + 1].in : layer.blob.size();
    w.text(digests[i], digest(std::string_view(layer.blob).substr(from, to - from)));
  }
  w.text(info_fields[3], blob);
  return w.out;
}

namespace {

// The digest of the index.
std::string put_index(Shelf* shelf, int version, const std::string& subject, const LayerSpec& layer,
                      const std::string& ztoc) {
  shelf->blobs[digest(ztoc)] = ztoc;
  shelf->blobs[digest("{}")] = "{}";
  const std::string about =
      subject.empty() ? ""
                      : fmt::format(R"("subject":{{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":1,)"
                                    R"("digest":"{}"}},)",
                                    subject);
  const std::string index = fmt::format(
      R"({{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",)"
      R"("artifactType":"application/vnd.amazon.soci.index.v{}+json",{})"
      R"("config":{{"mediaType":"application/vnd.amazon.soci.index.v{}+json","size":2,"digest":"{}"}},)"
      R"("layers":[{{"mediaType":"application/octet-stream","size":{},"digest":"{}","annotations":)"
      R"({{"com.amazon.soci.image-layer-digest":"{}","com.amazon.soci.image-layer-mediaType":"{}"}}}}]}})",
      version, about, version, digest("{}"), ztoc.size(), digest(ztoc), digest(layer.blob), layer.media_type);
  shelf->manifests[digest(index)] = {"application/vnd.oci.image.manifest.v1+json", index};
  return digest(index);
}

}  // namespace

BuiltImage put_soci_image(Shelf* shelf, const std::string& tag, const LayerSpec& layer, const std::string& ztoc) {
  return put_image(
      shelf, tag, {layer},
      fmt::format(R"(,"annotations":{{"com.amazon.soci.index-digest":"{}"}})", put_index(shelf, 2, "", layer, ztoc)));
}

std::string put_soci_index(Shelf* shelf, int version, const std::string& subject, const LayerSpec& layer,
                           const std::string& ztoc) {
  const std::string name = put_index(shelf, version, subject, layer, ztoc);
  return fmt::format(R"({{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":{},"digest":"{}",)"
                     R"("artifactType":"application/vnd.amazon.soci.index.v{}+json"}})",
                     shelf->manifests[name].second.size(), name, version);
}

}  // namespace ghostfleet::tests
