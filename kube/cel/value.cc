#include "kube/cel/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace ghostfleet::kube::cel {

namespace {

bool digits_only(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool parse_part(std::string_view text, uint64_t* out) {
  if (!digits_only(text) || (text.size() > 1 && text.front() == '0')) return false;
  return std::from_chars(text.data(), text.data() + text.size(), *out).ec == std::errc();
}

bool identifier(std::string_view text, bool numbers_without_zeros) {
  const bool ok = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
  });
  return ok && !(numbers_without_zeros && digits_only(text) && text.size() > 1 && text.front() == '0');
}

bool split_identifiers(std::string_view text, bool numbers_without_zeros, std::vector<std::string>* out) {
  while (true) {
    const size_t dot = text.find('.');
    const std::string_view part = text.substr(0, dot);
    if (!identifier(part, numbers_without_zeros)) return false;
    out->emplace_back(part);
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

int sign_of(int difference) { return difference < 0 ? -1 : difference > 0 ? 1 : 0; }

int compare_numbers(uint64_t a, uint64_t b) { return a < b ? -1 : a > b ? 1 : 0; }

// Numbers come before words.
int compare_identifiers(const std::string& a, const std::string& b) {
  const bool number_a = digits_only(a), number_b = digits_only(b);
  if (number_a != number_b) return number_a ? -1 : 1;
  if (number_a && a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  return sign_of(a.compare(b));
}

std::optional<int> compare_doubles(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::nullopt;
  return a < b ? -1 : a > b ? 1 : 0;
}

double double_of(const Value& v) {
  if (const auto* i = v.as<int64_t>()) return static_cast<double>(*i);
  if (const auto* u = v.as<uint64_t>()) return static_cast<double>(*u);
  return *v.as<double>();
}

std::optional<int> compare_whole(const Value& a, const Value& b) {
  const auto *ia = a.as<int64_t>(), *ib = b.as<int64_t>();
  if (ia != nullptr && ib != nullptr) return *ia < *ib ? -1 : *ia > *ib ? 1 : 0;
  if (ia != nullptr && *ia < 0) return -1;
  if (ib != nullptr && *ib < 0) return 1;
  const uint64_t ua = ia != nullptr ? static_cast<uint64_t>(*ia) : *a.as<uint64_t>();
  const uint64_t ub = ib != nullptr ? static_cast<uint64_t>(*ib) : *b.as<uint64_t>();
  return compare_numbers(ua, ub);
}

bool equal_lists(const List& a, const List& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), equals);
}

bool equal_maps(const Map& a, const Map& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](const auto& x, const auto& y) {
           return x.first == y.first && equals(x.second, y.second);
         });
}

bool equal_optionals(const Value::Optional& a, const Value::Optional& b) {
  if (a.value == nullptr || b.value == nullptr) return a.value == b.value;
  return equals(*a.value, *b.value);
}

}  // namespace

Result<Semver> Semver::parse(std::string_view text) {
  const std::string whole(text.substr(0, 256));
  const auto wrong = [&] { return invalid_argument(fmt::format("\"{}\" is no semantic version like 1.2.3", whole)); };
  if (text.size() > 256) return wrong();
  if (const size_t plus = text.find('+'); plus != std::string_view::npos) {
    std::vector<std::string> build;
    if (!split_identifiers(text.substr(plus + 1), false, &build)) return wrong();
    text = text.substr(0, plus);
  }
  Semver out;
  if (const size_t dash = text.find('-'); dash != std::string_view::npos) {
    if (!split_identifiers(text.substr(dash + 1), true, &out.pre_)) return wrong();
    text = text.substr(0, dash);
  }
  uint64_t* const parts[] = {&out.major_, &out.minor_, &out.patch_};
  for (int i = 0; i < 3; ++i) {
    const size_t dot = i < 2 ? text.find('.') : text.size();
    if (dot == std::string_view::npos || !parse_part(text.substr(0, dot), parts[i])) return wrong();
    text.remove_prefix(std::min(dot + 1, text.size()));
  }
  return out;
}

int Semver::compare(const Semver& other) const {
  if (const int c = compare_numbers(major_, other.major_); c != 0) return c;
  if (const int c = compare_numbers(minor_, other.minor_); c != 0) return c;
  if (const int c = compare_numbers(patch_, other.patch_); c != 0) return c;
  if (pre_.empty() != other.pre_.empty()) return pre_.empty() ? 1 : -1;
  for (size_t i = 0; i < std::min(pre_.size(), other.pre_.size()); ++i) {
    if (const int c = compare_identifiers(pre_[i], other.pre_[i]); c != 0) return c;
  }
  return compare_numbers(pre_.size(), other.pre_.size());
}

Value Value::list(List items) {
  Value v;
  v.data_ = std::make_shared<const List>(std::move(items));
  return v;
}

Value Value::map(Map items) {
  Value v;
  v.data_ = std::make_shared<const Object>(Object{std::move(items), false});
  return v;
}

Value Value::map_of_maps(Map items) {
  Value v;
  v.data_ = std::make_shared<const Object>(Object{std::move(items), true});
  return v;
}

Value Value::optional(std::optional<Value> value) {
  Value v;
  v.data_ = Optional{value ? std::make_shared<const Value>(std::move(*value)) : nullptr};
  return v;
}

Value Value::from_json(const Json& json) {
  switch (json.kind()) {
    case boost::json::kind::bool_: return Value(json.get_bool());
    case boost::json::kind::int64: return Value(json.get_int64());
    case boost::json::kind::uint64: return Value(json.get_uint64());
    case boost::json::kind::double_: return Value(json.get_double());
    case boost::json::kind::string: return Value(std::string(json.get_string()));
    case boost::json::kind::array: {
      List items;
      for (const Json& item : json.get_array()) items.push_back(from_json(item));
      return list(std::move(items));
    }
    case boost::json::kind::object: {
      Map items;
      for (const auto& [key, item] : json.get_object()) items.insert_or_assign(std::string(key), from_json(item));
      return map(std::move(items));
    }
    case boost::json::kind::null: break;
  }
  return {};
}

const List* Value::as_list() const {
  const auto* list = as<std::shared_ptr<const List>>();
  return list != nullptr ? list->get() : nullptr;
}

const Map* Value::as_map() const {
  const auto* object = as<std::shared_ptr<const Object>>();
  return object != nullptr ? &(*object)->items : nullptr;
}

const Value* Value::find(std::string_view key) const {
  static const Value kEmpty = map({});
  const auto* object = as<std::shared_ptr<const Object>>();
  if (object == nullptr) return nullptr;
  const auto it = (*object)->items.find(key);
  if (it != (*object)->items.end()) return &it->second;
  return (*object)->defaults_to_map ? &kEmpty : nullptr;
}

bool Value::is_number() const {
  return as<int64_t>() != nullptr || as<uint64_t>() != nullptr || as<double>() != nullptr;
}

std::string_view Value::type_name() const {
  static constexpr std::string_view kNames[] = {"null_type", "bool", "int",      "uint",   "double",       "string",
                                                "list",      "map",  "Quantity", "Semver", "optional_type"};
  return kNames[data_.index()];
}

bool equals(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return compare(a, b) == 0;
  if (a.type_name() != b.type_name()) return false;
  if (const auto* v = a.as<bool>()) return *v == *b.as<bool>();
  if (const auto* v = a.as<std::string>()) return *v == *b.as<std::string>();
  if (const auto* v = a.as<Quantity>()) return *v == *b.as<Quantity>();
  if (const auto* v = a.as<Semver>()) return v->compare(*b.as<Semver>()) == 0;
  if (const List* v = a.as_list()) return equal_lists(*v, *b.as_list());
  if (const Map* v = a.as_map()) return equal_maps(*v, *b.as_map());
  if (const auto* v = a.as<Value::Optional>()) return equal_optionals(*v, *b.as<Value::Optional>());
  return true;  // null
}

std::optional<int> compare(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.as<double>() == nullptr && b.as<double>() == nullptr) return compare_whole(a, b);
    return compare_doubles(double_of(a), double_of(b));
  }
  if (a.type_name() != b.type_name()) return std::nullopt;
  if (const auto* v = a.as<std::string>()) return sign_of(v->compare(*b.as<std::string>()));
  if (const auto* v = a.as<bool>()) return static_cast<int>(*v) - static_cast<int>(*b.as<bool>());
  return std::nullopt;
}

}  // namespace ghostfleet::kube::cel
