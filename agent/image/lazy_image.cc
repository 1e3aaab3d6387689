#include "agent/image/lazy_image.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>

#include "agent/image/blob_ingest.h"
#include "agent/image/decompress.h"
#include "agent/image/digest.h"
#include "base/log.h"

namespace ghostfleet::image {

// One layer and how its files are read.
class LazyLayer {
 public:
  virtual ~LazyLayer() = default;
  virtual const LayerTable& table() const = 0;
  virtual Status read(const TableFile& file, const ByteSink& sink) = 0;
  // What the layer is fetched in.
  virtual size_t pieces() const { return 0; }
  virtual bool has_piece(size_t) const { return true; }
  virtual Status fetch_piece(size_t) { return Status(); }
};

namespace {

constexpr std::string_view kIndexDigest = "com.amazon.soci.index-digest";
constexpr std::string_view kLayerDigest = "com.amazon.soci.image-layer-digest";
// By their age: an index of version 2 counts before one of version 1.
constexpr std::string_view kSociTypes[] = {"application/vnd.amazon.soci.index.v2+json",
                                           "application/vnd.amazon.soci.index.v1+json"};
constexpr std::string_view kSociSpan = "soci-index";  // of the manifest: what the registry said its index is
constexpr std::string_view kNoIndex = "none";
constexpr std::string_view kTocDigest = "containerd.io/snapshot/stargz/toc.digest";
// Of the digest and the place of a TOC: what containers/storage writes, and what it wrote before.
struct ChunkedKeys {
  std::string_view checksum, position;
};
constexpr ChunkedKeys kChunkedKeys[] = {
    {"io.github.containers.zstd-chunked.manifest-checksum", "io.github.containers.zstd-chunked.manifest-position"},
    {"io.containers.zstd-chunked.manifest-checksum", "io.containers.zstd-chunked.manifest-position"}};
constexpr std::string_view kTocName = "stargz.index.json";
constexpr std::string_view kTocSpan = "toc";
constexpr size_t kTail = 64 * 1024;
constexpr uint64_t kMaxPiece = 64u << 20;
constexpr size_t kReadBytes = 512 * 1024;
constexpr int kMaxLinks = 40;

std::string shown(std::string_view path) { return std::string(path.substr(0, 200)); }

// "Not found" is said of files alone.
Status not_to_be_had(const Status& s) {
  return s.code() == Code::kNotFound || s.code() == Code::kInvalidArgument ? Status(Code::kDataLoss, s.message()) : s;
}

Result<std::string> fetch_range(Registry* registry, const Descriptor& blob, uint64_t first, uint64_t length) {
  if (length > kMaxPiece)
    return Status(Code::kResourceExhausted,
                  fmt::format("a piece of {} bytes: at most {} are taken", length, kMaxPiece));
  std::string out;
  out.reserve(length);
  GF_RETURN_IF_ERROR(registry->read_range(blob, first, length, true, [&](std::string_view bytes) {
    out.append(bytes);
    return Status();
  }));
  return out;
}

class SociLayer final : public LazyLayer {
 public:
  SociLayer(Registry* registry, ContentStore* store, Descriptor blob, Ztoc ztoc)
      : registry_(registry), store_(store), blob_(std::move(blob)), ztoc_(std::move(ztoc)) {}

  const LayerTable& table() const override { return ztoc_.table; }

  Status read(const TableFile& file, const ByteSink& sink) override {
    uint64_t at = file.tar_offset;
    const uint64_t end = file.tar_offset + file.size;
    while (at < end) {
      const size_t span = ztoc_.span_at(at);
      const bool last = span + 1 == ztoc_.checkpoints.size();
      const uint64_t span_end = last ? ztoc_.tar_bytes : ztoc_.checkpoints[span + 1].tar;
      const uint64_t length = std::min(end, span_end) - at;
      if (length == 0) return Status(Code::kDataLoss, "zTOC: a span without content");
      auto bytes = fetch(span);
      if (!bytes.ok()) return bytes.error();
      const Checkpoint& c = ztoc_.checkpoints[span];
      GF_RETURN_IF_ERROR(inflate_from(*bytes, c.bits, c.window, at - c.tar, length, sink)
                             .with_context(fmt::format("layer {}: span {}", blob_.digest, span)));
      at += length;
    }
    return Status();
  }

  size_t pieces() const override { return ztoc_.checkpoints.size(); }
  bool has_piece(size_t span) const override { return store_->has_span(blob_.digest, std::to_string(span)); }
  Status fetch_piece(size_t span) override {
    const auto bytes = fetch(span);
    return bytes.ok() ? Status() : bytes.error();
  }

 private:
  // As it lies in the blob; kept on the disk, and checked whichever way it comes.
  Result<std::string> fetch(size_t span) {
    const std::string name = std::to_string(span);
    std::string kept = store_->read_span(blob_.digest, name, kMaxPiece);
    if (!kept.empty() && digest_of(kept) == ztoc_.span_digests[span]) return kept;
    const uint64_t first = ztoc_.span_first(span);
    auto bytes = fetch_range(registry_, blob_, first, ztoc_.span_end(span) - first);
    if (!bytes.ok()) return bytes.error();
    GF_RETURN_IF_ERROR(compare_digests(fmt::format("layer {}: span {}", blob_.digest, span), ztoc_.span_digests[span],
                                       digest_of(*bytes)));
    GF_RETURN_IF_ERROR(store_->put_span(blob_.digest, name, *bytes));
    return bytes;
  }

  Registry* registry_;
  ContentStore* store_;
  Descriptor blob_;
  Ztoc ztoc_;
};

// By a TOC at the end of the blob.
class TocLayer final : public LazyLayer {
 public:
  TocLayer(Registry* registry, ContentStore* store, Descriptor blob, Compression compression, LayerTable table)
      : registry_(registry),
        store_(store),
        blob_(std::move(blob)),
        compression_(compression),
        table_(std::move(table)) {
    for (const auto& [path, file] : table_.files) {
      for (const TocPiece& piece : file.pieces) {
        if (!piece.zeros) pieces_.push_back(&piece);
      }
    }
  }

  const LayerTable& table() const override { return table_; }
  size_t pieces() const override { return pieces_.size(); }
  bool has_piece(size_t piece) const override { return store_->has_span(blob_.digest, name_of(*pieces_[piece])); }
  Status fetch_piece(size_t piece) override {
    const auto bytes = fetch(*pieces_[piece]);
    return bytes.ok() ? Status() : bytes.error().with_context(fmt::format("layer {}", blob_.digest));
  }

  Status read(const TableFile& file, const ByteSink& sink) override {
    for (const TocPiece& piece : file.pieces) {
      if (piece.zeros) {
        GF_RETURN_IF_ERROR(give_zeros(piece.size, sink));
        continue;
      }
      auto bytes = fetch(piece);
      if (!bytes.ok()) return bytes.error().with_context(fmt::format("layer {}", blob_.digest));
      GF_RETURN_IF_ERROR(sink(*bytes));
    }
    return Status();
  }

 private:
  static Status give_zeros(uint64_t size, const ByteSink& sink) {
    static const std::string kZeros(64 * 1024, '\0');
    for (uint64_t left = size; left > 0;) {
      const uint64_t now = std::min<uint64_t>(left, kZeros.size());
      GF_RETURN_IF_ERROR(sink(std::string_view(kZeros).substr(0, now)));
      left -= now;
    }
    return Status();
  }
  static std::string name_of(const TocPiece& piece) { return fmt::format("{}-{}", piece.blob_first, piece.inner); }
  Result<std::string> fetch(const TocPiece& piece) {
    const std::string name = name_of(piece);
    std::string kept = store_->read_span(blob_.digest, name, kMaxPiece);
    if (!kept.empty() && digest_of(kept) == piece.digest) return kept;
    if (piece.size > kMaxPiece)
      return Status(Code::kResourceExhausted,
                    fmt::format("a chunk of {} bytes: at most {} are taken", piece.size, kMaxPiece));
    auto packed = fetch_range(registry_, blob_, piece.blob_first, piece.blob_end - piece.blob_first);
    if (!packed.ok()) return packed.error();
    auto bytes = unpack(*packed, piece);
    if (!bytes.ok()) return bytes.error();
    GF_RETURN_IF_ERROR(compare_digests(fmt::format("chunk at {}", piece.blob_first), piece.digest, digest_of(*bytes)));
    GF_RETURN_IF_ERROR(store_->put_span(blob_.digest, name, *bytes));
    return bytes;
  }

  // What follows the piece in its member or frame, or in those after it, is not looked at.
  Result<std::string> unpack(std::string_view packed, const TocPiece& piece) const {
    std::string out;
    uint64_t skip = piece.inner;
    const auto decompressor = make_decompressor(compression_);
    const Status s = decompressor->feed(packed, [&](std::string_view bytes) {
      const size_t over = std::min<uint64_t>(skip, bytes.size());
      skip -= over;
      out.append(bytes.substr(over, piece.size - out.size()));
      return out.size() < piece.size ? Status() : Status(Code::kCancelled, "enough");
    });
    if (!s.ok() && s.code() != Code::kCancelled) return s;
    return out;
  }

  Registry* registry_;
  ContentStore* store_;
  Descriptor blob_;
  Compression compression_;
  LayerTable table_;
  std::vector<const TocPiece*> pieces_;  // of table_
};

// Collects the entries of a tar, and the content of one of them.
class TableSink final : public TarSink {
 public:
  explicit TableSink(LayerTable* table) : table_(table) {}
  Status on_entry(const TarEntry& entry) override {
    TableFile f;
    f.type = entry.type;
    f.link = entry.link;
    f.size = entry.size;
    f.mode = entry.mode;
    f.tar_offset = entry.content_offset;
    return table_->add(entry.name, std::move(f));
  }
  Status on_content(std::string_view) override { return Status(); }
  Status on_entry_end() override { return Status(); }

 private:
  LayerTable* table_;
};

// A layer without a table of contents: the blob is in the store.
class WholeLayer final : public LazyLayer {
 public:
  WholeLayer(std::string path, Compression compression, UnpackLimits limits)
      : path_(std::move(path)), compression_(compression), limits_(limits) {}

  Status scan(const std::string& diff) {
    TableSink sink(&table_);
    TarReader reader(&sink);
    Sha256 hash;
    GF_RETURN_IF_ERROR(pass([&](std::string_view bytes) {
      hash.update(bytes);
      return reader.feed(bytes);
    }));
    GF_RETURN_IF_ERROR(reader.finish());
    return compare_digests("tar", diff, hash.finish());
  }

  const LayerTable& table() const override { return table_; }

  Status read(const TableFile& file, const ByteSink& sink) override {
    uint64_t at = 0;
    const uint64_t end = file.tar_offset + file.size;
    const Status s = pass([&](std::string_view bytes) {
      const uint64_t from = std::max(at, file.tar_offset);
      const uint64_t to = std::min<uint64_t>(at + bytes.size(), end);
      const std::string_view wanted = from < to ? bytes.substr(from - at, to - from) : std::string_view();
      at += bytes.size();
      if (!wanted.empty()) GF_RETURN_IF_ERROR(sink(wanted));
      return at < end ? Status() : Status(Code::kCancelled, "enough");
    });
    if (at >= end) return s.code() == Code::kCancelled ? Status() : s;
    return s.ok() ? Status(Code::kDataLoss, "the layer ended too early") : s;
  }

 private:
  Status pass(const Decompressor::Sink& sink) {
    const Fd fd(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) return system_status("reading " + path_, errno);
    const auto decompressor = make_decompressor(compression_);
    std::vector<char> buffer(kReadBytes);
    uint64_t made = 0;
    const auto limited = [&](std::string_view bytes) {
      made += bytes.size();
      if (made > limits_.max_bytes)
        return Status(Code::kResourceExhausted, fmt::format("unpacks to more than {} bytes", limits_.max_bytes));
      return sink(bytes);
    };
    while (true) {
      const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return system_status("reading " + path_, errno);
      if (n == 0) return decompressor->finish();
      GF_RETURN_IF_ERROR(decompressor->feed({buffer.data(), static_cast<size_t>(n)}, limited));
    }
  }

  std::string path_;
  Compression compression_;
  UnpackLimits limits_;
  LayerTable table_;
};

Status fetch_whole(Registry* registry, ContentStore* store, const Descriptor& blob) {
  if (store->has_blob(blob.digest)) return Status();
  CancelFlag never;
  auto ingest = BlobIngest::open(*store, blob, 0, &never);
  if (!ingest.ok()) return ingest.error();
  Sha256 hash;
  // From the begin: what an earlier try left was not looked at.
  uint64_t at = 0;
  GF_RETURN_IF_ERROR(registry->read_range(blob, 0, blob.size, false, [&](std::string_view bytes) {
    hash.update(bytes);
    const uint64_t have = (*ingest)->contiguous();
    const uint64_t end = at + bytes.size();
    const uint64_t fresh = end > have ? std::min<uint64_t>(end - have, bytes.size()) : 0;
    at = end;
    return fresh == 0 ? Status() : (*ingest)->write_in_order(bytes.substr(bytes.size() - fresh));
  }));
  const Status s = compare_digests("blob", blob.digest, hash.finish());
  if (s.ok()) return (*ingest)->commit();
  (*ingest)->discard();
  return s;
}

// The TOC of an eStargz as it is kept in the store: where it began in the blob, and its JSON.
struct KeptToc {
  uint64_t offset = 0;
  std::string json;
};

std::optional<KeptToc> kept_toc(const ContentStore& store, const std::string& layer, const std::string& toc_digest) {
  const std::string bytes = store.read_span(layer, kTocSpan, kMaxTableBytes + 16);
  KeptToc out;
  if (bytes.size() < 16) return std::nullopt;
  const auto [end, error] = std::from_chars(bytes.data(), bytes.data() + 16, out.offset, 16);
  if (error != std::errc() || end != bytes.data() + 16) return std::nullopt;
  out.json = bytes.substr(16);
  if (digest_of(out.json) != toc_digest) return std::nullopt;
  return out;
}

// The JSON inside the gzip member with a tar that holds it.
class TocSink final : public TarSink {
 public:
  Status on_entry(const TarEntry& entry) override {
    inside_ = entry.name == kTocName;
    if (inside_ && entry.size > kMaxTableBytes)
      return Status(Code::kResourceExhausted, fmt::format("stargz.index.json of {} bytes", entry.size));
    return Status();
  }
  Status on_content(std::string_view bytes) override {
    if (inside_) text.append(bytes);
    return Status();
  }
  Status on_entry_end() override { return Status(); }
  std::string text;

 private:
  bool inside_ = false;
};

bool has_toc(const Descriptor& blob) {
  return !blob.annotation(kTocDigest).empty() ||
         std::any_of(std::begin(kChunkedKeys), std::end(kChunkedKeys),
                     [&](const ChunkedKeys& k) { return !blob.annotation(k.checksum).empty(); });
}

}  // namespace

LazyImage::LazyImage(Registry* registry, ContentStore* store, const ResolvedImage& image, UnpackLimits limits)
    : registry_(registry),
      store_(store),
      digest_(image.manifest_digest),
      manifest_(image.manifest),
      diffs_(image.config.diff_ids),
      limits_(limits) {
  layers_.resize(manifest_.layers.size());
}
LazyImage::~LazyImage() = default;

Status LazyImage::read_soci_index() {
  if (index_read_) return Status();
  std::string digest(manifest_.annotation(kIndexDigest));
  const bool named = !digest.empty();
  if (!named) {
    auto found = find_soci_index(false);
    if (!found.ok()) return found.error().with_context("SOCI index");
    digest = std::move(*found);
  }
  if (digest.empty()) {
    index_read_ = true;
    return Status();
  }
  GF_RETURN_IF_ERROR(check_digest(digest).with_context(std::string(kIndexDigest)));
  pins_.push_back(store_->pin({digest}));
  auto bytes = store_->read_blob(digest, kMaxManifestBytes);
  if (!bytes.ok()) {
    auto fetched = registry_->manifest(digest);
    if (!fetched.ok()) return fetched.error().with_context("SOCI index");
    GF_RETURN_IF_ERROR(store_->put_blob(digest, fetched->bytes));
    bytes = std::move(fetched->bytes);
  }
  tables_.push_back(digest);
  auto document = parse_document(*bytes, "application/vnd.oci.image.manifest.v1+json");
  if (!document.ok()) return document.error().with_context("SOCI index");
  if (!named && document->manifest.subject != digest_)
    return Status(Code::kDataLoss, fmt::format("SOCI index {} is about \"{}\", not about {}", digest,
                                               document->manifest.subject.substr(0, 100), digest_));
  for (Descriptor& d : document->manifest.layers) {
    if (!d.annotation(kLayerDigest).empty()) ztocs_.push_back(std::move(d));
  }
  index_read_ = true;
  return Status();
}

// Of an image whose manifest names none. What the registry said is kept: it need not be there when the image is read.
Result<std::string> LazyImage::find_soci_index(bool anew) {
  const bool may_have_one = std::any_of(manifest_.layers.begin(), manifest_.layers.end(), [](const Descriptor& layer) {
    const auto kind = layer_kind(layer.media_type, false);
    return kind.ok() && kind->compression == Compression::kGzip && !has_toc(layer);
  });
  if (!may_have_one) return std::string();
  const std::string kept = anew ? std::string() : store_->read_span(digest_, kSociSpan, 200);
  if (kept == kNoIndex) return std::string();
  if (check_digest(kept).ok()) return kept;
  auto all = registry_->referrers(digest_);
  if (!all.ok()) return all.error();
  std::string found;
  for (const std::string_view type : kSociTypes) {
    const auto it =
        std::find_if(all->begin(), all->end(), [type](const Descriptor& d) { return d.artifact_type == type; });
    if (it == all->end()) continue;
    found = it->digest;
    break;
  }
  GF_RETURN_IF_ERROR(store_->put_span(digest_, kSociSpan, found.empty() ? std::string(kNoIndex) : found));
  return found;
}

Result<std::unique_ptr<LazyLayer>> LazyImage::open_soci(const Descriptor& blob, const Descriptor& ztoc) {
  pins_.push_back(store_->pin({ztoc.digest}));
  auto bytes = store_->read_blob(ztoc.digest, kMaxTableBytes);
  if (!bytes.ok()) {
    bytes = registry_->small_blob(ztoc, kMaxTableBytes);
    if (!bytes.ok()) return bytes.error().with_context("zTOC");
    GF_RETURN_IF_ERROR(store_->put_blob(ztoc.digest, *bytes));
  }
  tables_.push_back(ztoc.digest);
  auto parsed = parse_ztoc(*bytes);
  if (!parsed.ok()) return parsed.error().with_context("layer " + blob.digest);
  if (parsed->blob_bytes != blob.size)
    return Status(Code::kDataLoss, fmt::format("layer {}: the zTOC is of {} bytes, the layer has {}", blob.digest,
                                               parsed->blob_bytes, blob.size));
  return std::unique_ptr<LazyLayer>(std::make_unique<SociLayer>(registry_, store_, blob, std::move(*parsed)));
}

Result<std::unique_ptr<LazyLayer>> LazyImage::open_stargz(const Descriptor& blob) {
  const std::string digest(blob.annotation(kTocDigest));
  if (digest.empty() || blob.size < kStargzFooter) return std::unique_ptr<LazyLayer>();
  GF_RETURN_IF_ERROR(check_digest(digest).with_context(std::string(kTocDigest)));
  if (const auto kept = kept_toc(*store_, blob.digest, digest); kept) {
    auto table = parse_stargz_toc(kept->json, kept->offset);
    if (table.ok())
      return std::unique_ptr<LazyLayer>(
          std::make_unique<TocLayer>(registry_, store_, blob, Compression::kGzip, std::move(*table)));
  }
  const uint64_t tail_bytes = std::min<uint64_t>(kTail, blob.size);
  auto tail = fetch_range(registry_, blob, blob.size - tail_bytes, tail_bytes);
  if (!tail.ok()) return tail.error();
  const auto offset = parse_stargz_footer(std::string_view(*tail).substr(tail->size() - kStargzFooter));
  if (!offset.ok()) return std::unique_ptr<LazyLayer>();
  if (*offset >= blob.size - kStargzFooter)
    return Status(Code::kDataLoss, fmt::format("layer {}: the TOC lies outside of it", blob.digest));
  std::string packed = std::move(*tail);
  const uint64_t have_from = blob.size - tail_bytes;
  if (*offset < have_from) {
    auto before = fetch_range(registry_, blob, *offset, have_from - *offset);
    if (!before.ok()) return before.error();
    packed.insert(0, *before);
  } else {
    packed.erase(0, *offset - have_from);
  }
  packed.resize(packed.size() - kStargzFooter);
  TocSink sink;
  TarReader reader(&sink);
  uint64_t made = 0;
  const auto decompressor = make_decompressor(Compression::kGzip);
  GF_RETURN_IF_ERROR(decompressor->feed(packed, [&](std::string_view bytes) {
    made += bytes.size();
    if (made > kMaxTableBytes + (1u << 20)) return Status(Code::kResourceExhausted, "the TOC is too large");
    return reader.feed(bytes);
  }));
  GF_RETURN_IF_ERROR(compare_digests("stargz.index.json", digest, digest_of(sink.text)));
  auto table = parse_stargz_toc(sink.text, *offset);
  if (!table.ok()) return table.error().with_context("layer " + blob.digest);
  GF_RETURN_IF_ERROR(store_->put_span(blob.digest, kTocSpan, fmt::format("{:016x}", *offset) + sink.text));
  return std::unique_ptr<LazyLayer>(
      std::make_unique<TocLayer>(registry_, store_, blob, Compression::kGzip, std::move(*table)));
}

// The digest is that of the TOC as it is packed.
Result<std::unique_ptr<LazyLayer>> LazyImage::open_chunked(const Descriptor& blob) {
  const auto keys = std::find_if(std::begin(kChunkedKeys), std::end(kChunkedKeys),
                                 [&](const ChunkedKeys& k) { return !blob.annotation(k.checksum).empty(); });
  if (keys == std::end(kChunkedKeys)) return std::unique_ptr<LazyLayer>();
  const std::string digest(blob.annotation(keys->checksum));
  GF_RETURN_IF_ERROR(check_digest(digest).with_context(std::string(keys->checksum)));
  const std::string_view position = blob.annotation(keys->position);
  std::string packed = store_->read_span(blob.digest, kTocSpan, kMaxTableBytes);
  Result<ChunkedToc> place = Status();
  if (!position.empty()) {
    place = parse_chunked_position(position, blob.size);
  } else {
    const uint64_t tail_bytes = std::min<uint64_t>(kChunkedFooter, blob.size);
    auto tail = fetch_range(registry_, blob, blob.size - tail_bytes, tail_bytes);
    if (!tail.ok()) return tail.error();
    place = parse_chunked_footer(*tail, blob.size);
  }
  if (!place.ok() && (place.error().code() == Code::kUnimplemented || place.error().code() == Code::kNotFound))
    return std::unique_ptr<LazyLayer>();
  if (!place.ok()) return place.error().with_context("layer " + blob.digest);
  if (digest_of(packed) != digest) {
    auto fetched = fetch_range(registry_, blob, place->offset, place->packed);
    if (!fetched.ok()) return fetched.error();
    GF_RETURN_IF_ERROR(compare_digests("layer " + blob.digest + ": table of contents", digest, digest_of(*fetched)));
    packed = std::move(*fetched);
    GF_RETURN_IF_ERROR(store_->put_span(blob.digest, kTocSpan, packed));
  }
  std::string json;
  const auto decompressor = make_decompressor(Compression::kZstd);
  GF_RETURN_IF_ERROR(decompressor
                         ->feed(packed,
                                [&](std::string_view bytes) {
                                  json.append(bytes);
                                  return json.size() <= place->unpacked
                                             ? Status()
                                             : Status(Code::kDataLoss, "the table is larger than it says");
                                })
                         .with_context("layer " + blob.digest));
  auto table = parse_stargz_toc(json, place->offset - 8);  // the skippable frame's own header
  if (!table.ok()) return table.error().with_context("layer " + blob.digest);
  return std::unique_ptr<LazyLayer>(
      std::make_unique<TocLayer>(registry_, store_, blob, Compression::kZstd, std::move(*table)));
}

Result<std::unique_ptr<LazyLayer>> LazyImage::open_layer(size_t index) {
  const Descriptor& blob = manifest_.layers[index];
  const auto kind = layer_kind(blob.media_type, false);
  if (!kind.ok()) return kind.error();
  GF_RETURN_IF_ERROR(read_soci_index());
  for (const Descriptor& ztoc : ztocs_) {
    if (ztoc.annotation(kLayerDigest) == blob.digest && kind->compression == Compression::kGzip)
      return open_soci(blob, ztoc);
  }
  auto by_toc = kind->compression == Compression::kZstd ? open_chunked(blob) : open_stargz(blob);
  if (!by_toc.ok() || *by_toc != nullptr) return by_toc;
  if (kind->foreign) return Status(Code::kUnimplemented, fmt::format("layer {} is not in this registry", blob.digest));
  log_info("image", fmt::format("layer {} has no table of contents: fetched whole", blob.digest));
  GF_RETURN_IF_ERROR(fetch_whole(registry_, store_, blob));
  if (index >= diffs_.size()) return invalid_argument("image configuration: rootfs.diff_ids: too few entries");
  auto whole = std::make_unique<WholeLayer>(store_->blob_path(blob.digest), kind->compression, limits_);
  GF_RETURN_IF_ERROR(whole->scan(diffs_[index]).with_context("layer " + blob.digest));
  return std::unique_ptr<LazyLayer>(std::move(whole));
}

Result<LazyLayer*> LazyImage::layer(size_t index) {
  if (layers_[index] == nullptr) {
    auto opened = open_layer(index);
    if (!opened.ok()) return not_to_be_had(opened.error());
    layers_[index] = std::move(*opened);
  }
  return layers_[index].get();
}

Status LazyImage::prepare() {
  if (manifest_.annotation(kIndexDigest).empty()) {
    const auto found = find_soci_index(true);
    if (!found.ok()) return found.error().with_context("SOCI index");
  }
  GF_RETURN_IF_ERROR(read_soci_index());
  for (size_t i = manifest_.layers.size(); i-- > 0;) {
    const Descriptor& blob = manifest_.layers[i];
    const bool soci = std::any_of(ztocs_.begin(), ztocs_.end(),
                                  [&](const Descriptor& z) { return z.annotation(kLayerDigest) == blob.digest; });
    if (!soci && !has_toc(blob)) continue;  // fetched when a search gets to it
    auto opened = layer(i);
    if (!opened.ok()) return opened.error();
  }
  return Status();
}

Result<LazyImage::Found> LazyImage::find(const std::string& path) {
  // A folder that only stands in the names of others is one, too.
  static const TableFile kImplied = [] {
    TableFile f;
    f.type = TarType::kDirectory;
    return f;
  }();
  auto parts = split_path(path);
  if (!parts.ok()) return parts.error();
  for (size_t i = layers_.size(); i-- > 0;) {
    auto opened = layer(i);
    if (!opened.ok()) return opened.error();
    const LayerTable& table = (*opened)->table();
    if (const auto it = table.files.find(path); it != table.files.end()) return Found{i, &it->second};
    const auto next = table.files.lower_bound(path + "/");
    if (next != table.files.end() && next->first.starts_with(path + "/")) return Found{i, &kImplied};
    for (size_t n = 0; n <= parts->size(); ++n) {
      const std::string above = join_parts(*parts, n);
      const auto it = table.files.find(above);
      const bool replaced = n < parts->size() && it != table.files.end() && it->second.type != TarType::kDirectory;
      const bool hidden = table.whiteouts.contains(above) || (n < parts->size() && table.opaque.contains(above));
      if (replaced || hidden) return not_found(fmt::format("{}: no such file in the image", shown(path)));
    }
  }
  return not_found(fmt::format("{}: no such file in the image", shown(path)));
}

Result<LazyImage::Found> LazyImage::resolve(std::string_view asked) {
  auto parts = split_path(asked);
  if (!parts.ok()) return parts.error();
  std::vector<std::string> left = std::move(*parts);
  std::vector<std::string> done;
  Found found;
  int links = 0;
  while (!left.empty()) {
    const std::string part = left.front();
    left.erase(left.begin());
    if (part == "..") {
      if (!done.empty()) done.pop_back();
      continue;
    }
    done.push_back(part);
    auto here = find(join_parts(done, done.size()));
    if (!here.ok()) return here.error();
    found = *here;
    if (found.file->type != TarType::kSymlink) continue;
    if (++links > kMaxLinks) return invalid_argument(fmt::format("{}: more than {} links", shown(asked), kMaxLinks));
    const std::string& target = found.file->link;
    if (!target.empty() && target[0] == '/') {
      done.clear();
    } else {
      done.pop_back();
    }
    std::vector<std::string> next;
    for (size_t at = 0; at <= target.size();) {
      const size_t slash = std::min(target.find('/', at), target.size());
      const std::string piece = target.substr(at, slash - at);
      if (!piece.empty() && piece != ".") next.push_back(piece);
      at = slash + 1;
    }
    next.insert(next.end(), left.begin(), left.end());
    if (next.size() > RootFolder::kMaxDepth) return invalid_argument(fmt::format("{}: too deep", shown(asked)));
    left = std::move(next);
  }
  if (found.file == nullptr) return invalid_argument(fmt::format("{} is a folder", shown(asked)));
  return found;
}

Result<bool> LazyImage::fetch_next() {
  for (; next_layer_ < layers_.size(); ++next_layer_, next_piece_ = 0) {
    const bool opened_before = layers_[next_layer_] != nullptr;
    auto opened = layer(next_layer_);
    if (!opened.ok()) return opened.error();
    LazyLayer& from = **opened;
    if (!opened_before && from.pieces() == 0) return true;  // it was fetched as a whole
    while (next_piece_ < from.pieces() && from.has_piece(next_piece_)) ++next_piece_;
    if (next_piece_ == from.pieces()) continue;
    GF_RETURN_IF_ERROR(from.fetch_piece(next_piece_));
    ++next_piece_;
    return true;
  }
  return false;
}

Status LazyImage::read(std::string_view path, const ByteSink& sink) {
  auto found = resolve(path);
  if (!found.ok()) return found.error();
  if (found->file->type == TarType::kHardlink) {  // of the same layer
    auto opened = layer(found->layer);
    if (!opened.ok()) return opened.error();
    const auto& files = (*opened)->table().files;
    const auto it = files.find(found->file->link);
    if (it == files.end()) return not_found(fmt::format("{}: a hard link to nothing", shown(path)));
    found->file = &it->second;
  }
  if (found->file->type != TarType::kFile) return invalid_argument(fmt::format("{} is no regular file", shown(path)));
  if (found->file->size > limits_.max_bytes)
    return Status(Code::kResourceExhausted, fmt::format("{} has {} bytes: at most {} are taken", shown(path),
                                                        found->file->size, limits_.max_bytes));
  auto opened = layer(found->layer);
  if (!opened.ok()) return opened.error();
  const Status s = (*opened)->read(*found->file, sink);
  return s.ok() ? s : not_to_be_had(s);
}

}  // namespace ghostfleet::image
