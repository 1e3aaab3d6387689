// MessageFields: walks the fields of one protobuf message of which only a few are of interest: a reader for small
// messages whose types are known to the caller. Writers for the same stand beside it.
//
// Fields that are not known are passed over, as proto3 has it; of a field that comes twice the last one counts.
// Thread rule: plain values; what bytes() gives is a view into the message. Limits: a text is at most
// kMaxMessageText bytes. Errors: InvalidArgument; the bytes are no protobuf, or a text is no UTF-8 or too long.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "kube/api/protobuf_wire.h"

namespace ghostfleet::kube {

inline constexpr size_t kMaxMessageText = 4096;

class MessageFields {
 public:
  explicit MessageFields(std::string_view bytes) : wire_(bytes) {}

  // The next field of a kind that is read here; false at the end or at an error. A field of another wire type is passed
  // over.
  bool next();
  // Whether this is the field of that number, with bytes or with a number.
  bool is_bytes(uint32_t number) const { return has_bytes_ && number_ == number; }
  bool is_value(uint32_t number) const { return !has_bytes_ && number_ == number; }
  std::string_view bytes() const { return bytes_; }
  uint64_t value() const { return value_; }

  void text(uint32_t number, std::string* out) {
    if (is_bytes(number) && check_text()) out->assign(bytes_);
  }
  void texts(uint32_t number, std::vector<std::string>* out) {
    if (is_bytes(number) && check_text()) out->emplace_back(bytes_);
  }
  void flag(uint32_t number, bool* out) {
    if (is_value(number)) *out = value_ != 0;
  }
  void number(uint32_t number, int64_t* out) {
    if (is_value(number)) *out = static_cast<int64_t>(value_);
  }
  // A message inside this one: `decode` makes a Result of its bytes, which goes to `take`.
  template <class Decode, class Take>
  void message(uint32_t number, const Decode& decode, const Take& take) {
    if (!is_bytes(number)) return;
    auto inner = decode(bytes_);
    if (inner.ok())
      take(std::move(*inner));
    else
      status_ = inner.error();
  }
  const Status& status() const { return status_; }
  template <class T>
  Result<T> result(T value) const {
    if (!status_.ok()) return status_;
    return value;
  }

 private:
  bool take(bool bytes) {
    has_bytes_ = bytes;
    return true;
  }
  bool broken();
  bool check_text();

  WireReader wire_;
  uint32_t number_ = 0;
  uint64_t value_ = 0;
  std::string_view bytes_;
  bool has_bytes_ = false;
  Status status_;
};

// A message that is one repeated message, of number 1; each of them is decoded.
template <class T, class Decode>
Result<std::vector<T>> decode_list(std::string_view bytes, const Decode& decode) {
  MessageFields f(bytes);
  std::vector<T> out;
  while (f.next()) f.message(1, decode, [&](T item) { out.push_back(std::move(item)); });
  return f.result(std::move(out));
}

// A message of two texts, 1 and 2.
Result<std::pair<std::string, std::string>> decode_text_pair(std::string_view bytes);

// What is empty or false is not written.
inline void append_text(uint32_t number, std::string_view text, std::string* out) {
  if (!text.empty()) append_bytes_field(number, text, out);
}
inline void append_flag(uint32_t number, bool flag, std::string* out) {
  if (flag) append_varint_field(number, 1, out);
}
inline void append_texts(uint32_t number, const std::vector<std::string>& texts, std::string* out) {
  for (const std::string& text : texts) append_bytes_field(number, text, out);
}

}  // namespace ghostfleet::kube
