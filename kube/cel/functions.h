// The functions and methods that expressions may call. Not for others: program.h is the door.
//
// Thread rule: pure functions. Source: the CEL specification; Kubernetes' libraries for strings, quantities, semantic
// versions and optional values, by their documentation. What is not here is refused when an expression is compiled.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "kube/cel/value.h"

namespace ghostfleet::kube::cel {

// A method's first argument is what it is called on.
using Function = Result<Value> (*)(const std::vector<Value>& args);
// Null: there is none of that name and number of arguments.
Function find_function(std::string_view name, bool method, size_t args);
// Whether one of that name is known, whatever its arguments.
bool function_name_known(std::string_view name);

// + - * / % < <= > >= == != in
Result<Value> apply_operator(std::string_view op, const Value& a, const Value& b);
Result<Value> negated(const Value& v);

}  // namespace ghostfleet::kube::cel
