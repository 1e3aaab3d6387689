// Label and field selectors: parsed once, matched often.
//
// Thread rule: immutable after parsing.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kube/api/api_error.h"
#include "kube/api/json.h"

namespace ghostfleet::kube {

enum class SelectorOp : unsigned char { kIn, kNotIn, kEquals, kNotEquals, kExists, kNotExists, kGreater, kLess };

struct LabelRequirement {
  std::string key;
  SelectorOp op = SelectorOp::kExists;
  std::vector<std::string> values;  // sorted
};

class LabelSelector {
 public:
  // "a=b,c in (d,e),!f". Bad syntax: 400 with the real server's words.
  static ApiResult<LabelSelector> parse(std::string_view text);
  // From metav1.LabelSelector (matchLabels, matchExpressions). A missing selector (null) matches nothing, an empty one
  // all.
  static ApiResult<LabelSelector> from_json(const Json* selector);
  static LabelSelector everything() { return LabelSelector(); }
  static LabelSelector nothing();

  bool empty() const { return requirements_.empty() && !nothing_; }
  // `labels` is metadata.labels, a null pointer when missing.
  bool matches(const JsonObject* labels) const;
  bool matches_lookup(const std::function<const std::string*(std::string_view key)>& lookup) const;
  const std::vector<LabelRequirement>& requirements() const { return requirements_; }
  std::string to_string() const;
  bool matches_nothing() const { return nothing_; }

 private:
  std::vector<LabelRequirement> requirements_;
  bool nothing_ = false;
};

struct FieldRequirement {
  std::string field;  // "spec.nodeName"
  bool equals = true;
  std::string value;
};

// "metadata.name=a,status.phase!=Running"; `\` escapes. Which fields a kind supports is the API server's business.
ApiResult<std::vector<FieldRequirement>> parse_field_selector(std::string_view text);

}  // namespace ghostfleet::kube
