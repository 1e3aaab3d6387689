#include "agent/image/tar_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace ghostfleet::image {
namespace {

constexpr size_t kBlock = 512;

struct Field {
  size_t at, size;
};
constexpr Field kName{0, 100}, kMode{100, 8}, kUid{108, 8}, kGid{116, 8}, kSize{124, 12}, kMtime{136, 12},
    kChecksum{148, 8}, kLink{157, 100}, kMagic{257, 8}, kPrefix{345, 155};
constexpr size_t kTypeAt = 156;

std::string_view raw(const char* block, Field f) { return {block + f.at, f.size}; }

std::string_view text(const char* block, Field f) {
  const std::string_view all = raw(block, f);
  return all.substr(0, all.find('\0'));
}

// Octal with spaces or zeros around it, or GNU's binary form (the first bit set).
bool number(const char* block, Field f, int64_t* out) {
  const std::string_view all = raw(block, f);
  if ((static_cast<unsigned char>(all[0]) & 0x80) != 0) {
    const bool negative = (static_cast<unsigned char>(all[0]) & 0x40) != 0;
    if (negative) return false;
    uint64_t value = static_cast<unsigned char>(all[0]) & 0x3f;
    for (size_t i = 1; i < all.size(); ++i) {
      if (value >> 54 != 0) return false;
      value = value << 8 | static_cast<unsigned char>(all[i]);
    }
    *out = static_cast<int64_t>(value);
    return true;
  }
  size_t at = 0;
  while (at < all.size() && all[at] == ' ') ++at;
  int64_t value = 0;
  while (at < all.size() && all[at] >= '0' && all[at] <= '7') value = value * 8 + (all[at++] - '0');
  *out = value;
  return at == all.size() || all[at] == ' ' || all[at] == '\0';
}

bool checksum_fits(const char* block) {
  int64_t wanted = 0;
  if (!number(block, kChecksum, &wanted)) return false;
  int64_t sum = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    const bool own = i >= kChecksum.at && i < kChecksum.at + kChecksum.size;
    sum += own ? ' ' : static_cast<unsigned char>(block[i]);
  }
  return sum == wanted;
}

bool all_zero(const char* block) {
  return std::all_of(block, block + kBlock, [](char c) { return c == '\0'; });
}

bool parse_unsigned(std::string_view value, uint64_t* out) {
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), *out);
  return error == std::errc() && end == value.data() + value.size() && !value.empty();
}

// "1767607200.123456789"
bool parse_mtime(std::string_view value, int64_t* seconds, uint32_t* nanoseconds) {
  const size_t dot = value.find('.');
  const std::string_view whole = value.substr(0, dot);
  const auto [end, error] = std::from_chars(whole.data(), whole.data() + whole.size(), *seconds);
  if (error != std::errc() || end != whole.data() + whole.size() || whole.empty()) return false;
  *nanoseconds = 0;
  if (dot == std::string_view::npos) return true;
  uint32_t unit = 100000000;
  for (const char c : value.substr(dot + 1)) {
    if (c < '0' || c > '9') return false;
    *nanoseconds += static_cast<uint32_t>(c - '0') * unit;
    unit /= 10;
  }
  return true;
}

std::string shown(std::string_view name) { return std::string(name.substr(0, 200)); }

}  // namespace

Status TarReader::take(std::string_view* bytes) {
  const size_t wanted = state_ == State::kHeader ? kBlock : 0;
  switch (state_) {
    case State::kHeader: {
      const size_t n = std::min(wanted - buffer_.size(), bytes->size());
      buffer_.append(bytes->substr(0, n));
      bytes->remove_prefix(n);
      position_ += n;
      if (buffer_.size() < kBlock) return Status();
      const std::string block = std::move(buffer_);
      buffer_.clear();
      return on_header(block.data());
    }
    case State::kContent: {
      const size_t n = std::min<uint64_t>(remaining_, bytes->size());
      GF_RETURN_IF_ERROR(sink_->on_content(bytes->substr(0, n)));
      bytes->remove_prefix(n);
      position_ += n;
      remaining_ -= n;
      return remaining_ == 0 ? end_content() : Status();
    }
    case State::kPadding: {
      const size_t n = std::min<uint64_t>(padding_, bytes->size());
      bytes->remove_prefix(n);
      position_ += n;
      padding_ -= n;
      if (padding_ == 0) state_ = State::kHeader;
      return Status();
    }
    case State::kEnd:
      position_ += bytes->size();
      bytes->remove_prefix(bytes->size());
      return Status();
    default: {
      const size_t n = std::min<uint64_t>(remaining_, bytes->size());
      buffer_.append(bytes->substr(0, n));
      bytes->remove_prefix(n);
      position_ += n;
      remaining_ -= n;
      return remaining_ == 0 ? extension_done() : Status();
    }
  }
}

Status TarReader::feed(std::string_view bytes) {
  while (!bytes.empty()) GF_RETURN_IF_ERROR(take(&bytes));
  return Status();
}

Status TarReader::finish() const {
  if (state_ == State::kEnd || (state_ == State::kHeader && buffer_.empty())) return Status();
  return Status(Code::kDataLoss, fmt::format("tar: cut off after {} bytes", position_));
}

Status TarReader::on_header(const char* block) {
  if (all_zero(block)) {
    state_ = State::kEnd;
    return Status();
  }
  if (!checksum_fits(block))
    return Status(Code::kDataLoss, fmt::format("tar: no header at offset {} (wrong checksum)", position_ - kBlock));
  int64_t size = 0;
  if (!number(block, kSize, &size) || size < 0)
    return Status(Code::kDataLoss, fmt::format("tar: {}: no size", shown(text(block, kName))));
  const char type = block[kTypeAt];
  const uint64_t bytes = static_cast<uint64_t>(size);
  switch (type) {
    case 'x': return on_extension(State::kPax, bytes);
    case 'g': return on_extension(State::kGlobalPax, bytes);
    case 'L': return on_extension(State::kLongName, bytes);
    case 'K': return on_extension(State::kLongLink, bytes);
    default: return begin_entry(block, type, bytes);
  }
}

Status TarReader::on_extension(State kind, uint64_t size) {
  const bool pax = kind == State::kPax || kind == State::kGlobalPax;
  const uint64_t limit = pax ? kMaxPax : kMaxName + 1;
  if (size > limit)
    return Status(Code::kResourceExhausted,
                  fmt::format("tar: an extended header of {} bytes at offset {}: at most {} are taken", size,
                              position_ - kBlock, limit));
  pax_bytes_ += size;
  if (pax_bytes_ > kMaxPax)
    return Status(Code::kResourceExhausted,
                  fmt::format("tar: extended headers of more than {} bytes for one entry", kMaxPax));
  padding_ = (kBlock - size % kBlock) % kBlock;
  remaining_ = size;
  state_ = kind;
  return size == 0 ? extension_done() : Status();
}

Status TarReader::extension_done() {
  const std::string body = std::move(buffer_);
  buffer_.clear();
  const State kind = state_;
  state_ = padding_ > 0 ? State::kPadding : State::kHeader;
  switch (kind) {
    case State::kPax: return apply_pax(body);
    case State::kLongName:
      pending_.name = body.substr(0, body.find('\0'));
      has_name_ = true;
      return Status();
    case State::kLongLink:
      pending_.link = body.substr(0, body.find('\0'));
      has_link_ = true;
      return Status();
    default: return Status();  // a global header: comments
  }
}

Status TarReader::apply_pax(std::string_view records) {
  while (!records.empty()) {
    uint64_t length = 0;
    const size_t space = records.find(' ');
    const bool readable = space != std::string_view::npos && parse_unsigned(records.substr(0, space), &length);
    if (!readable || length <= space + 1 || length > records.size() || records[length - 1] != '\n')
      return Status(Code::kDataLoss, "tar: a pax header that is none");
    const std::string_view record = records.substr(space + 1, length - space - 2);
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) return Status(Code::kDataLoss, "tar: a pax header without \"=\"");
    GF_RETURN_IF_ERROR(apply_pax_record(record.substr(0, equals), record.substr(equals + 1)));
    records.remove_prefix(length);
  }
  return Status();
}

Status TarReader::apply_pax_record(std::string_view key, std::string_view value) {
  const auto wrong = [&] {
    return Status(Code::kDataLoss, fmt::format("tar: pax header {}={} cannot be read", shown(key), shown(value)));
  };
  if (key == "path" || key == "linkpath") {
    if (value.size() > kMaxName)
      return Status(Code::kResourceExhausted,
                    fmt::format("tar: a name of {} bytes: at most {} are taken", value.size(), kMaxName));
    if (value.find('\0') != std::string_view::npos) return wrong();
    (key == "path" ? pending_.name : pending_.link) = value;
    (key == "path" ? has_name_ : has_link_) = true;
  } else if (key == "size") {
    if (!parse_unsigned(value, &pending_.size)) return wrong();
    has_size_ = true;
  } else if (key == "uid") {
    if (!parse_unsigned(value, &pending_.uid)) return wrong();
    has_uid_ = true;
  } else if (key == "gid") {
    if (!parse_unsigned(value, &pending_.gid)) return wrong();
    has_gid_ = true;
  } else if (key == "mtime") {
    if (!parse_mtime(value, &pending_.mtime_seconds, &pending_.mtime_nanoseconds)) return wrong();
    has_mtime_ = true;
  } else if (key.starts_with("SCHILY.xattr.")) {
    pending_.xattrs.emplace_back(key.substr(13), value);
  } else if (key.starts_with("GNU.sparse.")) {
    return Status(Code::kUnimplemented, "tar: sparse files are not supported");
  }
  return Status();
}

Status TarReader::begin_entry(const char* block, char type, uint64_t size) {
  TarEntry e = std::move(pending_);
  pending_ = TarEntry();
  pax_bytes_ = 0;
  if (!has_name_) {
    const bool ustar = raw(block, kMagic) == std::string_view(
                                                 "ustar\0"
                                                 "00",
                                                 8);
    const std::string_view prefix = ustar ? text(block, kPrefix) : std::string_view();
    e.name = prefix.empty() ? std::string(text(block, kName)) : fmt::format("{}/{}", prefix, text(block, kName));
  }
  if (!has_link_) e.link = text(block, kLink);
  if (!has_size_) e.size = size;
  int64_t mode = 0, uid = 0, gid = 0, mtime = 0;
  const bool readable = number(block, kMode, &mode) && number(block, kUid, &uid) && number(block, kGid, &gid) &&
                        number(block, kMtime, &mtime);
  if (!readable) return Status(Code::kDataLoss, fmt::format("tar: {}: a number that is none", shown(e.name)));
  e.mode = static_cast<uint32_t>(mode) & 07777;
  if (!has_uid_) e.uid = static_cast<uint64_t>(uid);
  if (!has_gid_) e.gid = static_cast<uint64_t>(gid);
  if (!has_mtime_) e.mtime_seconds = mtime;
  has_name_ = has_link_ = has_size_ = has_uid_ = has_gid_ = has_mtime_ = false;
  switch (type) {
    case '\0':
    case '0':
    case '7':
      // Before POSIX a folder was a file whose name ends with a slash.
      e.type = !e.name.empty() && e.name.back() == '/' ? TarType::kDirectory : TarType::kFile;
      break;
    case '1': e.type = TarType::kHardlink; break;
    case '2': e.type = TarType::kSymlink; break;
    case '3': e.type = TarType::kCharDevice; break;
    case '4': e.type = TarType::kBlockDevice; break;
    case '5': e.type = TarType::kDirectory; break;
    case '6': e.type = TarType::kFifo; break;
    case 'S':
      return Status(Code::kUnimplemented, fmt::format("tar: {}: sparse files are not supported", shown(e.name)));
    default:
      return Status(Code::kUnimplemented,
                    fmt::format("tar: {}: entries of type \"{}\" are not supported", shown(e.name),
                                type >= ' ' && type < 127 ? std::string(1, type) : "?"));
  }
  if (e.size > kMaxFile)
    return Status(Code::kResourceExhausted,
                  fmt::format("tar: {} of {} bytes: at most {} are taken", shown(e.name), e.size, kMaxFile));
  if (e.type != TarType::kFile) e.size = 0;
  e.content_offset = position_;
  remaining_ = e.size;
  padding_ = (kBlock - e.size % kBlock) % kBlock;
  GF_RETURN_IF_ERROR(sink_->on_entry(e));
  state_ = State::kContent;
  return remaining_ == 0 ? end_content() : Status();
}

Status TarReader::end_content() {
  state_ = padding_ > 0 ? State::kPadding : State::kHeader;
  return sink_->on_entry_end();
}

}  // namespace ghostfleet::image
