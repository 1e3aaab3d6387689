// parse_json(): text to Json.
#include <charconv>
#include <cmath>
#include <unordered_set>

#include "kube/api/json.h"
#include "kube/api/json_number.h"
#include "kube/api/json_scanner.h"

namespace ghostfleet::kube {

namespace {

class Parser {
 public:
  Parser(std::string_view text, const JsonParseOptions& options)
      : scan_(text), max_depth_(std::min(options.max_depth, kMaxJsonTreeDepth)), duplicates_(options.duplicates) {}

  Result<Json> run() {
    Json value;
    if (!read_value(&value, 0) || !scan_.finish()) {
      return Status(Code::kInvalidArgument, scan_.failed() ? scan_.error() : number_error_);
    }
    return value;
  }

 private:
  bool read_value(Json* out, int depth) {
    scan_.skip_space();
    switch (scan_.peek()) {
      case '{': return read_object(out, depth);
      case '[': return read_array(out, depth);
      case '"': {
        std::string_view text;
        if (!scan_.read_string(&text)) return false;
        out->emplace_string().assign(text.data(), text.size());
        return true;
      }
      case 't': *out = true; return scan_.read_word("true");
      case 'f': *out = false; return scan_.read_word("false");
      case 'n': *out = nullptr; return scan_.read_word("null");
      default: return read_number(out);
    }
  }

  bool read_number(Json* out) {
    const char c = scan_.peek();
    if (c != '-' && (c < '0' || c > '9')) return scan_.fail("looking for beginning of value");
    std::string_view raw;
    bool integer;
    if (!scan_.read_number(&raw, &integer)) return false;
    if (number_from_text(raw, integer, out)) return true;
    number_error_ = "json: cannot unmarshal number " + std::string(raw) + " into Go value of type float64";
    return false;
  }

  bool read_object(Json* out, int depth) {
    if (depth >= max_depth_) return scan_.fail_depth();
    scan_.take('{');
    JsonObject& object = out->emplace_object();
    scan_.skip_space();
    if (scan_.take('}')) return true;
    for (bool closed = false; !closed;) {
      std::string_view key;
      if (!scan_.read_key(&key)) return false;
      const size_t mark = path_.size();
      auto [it, fresh] = object.emplace(boost::json::string_view(key.data(), key.size()), nullptr);
      if (duplicates_ != nullptr) {
        if (!path_.empty()) path_ += '.';
        path_ += key;
        if (!fresh && seen_.insert(path_).second) duplicates_->push_back(path_);
      }
      if (!fresh) it->value() = nullptr;
      if (!read_value(&it->value(), depth + 1)) return false;
      path_.resize(mark);
      if (!scan_.next_item('}', "after object key:value pair", &closed)) return false;
    }
    return true;
  }

  bool read_array(Json* out, int depth) {
    if (depth >= max_depth_) return scan_.fail_depth();
    scan_.take('[');
    JsonArray& array = out->emplace_array();
    scan_.skip_space();
    if (scan_.take(']')) return true;
    for (bool closed = false; !closed;) {
      const size_t mark = path_.size();
      if (duplicates_ != nullptr) path_ += "[" + std::to_string(array.size()) + "]";
      if (!read_value(&array.emplace_back(nullptr), depth + 1)) return false;
      path_.resize(mark);
      if (!scan_.next_item(']', "after array element", &closed)) return false;
    }
    return true;
  }

  JsonScanner scan_;
  int max_depth_;
  std::vector<std::string>* duplicates_;
  std::string path_;
  std::unordered_set<std::string> seen_;
  std::string number_error_;
};

}  // namespace

bool number_from_text(std::string_view raw, bool integer, Json* out) {
  const char* begin = raw.data();
  const char* end = begin + raw.size();
  if (integer) {
    int64_t i = 0;
    if (auto r = std::from_chars(begin, end, i); r.ec == std::errc() && r.ptr == end) {
      *out = i;
      return true;
    }
    uint64_t u = 0;
    if (auto r = std::from_chars(begin, end, u); r.ec == std::errc() && r.ptr == end) {
      *out = u;
      return true;
    }
  }
  double d = 0;
  const auto r = std::from_chars(begin, end, d);
  if (r.ec == std::errc::result_out_of_range) {
    // Too small is zero, too large is no number.
    const std::string copy(raw);
    d = std::strtod(copy.c_str(), nullptr);
    if (std::isinf(d)) return false;
  } else if (r.ec != std::errc()) {
    return false;
  }
  *out = d;
  return true;
}

Result<Json> parse_json(std::string_view text, const JsonParseOptions& options) { return Parser(text, options).run(); }

}  // namespace ghostfleet::kube
