// Between the JSON text our machines speak and the protobuf a kubelet sends and receives.
//
// Thread rule: pure functions; the decoder has one owner. Limit: a frame longer than `max_frame` is an error
// (ResourceExhausted).
// Formats: the k8s\0 envelope (runtime.Unknown) around a message; a watch is a sequence of WatchEvents, each after its
// length in four bytes, most significant first.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ghostfleet::kube {

inline constexpr std::string_view kProtobufType = "application/vnd.kubernetes.protobuf";
// What a kubelet accepts.
inline constexpr std::string_view kProtobufOrJson = "application/vnd.kubernetes.protobuf,application/json";

// An object with apiVersion and kind of a type we know; else InvalidArgument.
Result<std::string> protobuf_of_json(std::string_view json);
// The object in an envelope as JSON text, with kind and apiVersion.
Result<std::string> json_of_protobuf(std::string_view envelope);
// Only its metadata: {"metadata":{...}}. Much cheaper where nobody reads the rest.
Result<std::string> metadata_of_protobuf(std::string_view envelope);

class ProtobufWatchDecoder {
 public:
  explicit ProtobufWatchDecoder(size_t max_frame) : max_frame_(max_frame) {}

  // Calls `fn` for each complete frame. It returns false to stop: the rest of the bytes is dropped, and the decoder may
  // have been reset or may be gone.
  Status feed(std::string_view bytes, const std::function<bool(std::string_view type, std::string_view envelope)>& fn);
  // Whether the bytes so far end inside a frame.
  bool partial() const { return !buffer_.empty(); }
  void reset() { std::string().swap(buffer_); }

 private:
  size_t max_frame_;
  std::string buffer_;
};

}  // namespace ghostfleet::kube
