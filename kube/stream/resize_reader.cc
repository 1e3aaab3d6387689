#include "kube/stream/resize_reader.h"

#include "kube/api/json.h"

namespace ghostfleet::kube::stream {
namespace {

// Go takes a key in any case.
bool same_key(std::string_view key, std::string_view lower) {
  if (key.size() != lower.size()) return false;
  for (size_t i = 0; i < key.size(); ++i) {
    if ((static_cast<unsigned char>(key[i]) | 0x20) != static_cast<unsigned char>(lower[i])) return false;
  }
  return true;
}

bool read_size(const Json& value, uint16_t* out) {
  if (value.is_null()) return true;
  if (!value.is_int64() || value.get_int64() < 0 || value.get_int64() > UINT16_MAX) return false;
  *out = static_cast<uint16_t>(value.get_int64());
  return true;
}

bool parse_size(std::string_view text, uint16_t* width, uint16_t* height) {
  const auto json = parse_json(text, {.max_depth = 8});
  if (!json.ok() || !json->is_object()) return false;
  for (const auto& [key, value] : json->get_object()) {
    if (same_key(key, "width") && !read_size(value, width)) return false;
    if (same_key(key, "height") && !read_size(value, height)) return false;
  }
  return true;
}

}  // namespace

void ResizeReader::feed(std::string_view bytes, const std::function<void(uint16_t, uint16_t)>& on_size) {
  for (const char c : bytes) {
    if (broken_) return;
    const bool space = c == ' ' || c == '\n' || c == '\r' || c == '\t';
    if (object_.empty() && space) continue;
    object_.push_back(c);
    if (object_.front() != '{' || object_.size() > kMaxObject) {
      broken_ = true;
      return;
    }
    if (in_string_) {
      in_string_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
      continue;
    }
    in_string_ = c == '"';
    depth_ += (c == '{') - (c == '}');
    if (depth_ > 0) continue;
    uint16_t width = 0, height = 0;
    broken_ = !parse_size(object_, &width, &height);
    object_.clear();
    if (!broken_) on_size(width, height);
  }
}

}  // namespace ghostfleet::kube::stream
