// ResizeReader: the JSON objects of a resize stream, {"Width":80,"Height":24} one after the other, in pieces.
//
// Thread rule: one owner. Limits: an object of more than kMaxObject bytes, or one that is none, ends the reading for
// good: nothing after it is looked at.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ghostfleet::kube::stream {

class ResizeReader {
 public:
  static constexpr size_t kMaxObject = 1024;
  void feed(std::string_view bytes, const std::function<void(uint16_t width, uint16_t height)>& on_size);

 private:
  std::string object_;
  int depth_ = 0;
  bool in_string_ = false, escaped_ = false, broken_ = false;
};

}  // namespace ghostfleet::kube::stream
