// Reading a few fields out of JSON bytes without building anything: answers and watch events of a fleet are scanned for
// a uid, a version or a condition, and the rest is stepped over.
//
// The scanner trusts the structure it steps over only as far as it must: a text that is cut or wrong makes it stop and
// answer nothing, it never reads past the end and never recurses.
// Thread rule: pure functions; every view points into the text given.
#pragma once

#include <functional>
#include <string_view>

namespace ghostfleet::agent {

// One member after the other of the JSON object at the start of a text.
class ObjectScan {
 public:
  explicit ObjectScan(std::string_view object);
  // The next member: its key (undecoded, without quotes) and its value's text. False at the end or at a fault.
  bool next(std::string_view* key, std::string_view* value);
  // The text from the value of the next member of that name on, with all that follows it; empty when there is none.
  std::string_view from_value_of(std::string_view wanted);

 private:
  bool next_key(std::string_view* key);

  bool open_ = false;  // before rest_, whose initializer sets it
  std::string_view rest_;
};

// One element after the other of the JSON array at the start of a text.
class ArrayScan {
 public:
  explicit ArrayScan(std::string_view array);
  bool next(std::string_view* value);

 private:
  bool open_ = false;  // before rest_, whose initializer sets it
  std::string_view rest_;
};

// The text of the value of `key` in an object; empty when it is not there.
std::string_view scan_member(std::string_view object, std::string_view key);
// The same down a path of keys: {"metadata", "uid"}.
std::string_view scan_path(std::string_view object, std::initializer_list<std::string_view> keys);
// The inside of a string value that holds no escapes (names, uids, versions, times); empty for anything else.
std::string_view scan_string(std::string_view value);

// How far the value at the start of `text` reaches (white space in front included); 0 when it is cut or wrong.
size_t value_length(std::string_view text);

}  // namespace ghostfleet::agent
