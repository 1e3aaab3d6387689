#include "kube/cel/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "kube/cel/functions.h"
#include "kube/cel/syntax.h"

namespace ghostfleet::kube::cel {

namespace {

// ---- what an expression may name

class Checker {
 public:
  Checker(std::string_view text, std::vector<std::string> names) : text_(text), names_(std::move(names)) {}

  Status check(const Node& node) {
    if (node.kind == NodeKind::kIdent && std::find(names_.begin(), names_.end(), node.name) == names_.end())
      return fail(node, fmt::format("undeclared reference to '{}'", node.name));
    if (node.kind == NodeKind::kCall) GF_RETURN_IF_ERROR(check_call(node));
    const bool scoped = node.kind == NodeKind::kLoop || node.kind == NodeKind::kBind;
    for (size_t i = 0; i < node.args.size(); ++i) {
      if (scoped && i == 1) names_.push_back(node.variable);
      GF_RETURN_IF_ERROR(check(*node.args[i]));
    }
    if (scoped) names_.pop_back();
    return Status();
  }

 private:
  Status check_call(const Node& node) const {
    if (find_function(node.name, node.method, node.args.size()) != nullptr) return Status();
    if (function_name_known(node.name))
      return fail(node, fmt::format("{}(): it is called with too few or too many arguments, or as the wrong kind of "
                                    "call (x.f() or f(x))",
                                    node.name));
    return fail(node, fmt::format("undeclared reference to '{}': the function is not known here", node.name));
  }
  Status fail(const Node& node, std::string_view what) const {
    return invalid_argument(fmt::format("{}: {}", place_of(text_, node.position), what));
  }
  std::string_view text_;
  std::vector<std::string> names_;
};

// ---- evaluation

class Evaluator {
 public:
  Evaluator(const Program::Variables& variables, uint64_t budget) : scope_(variables), budget_(budget) {}

  Result<Value> run(const Node& node) {
    GF_RETURN_IF_ERROR(spend(1));
    switch (node.kind) {
      case NodeKind::kLiteral: return node.literal;
      case NodeKind::kIdent: return look_up(node.name);
      case NodeKind::kSelect: return select(node);
      case NodeKind::kIndex: return index(node);
      case NodeKind::kCall: return call(node);
      case NodeKind::kList: return make_list(node);
      case NodeKind::kMap: return make_map(node);
      case NodeKind::kNot: return invert(node);
      case NodeKind::kNegate: return negate(node);
      case NodeKind::kAnd: return logic(node, false);
      case NodeKind::kOr: return logic(node, true);
      case NodeKind::kConditional: return choose(node);
      case NodeKind::kBinary: return binary(node);
      case NodeKind::kHas: return has(node);
      case NodeKind::kLoop: return loop(node);
      case NodeKind::kBind: return bind(node);
    }
    return invalid_argument("not understood");
  }

 private:
  Status spend(uint64_t cost) {
    if (cost > budget_) {
      exhausted_ = true;
      return Status(Code::kResourceExhausted, "operation cancelled: actual cost limit exceeded");
    }
    budget_ -= cost;
    return Status();
  }
  Status spend_for(const Value& value) {
    const auto* text = value.as<std::string>();
    return text != nullptr ? spend(text->size() / 10) : Status();
  }

  Result<Value> look_up(std::string_view name) const {
    for (auto it = scope_.rbegin(); it != scope_.rend(); ++it) {
      if (it->first == name) return it->second;
    }
    return invalid_argument(fmt::format("no such attribute: {}", name));
  }

  // A field of an optional value is optional too.
  static Result<Value> member(const Value& of, std::string_view key, bool optional) {
    if (const auto* o = of.as<Value::Optional>()) {
      if (o->value == nullptr) return of;
      return member(*o->value, key, true);
    }
    if (of.as_map() == nullptr) {
      if (optional) return Value::optional(std::nullopt);
      return invalid_argument("no such overload");
    }
    const Value* found = of.find(key);
    if (optional) return Value::optional(found != nullptr ? std::optional(*found) : std::nullopt);
    if (found == nullptr) return not_found(fmt::format("no such key: {}", key));
    return *found;
  }

  Result<Value> select(const Node& node) {
    auto of = run(*node.args[0]);
    return of.ok() ? member(*of, node.name, node.optional) : of;
  }

  Result<Value> index(const Node& node) {
    auto of = run(*node.args[0]);
    if (!of.ok()) return of;
    auto key = run(*node.args[1]);
    if (!key.ok()) return key;
    if (const auto* name = key->as<std::string>()) return member(*of, *name, node.optional);
    const List* list = of->as_list();
    const auto* at = key->as<int64_t>();
    if (list == nullptr || at == nullptr) return invalid_argument("no such overload");
    const bool there = *at >= 0 && static_cast<uint64_t>(*at) < list->size();
    if (node.optional) return Value::optional(there ? std::optional((*list)[static_cast<size_t>(*at)]) : std::nullopt);
    if (!there) return invalid_argument(fmt::format("index out of bounds: {}", *at));
    return (*list)[static_cast<size_t>(*at)];
  }

  Result<Value> call(const Node& node) {
    std::vector<Value> args;
    for (const NodePtr& arg : node.args) {
      auto value = run(*arg);
      if (!value.ok()) return value;
      GF_RETURN_IF_ERROR(spend_for(*value));
      args.push_back(std::move(*value));
    }
    return find_function(node.name, node.method, args.size())(args);
  }

  Result<Value> make_list(const Node& node) {
    List items;
    for (const NodePtr& arg : node.args) {
      auto value = run(*arg);
      if (!value.ok()) return value;
      items.push_back(std::move(*value));
    }
    return Value::list(std::move(items));
  }

  Result<Value> make_map(const Node& node) {
    Map items;
    for (size_t i = 0; i + 1 < node.args.size(); i += 2) {
      auto key = run(*node.args[i]);
      if (!key.ok()) return key;
      const auto* name = key->as<std::string>();
      if (name == nullptr) return invalid_argument("keys of a map other than strings are not known here");
      auto value = run(*node.args[i + 1]);
      if (!value.ok()) return value;
      if (!items.emplace(*name, std::move(*value)).second)
        return invalid_argument(fmt::format("repeated key: {}", *name));
    }
    return Value::map(std::move(items));
  }

  Result<Value> invert(const Node& node) {
    auto value = run(*node.args[0]);
    if (!value.ok()) return value;
    const auto* b = value->as<bool>();
    return b != nullptr ? Result<Value>(Value(!*b)) : Result<Value>(invalid_argument("no such overload"));
  }

  Result<Value> negate(const Node& node) {
    auto value = run(*node.args[0]);
    return value.ok() ? negated(*value) : value;
  }

  // && and || know their end from either side: an error counts only when the other side leaves it open.
  Result<Value> logic(const Node& node, bool deciding) {
    auto left = truth(*node.args[0]);
    if (left.ok() && *left == deciding) return Value(deciding);
    if (exhausted_) return left.error();
    auto right = truth(*node.args[1]);
    if (right.ok() && *right == deciding) return Value(deciding);
    if (!left.ok()) return left.error();
    if (!right.ok()) return right.error();
    return Value(!deciding);
  }

  Result<bool> truth(const Node& node) {
    auto value = run(node);
    if (!value.ok()) return value.error();
    const auto* b = value->as<bool>();
    return b != nullptr ? Result<bool>(*b) : Result<bool>(invalid_argument("no such overload"));
  }

  Result<Value> choose(const Node& node) {
    auto condition = truth(*node.args[0]);
    if (!condition.ok()) return condition.error();
    return run(*node.args[*condition ? 1 : 2]);
  }

  Result<Value> binary(const Node& node) {
    auto a = run(*node.args[0]);
    if (!a.ok()) return a;
    auto b = run(*node.args[1]);
    if (!b.ok()) return b;
    GF_RETURN_IF_ERROR(spend_for(*a));
    GF_RETURN_IF_ERROR(spend_for(*b));
    if (const List* list = b->as_list()) GF_RETURN_IF_ERROR(spend(list->size()));
    if (const List* list = a->as_list()) GF_RETURN_IF_ERROR(spend(list->size()));
    return apply_operator(node.name, *a, *b);
  }

  Result<Value> has(const Node& node) {
    auto of = run(*node.args[0]);
    if (!of.ok()) return of;
    if (const auto* o = of->as<Value::Optional>()) {
      if (o->value == nullptr) return Value(false);
      const Value inner = *o->value;
      of = inner;
    }
    const Map* map = of->as_map();
    if (map == nullptr) return invalid_argument("no such overload");
    return Value(map->find(node.name) != map->end());
  }

  static Result<List> items_of(const Value& range) {
    if (const List* list = range.as_list()) return *list;
    const Map* map = range.as_map();
    if (map == nullptr) return invalid_argument("no such overload");
    List keys;
    for (const auto& [key, value] : *map) keys.push_back(Value(key));
    return keys;
  }

  Result<Value> loop(const Node& node) {
    auto range = run(*node.args[0]);
    if (!range.ok()) return range;
    const auto items = items_of(*range);
    if (!items.ok()) return items.error();
    scope_.emplace_back(node.variable, Value());
    auto out = node.name == "filter" || node.name == "map" ? collect(node, *items) : quantify(node, *items);
    scope_.pop_back();
    return out;
  }

  Result<Value> collect(const Node& node, const List& items) {
    List out;
    const bool picks = node.name == "filter" || node.args.size() > 2;
    for (const Value& item : items) {
      GF_RETURN_IF_ERROR(spend(1));
      scope_.back().second = item;
      if (picks) {
        auto wanted = truth(*node.args[1]);
        if (!wanted.ok()) return wanted.error();
        if (!*wanted) continue;
      }
      auto value = node.name == "filter" ? Result<Value>(item) : run(*node.args.back());
      if (!value.ok()) return value;
      out.push_back(std::move(*value));
    }
    return Value::list(std::move(out));
  }

  // As && and ||: one item that decides is enough, whatever others come to; of exists_one every error counts.
  Result<Value> quantify(const Node& node, const List& items) {
    const bool all = node.name == "all";
    Status error;
    size_t found = 0;
    for (const Value& item : items) {
      GF_RETURN_IF_ERROR(spend(1));
      scope_.back().second = item;
      auto holds = truth(*node.args[1]);
      if (!holds.ok()) {
        if (exhausted_ || node.name == "exists_one") return holds.error();
        error = holds.error();
      } else if (*holds != all) {
        if (node.name != "exists_one") return Value(!all);
        ++found;
      }
    }
    if (!error.ok()) return error;
    return Value(node.name == "exists_one" ? found == 1 : all);
  }

  Result<Value> bind(const Node& node) {
    auto value = run(*node.args[0]);
    if (!value.ok()) return value;
    scope_.emplace_back(node.variable, std::move(*value));
    auto out = run(*node.args[1]);
    scope_.pop_back();
    return out;
  }

  Program::Variables scope_;
  uint64_t budget_;
  bool exhausted_ = false;
};

}  // namespace

Program::Program(std::unique_ptr<Node> root) : root_(std::move(root)) {}
Program::~Program() = default;

Result<std::shared_ptr<const Program>> Program::compile(std::string_view text,
                                                        const std::vector<std::string>& variables) {
  auto root = parse_expression(text);
  if (!root.ok()) return root.error();
  GF_RETURN_IF_ERROR(Checker(text, variables).check(**root));
  return std::shared_ptr<const Program>(new Program(std::move(*root)));
}

Result<Value> Program::evaluate(const Variables& variables, uint64_t most_cost) const {
  return Evaluator(variables, most_cost).run(*root_);
}

Result<bool> Program::test(const Variables& variables, uint64_t most_cost) const {
  auto value = evaluate(variables, most_cost);
  if (!value.ok()) return value.error();
  const auto* b = value->as<bool>();
  if (b != nullptr) return *b;
  return invalid_argument(fmt::format("the expression comes to a {}: true or false is expected", value->type_name()));
}

}  // namespace ghostfleet::kube::cel
