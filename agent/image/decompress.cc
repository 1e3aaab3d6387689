#include "agent/image/decompress.h"

#include <fmt/format.h>
#include <isa-l/igzip_lib.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <vector>

namespace ghostfleet::image {
namespace {

constexpr size_t kOutBytes = 256 * 1024;  // small enough to stay in a core's cache on its way to the hash and the disk
constexpr size_t kMaxPiece = 1u << 30;    // isa-l counts in 32 bits

Status corrupt(std::string_view what, std::string_view why) {
  return Status(Code::kDataLoss, fmt::format("{}: {}", what, why));
}

class Plain final : public Decompressor {
 public:
  Status feed(std::string_view bytes, const Sink& sink) override { return sink(bytes); }
  Status finish() override { return Status(); }
};

class Gzip final : public Decompressor {
 public:
  Gzip() : state_(std::make_unique<inflate_state>()), out_(kOutBytes) { begin_member(); }

  Status feed(std::string_view bytes, const Sink& sink) override {
    while (!bytes.empty()) {
      const std::string_view piece = bytes.substr(0, kMaxPiece);
      bytes.remove_prefix(piece.size());
      GF_RETURN_IF_ERROR(feed_piece(piece, sink));
    }
    return Status();
  }

  Status finish() override { return between_members_ && members_ > 0 ? Status() : corrupt("gzip", "cut off"); }

 private:
  void begin_member() {
    isal_inflate_init(state_.get());
    state_->crc_flag = ISAL_GZIP;
    between_members_ = true;
  }

  Status feed_piece(std::string_view piece, const Sink& sink) {
    state_->next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(piece.data()));
    state_->avail_in = static_cast<uint32_t>(piece.size());
    while (true) {
      if (between_members_ && !begin_if_there_is_more()) return Status();
      GF_RETURN_IF_ERROR(inflate_some(sink));
      if (state_->block_state == ISAL_BLOCK_FINISH) {
        ++members_;
        restart();
      } else if (state_->avail_in == 0 && state_->avail_out != 0) {
        return Status();
      }
    }
  }

  // Zeros after the last member are padding, as gzip itself takes them.
  bool begin_if_there_is_more() {
    while (members_ > 0 && state_->avail_in > 0 && *state_->next_in == 0) {
      ++state_->next_in;
      --state_->avail_in;
    }
    if (state_->avail_in == 0) return false;
    between_members_ = false;
    return true;
  }

  Status inflate_some(const Sink& sink) {
    state_->next_out = reinterpret_cast<uint8_t*>(out_.data());
    state_->avail_out = static_cast<uint32_t>(out_.size());
    const uint32_t before = state_->avail_in;
    const int code = isal_inflate(state_.get());
    if (code == ISAL_INCORRECT_CHECKSUM) return corrupt("gzip", "wrong checksum");
    if (code == ISAL_INVALID_WRAPPER || code == ISAL_UNSUPPORTED_METHOD) return corrupt("gzip", "no gzip header");
    if (code < 0 || code == ISAL_NEED_DICT) return corrupt("gzip", "corrupt data");
    const size_t made = out_.size() - state_->avail_out;
    if (made > 0) return sink({out_.data(), made});
    const bool moved = state_->avail_in != before || before == 0 || state_->block_state == ISAL_BLOCK_FINISH;
    return moved ? Status() : corrupt("gzip", "corrupt data");
  }

  void restart() {
    uint8_t* const next = state_->next_in;
    const uint32_t left = state_->avail_in;
    isal_inflate_reset(state_.get());
    state_->crc_flag = ISAL_GZIP;
    state_->next_in = next;
    state_->avail_in = left;
    between_members_ = true;
  }

  std::unique_ptr<inflate_state> state_;
  std::vector<char> out_;
  bool between_members_ = true;
  uint64_t members_ = 0;
};

class Zstd final : public Decompressor {
 public:
  Zstd() : stream_(ZSTD_createDStream()), out_(kOutBytes) { ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, 27); }
  ~Zstd() override { ZSTD_freeDStream(stream_); }
  Zstd(const Zstd&) = delete;
  Zstd& operator=(const Zstd&) = delete;

  Status feed(std::string_view bytes, const Sink& sink) override {
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    bool more = true;
    while (in.pos < in.size || more) {
      ZSTD_outBuffer out{out_.data(), out_.size(), 0};
      const size_t left = ZSTD_decompressStream(stream_, &out, &in);
      if (ZSTD_isError(left) != 0) return corrupt("zstd", ZSTD_getErrorName(left));
      in_frame_ = left != 0;
      started_ = true;
      more = out.pos == out.size;
      if (out.pos > 0) GF_RETURN_IF_ERROR(sink({out_.data(), out.pos}));
    }
    return Status();
  }

  Status finish() override { return started_ && !in_frame_ ? Status() : corrupt("zstd", "cut off"); }

 private:
  ZSTD_DStream* stream_;
  std::vector<char> out_;
  bool in_frame_ = false, started_ = false;
};

struct Inflater {
  z_stream stream{};
  ~Inflater() { inflateEnd(&stream); }
};

}  // namespace

std::unique_ptr<Decompressor> make_decompressor(Compression compression) {
  switch (compression) {
    case Compression::kGzip: return std::make_unique<Gzip>();
    case Compression::kZstd: return std::make_unique<Zstd>();
    default: return std::make_unique<Plain>();
  }
}

Status inflate_from(std::string_view bytes, int bits, std::string_view window, uint64_t skip, uint64_t length,
                    const Decompressor::Sink& sink) {
  Inflater in;
  if (inflateInit2(&in.stream, -MAX_WBITS) != Z_OK) return Status(Code::kResourceExhausted, "no memory to inflate");
  if (bits != 0) {
    if (bytes.empty() || bits < 0 || bits > 7) return corrupt("span", "no first byte");
    inflatePrime(&in.stream, bits, static_cast<unsigned char>(bytes[0]) >> (8 - bits));
    bytes.remove_prefix(1);
  }
  if (!window.empty())
    inflateSetDictionary(&in.stream, reinterpret_cast<const Bytef*>(window.data()), static_cast<uInt>(window.size()));
  in.stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  in.stream.avail_in = static_cast<uInt>(bytes.size());
  std::vector<char> out(kOutBytes);
  while (length > 0) {
    in.stream.next_out = reinterpret_cast<Bytef*>(out.data());
    in.stream.avail_out = static_cast<uInt>(out.size());
    const int code = inflate(&in.stream, Z_NO_FLUSH);
    std::string_view made(out.data(), out.size() - in.stream.avail_out);
    const size_t over = std::min<uint64_t>(skip, made.size());
    made.remove_prefix(over);
    skip -= over;
    made = made.substr(0, length);
    length -= made.size();
    if (!made.empty()) GF_RETURN_IF_ERROR(sink(made));
    const bool ended = code == Z_STREAM_END || (in.stream.avail_in == 0 && in.stream.avail_out != 0);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) return corrupt("span", "corrupt data");
    if (ended && length > 0) return corrupt("span", fmt::format("{} bytes are missing at its end", length));
  }
  return Status();
}

}  // namespace ghostfleet::image
