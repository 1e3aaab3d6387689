// Status and Result: errors as values.
//
// A function that can fail returns Status, or Result<T> when it also has something to give. Both are [[nodiscard]].
// Context is added on the way up with `with_context("reading FILE")`, so that the message a user sees names the file,
// the field and the value. No exception crosses a module: a library that throws is wrapped where it is called.
//
// Thread rule: plain values, no sharing.
#pragma once

#include <cassert>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace ghostfleet {

// What kind of failure: callers branch on this, people read the message.
enum class Code : unsigned char {
  kOk,
  kInvalidArgument,    // the input is wrong: the message says which field and what would be right
  kNotFound,           // no such file, context, object
  kAlreadyExists,      // somebody else has it already: a name, a port
  kConflict,           // changed by somebody else since it was read
  kUnauthenticated,    // no or wrong credentials
  kPermissionDenied,   // known, but not allowed
  kResourceExhausted,  // a limit was reached: too large, too many, disk full
  kUnavailable,        // cannot be reached now; trying again may help
  kDeadlineExceeded,   // did not answer in time
  kExpired,            // the version asked for is gone (HTTP 410)
  kCancelled,          // stopped by us
  kDataLoss,           // cut off or corrupt bytes
  kUnimplemented,      // legal, but not offered here
  kInternal,           // our own fault
};

std::string_view code_name(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status ok_status() { return Status(); }

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  // The same failure with "context: " in front of its message. Success stays success.
  Status with_context(std::string_view context) const;

  // "NotFound: no such file", or "OK".
  std::string to_string() const;

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

Status invalid_argument(std::string message);
Status not_found(std::string message);
Status unavailable(std::string message);
Status internal_error(std::string message);

// A value or an error. E is Status unless an error carries more (an API server's Status object: kube::ApiError).
template <class T, class E = Status>
class [[nodiscard]] Result {
 public:
  Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}
  Result(E error) : v_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return v_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    assert(ok());
    return std::get<0>(v_);
  }
  const T& value() const& {
    assert(ok());
    return std::get<0>(v_);
  }
  T&& value() && {
    assert(ok());
    return std::get<0>(std::move(v_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // The error; only when !ok().
  const E& error() const& {
    assert(!ok());
    return std::get<1>(v_);
  }
  E&& error() && {
    assert(!ok());
    return std::get<1>(std::move(v_));
  }

 private:
  std::variant<T, E> v_;
};

// Returns the error of a Status expression to the caller.
#define GF_RETURN_IF_ERROR(expr)              \
  do {                                        \
    ::ghostfleet::Status gf_status_ = (expr); \
    if (!gf_status_.ok()) return gf_status_;  \
  } while (false)

}  // namespace ghostfleet
