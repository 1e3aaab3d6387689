// Frames of HTTP/2 (RFC 9113): their heads and codes, and a reader that takes bytes in any pieces and gives frames.
//
// Thread rule: FrameReader has one owner; all else is pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ghostfleet::kube::http {

enum class FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kPriority = 2,
  kResetStream = 3,
  kSettings = 4,
  kPushPromise = 5,
  kPing = 6,
  kGoAway = 7,
  kWindowUpdate = 8,
  kContinuation = 9
};

inline constexpr uint8_t kFlagEndStream = 1, kFlagAck = 1, kFlagEndHeaders = 4, kFlagPadded = 8, kFlagPriority = 32;

enum class Setting : uint16_t {
  kHeaderTableSize = 1,
  kEnablePush = 2,
  kMaxConcurrentStreams = 3,
  kInitialWindowSize = 4,
  kMaxFrameSize = 5,
  kMaxHeaderListSize = 6
};

// Those that we send or look at.
enum class H2Error : uint32_t { kProtocol = 1, kInternal = 2, kFlowControl = 3, kRefusedStream = 7, kCancel = 8 };

inline constexpr size_t kFrameHeadBytes = 9;
inline constexpr uint32_t kLeastMaxFrame = 16384, kMostMaxFrame = (1u << 24) - 1;  // of SETTINGS_MAX_FRAME_SIZE
inline constexpr int64_t kDefaultWindow = 65535, kMostWindow = INT32_MAX;

struct FrameHead {
  uint32_t size = 0;
  FrameType type = FrameType::kData;
  uint8_t flags = 0;
  uint32_t stream = 0;
  bool has(uint8_t flag) const { return (flags & flag) != 0; }
};

void append_u32(uint32_t value, std::string* out);
uint32_t read_u32(std::string_view bytes);  // of the first four
void append_frame_head(const FrameHead& head, std::string* out);
void append_setting(Setting setting, uint32_t value, std::string* out);  // within a SETTINGS frame

class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // A piece of a DATA frame, without its padding; `flow` bytes of the windows are used up, with padding. Its end comes
  // as on_frame() with an empty payload. An error ends the connection.
  virtual Status on_data(const FrameHead& head, std::string_view piece, uint32_t flow) = 0;
  // Any other frame, whole; padding and priority are not taken off. The view is valid during the call.
  virtual Status on_frame(const FrameHead& head, std::string_view payload) = 0;
};

// Errors: Unavailable; a frame that is longer than kLeastMaxFrame (we announce no more), padding longer than its frame.
class FrameReader {
 public:
  Status feed(std::string_view bytes, FrameSink& sink);

 private:
  bool take_head(std::string_view* bytes);
  Status begin();
  Status take_data(std::string_view* bytes, FrameSink& sink);
  Status take_payload(std::string_view* bytes, FrameSink& sink);

  char head_bytes_[kFrameHeadBytes] = {};
  uint8_t head_size_ = 0;
  bool padding_known_ = false;
  uint8_t padding_ = 0;
  uint32_t left_ = 0;  // of the payload
  FrameHead head_;
  std::string payload_;  // of a frame that came in pieces
};

}  // namespace ghostfleet::kube::http
