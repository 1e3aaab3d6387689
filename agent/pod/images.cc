#include "agent/pod/images.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/glob.h"
#include "base/hash.h"

namespace ghostfleet::agent {

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

namespace {

bool lower(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool word(char c) { return lower(c) || (c >= 'A' && c <= 'Z') || c == '_'; }

// Letters and digits, with single separators (. _ __ or dashes) between them.
bool valid_component(std::string_view text) {
  if (text.empty() || !lower(text.front()) || !lower(text.back())) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (lower(text[i])) continue;
    size_t end = i;
    while (end < text.size() && !lower(text[end])) ++end;
    const std::string_view separator = text.substr(i, end - i);
    const bool dashes = separator.find_first_not_of('-') == std::string_view::npos;
    if (!dashes && separator != "." && separator != "_" && separator != "__") return false;
    i = end;
  }
  return true;
}

bool valid_domain(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return word(c) || c == '.' || c == '-' || c == ':' || c == '[' || c == ']';
  });
}

// Cuts the tag and digest off; false: they make no sense.
bool cut_tag(std::string_view* image) {
  const size_t at = image->find('@');
  if (at != std::string_view::npos) {
    const std::string_view digest = image->substr(at + 1);
    const size_t colon = digest.find(':');
    if (colon == std::string_view::npos || colon == 0 || digest.size() - colon - 1 < 32) return false;
    *image = image->substr(0, at);
  }
  const size_t slash = image->rfind('/');
  const size_t colon = image->rfind(':');
  if (colon == std::string_view::npos || (slash != std::string_view::npos && colon < slash)) return true;
  const std::string_view tag = image->substr(colon + 1);
  *image = image->substr(0, colon);
  return !tag.empty() && tag.size() <= 128 && word(tag.front()) &&
         std::all_of(tag.begin(), tag.end(), [](char c) { return word(c) || c == '.' || c == '-'; });
}

// The part behind the registry.
std::string_view repository(std::string_view name) {
  const size_t slash = name.find('/');
  if (slash == std::string_view::npos) return name;
  const std::string_view first = name.substr(0, slash);
  const bool upper = std::any_of(first.begin(), first.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  const bool registry = upper || first.find_first_of(".:") != std::string_view::npos || first == "localhost";
  return registry && valid_domain(first) ? name.substr(slash + 1) : name;
}

}  // namespace

bool valid_image_name(std::string_view image) {
  if (!cut_tag(&image)) return false;
  std::string_view rest = repository(image);
  if (rest.size() > 255) return false;
  while (true) {
    const size_t slash = rest.find('/');
    if (!valid_component(rest.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    rest.remove_prefix(slash + 1);
  }
}

std::string upper_repository(std::string_view image) {
  if (!cut_tag(&image)) return {};
  const std::string name(repository(image));
  std::string small = name;
  std::transform(small.begin(), small.end(), small.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return small != name && valid_image_name(small) ? name : std::string();
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

bool NodeImages::was_used(std::string_view image) const {
  return std::find(used_.begin(), used_.end(), hash_text(image)) != used_.end();
}

void NodeImages::note_use(std::string_view image) {
  if (!was_used(image)) used_.push_back(hash_text(image));
}

bool NodeImages::present(std::string_view image, TimePoint) {
  const ImageRule* rule = rule_of(image);
  if (rule != nullptr && (!rule->error.empty() || rule->pull != Duration(0))) return was_used(image);
  // Nobody says how long its pull takes: it is as good as there, and from now on it is.
  note_use(image);
  return true;
}

bool NodeImages::present_unpulled(std::string_view image, TimePoint now) {
  return rule_of(image) != nullptr ? present(image, now) : was_used(image);
}

// The time in the queue is in it.
TimePoint NodeImages::begin(PullTicket, std::string_view image, TimePoint now) {
  const ImageRule* rule = rule_of(image);
  free_at_ = std::max(free_at_, now) + (rule != nullptr ? std::max(rule->pull, Duration(0)) : Duration(0));
  return free_at_;
}

PullResult NodeImages::end(PullTicket, std::string_view image, TimePoint now) {
  const ImageRule* rule = rule_of(image);
  if (rule != nullptr && !rule->error.empty()) return {pull_error(image, *rule), Duration(0), 0};
  adopt(image, now);
  return {{}, rule != nullptr ? rule->pull : Duration(0), size_of(image)};
}

void NodeImages::adopt(std::string_view image, TimePoint) {
  const ImageRule* rule = rule_of(image);
  const bool fails = rule != nullptr && !rule->error.empty();
  if (!fails) note_use(image);
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
      "rpc error: code = {} desc = failed to pull and unpack "
      "image \"{}\": failed to resolve reference \"{}\": {}: {}",
      rule.error, image, image, image, words);
}

int64_t NodeImages::size_of(std::string_view image) {
  return 20000000 + static_cast<int64_t>(hash_text(image) % 700000000);
}

}  // namespace ghostfleet::agent
