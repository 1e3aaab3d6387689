// WatchDecoder: the body of a watch, one JSON event a line, as complete lines. Bytes in, events out, no socket. A line
// that never ends is never delivered.
//
// Thread rule: one owner. Limit: a line longer than `max_line` is an error (ResourceExhausted).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "kube/client/reflector.h"

namespace ghostfleet::kube {

class WatchDecoder {
 public:
  explicit WatchDecoder(size_t max_line) : max_line_(max_line) {}

  // Calls `fn` for each complete line, without its end; empty lines are skipped. fn returns false to stop: the rest of
  // the bytes is dropped, and the decoder may have been reset or may be gone.
  Status feed(std::string_view bytes, const std::function<bool(std::string_view line)>& fn);
  // Whether the bytes so far end inside a line.
  bool partial() const { return !buffer_.empty(); }
  void reset() { buffer_.clear(); }

 private:
  size_t max_line_;
  std::string buffer_;
};

struct WatchEvent {
  std::string_view type;    // ADDED, MODIFIED, DELETED, BOOKMARK, ERROR
  std::string_view object;  // its JSON
};

// False when the line is no event.
bool parse_watch_event(std::string_view line, WatchEvent* out);
// The few strings of an object's metadata that matter here. False when the text has no metadata.
bool view_object(std::string_view json, ObjectView* out);
// Whether a bookmark says that the initial events of a streaming list are over.
bool ends_initial_events(std::string_view object);

}  // namespace ghostfleet::kube
