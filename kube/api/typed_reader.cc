#include "kube/api/typed_reader.h"
#include "base/text.h"

namespace ghostfleet::kube {

namespace {

boost::json::string_view bsv(std::string_view s) { return {s.data(), s.size()}; }

constexpr size_t kMaxStrictErrors = 100;

// The value of a map of string lists.
const FieldInfo& string_list_field() {
  static const FieldInfo kField = [] {
    FieldInfo f;
    f.repeated = true;
    f.go_type = "[]string";
    f.go_element = "string";
    return f;
  }();
  return kField;
}

// A second value for one field: objects are merged, as Go reads into what is there already; others replace.
void merge_into(Json* old, Json fresh) {
  if (!old->is_object() || !fresh.is_object()) {
    *old = std::move(fresh);
    return;
  }
  JsonObject& to = old->get_object();
  for (auto& member : fresh.get_object()) {
    auto [it, added] = to.emplace(member.key(), nullptr);
    if (added) {
      it->value() = std::move(member.value());
    } else {
      merge_into(&it->value(), std::move(member.value()));
    }
  }
}

}  // namespace

bool TypedReader::read(const TypeInfo& type, Json* out) {
  scan_.skip_space();
  const char next = scan_.peek();
  bool ok;
  if (next == '{') {
    ok = read_struct(type, out);
  } else if (next == 'n') {
    *out = zero_struct(type);
    ok = scan_.read_word("null");
  } else {
    meta_error_ = "json: cannot unmarshal " + found_here() +
                  R"( into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; )"
                  R"(Kind string "json:\"kind,omitempty\"" })";
    saved_error_ = "json: cannot unmarshal " + found_here() + " into Go value of type " +
                   (type.version.empty() ? type.group : type.version) + "." + type.short_name;
    ok = scan_.skip_value(0);
  }
  return ok && scan_.finish();
}

bool TypedReader::read_struct(const TypeInfo& type, Json* out) {
  if (depth_ >= kMaxJsonTreeDepth) return scan_.fail_depth();
  scan_.take('{');
  ++depth_;
  const size_t base = slots_.size();
  if (!read_members(type)) return false;
  --depth_;
  build_object(type, &slots_, base, out);
  return true;
}

bool TypedReader::read_members(const TypeInfo& type) {
  scan_.skip_space();
  if (scan_.take('}')) return true;
  const size_t base = slots_.size();
  uint64_t seen = 0;
  for (bool closed = false; !closed;) {
    std::string_view key;
    if (!scan_.read_key(&key)) return false;
    scan_.skip_space();
    if (!read_member(type, key, &seen, base)) return false;
    if (!scan_.next_item('}', "after object key:value pair", &closed)) return false;
  }
  return true;
}

bool TypedReader::read_member(const TypeInfo& type, std::string_view key, uint64_t* seen, size_t base) {
  const int i = type.find_flat(key);
  if (i < 0) {
    strict("unknown field", key);
    return scan_.skip_value(depth_);
  }
  const FlatField& flat = type.flat[static_cast<size_t>(i)];
  const uint64_t bit = uint64_t{1} << (i & 63);
  const bool twice = (*seen & bit) != 0;
  if (twice) strict("duplicate field", key);
  *seen |= bit;
  Json value;
  if (steps_.empty() && type.type_meta && i < 2) {
    if (!read_root_meta(flat.field->json_name, &value)) return false;
  } else {
    steps_.push_back({&type, &flat, -1, {}});
    if (!read_field(*flat.field, &value)) return false;
    steps_.pop_back();
  }
  put(i, std::move(value), twice, base);
  return true;
}

// kind and apiVersion of the object itself decide what it is: a wrong JSON type there is an error of its own.
bool TypedReader::read_root_meta(std::string_view key, Json* out) {
  if (scan_.peek() == '"') {
    std::string_view text;
    if (!scan_.read_string(&text)) return false;
    out->emplace_string().assign(text.data(), text.size());
    return true;
  }
  if (null_next()) return skip_null(out);
  if (meta_error_.empty()) {
    meta_error_ =
        "json: cannot unmarshal " + found_here() + " into Go struct field ." + std::string(key) + " of type string";
  }
  return scan_.skip_value(depth_);
}

void TypedReader::put(int field, Json value, bool repeated, size_t base) {
  if (repeated) {
    for (size_t i = base; i < slots_.size(); ++i) {
      if (slots_[i].field != field) continue;
      merge_into(&slots_[i].value, std::move(value));
      return;
    }
  }
  slots_.push_back({field, std::move(value)});
}

bool TypedReader::read_field(const FieldInfo& f, Json* out) {
  if (null_next()) return skip_null(out);
  if (f.repeated) return read_list(f, out);
  if (f.map) return read_map(f, out);
  return read_one(f, out);
}

bool TypedReader::read_one(const FieldInfo& f, Json* out) {
  if (f.kind != FieldKind::kMessage) return read_scalar(f, out);
  if (scan_.peek() == '{') return read_struct(*f.message, out);
  *out = zero_struct(*f.message);
  return wrong_type(f.go_element, false);
}

bool TypedReader::read_list(const FieldInfo& f, Json* out) {
  *out = nullptr;
  if (scan_.peek() != '[') return wrong_type(f.go_type, false);
  if (depth_ >= kMaxJsonTreeDepth) return scan_.fail_depth();
  scan_.take('[');
  JsonArray& array = out->emplace_array();
  scan_.skip_space();
  if (scan_.take(']')) return true;
  ++depth_;
  steps_.push_back({});
  for (bool closed = false; !closed;) {
    scan_.skip_space();
    steps_.back().index = static_cast<int>(array.size());
    Json item;
    if (null_next()) {
      if (!skip_null(&item)) return false;
    } else if (!read_one(f, &item)) {
      return false;
    }
    if (item.is_null()) item = zero_element(f);
    array.emplace_back(std::move(item));
    if (!scan_.next_item(']', "after array element", &closed)) return false;
  }
  steps_.pop_back();
  --depth_;
  return true;
}

bool TypedReader::read_map(const FieldInfo& f, Json* out) {
  *out = nullptr;
  if (scan_.peek() != '{') return wrong_type(f.go_type, false);
  if (depth_ >= kMaxJsonTreeDepth) return scan_.fail_depth();
  scan_.take('{');
  JsonObject& object = out->emplace_object();
  scan_.skip_space();
  if (scan_.take('}')) return true;
  ++depth_;
  for (bool closed = false; !closed;) {
    std::string_view key;
    if (!scan_.read_key(&key)) return false;
    auto [it, fresh] = object.emplace(bsv(key), nullptr);
    if (!fresh) strict("duplicate field", key);
    // The key inside the object stays where it is while its value is read; the scanner's view does not.
    steps_.push_back({nullptr, nullptr, -1, {it->key().data(), it->key().size()}});
    scan_.skip_space();
    if (!read_map_value(f, &it->value())) return false;
    steps_.pop_back();
    if (!scan_.next_item('}', "after object key:value pair", &closed)) return false;
  }
  --depth_;
  return true;
}

bool TypedReader::read_map_value(const FieldInfo& f, Json* out) {
  *out = nullptr;
  if (f.map_of_lists) {
    if (null_next()) return skip_null(out);
    return read_list(string_list_field(), out);
  }
  if (null_next()) {
    if (!skip_null(out)) return false;
  } else if (!read_one(f, out)) {
    return false;
  }
  if (out->is_null()) *out = zero_element(f);
  return true;
}

bool TypedReader::read_any(Json* out) {
  scan_.skip_space();
  switch (scan_.peek()) {
    case '{': return read_any_object(out);
    case '[': return read_any_array(out);
    case '"': {
      std::string_view text;
      if (!scan_.read_string(&text)) return false;
      out->emplace_string().assign(text.data(), text.size());
      return true;
    }
    case 't': *out = true; return scan_.read_word("true");
    case 'f': *out = false; return scan_.read_word("false");
    case 'n': *out = nullptr; return scan_.read_word("null");
    default: return read_any_number(out);
  }
}

bool TypedReader::read_any_object(Json* out) {
  if (depth_ >= kMaxJsonTreeDepth) return scan_.fail_depth();
  scan_.take('{');
  JsonObject& object = out->emplace_object();
  scan_.skip_space();
  if (scan_.take('}')) return true;
  ++depth_;
  for (bool closed = false; !closed;) {
    std::string_view key;
    if (!scan_.read_key(&key)) return false;
    auto [it, fresh] = object.emplace(bsv(key), nullptr);
    if (!fresh) strict("duplicate field", key);
    steps_.push_back({nullptr, nullptr, -1, {it->key().data(), it->key().size()}});
    it->value() = nullptr;
    if (!read_any(&it->value())) return false;
    steps_.pop_back();
    if (!scan_.next_item('}', "after object key:value pair", &closed)) return false;
  }
  --depth_;
  return true;
}

bool TypedReader::read_any_array(Json* out) {
  if (depth_ >= kMaxJsonTreeDepth) return scan_.fail_depth();
  scan_.take('[');
  JsonArray& array = out->emplace_array();
  scan_.skip_space();
  if (scan_.take(']')) return true;
  ++depth_;
  steps_.push_back({});
  for (bool closed = false; !closed;) {
    steps_.back().index = static_cast<int>(array.size());
    if (!read_any(&array.emplace_back(nullptr))) return false;
    if (!scan_.next_item(']', "after array element", &closed)) return false;
  }
  steps_.pop_back();
  --depth_;
  return true;
}

bool TypedReader::read_custom(Json* out) {
  static const TypeInfo* const kMeta = find_type("meta/v1.ObjectMeta");
  static const FieldInfo* const kMetaField = find_type("core/v1.Pod")->find("metadata");
  scan_.skip_space();
  if (scan_.peek() != '{') return read(*kMeta, out);
  scan_.take('{');
  depth_ = 1;
  JsonObject& object = out->emplace_object();
  scan_.skip_space();
  if (scan_.take('}')) return scan_.finish();
  for (bool closed = false; !closed;) {
    std::string_view key;
    if (!scan_.read_key(&key)) return false;
    auto [it, fresh] = object.emplace(bsv(key), nullptr);
    if (!fresh) strict("duplicate field", key);
    scan_.skip_space();
    Json& value = it->value();
    value = nullptr;
    const std::string_view name(it->key().data(), it->key().size());
    bool ok;
    if (name == "kind" || name == "apiVersion") {
      ok = read_root_meta(name, &value);
    } else if (name == "metadata") {
      steps_.push_back({nullptr, nullptr, -1, name});
      custom_meta_ = true;
      ok = read_field(*kMetaField, &value);
      custom_meta_ = false;
      steps_.pop_back();
    } else {
      steps_.push_back({nullptr, nullptr, -1, name});
      ok = read_any(&value);
      steps_.pop_back();
    }
    if (!ok || !scan_.next_item('}', "after object key:value pair", &closed)) return false;
  }
  strict_errors_.insert(strict_errors_.end(), meta_strict_errors_.begin(), meta_strict_errors_.end());
  return scan_.finish();
}

bool TypedReader::wrong_type(std::string_view go_type, bool fatal) {
  note_error("json: cannot unmarshal " + found_here() + go_context(go_type), fatal);
  return scan_.skip_value(depth_);
}

bool TypedReader::wrong_number(std::string_view raw, std::string_view go_type, bool fatal) {
  note_error("json: cannot unmarshal number " + std::string(raw) + go_context(go_type), fatal);
  return true;
}

void TypedReader::note_error(std::string text, bool fatal) {
  std::string& to = fatal ? fatal_error_ : saved_error_;
  // What comes after a fatal error was never looked at by a real server.
  if (to.empty() && fatal_error_.empty()) to = std::move(text);
}

std::string TypedReader::found_here() const {
  switch (scan_.peek()) {
    case '{': return "object";
    case '[': return "array";
    case '"': return "string";
    case 't':
    case 'f': return "bool";
    case 'n': return "null";
    default: return "number";
  }
}

// " into Go struct field Container.spec.containers.name of type string"
std::string TypedReader::go_context(std::string_view go_type) const {
  std::string names;
  const TypeInfo* innermost = nullptr;
  for (const Step& s : steps_) {
    if (s.field == nullptr) continue;
    innermost = s.type;
    names += '.';
    names += s.field->go_path;
  }
  if (innermost == nullptr) return " into Go value of type " + std::string(go_type);
  return " into Go struct field " + innermost->short_name + names + " of type " + std::string(go_type);
}

std::string TypedReader::path() const {
  std::string out;
  for (const Step& s : steps_) {
    if (s.index >= 0) {
      out += '[';
      out += std::to_string(s.index);
      out += ']';
      continue;
    }
    if (!out.empty()) out += '.';
    out += s.field != nullptr ? std::string_view(s.field->field->json_name) : s.key;
  }
  return out;
}

void TypedReader::strict(std::string_view what, std::string_view key) {
  if (lenient_ > 0 || strict_errors_.size() >= kMaxStrictErrors) return;
  std::string where = path();
  if (!where.empty()) where += '.';
  where += key;
  if (unknown_paths != nullptr && what == "unknown field") unknown_paths->push_back(where);
  std::string text = std::string(what) + " " + go_quote(where);
  if (!seen_errors_.insert(text).second) return;
  const bool told_last = custom_meta_ && what == "unknown field";
  (told_last ? meta_strict_errors_ : strict_errors_).push_back(std::move(text));
}

}  // namespace ghostfleet::kube
