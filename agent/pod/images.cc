#include "agent/pod/images.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/pod/hash.h"

namespace ghostfleet::agent {

bool glob_match(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string normal_image_name(std::string_view image) {
  const size_t slash = image.find('/');
  const std::string_view first = image.substr(0, slash);
  const bool has_registry =
      slash != std::string_view::npos && (first.find_first_of(".:") != std::string_view::npos || first == "localhost");
  std::string out;
  if (!has_registry) out = slash == std::string_view::npos ? "docker.io/library/" : "docker.io/";
  out += image;
  const std::string_view last = std::string_view(out).substr(out.rfind('/') + 1);
  if (last.find_first_of(":@") == std::string_view::npos) out += ":latest";
  return out;
}

std::string made_up_digest(uint64_t seed) {
  std::string out;
  for (uint64_t i = 0; i < 4; ++i) out += fmt::format("{:016x}", hash_mix(hash_mix(seed, i), 0x452821e638d01377ULL));
  return out;
}

std::string image_id(std::string_view image) {
  const std::string name = normal_image_name(image);
  if (name.find('@') != std::string::npos) return name;
  return name.substr(0, name.rfind(':')) + "@sha256:" + made_up_digest(hash_text(name));
}

const ImageRule* NodeImages::rule_of(std::string_view image) const {
  for (const ImageRule& rule : options_->image_rules) {
    if (glob_match(rule.match, image)) return &rule;
  }
  return nullptr;
}

bool NodeImages::present(std::string_view image) const {
  const ImageRule* rule = rule_of(image);
  if (rule == nullptr || (rule->error.empty() && rule->pull == Duration(0))) return true;
  return std::find(pulled_.begin(), pulled_.end(), hash_text(image)) != pulled_.end();
}

TimePoint NodeImages::begin_pull(std::string_view image, TimePoint now, Duration* pull_time) {
  const ImageRule* rule = rule_of(image);
  *pull_time = rule != nullptr ? std::max(rule->pull, Duration(0)) : Duration(0);
  free_at_ = std::max(free_at_, now) + *pull_time;
  return free_at_;
}

void NodeImages::pulled(std::string_view image) {
  const uint64_t key = hash_text(image);
  if (!present(image)) pulled_.push_back(key);
}

std::string NodeImages::pull_error(std::string_view image, const ImageRule& rule) {
  if (rule.error.find(' ') != std::string::npos) return "rpc error: code = Unknown desc = " + rule.error;
  const std::string_view words =
      rule.error == "NotFound"            ? "not found"
      : rule.error == "Unauthenticated"   ? "unexpected status from HEAD request: 401 Unauthorized"
      : rule.error == "PermissionDenied"  ? "unexpected status from HEAD request: 403 Forbidden"
      : rule.error == "ResourceExhausted" ? "unexpected status from HEAD request: 429 Too Many Requests"
      : rule.error == "Unavailable"       ? "unexpected status from HEAD request: 503 Service Unavailable"
      : rule.error == "DeadlineExceeded"  ? "context deadline exceeded"
                                          : std::string_view(rule.error);
  return fmt::format(
      "rpc error: code = {} desc = failed to pull and unpack image \"{}\": failed to resolve reference \"{}\": {}: {}",
      rule.error, image, image, image, words);
}

int64_t NodeImages::size_of(std::string_view image) {
  return 20000000 + static_cast<int64_t>(hash_text(image) % 700000000);
}

}  // namespace ghostfleet::agent
