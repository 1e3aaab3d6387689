#include "kube/api/field_set.h"

namespace ghostfleet::kube {
namespace {

constexpr int kMaxDepth = 200;  // of FieldsV1 from outside: deeper ones are not taken

bool is_element(std::string_view text) {
  return text.size() >= 2 && text[1] == ':' && (text[0] == 'f' || text[0] == 'k' || text[0] == 'v' || text[0] == 'i');
}

bool read_fields(const Json& fields, FieldSet* out, int depth) {
  if (!fields.is_object() || depth > kMaxDepth) return false;
  for (const auto& m : fields.get_object()) {
    const std::string key(m.key());
    if (key == ".") {
      out->set_member(true);
      continue;
    }
    if (!is_element(key) || !m.value().is_object()) return false;
    FieldSet& below = out->below(key);
    // Nothing below: the element itself is meant.
    if (m.value().get_object().empty()) below.set_member(true);
    if (!read_fields(m.value(), &below, depth + 1)) return false;
  }
  return true;
}

void collect(const FieldSet& set, FieldPath* at, std::vector<FieldPath>* out) {
  if (set.member() && !at->empty()) out->push_back(*at);
  for (const auto& [element, below] : set.children()) {
    at->push_back(element);
    collect(below, at, out);
    at->pop_back();
  }
}

}  // namespace

bool FieldSet::empty() const {
  if (member_) return false;
  for (const auto& entry : children_) {
    if (!entry.second.empty()) return false;
  }
  return true;
}

void FieldSet::insert(const FieldPath& path) {
  FieldSet* at = this;
  for (const std::string& element : path) at = &at->children_[element];
  if (at != this) at->member_ = true;
}

bool FieldSet::has(const std::string& element) const {
  const auto it = children_.find(element);
  return it != children_.end() && it->second.member_;
}

const FieldSet* FieldSet::child(const std::string& element) const {
  const auto it = children_.find(element);
  return it == children_.end() ? nullptr : &it->second;
}

void FieldSet::add(const FieldSet& other) {
  member_ = member_ || other.member_;
  for (const auto& [element, below] : other.children_) children_[element].add(below);
}

void FieldSet::tidy() {
  for (auto it = children_.begin(); it != children_.end();) {
    it = it->second.empty() ? children_.erase(it) : std::next(it);
  }
}

FieldSet FieldSet::without(const FieldSet& other) const {
  FieldSet out;
  out.member_ = member_ && !other.member_;
  for (const auto& [element, below] : children_) {
    const FieldSet* theirs = other.child(element);
    out.children_[element] = theirs == nullptr ? below : below.without(*theirs);
  }
  out.tidy();
  return out;
}

FieldSet FieldSet::common(const FieldSet& other) const {
  FieldSet out;
  out.member_ = member_ && other.member_;
  for (const auto& [element, below] : children_) {
    if (const FieldSet* theirs = other.child(element)) out.children_[element] = below.common(*theirs);
  }
  out.tidy();
  return out;
}

std::vector<FieldPath> FieldSet::paths() const {
  std::vector<FieldPath> out;
  FieldPath at;
  collect(*this, &at, &out);
  return out;
}

Json FieldSet::to_fields_v1() const {
  JsonObject out;
  for (const auto& [element, below] : children_) {
    if (below.empty()) continue;
    JsonObject inner = below.to_fields_v1().get_object();
    // "." is only needed where there is more below.
    if (below.member_ && !inner.empty()) {
      JsonObject with_self{{".", JsonObject()}};
      for (auto& m : inner) with_self.emplace(m.key(), std::move(m.value()));
      inner = std::move(with_self);
    }
    out.emplace(element, std::move(inner));
  }
  return out;
}

bool FieldSet::from_fields_v1(const Json& fields, FieldSet* out) {
  FieldSet read;
  if (!read_fields(fields, &read, 0)) return false;
  *out = std::move(read);
  return true;
}

std::string path_text(const FieldPath& path) {
  std::string out;
  for (const std::string& element : path) {
    const std::string_view rest = std::string_view(element).substr(2);
    if (element[0] == 'f') {
      out += '.';
      out += rest;
    } else if (element[0] == 'v') {
      out += "[=" + std::string(rest) + "]";
    } else if (element[0] == 'i') {
      out += "[" + std::string(rest) + "]";
    } else {
      out += '[';
      Result<Json> keys = parse_json(rest);
      bool first = true;
      if (keys.ok() && keys->is_object()) {
        for (const auto& m : keys->get_object()) {
          if (!first) out += ',';
          first = false;
          out += m.key();
          out += '=' + to_json(m.value());
        }
      }
      out += ']';
    }
  }
  return out;
}

}  // namespace ghostfleet::kube
