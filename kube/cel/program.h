// Program: an expression of CEL, read once and evaluated as often as needed.
//
// What is understood: all operators; literals, lists and maps with text keys; fields and indexes, also optional ones
// (`.?x`, `[?x]`); has(), all(), exists(), exists_one(), filter(), map(), cel.bind(); the functions of functions.h.
// Timestamps, durations, bytes, unsigned conversions, messages and the other libraries of Kubernetes are not: whoever
// uses them is told when the expression is compiled.
// Deviation: types are found out when the expression is evaluated, not when it is compiled ("no such overload").
// Thread rule: immutable. Limits: syntax.h; a cost of one for every step and one for each 10 bytes that are looked at.
// Errors: what is wrong, with line and column of the expression.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "kube/cel/value.h"

namespace ghostfleet::kube::cel {

struct Node;

inline constexpr uint64_t kMaxCost = 1000000;  // of a device selector

class Program {
 public:
  // `variables`: the names that evaluate() is given.
  static Result<std::shared_ptr<const Program>> compile(std::string_view text,
                                                        const std::vector<std::string>& variables);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  using Variables = std::vector<std::pair<std::string_view, Value>>;
  Result<Value> evaluate(const Variables& variables, uint64_t most_cost = kMaxCost) const;
  // The same of an expression that must come to true or false.
  Result<bool> test(const Variables& variables, uint64_t most_cost = kMaxCost) const;

 private:
  explicit Program(std::unique_ptr<Node> root);
  std::unique_ptr<Node> root_;
};

}  // namespace ghostfleet::kube::cel
