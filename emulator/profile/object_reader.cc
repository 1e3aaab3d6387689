#include "emulator/profile/object_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kube/api/quantity.h"

namespace ghostfleet::emulator {
namespace {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

std::string show(const Json& v) {
  std::string text = v.is_string() ? "\"" + std::string(std::string_view(v.get_string())) + "\"" : kube::to_json(v);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

// A scalar as the text it was written as; nothing for objects and lists.
std::optional<std::string> scalar(const Json& v) {
  if (v.is_string()) return std::string(std::string_view(v.get_string()));
  if (v.is_bool()) return v.get_bool() ? "true" : "false";
  if (v.is_number()) return kube::to_json(v);
  return std::nullopt;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      const bool same =
          std::tolower(static_cast<unsigned char>(a[i - 1])) == std::tolower(static_cast<unsigned char>(b[j - 1]));
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (same ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

Result<Document> Document::parse(std::string_view text, std::string file) {
  Document d;
  d.file_ = std::move(file);
  auto root = kube::parse_yaml_with_lines(text, &d.lines_);
  if (!root.ok()) return root.error().with_context(d.file_);
  d.root_ = std::move(*root);
  return d;
}

void Document::complain(std::string_view path, std::string_view value, std::string_view what) {
  const int line = lines_.line_of(path);
  std::string text = line > 0 ? fmt::format("{}:{}: ", file_, line) : file_ + ": ";
  if (!path.empty()) text += fmt::format("{}: ", path);
  if (!value.empty()) text += fmt::format("{}: ", value);
  complaints_.push_back(text + std::string(what));
}

Status Document::status() const {
  if (complaints_.empty()) return Status();
  return invalid_argument(fmt::format("{}", fmt::join(complaints_, "\n")));
}

ObjectReader::ObjectReader(Document* document, const Json* node, std::string path)
    : document_(document), path_(std::move(path)) {
  if (node == nullptr || node->is_null()) return;
  if (node->is_object()) {
    object_ = &node->get_object();
  } else {
    document_->complain(path_, show(*node), "a mapping (key: value) is expected");
  }
}

std::string ObjectReader::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

const Json* ObjectReader::take(std::string_view key) {
  asked_.emplace_back(key);
  const Json* v = object_ == nullptr ? nullptr : object_->if_contains(key);
  return v == nullptr || v->is_null() ? nullptr : v;
}

bool ObjectReader::has(std::string_view key) const { return object_ != nullptr && object_->contains(key); }

void ObjectReader::complain(std::string_view key, std::string_view value, std::string_view what) {
  document_->complain(path_of(key), value, what);
}

std::string ObjectReader::text(std::string_view key, std::string_view fallback) {
  const Json* v = take(key);
  if (v == nullptr) return std::string(fallback);
  if (auto s = scalar(*v)) return *s;
  complain(key, show(*v), "a text is expected");
  return std::string(fallback);
}

std::string ObjectReader::required_text(std::string_view key) {
  std::string v = text(key);
  if (v.empty()) complain(key, "", "is required");
  return v;
}

int64_t ObjectReader::integer(std::string_view key, int64_t low, int64_t high, int64_t fallback, bool suffixes) {
  const Json* v = take(key);
  if (v == nullptr) return fallback;
  std::optional<int64_t> n;
  if (v->is_int64()) n = v->get_int64();
  if (suffixes && v->is_string()) n = parse_count(v->get_string());
  if (n && *n >= low && *n <= high) return *n;
  complain(key, show(*v),
           fmt::format("a whole number from {} to {} is expected{}", low, high, suffixes ? " (10k is 10000)" : ""));
  return fallback;
}

double ObjectReader::number(std::string_view key, double low, double high, double fallback) {
  const Json* v = take(key);
  if (v == nullptr) return fallback;
  if (v->is_number()) {
    const double n = v->to_number<double>();
    if (n >= low && n <= high) return n;
  }
  complain(key, show(*v), fmt::format("a number from {} to {} is expected", low, high));
  return fallback;
}

bool ObjectReader::boolean(std::string_view key, bool fallback) {
  const Json* v = take(key);
  if (v == nullptr) return fallback;
  if (v->is_bool()) return v->get_bool();
  complain(key, show(*v), "true or false is expected");
  return fallback;
}

Duration ObjectReader::duration(std::string_view key, Duration fallback) {
  const Json* v = take(key);
  if (v == nullptr) return fallback;
  Duration d{};
  if (v->is_string() && parse_duration(v->get_string(), &d) && d.count() >= 0) return d;
  complain(key, show(*v), "a duration like 5s, 1m30s or 250ms is expected");
  return fallback;
}

std::string ObjectReader::one_of(std::string_view key, const std::vector<std::string>& allowed,
                                 std::string_view fallback) {
  const std::string v = text(key, fallback);
  if (std::find(allowed.begin(), allowed.end(), v) != allowed.end()) return v;
  complain(key, "\"" + v + "\"", fmt::format("one of {} is expected", fmt::join(allowed, ", ")));
  return std::string(fallback);
}

StringPairs ObjectReader::text_map(std::string_view key) {
  StringPairs out;
  const Json* v = take(key);
  if (v == nullptr) return out;
  if (!v->is_object()) {
    complain(key, show(*v), "a mapping (key: value) is expected");
    return out;
  }
  for (const auto& [k, value] : v->get_object()) {
    if (auto s = scalar(value)) {
      out.emplace_back(std::string(std::string_view(k)), *s);
    } else {
      complain(std::string(key) + "." + std::string(std::string_view(k)), show(value), "a text is expected");
    }
  }
  return out;
}

StringPairs ObjectReader::quantity_map(std::string_view key) {
  StringPairs out;
  for (auto& [name, value] : text_map(key)) {
    auto q = kube::Quantity::parse(value);
    if (q.ok() && q->sign() >= 0) {
      out.emplace_back(name, q->to_string());
    } else {
      complain(std::string(key) + "." + name, "\"" + value + "\"", "a quantity like 16, 500m or 64Gi is expected");
    }
  }
  return out;
}

std::vector<std::string> ObjectReader::text_list(std::string_view key) {
  std::vector<std::string> out;
  const Json* v = take(key);
  if (v == nullptr) return out;
  if (!v->is_array()) {
    complain(key, show(*v), "a list is expected");
    return out;
  }
  for (const Json& item : v->get_array()) {
    if (auto s = scalar(item)) {
      out.push_back(*s);
    } else {
      complain(key, show(item), "a list of texts is expected");
    }
  }
  return out;
}

ObjectReader ObjectReader::object(std::string_view key) { return ObjectReader(document_, take(key), path_of(key)); }

std::vector<ObjectReader> ObjectReader::list(std::string_view key) {
  std::vector<ObjectReader> out;
  const Json* v = take(key);
  if (v == nullptr) return out;
  if (!v->is_array()) {
    complain(key, show(*v), "a list is expected");
    return out;
  }
  size_t i = 0;
  for (const Json& item : v->get_array()) out.emplace_back(document_, &item, fmt::format("{}[{}]", path_of(key), i++));
  return out;
}

void ObjectReader::finish() {
  if (object_ == nullptr) return;
  for (const auto& [key, value] : *object_) {
    const std::string k{std::string_view(key)};
    if (std::find(asked_.begin(), asked_.end(), k) != asked_.end()) continue;
    const std::string near = nearest(k, asked_);
    complain(k, "",
             near.empty() ? fmt::format("unknown field (known: {})", fmt::join(asked_, ", "))
                          : fmt::format("unknown field; did you mean {}?", near));
  }
}

std::optional<int64_t> parse_count(std::string_view text) {
  double factor = 1;
  if (!text.empty() && (text.back() == 'k' || text.back() == 'K')) factor = 1e3;
  if (!text.empty() && (text.back() == 'm' || text.back() == 'M')) factor = 1e6;
  if (factor != 1) text.remove_suffix(1);
  std::string digits;
  bool dot = false;
  for (const char c : text) {
    if (c == '_') continue;  // 100_000
    if (c == '.' && !dot && factor != 1) {
      dot = true;
    } else if ((c < '0' || c > '9') && !(c == '-' && digits.empty())) {
      return std::nullopt;
    }
    digits += c;
  }
  if (digits.empty() || digits == "-" || digits == "." || digits.size() > 15) return std::nullopt;
  const double n = std::stod(digits) * factor;
  if (std::fabs(n - std::round(n)) > 1e-6 || std::fabs(n) > 9e15) return std::nullopt;
  return static_cast<int64_t>(std::llround(n));
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  size_t best_distance = 3;
  for (const std::string& k : known) {
    const size_t d = edit_distance(word, k);
    if (d < best_distance && d < std::max<size_t>(word.size() / 2 + 1, 2)) {
      best_distance = d;
      best = k;
    }
  }
  return best;
}

}  // namespace ghostfleet::emulator
