#include "emulator/profile/object_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/spelling.h"
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

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// The line of the "---" that begins a second document; 0: there is none.
int second_document(std::string_view text) {
  bool begun = false;
  for (int line = 1; !text.empty(); ++line) {
    const std::string_view l = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(l.size() + 1, text.size()));
    const size_t first = l.find_first_not_of(" \t\r");
    const bool separator = l.starts_with("---") && (l.size() == 3 || l.find_first_of(" \t\r", 3) == 3);
    if (separator && begun) return line;
    const bool content = first != std::string_view::npos && l[first] != '#' && l[0] != '%';
    begun |= content && (!separator || l.find_first_not_of(" \t\r", 3) != std::string_view::npos);
  }
  return 0;
}

// "line 7: key "name" already set in map"
std::pair<int, std::string> split_duplicate(std::string_view text) {
  int line = 0;
  text.remove_prefix(std::min(text.find_first_of("0123456789"), text.size()));
  const auto end = std::from_chars(text.data(), text.data() + text.size(), line).ptr;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  text.remove_prefix(std::min(text.find("key "), text.size()));
  return {line, std::string(text.substr(0, text.find(" already set")))};
}

}  // namespace

Result<Document> Document::parse(std::string_view text, std::string file) {
  Document d;
  d.file_ = std::move(file);
  auto root = kube::parse_yaml_with_lines(text, &d.lines_);
  if (!root.ok()) return root.error().with_context(d.file_);
  d.root_ = std::move(*root);
  std::vector<std::string> duplicates;
  (void)kube::parse_yaml(text, &duplicates);
  for (const std::string& duplicate : duplicates) {
    const auto [line, key] = split_duplicate(duplicate);
    d.complaints_.push_back({line, fmt::format("{}:{}: {} is there twice: keep one of them", d.file_, line, key)});
  }
  const auto documents = kube::parse_yaml_documents(text);
  if (!documents.ok()) return documents.error().with_context(d.file_);
  if (documents->size() > 1) {
    const int line = second_document(text);
    d.complaints_.push_back(
        {line, fmt::format("{}:{}: a second document begins here: a file holds one", d.file_, line)});
  }
  return d;
}

// Of the field, or of what it is missing from.
int Document::line_of(std::string_view path) const {
  int line = lines_.line_of(path);
  while (line == 0 && !path.empty()) {
    const size_t cut = path.find_last_of(".[");
    path = path.substr(0, cut == std::string_view::npos ? 0 : cut);
    line = lines_.line_of(path);
  }
  return line;
}

void Document::complain(std::string_view path, std::string_view value, std::string_view what) {
  const int line = line_of(path);
  std::string text = line > 0 ? fmt::format("{}:{}: ", file_, line) : file_ + ": ";
  if (!path.empty()) text += fmt::format("{}: ", path);
  if (!value.empty()) text += fmt::format("{}: ", value);
  complaints_.push_back({line, text + std::string(what)});
}

void Document::complain_missing(std::string_view path) {
  complain(path, "", "is required");
  complaints_.back().missing = path;
}

void Document::take_back_missing(std::string_view path) {
  std::erase_if(complaints_, [path](const Complaint& c) { return !c.missing.empty() && c.missing == path; });
}

Status Document::status() const {
  if (complaints_.empty()) return Status();
  std::vector<Complaint> in_order = complaints_;
  std::stable_sort(in_order.begin(), in_order.end(), [](const auto& a, const auto& b) { return a.line < b.line; });
  std::string text;
  for (const Complaint& complaint : in_order) text += (text.empty() ? "" : "\n") + complaint.text;
  return invalid_argument(text);
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
  if (key.empty()) return path_;
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

const Json* ObjectReader::take(std::string_view key) {
  if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.emplace_back(key);
  const Json* v = object_ == nullptr ? nullptr : object_->if_contains(key);
  return v == nullptr || v->is_null() ? nullptr : v;
}

void ObjectReader::announce(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.push_back(key);
  }
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
  if (v.empty()) complain_missing(key);
  return v;
}

void ObjectReader::complain_missing(std::string_view key) { document_->complain_missing(path_of(key)); }

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
    if (!near.empty() && !has(near)) document_->take_back_missing(path_of(near));
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
  const std::string typed = lower(word);
  std::string best;
  for (const std::string& k : known) {
    if (!looks_like(typed, lower(k))) continue;
    if (best.empty() || edit_distance(typed, lower(k)) < edit_distance(typed, lower(best))) best = k;
  }
  return best;
}

}  // namespace ghostfleet::emulator
