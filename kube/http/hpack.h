// HPACK (RFC 7541) as nghttp2 has it, without its sessions: an encoder and a decoder of one direction of a connection.
// nghttp2's own session would take 13 KB for the few streams of one node; these take 5 (docs/performance.md).
//
// Thread rule: one owner each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

struct nghttp2_hd_deflater;
struct nghttp2_hd_inflater;

namespace ghostfleet::kube::http {

inline constexpr uint32_t kDefaultHeaderTable = 4096;  // bytes, as RFC 7541 counts them

struct HeaderField {
  std::string_view name, value;
};

class HeaderEncoder {
 public:
  HeaderEncoder();
  ~HeaderEncoder();
  HeaderEncoder(const HeaderEncoder&) = delete;
  HeaderEncoder& operator=(const HeaderEncoder&) = delete;

  // What the peer allows; never more than kDefaultHeaderTable is used.
  void set_table_size(uint32_t bytes);
  // Appends a header block.
  void encode(const std::vector<HeaderField>& fields, std::string* out);

 private:
  nghttp2_hd_deflater* deflater_ = nullptr;
};

class FieldSink {
 public:
  virtual ~FieldSink() = default;
  virtual void on_field(std::string_view name, std::string_view value) = 0;
};

class HeaderDecoder {
 public:
  HeaderDecoder();
  ~HeaderDecoder();
  HeaderDecoder(const HeaderDecoder&) = delete;
  HeaderDecoder& operator=(const HeaderDecoder&) = delete;

  // What the peer has been told, and has acknowledged.
  void set_table_size(uint32_t bytes);
  // A fragment of a header block; `last` ends it. False: these bytes are no header block, and the connection is lost.
  bool decode(std::string_view fragment, bool last, FieldSink& sink);

 private:
  nghttp2_hd_inflater* inflater_ = nullptr;
};

// Whether a name or a value may stand in a header of HTTP/2.
bool valid_header_name(std::string_view name);
bool valid_header_value(std::string_view value);

}  // namespace ghostfleet::kube::http
