// JsonScanner: the lexical half of every JSON reader here: strings, numbers, literals, and skipping of whole values.
// It reports syntax errors in the words of a real API server, which clients show to their users.
//
// Thread rule: one scanner belongs to one caller. The text must outlive it; a view it hands out is valid until the next
// call that reads a string.
#pragma once

#include <string>
#include <string_view>

namespace ghostfleet::kube {

// How deep arrays and objects may nest in a text at all, as in a real API server.
inline constexpr int kMaxJsonTextDepth = 10000;
// How deep a Json value may nest: its destructor and its writers recurse, so this is far below what a stack of 1 MiB
// bears.
inline constexpr int kMaxJsonTreeDepth = 2000;

class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : begin_(text.data()), p_(text.data()), end_(text.data() + text.size()) {}

  void skip_space() {
    while (p_ < end_ && (*p_ == ' ' || *p_ == '\n' || *p_ == '\t' || *p_ == '\r')) ++p_;
  }
  // The next byte, '\0' at the end.
  char peek() const { return p_ < end_ ? *p_ : '\0'; }
  bool at_end() const { return p_ == end_; }
  // Takes the byte when it comes next.
  bool take(char c) {
    if (p_ < end_ && *p_ == c) {
      ++p_;
      return true;
    }
    return false;
  }

  // Reads a string at its opening quote. Invalid UTF-8 and lone surrogates become U+FFFD.
  bool read_string(std::string_view* out);
  // Reads a number; `integer` says that it has neither fraction nor exponent.
  bool read_number(std::string_view* raw, bool* integer);
  // Reads exactly this word: true, false, null.
  bool read_word(std::string_view word);
  // Passes over one value; `depth` containers are open around it. Does not recurse.
  bool skip_value(int depth);

  // After an array element or object member: true for ',' (more follows); `*closed` for the end of the container.
  bool next_item(char close, const char* context, bool* closed);
  // Reads `"key" :`, the key's first quote coming next or not.
  bool read_key(std::string_view* key);
  // Nothing but space may be left.
  bool finish();

  // "invalid character 'x' looking for beginning of value", for the byte at hand. Always false.
  bool fail(std::string_view context);
  bool fail_depth();

  bool failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }
  size_t offset() const { return static_cast<size_t>(p_ - begin_); }
  std::string_view since(size_t offset) const { return {begin_ + offset, this->offset() - offset}; }

 private:
  bool read_escaped(const char* start, std::string_view* out);
  bool read_escape();
  bool read_hex4(unsigned* out);
  bool skip_string();
  bool skip_scalar();
  bool skip_digits();

  const char* begin_;
  const char* p_;
  const char* end_;
  std::string scratch_;
  std::string error_;
};

// Appends a code point as UTF-8.
void append_utf8(unsigned code_point, std::string* out);
// Length of the valid UTF-8 sequence at p, 0 when there is none.
size_t utf8_sequence(const char* p, const char* end);
// The text with every invalid byte replaced by U+FFFD.
std::string to_valid_utf8(std::string_view text);

}  // namespace ghostfleet::kube
