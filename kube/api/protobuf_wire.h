// Protobuf wire format: reading and writing of tags, varints and lengths, without any schema.
//
// Thread rule: plain values. A reader hands out views into the bytes it was given.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ghostfleet::kube {

enum class WireType : unsigned char { kVarint = 0, kFixed64 = 1, kBytes = 2, kGroup = 3, kEndGroup = 4, kFixed32 = 5 };

inline void append_varint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

inline void append_tag(uint32_t number, WireType type, std::string* out) {
  append_varint(static_cast<uint64_t>(number) << 3 | static_cast<uint64_t>(type), out);
}

inline void append_varint_field(uint32_t number, uint64_t value, std::string* out) {
  append_tag(number, WireType::kVarint, out);
  append_varint(value, out);
}

inline void append_bytes_field(uint32_t number, std::string_view bytes, std::string* out) {
  append_tag(number, WireType::kBytes, out);
  append_varint(bytes.size(), out);
  out->append(bytes);
}

// Writes a length-delimited field whose bytes are not known beforehand.
template <class F>
void append_message_field(uint32_t number, std::string* out, const F& write_body) {
  append_tag(number, WireType::kBytes, out);
  const size_t at = out->size();
  out->push_back('\0');
  write_body();
  const size_t size = out->size() - at - 1;
  if (size < 0x80) {
    (*out)[at] = static_cast<char>(size);
    return;
  }
  std::string length;
  append_varint(size, &length);
  out->replace(at, 1, length);
}

class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : p_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool at_end() const { return p_ == end_; }
  // Each is false, with error() set, when the bytes are cut off or no protobuf.
  bool read_tag(uint32_t* number, WireType* type);
  bool read_varint(uint64_t* out);
  bool read_fixed64(uint64_t* out);
  bool read_bytes(std::string_view* out);
  bool skip(WireType type);

  const std::string& error() const { return error_; }
  bool fail(std::string error);

 private:
  bool advance(size_t n);
  bool skip_group();

  const char* p_;
  const char* end_;
  std::string error_;
};

}  // namespace ghostfleet::kube
