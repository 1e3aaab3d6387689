#include "agent/image/reference.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/image/digest.h"

namespace ghostfleet::image {
namespace {

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_word(char c) { return is_lower(c) || is_digit(c); }

// Letters and digits, joined by ".", "_", "__" or any number of "-".
bool is_path_component(std::string_view text) {
  if (text.empty() || !is_word(text.front()) || !is_word(text.back())) return false;
  for (size_t at = 0; at < text.size();) {
    if (is_word(text[at])) {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < text.size() && text[end] == text[at]) ++end;
    const size_t length = end - at;
    const bool good = text[at] == '-' || (text[at] == '.' && length == 1) || (text[at] == '_' && length <= 2);
    if (!good || !is_word(text[end])) return false;
    at = end;
  }
  return true;
}

bool is_repository(std::string_view text) {
  if (text.empty() || text.size() > 255) return false;
  while (true) {
    const size_t slash = text.find('/');
    if (!is_path_component(text.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    text.remove_prefix(slash + 1);
  }
}

bool is_tag(std::string_view text) {
  if (text.empty() || text.size() > 128 || text[0] == '.' || text[0] == '-') return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return is_word(c) || is_upper(c) || c == '_' || c == '.' || c == '-'; });
}

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 && std::all_of(text.begin(), text.end(), is_digit);
}

bool is_registry(std::string_view text) {
  if (text.starts_with('[')) {  // an IPv6 address
    const size_t end = text.find(']');
    if (end == std::string_view::npos || end < 3) return false;
    const auto inside = text.substr(1, end - 1);
    const bool address = std::all_of(inside.begin(), inside.end(), [](char c) {
      return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == ':' || c == '.';
    });
    return address && (end + 1 == text.size() || (text[end + 1] == ':' && is_port(text.substr(end + 2))));
  }
  const size_t colon = text.find(':');
  const std::string_view host = text.substr(0, colon);
  if (colon != std::string_view::npos && !is_port(text.substr(colon + 1))) return false;
  if (host.empty() || host.front() == '.' || host.front() == '-') return false;
  return std::all_of(host.begin(), host.end(),
                     [](char c) { return is_word(c) || is_upper(c) || c == '.' || c == '-'; });
}

// The first part is a registry when it cannot be a folder of a repository on docker.io.
bool looks_like_registry(std::string_view first) {
  return first == "localhost" || first.find_first_of(".:[") != std::string_view::npos;
}

}  // namespace

std::string Reference::to_string() const {
  std::string out = registry + "/" + repository;
  if (!tag.empty()) out += ":" + tag;
  if (!digest.empty()) out += "@" + digest;
  return out;
}

std::string Reference::api_host() const { return registry == "docker.io" ? "registry-1.docker.io" : registry; }

Result<Reference> parse_reference(std::string_view text) {
  const auto wrong = [&](std::string_view why) {
    return invalid_argument(fmt::format("image \"{}\": {} (REGISTRY/REPOSITORY:TAG or ...@sha256:DIGEST is expected)",
                                        text.substr(0, 300), why));
  };
  if (text.find("://") != std::string_view::npos) return wrong("an image has no scheme");
  Reference out;
  std::string_view rest = text;
  if (const size_t at = rest.find('@'); at != std::string_view::npos) {
    out.digest = rest.substr(at + 1);
    if (const Status s = check_digest(out.digest); !s.ok()) return wrong(s.message());
    rest = rest.substr(0, at);
  }
  const size_t slash = rest.find('/');
  if (slash != std::string_view::npos && looks_like_registry(rest.substr(0, slash))) {
    out.registry = rest.substr(0, slash);
    if (!is_registry(out.registry)) return wrong(fmt::format("\"{}\" is no host", out.registry));
    rest.remove_prefix(slash + 1);
  } else {
    out.registry = "docker.io";
  }
  if (const size_t colon = rest.rfind(':'); colon != std::string_view::npos) {
    out.tag = rest.substr(colon + 1);
    if (!is_tag(out.tag)) return wrong(fmt::format("\"{}\" is no tag", out.tag));
    rest = rest.substr(0, colon);
  }
  out.repository = rest;
  if (!is_repository(out.repository))
    return wrong(fmt::format("\"{}\" is no repository (lower case letters, digits and . _ - between them)", rest));
  if (out.registry == "docker.io" && out.repository.find('/') == std::string::npos)
    out.repository = "library/" + out.repository;
  if (out.tag.empty() && out.digest.empty()) out.tag = "latest";
  return out;
}

}  // namespace ghostfleet::image
