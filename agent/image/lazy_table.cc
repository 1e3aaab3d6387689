#include "agent/image/lazy_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "agent/image/digest.h"
#include "agent/image/layer_unpacker.h"
#include "agent/image/root_folder.h"
#include "kube/api/json.h"

namespace ghostfleet::image {
namespace {

constexpr size_t kWindow = 32768;
constexpr size_t kCheckpoint = 8 + 8 + 1 + kWindow;
constexpr uint64_t kMaxBlob = 1ull << 40;
constexpr uint64_t kMaxInner = 1ull << 30;  // of a member or frame, before a piece

Status broken(std::string_view what) { return Status(Code::kDataLoss, fmt::format("zTOC: {}", what)); }

template <class T>
T load(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// A table of a FlatBuffer; every access is checked, and what is missing or wrong reads as nothing.
class FlatTable {
 public:
  FlatTable(std::string_view all, size_t at) : all_(all), at_(at) {
    if (!inside(at, 4)) return;
    const int64_t vtable = static_cast<int64_t>(at) - load<int32_t>(all, at);
    if (vtable < 0 || !inside(static_cast<size_t>(vtable), 4)) return;
    const size_t bytes = load<uint16_t>(all, static_cast<size_t>(vtable));
    if (bytes < 4 || !inside(static_cast<size_t>(vtable), bytes)) return;
    vtable_ = static_cast<size_t>(vtable);
    fields_ = (bytes - 4) / 2;
  }
  bool good() const { return vtable_ != 0 || fields_ != 0; }

  template <class T>
  T number(size_t field, T fallback) const {
    const size_t at = place(field, sizeof(T));
    return at == 0 ? fallback : load<T>(all_, at);
  }
  std::string_view text(size_t field) const { return text_at(place(field, 4)); }
  FlatTable table(size_t field) const { return FlatTable(all_, follow(place(field, 4))); }
  // Elements of a list of tables or texts.
  size_t list_size(size_t field, size_t element_bytes) const {
    const size_t at = follow(place(field, 4));
    if (at == 0 || !inside(at, 4)) return 0;
    const uint64_t count = load<uint32_t>(all_, at);
    return inside(at + 4, count * element_bytes) ? count : 0;
  }
  FlatTable list_table(size_t field, size_t i) const { return FlatTable(all_, follow(element(field, i))); }
  std::string_view list_text(size_t field, size_t i) const { return text_at(element(field, i)); }

 private:
  bool inside(size_t at, uint64_t bytes) const { return at <= all_.size() && bytes <= all_.size() - at; }
  size_t place(size_t field, size_t bytes) const {
    if (field >= fields_) return 0;
    const size_t offset = load<uint16_t>(all_, vtable_ + 4 + field * 2);
    return offset != 0 && inside(at_ + offset, bytes) ? at_ + offset : 0;
  }
  size_t follow(size_t at) const {
    if (at == 0) return 0;
    const size_t to = at + load<uint32_t>(all_, at);
    return inside(to, 4) ? to : 0;
  }
  size_t element(size_t field, size_t i) const {
    const size_t at = follow(place(field, 4));
    return i < list_size(field, 4) ? at + 4 + i * 4 : 0;
  }
  std::string_view text_at(size_t at) const {
    const size_t to = follow(at);
    if (to == 0) return {};
    const uint64_t size = load<uint32_t>(all_, to);
    return inside(to + 4, size) ? all_.substr(to + 4, size) : std::string_view();
  }

  std::string_view all_;
  size_t at_;
  size_t vtable_ = 0, fields_ = 0;
};

// Numbers of the fields in the schema.
enum ZtocField : size_t { kCompressedSize = 2, kUncompressedSize = 3, kToc = 4, kInfo = 5 };
enum InfoField : size_t { kAlgorithm = 0, kMaxSpan = 1, kSpanDigests = 2, kCheckpoints = 3 };
enum FileField : size_t { kName = 0, kType = 1, kOffset = 2, kSize = 3, kLinkName = 4, kMode = 5 };

bool type_of(std::string_view name, TarType* out) {
  struct Row {
    std::string_view name;
    TarType type;
  };
  static constexpr Row kRows[] = {{"reg", TarType::kFile},        {"dir", TarType::kDirectory},
                                  {"symlink", TarType::kSymlink}, {"hardlink", TarType::kHardlink},
                                  {"char", TarType::kCharDevice}, {"block", TarType::kBlockDevice},
                                  {"fifo", TarType::kFifo}};
  for (const Row& row : kRows) {
    if (row.name != name) continue;
    *out = row.type;
    return true;
  }
  return false;
}

Status read_checkpoints(const FlatTable& info, Ztoc* out) {
  const std::string_view blob = info.text(kCheckpoints);  // bytes are laid out as a text is
  if (blob.size() < 12) return broken("no checkpoints");
  const uint32_t count = load<uint32_t>(blob, 0);
  if (count == 0 || count > kMaxTableFiles) return broken("no checkpoints");
  const uint64_t stored = (blob.size() - 12) / kCheckpoint;
  const bool first_left_out = stored + 1 == count;  // an old form: the first begins after a plain gzip header
  if ((blob.size() - 12) % kCheckpoint != 0 || (stored != count && !first_left_out))
    return broken(fmt::format("{} checkpoints in {} bytes", count, blob.size()));
  if (first_left_out) out->checkpoints.push_back({10, 0, 0, ""});
  for (uint64_t i = 0; i < stored; ++i) {
    const size_t at = 12 + i * kCheckpoint;
    Checkpoint c{load<uint64_t>(blob, at), load<uint64_t>(blob, at + 8), blob[at + 16] & 0xff,
                 std::string(blob.substr(at + 17, kWindow))};
    if (c.tar == 0) c.window.clear();
    const bool after =
        out->checkpoints.empty() || (c.blob > out->checkpoints.back().blob && c.tar >= out->checkpoints.back().tar);
    if (c.bits > 7 || c.blob == 0 || c.blob > out->blob_bytes || c.tar > out->tar_bytes || !after)
      return broken(fmt::format("checkpoint {} is out of place", out->checkpoints.size()));
    out->checkpoints.push_back(std::move(c));
  }
  if (out->checkpoints.front().tar != 0) return broken("the first checkpoint is not at the begin");
  return Status();
}

Status read_span_digests(const FlatTable& info, Ztoc* out) {
  const size_t count = info.list_size(kSpanDigests, 4);
  if (count != out->checkpoints.size() || info.number<int32_t>(kMaxSpan, 0) + 1 != static_cast<int64_t>(count))
    return broken(fmt::format("{} spans, {} digests", out->checkpoints.size(), count));
  for (size_t i = 0; i < count; ++i) {
    out->span_digests.emplace_back(info.list_text(kSpanDigests, i));
    GF_RETURN_IF_ERROR(check_digest(out->span_digests.back()).with_context("zTOC: span"));
  }
  return Status();
}

Status read_files(const FlatTable& toc, Ztoc* out) {
  const size_t count = toc.list_size(0, 4);
  if (count > kMaxTableFiles) return Status(Code::kResourceExhausted, fmt::format("zTOC: {} files", count));
  for (size_t i = 0; i < count; ++i) {
    const FlatTable row = toc.list_table(0, i);
    TableFile f;
    if (!type_of(row.text(kType), &f.type)) return broken(fmt::format("files[{}].type", i));
    const int64_t offset = row.number<int64_t>(kOffset, 0);
    const int64_t size = row.number<int64_t>(kSize, 0);
    if (offset < 0 || size < 0 || static_cast<uint64_t>(size) > out->tar_bytes ||
        static_cast<uint64_t>(offset) > out->tar_bytes - static_cast<uint64_t>(size))
      return broken(fmt::format("files[{}] lies outside of the layer", i));
    f.link = row.text(kLinkName);
    f.mode = static_cast<uint32_t>(row.number<int64_t>(kMode, 0)) & 07777;
    f.tar_offset = static_cast<uint64_t>(offset);
    f.size = f.type == TarType::kFile ? static_cast<uint64_t>(size) : 0;
    GF_RETURN_IF_ERROR(out->table.add(row.text(kName), std::move(f)).with_context("zTOC"));
  }
  return Status();
}

Status wrong_toc(size_t i, std::string_view what) {
  return Status(Code::kDataLoss, fmt::format("stargz.index.json: entries[{}].{}", i, what));
}

// An entry's piece; its end in the blob is found when all begins are known.
Status read_piece(const kube::Json& entry, size_t i, uint64_t toc_offset, uint64_t file_size, TocPiece* out) {
  const int64_t offset = kube::get_int(entry, "offset", 0);
  const int64_t inner = kube::get_int(entry, "innerOffset", 0);
  const int64_t at = kube::get_int(entry, "chunkOffset", 0);
  const int64_t size = kube::get_int(entry, "chunkSize", 0);
  if (offset < 0 || static_cast<uint64_t>(offset) >= toc_offset) return wrong_toc(i, "offset");
  if (inner < 0 || static_cast<uint64_t>(inner) > kMaxInner) return wrong_toc(i, "innerOffset");
  if (at < 0 || static_cast<uint64_t>(at) >= file_size) return wrong_toc(i, "chunkOffset");
  const uint64_t left = file_size - static_cast<uint64_t>(at);
  if (size < 0 || static_cast<uint64_t>(size) > left) return wrong_toc(i, "chunkSize");
  out->blob_first = static_cast<uint64_t>(offset);
  out->inner = static_cast<uint64_t>(inner);
  out->file_offset = static_cast<uint64_t>(at);
  out->size = size == 0 ? left : static_cast<uint64_t>(size);
  out->digest = kube::get_string(entry, "chunkDigest");
  out->zeros = kube::get_string(entry, "chunkType") == "zeros";
  // A file of one piece need not say it twice.
  if (out->digest.empty() && out->size == file_size) out->digest = kube::get_string(entry, "digest");
  if (out->zeros && out->digest.empty()) return Status();
  return check_digest(out->digest).with_context(fmt::format("stargz.index.json: entries[{}].chunkDigest", i));
}

// Pieces stand in order and cover the file.
bool covered(const TableFile& f) {
  uint64_t at = 0;
  for (const TocPiece& p : f.pieces) {
    if (p.file_offset != at) return false;
    at += p.size;
  }
  return at == f.size;
}

}  // namespace

Status LayerTable::add(std::string_view name, TableFile file) {
  auto parts = split_path(name);
  if (!parts.ok()) return parts.error();
  if (parts->empty()) return Status();  // the root
  if (files.size() + whiteouts.size() >= kMaxTableFiles)
    return Status(Code::kResourceExhausted, fmt::format("more than {} files", kMaxTableFiles));
  const std::string folder = join_parts(*parts, parts->size() - 1);
  switch (whiteout_kind(parts->back())) {
    case WhiteoutKind::kOpaque: opaque.insert(folder); return Status();
    case WhiteoutKind::kOther: return Status();
    case WhiteoutKind::kWhiteout: {
      const std::string gone = parts->back().substr(kWhiteoutPrefix.size());
      whiteouts.insert(folder.empty() ? gone : folder + "/" + gone);
      return Status();
    }
    default: break;
  }
  if (file.type == TarType::kHardlink) {
    auto target = split_path(file.link);
    if (!target.ok()) return target.error();
    file.link = join_parts(*target, target->size());
  }
  files[join_parts(*parts, parts->size())] = std::move(file);
  return Status();
}

uint64_t Ztoc::span_end(size_t span) const {
  return span + 1 < checkpoints.size() ? checkpoints[span + 1].blob : blob_bytes;
}

size_t Ztoc::span_at(uint64_t tar_offset) const {
  const auto it = std::upper_bound(checkpoints.begin(), checkpoints.end(), tar_offset,
                                   [](uint64_t offset, const Checkpoint& c) { return offset < c.tar; });
  return static_cast<size_t>(it - checkpoints.begin()) - 1;
}

Result<Ztoc> parse_ztoc(std::string_view bytes) {
  if (bytes.size() > kMaxTableBytes)
    return Status(Code::kResourceExhausted,
                  fmt::format("zTOC of {} bytes: at most {} are taken", bytes.size(), kMaxTableBytes));
  if (bytes.size() < 8) return broken("too short");
  const FlatTable root(bytes, load<uint32_t>(bytes, 0));
  if (!root.good()) return broken("no root table");
  Ztoc out;
  const int64_t blob_bytes = root.number<int64_t>(kCompressedSize, 0);
  const int64_t tar_bytes = root.number<int64_t>(kUncompressedSize, 0);
  if (blob_bytes <= 0 || static_cast<uint64_t>(blob_bytes) > kMaxBlob || tar_bytes < 0 ||
      static_cast<uint64_t>(tar_bytes) > kMaxBlob * 1100)
    return broken("sizes of the layer");
  out.blob_bytes = static_cast<uint64_t>(blob_bytes);
  out.tar_bytes = static_cast<uint64_t>(tar_bytes);
  const FlatTable info = root.table(kInfo);
  if (!info.good()) return broken("no compression info");
  if (const int algorithm = info.number<int8_t>(kAlgorithm, 1); algorithm != 1)
    return Status(Code::kUnimplemented, fmt::format("zTOC: compression {} is not supported (1, gzip, is)", algorithm));
  GF_RETURN_IF_ERROR(read_checkpoints(info, &out));
  GF_RETURN_IF_ERROR(read_span_digests(info, &out));
  GF_RETURN_IF_ERROR(read_files(root.table(kToc), &out));
  return out;
}

Result<uint64_t> parse_stargz_footer(std::string_view footer) {
  // A gzip member without content: its extra field says where the TOC begins.
  constexpr std::string_view kHead("\x1f\x8b\x08\x04", 4);
  constexpr std::string_view kExtra("\x1a\x00SG\x16\x00", 6);
  const bool good = footer.size() == kStargzFooter && footer.starts_with(kHead) && footer.substr(10, 6) == kExtra &&
                    footer.substr(32, 6) == "STARGZ";
  if (!good) return not_found("no eStargz footer");
  const std::string_view digits = footer.substr(16, 16);
  uint64_t offset = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), offset, 16);
  if (error != std::errc() || end != digits.data() + digits.size()) return not_found("no eStargz footer");
  return offset;
}

Result<LayerTable> parse_stargz_toc(std::string_view json, uint64_t toc_offset) {
  if (json.size() > kMaxTableBytes)
    return Status(Code::kResourceExhausted,
                  fmt::format("stargz.index.json of {} bytes: at most {} are taken", json.size(), kMaxTableBytes));
  auto toc = kube::parse_json(json, {.max_depth = 32});
  if (!toc.ok()) return toc.error().with_context("stargz.index.json");
  const kube::JsonArray* entries = toc->is_object() ? kube::get_array(*toc, "entries") : nullptr;
  if (entries == nullptr) return invalid_argument("stargz.index.json: entries: a list is expected");
  if (entries->size() > kMaxTableFiles)
    return Status(Code::kResourceExhausted, fmt::format("stargz.index.json: {} entries", entries->size()));
  LayerTable out;
  std::set<uint64_t> begins{toc_offset};
  TableFile file;
  std::string name;
  const auto take_file = [&]() {
    if (name.empty()) return Status();
    if (!covered(file))
      return Status(Code::kDataLoss,
                    fmt::format("stargz.index.json: the chunks of {} do not cover it", name.substr(0, 200)));
    Status s = out.add(name, std::move(file)).with_context("stargz.index.json");
    name.clear();
    return s;
  };
  for (size_t i = 0; i < entries->size(); ++i) {
    const kube::Json& entry = (*entries)[i];
    if (!entry.is_object()) return wrong_toc(i, "an object is expected");
    const std::string_view type = kube::get_string(entry, "type");
    const int64_t size = kube::get_int(entry, "size", 0);
    if (type != "chunk") {
      GF_RETURN_IF_ERROR(take_file());
      file = TableFile();
      if (!type_of(type, &file.type)) return wrong_toc(i, "type");
      if (size < 0 || static_cast<uint64_t>(size) > kMaxBlob) return wrong_toc(i, "size");
      name = kube::get_string(entry, "name");
      file.size = file.type == TarType::kFile ? static_cast<uint64_t>(size) : 0;
      file.link = kube::get_string(entry, "linkName");
      file.mode = static_cast<uint32_t>(kube::get_int(entry, "mode")) & 07777;
    }
    if (file.size == 0) continue;
    TocPiece piece;
    GF_RETURN_IF_ERROR(read_piece(entry, i, toc_offset, file.size, &piece));
    if (!piece.zeros) begins.insert(piece.blob_first);
    file.pieces.push_back(std::move(piece));
  }
  GF_RETURN_IF_ERROR(take_file());
  for (auto& [path, one] : out.files) {
    for (TocPiece& p : one.pieces) p.blob_end = *begins.upper_bound(p.blob_first);
  }
  return out;
}

namespace {

Result<ChunkedToc> checked_chunked(ChunkedToc toc, uint64_t kind, uint64_t blob_bytes) {
  if (kind != 1)
    return Status(Code::kUnimplemented, fmt::format("zstd:chunked: a table of kind {} is not supported (1 is)", kind));
  if (toc.packed > kMaxTableBytes || toc.unpacked > kMaxTableBytes)
    return Status(Code::kResourceExhausted, fmt::format("zstd:chunked: a table of {} bytes: at most {} are taken",
                                                        std::max(toc.packed, toc.unpacked), kMaxTableBytes));
  const bool inside = toc.offset >= 8 && toc.offset <= blob_bytes && toc.packed <= blob_bytes - toc.offset;
  if (!inside || toc.packed == 0)
    return Status(Code::kDataLoss,
                  fmt::format("zstd:chunked: the table lies outside of the layer of {} bytes", blob_bytes));
  return toc;
}

}  // namespace

Result<ChunkedToc> parse_chunked_position(std::string_view text, uint64_t blob_bytes) {
  uint64_t numbers[4] = {};
  std::string_view left = text;
  for (uint64_t& number : numbers) {
    const auto [end, error] = std::from_chars(left.data(), left.data() + left.size(), number);
    const bool last = &number == &numbers[3];
    const size_t used = static_cast<size_t>(end - left.data());
    if (error != std::errc() || (last ? used != left.size() : used == left.size() || *end != ':'))
      return invalid_argument(fmt::format(
          "zstd:chunked: manifest-position \"{}\": OFFSET:PACKED:UNPACKED:1 is expected", text.substr(0, 100)));
    left.remove_prefix(last ? used : used + 1);
  }
  return checked_chunked({numbers[0], numbers[1], numbers[2]}, numbers[3], blob_bytes);
}

Result<ChunkedToc> parse_chunked_footer(std::string_view tail, uint64_t blob_bytes) {
  constexpr std::string_view kMagic = "GnUlInUx";
  constexpr std::string_view kSkippable("\x50\x2a\x4d\x18", 4);
  for (const size_t size : {size_t{64}, size_t{40}}) {
    if (tail.size() < size + 8 || !tail.ends_with(kMagic)) continue;
    const std::string_view frame = tail.substr(tail.size() - size - 8);
    if (!frame.starts_with(kSkippable) || load<uint32_t>(frame, 4) != size) continue;
    return checked_chunked({load<uint64_t>(frame, 8), load<uint64_t>(frame, 16), load<uint64_t>(frame, 24)},
                           load<uint64_t>(frame, 32), blob_bytes);
  }
  return not_found("no footer of a zstd:chunked");
}

}  // namespace ghostfleet::image
