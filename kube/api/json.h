// Json: the editable form of an API object, and the few accessors everybody needs. Objects are stored and shipped as
// bytes (SharedBytes); they become Json only where they must be edited or looked into deeply.
//
// Json is boost::json::value: objects keep the order of insertion. parse_json() is ours: it knows duplicates and depth.
// Thread rule: plain values.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ghostfleet::kube {

using Json = boost::json::value;
using JsonObject = boost::json::object;
using JsonArray = boost::json::array;
using JsonString = boost::json::string;

struct JsonParseOptions {
  int max_depth = 2000;  // deeper input is an error ("exceeded max depth"); never more than kMaxJsonTreeDepth
  std::vector<std::string>* duplicates =
      nullptr;  // filled with the paths of keys given twice ("spec.a[0].b"); the last wins
};

// Parses one JSON text; anything after it but white space is an error. Error messages are those of a real API server
// ("invalid character 'x' looking for beginning of value"). Invalid UTF-8 becomes U+FFFD. Whole numbers stay int64 (or
// uint64), others become double.
Result<Json> parse_json(std::string_view text, const JsonParseOptions& options = {});

// Compact JSON in the order of insertion. Escapes what Go escapes (<, >, &, U+2028, U+2029 as \u....).
std::string to_json(const Json& value);
void append_json(const Json& value, std::string* out);
// Appends a JSON string literal, quotes included.
void append_json_string(std::string_view text, std::string* out);

// Looks down a dotted path of object keys ("status.nodeInfo.kubeletVersion"); null pointer when a step is missing or no
// object. Keys that hold dots: use find_key step by step.
const Json* find_path(const Json& value, std::string_view path);
Json* find_path(Json& value, std::string_view path);
const Json* find_key(const Json& value, std::string_view key);
Json* find_key(Json& value, std::string_view key);

// The string at a path; empty when missing or of another type.
std::string_view get_string(const Json& value, std::string_view path);
int64_t get_int(const Json& value, std::string_view path, int64_t fallback = 0);
bool get_bool(const Json& value, std::string_view path, bool fallback = false);
// The array or object at a path; null pointer when missing or of another type.
const JsonArray* get_array(const Json& value, std::string_view path);
const JsonObject* get_object(const Json& value, std::string_view path);

// Sets the value at a dotted path, making objects on the way (a null or a missing step becomes an object).
Json& set_path(Json& value, std::string_view path, Json v);
// The object at a dotted path, made when missing.
JsonObject& ensure_object(Json& value, std::string_view path);
JsonArray& ensure_array(Json& value, std::string_view path);
void erase_path(Json& value, std::string_view path);

// Deep equality; object order does not matter, 1 and 1.0 are equal.
bool json_equal(const Json& a, const Json& b);

}  // namespace ghostfleet::kube
