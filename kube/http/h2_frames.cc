#include "kube/http/h2_frames.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace ghostfleet::kube::http {

void append_u32(uint32_t value, std::string* out) {
  for (int shift = 24; shift >= 0; shift -= 8) out->push_back(static_cast<char>(value >> shift));
}

uint32_t read_u32(std::string_view bytes) {
  uint32_t value = 0;
  for (const char c : bytes.substr(0, 4)) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

void append_frame_head(const FrameHead& head, std::string* out) {
  for (int shift = 16; shift >= 0; shift -= 8) out->push_back(static_cast<char>(head.size >> shift));
  out->push_back(static_cast<char>(head.type));
  out->push_back(static_cast<char>(head.flags));
  append_u32(head.stream, out);
}

void append_setting(Setting setting, uint32_t value, std::string* out) {
  const auto id = static_cast<uint16_t>(setting);
  out->push_back(static_cast<char>(id >> 8));
  out->push_back(static_cast<char>(id));
  append_u32(value, out);
}

Status FrameReader::feed(std::string_view bytes, FrameSink& sink) {
  while (!bytes.empty()) {
    if (head_size_ < kFrameHeadBytes) {
      if (!take_head(&bytes)) return Status();
      if (const Status status = begin(); !status.ok()) return status;
    }
    const Status status = head_.type == FrameType::kData ? take_data(&bytes, sink) : take_payload(&bytes, sink);
    if (!status.ok()) return status;
  }
  return Status();
}

// False: there is more to come.
bool FrameReader::take_head(std::string_view* bytes) {
  const size_t n = std::min(kFrameHeadBytes - head_size_, bytes->size());
  std::memcpy(head_bytes_ + head_size_, bytes->data(), n);
  head_size_ = static_cast<uint8_t>(head_size_ + n);
  bytes->remove_prefix(n);
  return head_size_ == kFrameHeadBytes;
}

Status FrameReader::begin() {
  const std::string_view bytes(head_bytes_, kFrameHeadBytes);
  const uint32_t first = read_u32(bytes);
  head_.size = first >> 8;
  head_.type = static_cast<FrameType>(first & 0xff);
  head_.flags = static_cast<uint8_t>(bytes[4]);
  head_.stream = read_u32(bytes.substr(5)) & 0x7fffffff;
  left_ = head_.size;
  padding_ = 0;
  padding_known_ = !head_.has(kFlagPadded);
  if (head_.size <= kLeastMaxFrame) return Status();
  return unavailable("HTTP/2: a frame of " + std::to_string(head_.size) + " bytes; at most " +
                     std::to_string(kLeastMaxFrame) + " were agreed on");
}

Status FrameReader::take_data(std::string_view* bytes, FrameSink& sink) {
  uint32_t flow = 0;
  if (!padding_known_ && left_ > 0 && !bytes->empty()) {
    padding_ = static_cast<uint8_t>(bytes->front());
    bytes->remove_prefix(1);
    --left_;
    ++flow;
    padding_known_ = true;
  }
  if (!padding_known_ && left_ > 0) return Status();
  if (!padding_known_ || padding_ > left_) return unavailable("HTTP/2: more padding than its frame has bytes");
  const auto n = static_cast<uint32_t>(std::min<size_t>(left_, bytes->size()));
  const std::string_view piece = bytes->substr(0, std::min(n, left_ - padding_));
  // What is left of the frame is padding, once the data are through.
  flow += n;
  left_ -= n;
  padding_ = static_cast<uint8_t>(std::min<uint32_t>(padding_, left_));
  bytes->remove_prefix(n);
  const bool over = left_ == 0;
  if (over) head_size_ = 0;
  const FrameHead head = head_;
  if (flow > 0) {
    if (const Status status = sink.on_data(head, piece, flow); !status.ok()) return status;
  }
  return over ? sink.on_frame(head, {}) : Status();
}

Status FrameReader::take_payload(std::string_view* bytes, FrameSink& sink) {
  const size_t n = std::min<size_t>(left_, bytes->size());
  left_ -= static_cast<uint32_t>(n);
  const std::string_view piece = bytes->substr(0, n);
  bytes->remove_prefix(n);
  if (left_ > 0) {
    payload_.append(piece);
    return Status();
  }
  head_size_ = 0;
  const FrameHead head = head_;
  if (payload_.empty()) return sink.on_frame(head, piece);
  payload_.append(piece);
  const std::string whole = std::move(payload_);
  payload_ = {};
  return sink.on_frame(head, whole);
}

}  // namespace ghostfleet::kube::http
