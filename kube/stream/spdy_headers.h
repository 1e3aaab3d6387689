// The header blocks of SPDY/3: name and value pairs, packed by one zlib stream for each direction of a connection, with
// a dictionary that the draft gives.
//
// Thread rule: one owner. Source of the format and the dictionary: the SPDY/3.1 draft, 2.6.10 and 2.6.10.1.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "kube/http/message.h"

namespace ghostfleet::kube::stream {

class SpdyHeaderPacker {
 public:
  SpdyHeaderPacker();
  ~SpdyHeaderPacker();
  // Appends the packed block. Values of one name travel as one.
  void pack(const http::HeaderList& headers, std::string* out);

 private:
  struct Zlib;
  std::unique_ptr<Zlib> zlib_;
};

class SpdyHeaderUnpacker {
 public:
  SpdyHeaderUnpacker(size_t max_bytes, size_t max_count);
  ~SpdyHeaderUnpacker();
  // An error means that the stream of the connection is lost: nothing that follows can be unpacked.
  Status unpack(std::string_view block, http::HeaderList* out);

 private:
  Status inflate_block(std::string_view block);
  struct Zlib;
  std::unique_ptr<Zlib> zlib_;
  size_t max_bytes_, max_count_;
  std::string plain_;
};

// 1,423 bytes.
const std::string& spdy_dictionary();

// Numbers in network order, as every frame has them.
inline void append_u32(uint32_t value, std::string* out) {
  for (int shift = 24; shift >= 0; shift -= 8) out->push_back(static_cast<char>(value >> shift));
}
inline uint32_t read_u32(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

}  // namespace ghostfleet::kube::stream
