#include "kube/stream/spdy_headers.h"

#include <zlib.h>

#include <algorithm>
#include <vector>

namespace ghostfleet::kube::stream {
namespace {

// What the window must hold is the dictionary and the few names that are used: little memory for each connection.
constexpr int kWindowBits = 11, kMemoryLevel = 1;

constexpr std::string_view kWords[] = {
    "options",
    "head",
    "post",
    "put",
    "delete",
    "trace",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-base",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "method",
    "get",
    "status",
    "200 OK",
    "version",
    "HTTP/1.1",
    "url",
    "public",
    "set-cookie",
    "keep-alive",
    "origin",
};

constexpr std::string_view kTail =
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

const Bytef* bytes_of(std::string_view text) { return reinterpret_cast<const Bytef*>(text.data()); }

}  // namespace

const std::string& spdy_dictionary() {
  static const std::string dictionary = [] {
    std::string out;
    for (const std::string_view word : kWords) {
      append_u32(static_cast<uint32_t>(word.size()), &out);
      out.append(word);
    }
    return out.append(kTail);
  }();
  return dictionary;
}

struct SpdyHeaderPacker::Zlib {
  z_stream stream{};
  ~Zlib() { deflateEnd(&stream); }
};

SpdyHeaderPacker::SpdyHeaderPacker() = default;
SpdyHeaderPacker::~SpdyHeaderPacker() = default;

void SpdyHeaderPacker::pack(const http::HeaderList& headers, std::string* out) {
  if (!zlib_) {
    zlib_ = std::make_unique<Zlib>();
    deflateInit2(&zlib_->stream, Z_BEST_COMPRESSION, Z_DEFLATED, kWindowBits, kMemoryLevel, Z_DEFAULT_STRATEGY);
    const std::string& dictionary = spdy_dictionary();
    deflateSetDictionary(&zlib_->stream, bytes_of(dictionary), static_cast<uInt>(dictionary.size()));
  }
  std::vector<std::pair<std::string_view, std::string>> fields;
  for (const auto& [name, value] : headers) {
    const auto same = std::find_if(fields.begin(), fields.end(),
                                   [&, n = std::string_view(name)](const auto& f) { return f.first == n; });
    if (same != fields.end())
      same->second.append(1, '\0').append(value);
    else
      fields.emplace_back(name, value);
  }
  std::string plain;
  append_u32(static_cast<uint32_t>(fields.size()), &plain);
  for (const auto& [name, value] : fields) {
    append_u32(static_cast<uint32_t>(name.size()), &plain);
    plain.append(name);
    append_u32(static_cast<uint32_t>(value.size()), &plain);
    plain.append(value);
  }
  z_stream& z = zlib_->stream;
  z.next_in = const_cast<Bytef*>(bytes_of(plain));
  z.avail_in = static_cast<uInt>(plain.size());
  Bytef buffer[512];
  do {
    z.next_out = buffer;
    z.avail_out = sizeof buffer;
    deflate(&z, Z_SYNC_FLUSH);
    out->append(reinterpret_cast<const char*>(buffer), sizeof buffer - z.avail_out);
  } while (z.avail_out == 0);
}

struct SpdyHeaderUnpacker::Zlib {
  z_stream stream{};
  ~Zlib() { inflateEnd(&stream); }
};

SpdyHeaderUnpacker::SpdyHeaderUnpacker(size_t max_bytes, size_t max_count)
    : max_bytes_(max_bytes), max_count_(max_count) {}
SpdyHeaderUnpacker::~SpdyHeaderUnpacker() = default;

Status SpdyHeaderUnpacker::inflate_block(std::string_view block) {
  if (!zlib_) {
    zlib_ = std::make_unique<Zlib>();
    inflateInit(&zlib_->stream);
  }
  plain_.clear();
  z_stream& z = zlib_->stream;
  z.next_in = const_cast<Bytef*>(bytes_of(block));
  z.avail_in = static_cast<uInt>(block.size());
  Bytef buffer[1024];
  while (true) {
    z.next_out = buffer;
    z.avail_out = sizeof buffer;
    int rc = ::inflate(&z, Z_SYNC_FLUSH);
    if (rc == Z_NEED_DICT) {
      const std::string& dictionary = spdy_dictionary();
      rc = inflateSetDictionary(&z, bytes_of(dictionary), static_cast<uInt>(dictionary.size()));
      if (rc == Z_OK) continue;
    }
    if (rc != Z_OK && rc != Z_BUF_ERROR) return Status(Code::kDataLoss, "SPDY: a header block does not inflate");
    plain_.append(reinterpret_cast<const char*>(buffer), sizeof buffer - z.avail_out);
    if (plain_.size() > max_bytes_) {
      return Status(Code::kResourceExhausted, "SPDY: headers of more than " + std::to_string(max_bytes_) + " bytes");
    }
    if (z.avail_out != 0) return Status();
  }
}

Status SpdyHeaderUnpacker::unpack(std::string_view block, http::HeaderList* out) {
  out->clear();
  GF_RETURN_IF_ERROR(inflate_block(block));
  const Status malformed(Code::kDataLoss, "SPDY: a header block is malformed");
  const Status too_many(Code::kResourceExhausted, "SPDY: more than " + std::to_string(max_count_) + " headers");
  std::string_view rest = plain_;
  const auto take = [&rest](std::string_view* field) {
    if (rest.size() < 4) return false;
    const uint32_t size = read_u32(rest, 0);
    rest.remove_prefix(4);
    if (size > rest.size()) return false;
    *field = rest.substr(0, size);
    rest.remove_prefix(size);
    return true;
  };
  if (rest.size() < 4) return malformed;
  const uint32_t count = read_u32(rest, 0);
  rest.remove_prefix(4);
  if (count > max_count_) return too_many;
  for (uint32_t i = 0; i < count; ++i) {
    std::string_view name, value;
    if (!take(&name) || !take(&value) || name.empty()) return malformed;
    std::string lower(name);
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    while (true) {
      const std::string_view one = value.substr(0, value.find('\0'));
      if (out->size() == max_count_) return too_many;
      out->append(lower, one);
      if (one.size() == value.size()) break;
      value.remove_prefix(one.size() + 1);
    }
  }
  return rest.empty() ? Status() : malformed;
}

}  // namespace ghostfleet::kube::stream
