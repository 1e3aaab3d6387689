// What both ends of HTTP/1.1 need: heads taken apart and bodies unframed. No socket, no allocation per line.
//
// Thread rule: one owner.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "kube/http/message.h"

namespace ghostfleet::kube::http {

// Gathers bytes until an empty line ends the head. Lines end in CRLF or, as most servers tolerate, LF.
class H1HeadReader {
 public:
  explicit H1HeadReader(size_t max_bytes) : max_bytes_(max_bytes) {}

  enum class State : unsigned char { kMore, kComplete, kTooLarge };
  // Takes bytes off the front of `bytes`. On kComplete, head() is the head without its empty line; it is valid until
  // the next call, and may point into the memory of `bytes`.
  State feed(std::string_view* bytes);
  std::string_view head() const { return head_; }
  bool empty() const { return buffer_.empty(); }
  void reset();

 private:
  size_t max_bytes_;
  std::string buffer_;
  std::string_view head_;
};

// First line of a head; what follows it are the header lines.
std::string_view take_line(std::string_view* text);
// Reads header lines into `out`, names lower-cased, values trimmed. False on anything malformed (a space before the
// colon, a folded line, control characters).
bool parse_header_lines(std::string_view text, HeaderList* out);

// How the body of a message is framed, by its headers.
struct H1Framing {
  bool chunked = false;
  bool has_length = false;
  uint64_t length = 0;
};
// InvalidArgument on contradictions (both framings, several lengths, an encoding besides chunked): the stuff of request
// smuggling.
Status h1_framing(const HeaderList& headers, H1Framing* out);
// Whether a comma separated header holds a token, in any case.
bool has_token(const HeaderList& headers, std::string_view name, std::string_view token);

// Takes the chunked coding off a body.
class ChunkDecoder {
 public:
  void reset() { *this = ChunkDecoder(); }
  // Takes bytes off `bytes` and returns the next piece of the body (empty when more bytes are needed or it is done).
  std::string_view next(std::string_view* bytes);
  bool done() const { return state_ == State::kDone; }
  bool failed() const { return state_ == State::kFailed; }

 private:
  enum class State : unsigned char { kSize, kExtension, kSizeEnd, kData, kDataEnd, kTrailer, kDone, kFailed };
  void step(char c);
  void step_size(char c);
  void step_trailer(char c);

  State state_ = State::kSize;
  uint64_t left_ = 0;
  int digits_ = 0;
  uint32_t overhead_ = 0;  // bytes of extensions and trailers so far: bounded
  bool line_empty_ = true;
};

}  // namespace ghostfleet::kube::http
