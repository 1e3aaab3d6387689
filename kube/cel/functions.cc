#include "kube/cel/functions.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace ghostfleet::kube::cel {

namespace {

using Args = std::vector<Value>;

Status no_overload() { return invalid_argument("no such overload"); }

// Calls `call` with the arguments as those types.
template <typename A, typename Call>
Result<Value> with(const Args& args, Call call) {
  const A* a = args[0].as<A>();
  return a != nullptr ? call(*a) : Result<Value>(no_overload());
}
template <typename A, typename B, typename Call>
Result<Value> with(const Args& args, Call call) {
  const A* a = args[0].as<A>();
  const B* b = args[1].as<B>();
  return a != nullptr && b != nullptr ? call(*a, *b) : Result<Value>(no_overload());
}

int64_t runes(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

Result<Value> size_of(const Args& args) {
  if (const auto* s = args[0].as<std::string>()) return Value(runes(*s));
  if (const List* l = args[0].as_list()) return Value(static_cast<int64_t>(l->size()));
  if (const Map* m = args[0].as_map()) return Value(static_cast<int64_t>(m->size()));
  return no_overload();
}

template <typename Test>
Result<Value> text_test(const Args& args, Test test) {
  return with<std::string, std::string>(
      args, [test](const std::string& a, const std::string& b) -> Result<Value> { return Value(test(a, b)); });
}
Result<Value> starts_with(const Args& args) {
  return text_test(args, [](const std::string& a, const std::string& b) { return a.starts_with(b); });
}
Result<Value> ends_with(const Args& args) {
  return text_test(args, [](const std::string& a, const std::string& b) { return a.ends_with(b); });
}
Result<Value> contains(const Args& args) {
  return text_test(args, [](const std::string& a, const std::string& b) { return a.find(b) != std::string::npos; });
}

Result<Value> matches(const Args& args) {
  return with<std::string, std::string>(args, [](const std::string& text, const std::string& re) -> Result<Value> {
    RE2::Options options(RE2::Quiet);
    options.set_max_mem(1 << 20);
    const RE2 pattern(re, options);
    if (!pattern.ok()) return invalid_argument(fmt::format("invalid regular expression: {}", pattern.error()));
    return Value(RE2::PartialMatch(text, pattern));
  });
}

template <char kFrom, char kTo>
Result<Value> fold(const Args& args) {
  return with<std::string>(args, [](const std::string& text) -> Result<Value> {
    std::string out = text;
    for (char& c : out) {
      if (c >= kFrom && c <= kFrom + 25) c = static_cast<char>(c - kFrom + kTo);
    }
    return Value(std::move(out));
  });
}

// ---- conversions

Result<Value> to_int(const Args& args) {
  const Value& v = args[0];
  if (v.as<int64_t>() != nullptr) return v;
  if (const auto* u = v.as<uint64_t>()) {
    if (*u > static_cast<uint64_t>(INT64_MAX)) return invalid_argument("integer overflow");
    return Value(static_cast<int64_t>(*u));
  }
  if (const auto* d = v.as<double>()) {
    if (!(*d > -9223372036854775808.0 && *d < 9223372036854775808.0)) return invalid_argument("integer overflow");
    return Value(static_cast<int64_t>(*d));
  }
  const auto* s = v.as<std::string>();
  if (s == nullptr) return no_overload();
  int64_t out = 0;
  const auto [end, error] = std::from_chars(s->data(), s->data() + s->size(), out);
  if (error != std::errc() || end != s->data() + s->size()) return invalid_argument("cannot convert string to int");
  return Value(out);
}

Result<Value> to_double(const Args& args) {
  const Value& v = args[0];
  if (v.as<double>() != nullptr) return v;
  if (const auto* i = v.as<int64_t>()) return Value(static_cast<double>(*i));
  if (const auto* u = v.as<uint64_t>()) return Value(static_cast<double>(*u));
  const auto* s = v.as<std::string>();
  if (s == nullptr) return no_overload();
  char* end = nullptr;
  const double out = std::strtod(s->c_str(), &end);
  if (s->empty() || end != s->c_str() + s->size()) return invalid_argument("cannot convert string to double");
  return Value(out);
}

Result<Value> to_text(const Args& args) {
  const Value& v = args[0];
  if (v.as<std::string>() != nullptr) return v;
  if (const auto* i = v.as<int64_t>()) return Value(std::to_string(*i));
  if (const auto* u = v.as<uint64_t>()) return Value(std::to_string(*u));
  if (const auto* d = v.as<double>()) return Value(fmt::format("{}", *d));
  if (const auto* b = v.as<bool>()) return Value(std::string(*b ? "true" : "false"));
  return no_overload();
}

Result<Value> to_quantity(const Args& args) {
  return with<std::string>(args, [](const std::string& text) -> Result<Value> {
    const auto parsed = Quantity::parse(text);
    if (!parsed.ok()) return invalid_argument(fmt::format("quantity(\"{}\"): {}", text, parsed.error().message()));
    return Value(*parsed);
  });
}
Result<Value> is_quantity(const Args& args) {
  return with<std::string>(args,
                           [](const std::string& text) -> Result<Value> { return Value(Quantity::parse(text).ok()); });
}
Result<Value> to_semver(const Args& args) {
  return with<std::string>(args, [](const std::string& text) -> Result<Value> {
    auto parsed = Semver::parse(text);
    if (!parsed.ok()) return parsed.error();
    return Value(std::move(*parsed));
  });
}
Result<Value> is_semver(const Args& args) {
  return with<std::string>(args,
                           [](const std::string& text) -> Result<Value> { return Value(Semver::parse(text).ok()); });
}

// ---- quantities and versions

std::optional<int64_t> order_of(const Args& args) {
  const auto *qa = args[0].as<Quantity>(), *qb = args[1].as<Quantity>();
  if (qa != nullptr && qb != nullptr) return *qa < *qb ? -1 : *qa == *qb ? 0 : 1;
  const auto *va = args[0].as<Semver>(), *vb = args[1].as<Semver>();
  if (va != nullptr && vb != nullptr) return va->compare(*vb);
  return std::nullopt;
}
Result<Value> compare_to(const Args& args) {
  const auto order = order_of(args);
  return order ? Result<Value>(Value(*order)) : Result<Value>(no_overload());
}
Result<Value> is_greater(const Args& args) {
  const auto order = order_of(args);
  return order ? Result<Value>(Value(*order > 0)) : Result<Value>(no_overload());
}
Result<Value> is_less(const Args& args) {
  const auto order = order_of(args);
  return order ? Result<Value>(Value(*order < 0)) : Result<Value>(no_overload());
}
Result<Value> sign(const Args& args) {
  return with<Quantity>(args, [](const Quantity& q) -> Result<Value> { return Value(static_cast<int64_t>(q.sign())); });
}
Result<Value> as_integer(const Args& args) {
  return with<Quantity>(args, [](const Quantity& q) -> Result<Value> { return Value(q.value()); });
}
Result<Value> add_quantity(const Args& args) {
  return with<Quantity, Quantity>(args, [](Quantity a, const Quantity& b) -> Result<Value> { return Value(a += b); });
}
Result<Value> sub_quantity(const Args& args) {
  return with<Quantity, Quantity>(args, [](Quantity a, const Quantity& b) -> Result<Value> { return Value(a -= b); });
}
template <uint64_t (Semver::*kPart)() const>
Result<Value> part_of(const Args& args) {
  return with<Semver>(args, [](const Semver& v) -> Result<Value> { return Value(static_cast<int64_t>((v.*kPart)())); });
}

// ---- optional values

Result<Value> or_value(const Args& args) {
  const auto* o = args[0].as<Value::Optional>();
  if (o == nullptr) return no_overload();
  return o->value != nullptr ? *o->value : args[1];
}
Result<Value> or_optional(const Args& args) {
  const auto* o = args[0].as<Value::Optional>();
  if (o == nullptr || args[1].as<Value::Optional>() == nullptr) return no_overload();
  return o->value != nullptr ? args[0] : args[1];
}
Result<Value> has_value(const Args& args) {
  const auto* o = args[0].as<Value::Optional>();
  return o != nullptr ? Result<Value>(Value(o->value != nullptr)) : Result<Value>(no_overload());
}
Result<Value> value_of(const Args& args) {
  const auto* o = args[0].as<Value::Optional>();
  if (o == nullptr) return no_overload();
  return o->value != nullptr ? Result<Value>(*o->value)
                             : Result<Value>(invalid_argument("optional.none() dereference"));
}

struct Entry {
  std::string_view name;
  bool method;
  size_t args;  // with what a method is called on
  Function function;
};
constexpr std::array<Entry, 30> kFunctions = {{
    {"size", false, 1, size_of},
    {"size", true, 1, size_of},
    {"startsWith", true, 2, starts_with},
    {"endsWith", true, 2, ends_with},
    {"contains", true, 2, contains},
    {"matches", true, 2, matches},
    {"matches", false, 2, matches},
    {"lowerAscii", true, 1, fold<'A', 'a'>},
    {"upperAscii", true, 1, fold<'a', 'A'>},
    {"int", false, 1, to_int},
    {"double", false, 1, to_double},
    {"string", false, 1, to_text},
    {"quantity", false, 1, to_quantity},
    {"isQuantity", false, 1, is_quantity},
    {"semver", false, 1, to_semver},
    {"isSemver", false, 1, is_semver},
    {"compareTo", true, 2, compare_to},
    {"isGreaterThan", true, 2, is_greater},
    {"isLessThan", true, 2, is_less},
    {"sign", true, 1, sign},
    {"asInteger", true, 1, as_integer},
    {"add", true, 2, add_quantity},
    {"sub", true, 2, sub_quantity},
    {"major", true, 1, part_of<&Semver::major>},
    {"minor", true, 1, part_of<&Semver::minor>},
    {"patch", true, 1, part_of<&Semver::patch>},
    {"orValue", true, 2, or_value},
    {"or", true, 2, or_optional},
    {"hasValue", true, 1, has_value},
    {"value", true, 1, value_of},
}};

// ---- operators

Result<Value> add(const Value& a, const Value& b) {
  const auto *ia = a.as<int64_t>(), *ib = b.as<int64_t>();
  int64_t out = 0;
  if (ia != nullptr && ib != nullptr) {
    if (__builtin_add_overflow(*ia, *ib, &out)) return invalid_argument("integer overflow");
    return Value(out);
  }
  if (a.as<double>() != nullptr && b.as<double>() != nullptr) return Value(*a.as<double>() + *b.as<double>());
  if (a.as<std::string>() != nullptr && b.as<std::string>() != nullptr)
    return Value(*a.as<std::string>() + *b.as<std::string>());
  if (a.as_list() != nullptr && b.as_list() != nullptr) {
    List both = *a.as_list();
    both.insert(both.end(), b.as_list()->begin(), b.as_list()->end());
    return Value::list(std::move(both));
  }
  return no_overload();
}

Result<Value> whole_arithmetic(char op, int64_t a, int64_t b) {
  int64_t out = 0;
  if (op == '-' && !__builtin_sub_overflow(a, b, &out)) return Value(out);
  if (op == '*' && !__builtin_mul_overflow(a, b, &out)) return Value(out);
  if (op == '-' || op == '*') return invalid_argument("integer overflow");
  if (b == 0) return invalid_argument(op == '/' ? "division by zero" : "modulus by zero");
  if (a == INT64_MIN && b == -1) return invalid_argument("integer overflow");
  return Value(op == '/' ? a / b : a % b);
}

Result<Value> arithmetic(char op, const Value& a, const Value& b) {
  if (a.as<int64_t>() != nullptr && b.as<int64_t>() != nullptr)
    return whole_arithmetic(op, *a.as<int64_t>(), *b.as<int64_t>());
  const auto *da = a.as<double>(), *db = b.as<double>();
  if (da == nullptr || db == nullptr || op == '%') return no_overload();
  return Value(op == '-' ? *da - *db : op == '*' ? *da * *db : *da / *db);
}

Result<Value> is_in(const Value& a, const Value& b) {
  if (const List* list = b.as_list())
    return Value(std::any_of(list->begin(), list->end(), [&a](const Value& item) { return equals(a, item); }));
  const Map* map = b.as_map();
  if (map == nullptr) return no_overload();
  const auto* key = a.as<std::string>();
  return Value(key != nullptr && map->find(*key) != map->end());
}

}  // namespace

Function find_function(std::string_view name, bool method, size_t args) {
  for (const Entry& e : kFunctions) {
    if (e.name == name && e.method == method && e.args == args) return e.function;
  }
  return nullptr;
}

bool function_name_known(std::string_view name) {
  return std::any_of(kFunctions.begin(), kFunctions.end(), [name](const Entry& e) { return e.name == name; });
}

Result<Value> apply_operator(std::string_view op, const Value& a, const Value& b) {
  if (op == "==") return Value(equals(a, b));
  if (op == "!=") return Value(!equals(a, b));
  if (op == "in") return is_in(a, b);
  if (op == "+") return add(a, b);
  if (op == "-" || op == "*" || op == "/" || op == "%") return arithmetic(op.front(), a, b);
  const auto order = compare(a, b);
  const bool numbers = a.is_number() && b.is_number();
  if (!order) return numbers ? Result<Value>(Value(false)) : Result<Value>(no_overload());  // not a number
  if (op == "<") return Value(*order < 0);
  if (op == "<=") return Value(*order <= 0);
  return Value(op == ">" ? *order > 0 : *order >= 0);
}

Result<Value> negated(const Value& v) {
  if (const auto* i = v.as<int64_t>()) {
    if (*i == INT64_MIN) return invalid_argument("integer overflow");
    return Value(-*i);
  }
  if (const auto* d = v.as<double>()) return Value(-*d);
  return no_overload();
}

}  // namespace ghostfleet::kube::cel
