#include "kube/api/names.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>

namespace ghostfleet::kube {
namespace {

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_lower_alnum(char c) { return is_lower(c) || is_digit(c); }
bool is_alnum(char c) { return is_lower_alnum(c) || is_upper(c); }

constexpr const char* kLabelPattern = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
constexpr const char* kSubdomainPattern = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
constexpr const char* kNamePartPattern = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
constexpr const char* kNamePartWords =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

// "WORDS (e.g. 'a',  or 'b', regex used for validation is 'PATTERN')", spaces as apimachinery sets them.
std::string pattern_error(std::string_view words, std::string_view pattern,
                          std::initializer_list<const char*> examples) {
  std::string text(words);
  text += " (e.g. ";
  bool first = true;
  for (const char* example : examples) {
    if (!first) text += " or ";
    first = false;
    text += std::string("'") + example + "', ";
  }
  return text + "regex used for validation is '" + std::string(pattern) + "')";
}

std::string too_long(size_t limit, std::string_view unit) {
  return "must be no more than " + std::to_string(limit) + " " + std::string(unit);
}

// [a-z0-9]([-a-z0-9]*[a-z0-9])?
bool is_label(std::string_view v) {
  if (v.empty() || !is_lower_alnum(v.front()) || !is_lower_alnum(v.back())) return false;
  return std::all_of(v.begin(), v.end(), [](char c) { return is_lower_alnum(c) || c == '-'; });
}

bool is_subdomain(std::string_view v) {
  for (;;) {
    const size_t dot = v.find('.');
    if (!is_label(v.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    v.remove_prefix(dot + 1);
  }
}

// ([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]
bool is_name_part(std::string_view v) {
  if (v.empty() || !is_alnum(v.front()) || !is_alnum(v.back())) return false;
  return std::all_of(v.begin(), v.end(), [](char c) { return is_alnum(c) || c == '-' || c == '_' || c == '.'; });
}

std::vector<std::string> check_subdomain(std::string_view value, std::string_view unit) {
  std::vector<std::string> errors;
  if (value.size() > 253) errors.push_back(too_long(253, unit));
  if (!is_subdomain(value)) {
    errors.push_back(
        pattern_error("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
                      "'-' or '.', and must start and end with an alphanumeric character",
                      kSubdomainPattern, {"example.com"}));
  }
  return errors;
}

}  // namespace

std::vector<std::string> check_dns1123_label(std::string_view value) {
  std::vector<std::string> errors;
  if (value.size() > 63) errors.push_back(too_long(63, "characters"));
  if (is_label(value)) return errors;
  if (is_subdomain(value)) {
    // Only a label too many: the usual mistake gets its own words.
    errors.push_back("must not contain dots");
    return errors;
  }
  errors.push_back(
      pattern_error("a lowercase RFC 1123 label must consist of lower case alphanumeric characters or "
                    "'-', and must start and end with an alphanumeric character",
                    kLabelPattern, {"my-name", "123-abc"}));
  return errors;
}

std::vector<std::string> check_dns1123_subdomain(std::string_view value) {
  return check_subdomain(value, "characters");
}

std::vector<std::string> check_dns1035_label(std::string_view value) {
  std::vector<std::string> errors;
  if (value.size() > 63) errors.push_back(too_long(63, "characters"));
  if (!is_label(value) || !is_lower(value.front())) {
    errors.push_back(
        pattern_error("a DNS-1035 label must consist of lower case alphanumeric characters or '-', start "
                      "with an alphabetic character, and end with an alphanumeric character",
                      "[a-z]([-a-z0-9]*[a-z0-9])?", {"my-name", "abc-123"}));
  }
  return errors;
}

std::vector<std::string> check_qualified_name(std::string_view value) {
  std::vector<std::string> errors;
  const size_t slash = value.find('/');
  std::string_view name = value;
  if (slash != std::string_view::npos) {
    name = value.substr(slash + 1);
    if (name.find('/') != std::string_view::npos) {
      errors.push_back("a valid label key " +
                       pattern_error(kNamePartWords, kNamePartPattern, {"MyName", "my.name", "123-abc"}) +
                       " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')");
      return errors;
    }
    if (slash == 0) errors.push_back("prefix part must be non-empty");
    if (slash > 0) {
      for (const std::string& e : check_subdomain(value.substr(0, slash), "bytes"))
        errors.push_back("prefix part " + e);
    }
  }
  if (name.empty()) errors.push_back("name part must be non-empty");
  if (name.size() > 63) errors.push_back("name part " + too_long(63, "bytes"));
  if (!is_name_part(name)) {
    errors.push_back("name part " + pattern_error(kNamePartWords, kNamePartPattern, {"MyName", "my.name", "123-abc"}));
  }
  return errors;
}

std::vector<std::string> check_label_value(std::string_view value) {
  std::vector<std::string> errors;
  if (value.size() > 63) errors.push_back(too_long(63, "bytes"));
  if (!value.empty() && !is_name_part(value)) {
    errors.push_back(
        pattern_error("a valid label must be an empty string or consist of alphanumeric characters, '-', "
                      "'_' or '.', and must start and end with an alphanumeric character",
                      "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", {"MyValue", "my_value", "12345"}));
  }
  return errors;
}

std::vector<std::string> check_path_segment_name(std::string_view value) {
  if (value == "." || value == "..") return {"may not be '" + std::string(value) + "'"};
  std::vector<std::string> errors;
  for (const char* bad : {"/", "%"}) {
    if (value.find(bad) != std::string_view::npos) errors.push_back(std::string("may not contain '") + bad + "'");
  }
  return errors;
}

std::vector<std::string> check_config_map_key(std::string_view value) {
  std::vector<std::string> errors;
  if (value.size() > 253) errors.push_back(too_long(253, "characters"));
  const bool fits = !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
    return is_alnum(c) || c == '-' || c == '.' || c == '_';
  });
  if (!fits) {
    errors.push_back(pattern_error("a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
                                   "[-._a-zA-Z0-9]+", {"key.name", "KEY_NAME", "key-name"}));
  }
  if (value == ".") errors.push_back("must not be '.'");
  if (value == "..") errors.push_back("must not be '..'");
  if (value.size() > 2 && value.substr(0, 2) == "..") errors.push_back("must not start with '..'");
  return errors;
}

std::vector<std::string> check_env_var_name(std::string_view value) {
  std::vector<std::string> errors;
  if (value.empty()) errors.push_back("environment variable name must be non-empty");
  const bool printable =
      std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c <= '~' && c != '='; });
  if (!printable) {
    errors.push_back(
        "a valid environment variable name must consist only of printable ASCII characters other than '='");
  }
  return errors;
}

std::vector<std::string> check_port_name(std::string_view value) {
  std::vector<std::string> errors;
  if (value.size() > 15) errors.push_back(too_long(15, "characters"));
  const bool charset =
      !value.empty() && std::all_of(value.begin(), value.end(), [](char c) { return is_lower_alnum(c) || c == '-'; });
  if (!charset) errors.push_back("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
  if (std::none_of(value.begin(), value.end(), is_lower)) errors.push_back("must contain at least one letter (a-z)");
  if (value.find("--") != std::string_view::npos) errors.push_back("must not contain consecutive hyphens");
  if (!value.empty() && (value.front() == '-' || value.back() == '-')) {
    errors.push_back("must not begin or end with a hyphen");
  }
  return errors;
}

bool is_valid_ip(std::string_view value) {
  const std::string text(value);
  unsigned char buffer[16];
  return inet_pton(AF_INET, text.c_str(), buffer) == 1 || inet_pton(AF_INET6, text.c_str(), buffer) == 1;
}

bool is_valid_cidr(std::string_view value) {
  const size_t slash = value.find('/');
  if (slash == std::string_view::npos) return false;
  const std::string_view address = value.substr(0, slash), bits = value.substr(slash + 1);
  int length = -1;
  const auto [end, error] = std::from_chars(bits.data(), bits.data() + bits.size(), length);
  if (error != std::errc() || end != bits.data() + bits.size() || length < 0) return false;
  if (bits.size() > 1 && bits[0] == '0') return false;
  return is_valid_ip(address) && length <= (address.find(':') == std::string_view::npos ? 32 : 128);
}

}  // namespace ghostfleet::kube
