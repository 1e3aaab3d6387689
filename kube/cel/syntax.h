// The tree of an expression, and the parser that makes it. Not for others: program.h is the door.
//
// Thread rule: plain values. Limits: kMaxExpression bytes, kMaxDepth and kMaxTreeDepth levels. Errors name the line,
// the column and what was there.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kube/cel/value.h"

namespace ghostfleet::kube::cel {

inline constexpr size_t kMaxExpression = 10 << 10;  // of a device selector
inline constexpr int kMaxDepth = 100;               // of brackets; operators and fields in a row
inline constexpr int kMaxTreeDepth = 500;           // of the tree: a row of operators makes it deep too

enum class NodeKind : unsigned char {
  kLiteral,
  kIdent,   // name
  kSelect,  // args[0].name
  kIndex,   // args[0][args[1]]
  kCall,    // name(args...), or args[0].name(...) when `method`
  kList,    // args
  kMap,     // keys and values by turns
  kNot,
  kNegate,
  kAnd,
  kOr,
  kConditional,  // args[0] ? args[1] : args[2]
  kBinary,       // name is the operator
  kHas,          // has(args[0].name)
  kLoop,         // args[0].name(variable, args[1] [, args[2]]): all, exists, exists_one, filter, map
  kBind,         // cel.bind(variable, args[0], args[1])
};

struct Node {
  NodeKind kind = NodeKind::kLiteral;
  size_t position = 0;
  std::string name;
  std::string variable;
  bool method = false;
  bool optional = false;  // of ?. and [?]
  Value literal;
  std::vector<std::unique_ptr<Node>> args;
};
using NodePtr = std::unique_ptr<Node>;

Result<NodePtr> parse_expression(std::string_view text);
// "1:5", of a byte of the text.
std::string place_of(std::string_view text, size_t position);

}  // namespace ghostfleet::kube::cel
