#include "kube/api/patch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.h"

namespace ghostfleet::kube {
namespace {

std::string_view go_kind(const Json& value) {
  if (value.is_array()) return "array";
  if (value.is_string()) return "string";
  if (value.is_bool()) return "bool";
  if (value.is_object()) return "object";
  return "number";
}

ApiError plain_error(int code, std::string reason, std::string message) {
  ApiError e;
  e.code = code;
  e.reason = std::move(reason);
  e.message = std::move(message);
  return e;
}

// Whatever fails while operations are applied: the answer names neither operation nor cause.
ApiError operation_failed() {
  return plain_error(422, "Invalid", "the server rejected our request due to an error in our request");
}

std::string unescape_pointer(std::string_view token) {
  std::string out;
  for (size_t i = 0; i < token.size(); ++i) {
    const bool escape = token[i] == '~' && i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1');
    out += escape ? (token[i + 1] == '0' ? '~' : '/') : token[i];
    if (escape) ++i;
  }
  return out;
}

// "/a/0/b" to tokens; nothing when it does not begin with a slash (the whole document cannot be addressed).
std::optional<std::vector<std::string>> pointer_tokens(std::string_view path) {
  if (path.empty() || path[0] != '/') return std::nullopt;
  std::vector<std::string> tokens;
  while (!path.empty()) {
    path.remove_prefix(1);
    const size_t slash = path.find('/');
    tokens.push_back(unescape_pointer(path.substr(0, slash)));
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash);
  }
  return tokens;
}

// An index into a list of `size` elements; negative ones count from the end.
std::optional<size_t> list_index(std::string_view token, size_t size) {
  bool negative = false;
  std::string_view digits = token;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) {
    negative = digits[0] == '-';
    digits.remove_prefix(1);
  }
  if (digits.empty() || digits.size() > 9) return std::nullopt;
  size_t value = 0;
  for (char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<size_t>(c - '0');
  }
  if (!negative) return value;
  if (value > size) return std::nullopt;
  return size - value;
}

// One operation on one document.
class JsonPatcher {
 public:
  explicit JsonPatcher(Json* document) : document_(document) {}

  bool apply(const JsonObject& operation) {
    const std::string_view op = text(operation, "op"), path = text(operation, "path");
    const std::optional<std::vector<std::string>> tokens = pointer_tokens(path);
    if (!tokens) return false;
    const auto value = operation.find("value");
    // A missing value is null.
    const Json given = value == operation.end() ? Json() : value->value();
    if (op == "add") return add(*tokens, given);
    if (op == "remove") return remove(*tokens);
    if (op == "replace") return replace(*tokens, given);
    if (op == "test") return test(*tokens, given);
    if (op == "copy" || op == "move") return transfer(*tokens, text(operation, "from"), op == "move");
    return false;
  }

 private:
  static std::string_view text(const JsonObject& operation, std::string_view key) {
    const auto it = operation.find(key);
    return it != operation.end() && it->value().is_string() ? std::string_view(it->value().get_string())
                                                            : std::string_view();
  }

  // The object or list that holds the last token; null pointer when the way to it does not exist.
  Json* container(const std::vector<std::string>& tokens) {
    Json* at = document_;
    for (size_t i = 0; i + 1 < tokens.size() && at != nullptr; ++i) at = child(*at, tokens[i]);
    return at != nullptr && (at->is_object() || at->is_array()) ? at : nullptr;
  }

  static Json* child(Json& parent, const std::string& token) {
    if (parent.is_object()) return parent.get_object().if_contains(token);
    if (!parent.is_array()) return nullptr;
    const std::optional<size_t> index = list_index(token, parent.get_array().size());
    return index && *index < parent.get_array().size() ? &parent.get_array()[*index] : nullptr;
  }

  bool add(const std::vector<std::string>& tokens, const Json& value) {
    Json* parent = container(tokens);
    if (parent == nullptr) return false;
    if (parent->is_object()) {
      parent->get_object()[tokens.back()] = value;
      return true;
    }
    JsonArray& list = parent->get_array();
    if (tokens.back() == "-") {
      list.push_back(value);
      return true;
    }
    // An inserted element counts: index -1 appends.
    const std::optional<size_t> index = list_index(tokens.back(), list.size() + 1);
    if (!index || *index > list.size()) return false;
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(*index), value);
    return true;
  }

  bool remove(const std::vector<std::string>& tokens) {
    Json* parent = container(tokens);
    if (parent == nullptr) return false;
    if (parent->is_object()) return parent->get_object().erase(tokens.back()) > 0;
    JsonArray& list = parent->get_array();
    const std::optional<size_t> index = list_index(tokens.back(), list.size());
    if (!index || *index >= list.size()) return false;
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(*index));
    return true;
  }

  // A missing key of an object is added, as a real server does.
  bool replace(const std::vector<std::string>& tokens, const Json& value) {
    Json* parent = container(tokens);
    if (parent == nullptr) return false;
    if (parent->is_object()) {
      parent->get_object()[tokens.back()] = value;
      return true;
    }
    Json* target = child(*parent, tokens.back());
    if (target == nullptr) return false;
    *target = value;
    return true;
  }

  bool test(const std::vector<std::string>& tokens, const Json& value) {
    Json* parent = container(tokens);
    if (parent == nullptr) return false;
    const Json* found = child(*parent, tokens.back());
    if (found == nullptr) return parent->is_object() && value.is_null();
    return json_equal(*found, value);
  }

  bool transfer(const std::vector<std::string>& tokens, std::string_view from, bool move) {
    const std::optional<std::vector<std::string>> source = pointer_tokens(from);
    if (!source) return false;
    Json* parent = container(*source);
    const Json* found = parent == nullptr ? nullptr : child(*parent, source->back());
    if (found == nullptr) return false;
    const Json value = *found;
    if (move) return remove(*source) && add(tokens, value);
    copied_ += to_json(value).size();
    return copied_ <= kMaxJsonPatchCopyBytes && add(tokens, value);
  }

  Json* document_;
  size_t copied_ = 0;
};

// Removes members that are null, at any depth.
void drop_nulls(Json* value) {
  if (value->is_array()) {
    for (Json& item : value->get_array()) drop_nulls(&item);
    return;
  }
  if (!value->is_object()) return;
  JsonObject kept;
  for (auto& member : value->get_object()) {
    if (member.value().is_null()) continue;
    drop_nulls(&member.value());
    kept.emplace(member.key(), std::move(member.value()));
  }
  *value = std::move(kept);
}

void merge_into(JsonObject* target, const JsonObject& patch) {
  for (const auto& member : patch) {
    if (member.value().is_null()) {
      // Not erase(): that would move the last member into the gap.
      if (const auto it = target->find(member.key()); it != target->end()) target->stable_erase(it);
      continue;
    }
    Json* present = target->if_contains(member.key());
    if (present != nullptr && present->is_object() && member.value().is_object()) {
      merge_into(&present->get_object(), member.value().get_object());
      continue;
    }
    Json value = member.value();
    drop_nulls(&value);
    (*target)[member.key()] = std::move(value);
  }
}

}  // namespace

ApiResult<Json> apply_json_patch(Json target, const Json& patch) {
  if (!patch.is_array()) {
    return bad_request(
        fmt::format("error decoding patch: json: cannot unmarshal {} into Go value of type "
                    "[]handlers.jsonPatchOp",
                    go_kind(patch)));
  }
  const JsonArray& operations = patch.get_array();
  if (operations.size() > kMaxJsonPatchOperations) {
    return plain_error(413, "RequestEntityTooLarge",
                       fmt::format("Request entity too large: The allowed maximum operations in a JSON patch is {}, "
                                   "got {}",
                                   kMaxJsonPatchOperations, operations.size()));
  }
  JsonPatcher patcher(&target);
  for (const Json& operation : operations) {
    if (!operation.is_object()) {
      return bad_request(
          fmt::format("error decoding patch: json: cannot unmarshal {} into Go value of type "
                      "handlers.jsonPatchOp",
                      go_kind(operation)));
    }
    if (!patcher.apply(operation.get_object())) return operation_failed();
  }
  return target;
}

Json apply_merge_patch(Json target, const Json& patch) {
  if (!patch.is_object()) return target;
  if (!target.is_object()) target = JsonObject();
  merge_into(&target.get_object(), patch.get_object());
  return target;
}

ApiResult<bool> check_patch_body(const Json& patch, bool strategic) {
  if (patch.is_object()) return true;
  if (patch.is_null()) {
    if (strategic) return true;
    return bad_request("Invalid JSON Patch");
  }
  return bad_request(fmt::format("{}json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                                 strategic ? "" : "error decoding patch: ", go_kind(patch)));
}

std::vector<std::string> unknown_json_patch_fields(const Json& patch) {
  static constexpr std::array<std::string_view, 4> kKnown = {"op", "path", "from", "value"};
  std::vector<std::string> unknown;
  if (!patch.is_array()) return unknown;
  const JsonArray& operations = patch.get_array();
  for (size_t i = 0; i < operations.size(); ++i) {
    if (!operations[i].is_object()) continue;
    for (const auto& member : operations[i].get_object()) {
      if (std::find(kKnown.begin(), kKnown.end(), std::string_view(member.key())) != kKnown.end()) continue;
      unknown.push_back(fmt::format("[{}].{}", i, std::string_view(member.key())));
    }
  }
  return unknown;
}

ApiError invalid_patch_result(std::string_view shown, std::string_view detail) {
  FieldError finding;
  finding.type = FieldErrorType::kInvalid;
  finding.field = "patch";
  finding.value = go_quote(shown);
  finding.detail = std::string(detail);
  return invalid("", "", "", {finding});
}

}  // namespace ghostfleet::kube
