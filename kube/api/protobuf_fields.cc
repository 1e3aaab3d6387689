#include "kube/api/protobuf_fields.h"

#include <fmt/format.h>

#include "kube/api/json_scanner.h"

namespace ghostfleet::kube {
namespace {

bool is_utf8(std::string_view text) {
  const char* p = text.data();
  const char* end = p + text.size();
  while (p != end) {
    const size_t size = static_cast<unsigned char>(*p) < 0x80 ? 1 : utf8_sequence(p, end);
    if (size == 0) return false;
    p += size;
  }
  return true;
}

}  // namespace

bool MessageFields::next() {
  while (status_.ok() && !wire_.at_end()) {
    WireType type;
    if (!wire_.read_tag(&number_, &type)) return broken();
    if (type == WireType::kBytes) return wire_.read_bytes(&bytes_) ? take(true) : broken();
    if (type == WireType::kVarint) return wire_.read_varint(&value_) ? take(false) : broken();
    if (!wire_.skip(type)) return broken();
  }
  return false;
}

bool MessageFields::broken() {
  status_ = invalid_argument("cannot parse invalid wire-format data: " + wire_.error());
  return false;
}

bool MessageFields::check_text() {
  if (bytes_.size() > kMaxMessageText) {
    status_ = invalid_argument(
        fmt::format("field {}: a text of {} bytes; at most {} are taken", number_, bytes_.size(), kMaxMessageText));
  } else if (!is_utf8(bytes_)) {
    status_ = invalid_argument(fmt::format("field {}: string field contains invalid UTF-8", number_));
  }
  return status_.ok();
}

Result<std::pair<std::string, std::string>> decode_text_pair(std::string_view bytes) {
  MessageFields f(bytes);
  std::pair<std::string, std::string> out;
  while (f.next()) {
    f.text(1, &out.first);
    f.text(2, &out.second);
  }
  return f.result(std::move(out));
}

}  // namespace ghostfleet::kube
