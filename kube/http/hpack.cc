#include "kube/http/hpack.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>

namespace ghostfleet::kube::http {

namespace {

// nghttp2 takes what it only reads as if it wrote to it.
uint8_t* bytes_of(std::string_view text) { return reinterpret_cast<uint8_t*>(const_cast<char*>(text.data())); }

std::string_view text_of(const uint8_t* data, size_t size) {
  return std::string_view(reinterpret_cast<const char*>(data), size);
}

}  // namespace

HeaderEncoder::HeaderEncoder() { nghttp2_hd_deflate_new(&deflater_, kDefaultHeaderTable); }

HeaderEncoder::~HeaderEncoder() { nghttp2_hd_deflate_del(deflater_); }

void HeaderEncoder::set_table_size(uint32_t bytes) {
  nghttp2_hd_deflate_change_table_size(deflater_, std::min(bytes, kDefaultHeaderTable));
}

void HeaderEncoder::encode(const std::vector<HeaderField>& fields, std::string* out) {
  thread_local std::vector<nghttp2_nv> block;  // its memory serves all connections of a thread
  block.clear();
  for (const HeaderField& field : fields) {
    block.push_back({bytes_of(field.name), bytes_of(field.value), field.name.size(), field.value.size(),
                     NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE});
  }
  const size_t before = out->size();
  out->resize(before + nghttp2_hd_deflate_bound(deflater_, block.data(), block.size()));
  const ssize_t n =
      nghttp2_hd_deflate_hd(deflater_, bytes_of(*out) + before, out->size() - before, block.data(), block.size());
  out->resize(before + static_cast<size_t>(std::max<ssize_t>(n, 0)));
}

HeaderDecoder::HeaderDecoder() { nghttp2_hd_inflate_new(&inflater_); }

HeaderDecoder::~HeaderDecoder() { nghttp2_hd_inflate_del(inflater_); }

void HeaderDecoder::set_table_size(uint32_t bytes) { nghttp2_hd_inflate_change_table_size(inflater_, bytes); }

bool HeaderDecoder::decode(std::string_view fragment, bool last, FieldSink& sink) {
  while (true) {
    nghttp2_nv field;
    int flags = 0;
    const ssize_t n =
        nghttp2_hd_inflate_hd2(inflater_, &field, &flags, bytes_of(fragment), fragment.size(), last ? 1 : 0);
    if (n < 0) return false;
    fragment.remove_prefix(static_cast<size_t>(n));
    if (flags & NGHTTP2_HD_INFLATE_EMIT) {
      sink.on_field(text_of(field.name, field.namelen), text_of(field.value, field.valuelen));
    }
    if (flags & NGHTTP2_HD_INFLATE_FINAL) {
      nghttp2_hd_inflate_end_headers(inflater_);
      return true;
    }
    if ((flags & NGHTTP2_HD_INFLATE_EMIT) == 0 && fragment.empty()) return true;
  }
}

bool valid_header_name(std::string_view name) { return nghttp2_check_header_name(bytes_of(name), name.size()) != 0; }

bool valid_header_value(std::string_view value) {
  return nghttp2_check_header_value(bytes_of(value), value.size()) != 0;
}

}  // namespace ghostfleet::kube::http
