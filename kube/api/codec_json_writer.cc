// encode_json(): the decoded form to JSON, keys in the order a real API server writes them.
#include <algorithm>
#include <vector>

#include "kube/api/codec.h"
#include "kube/api/typed_object.h"

namespace ghostfleet::kube {

namespace {

std::string_view sv(boost::json::string_view s) { return {s.data(), s.size()}; }

using Member = boost::json::key_value_pair;

void append_key(std::string_view key, bool* first, std::string* out) {
  out->push_back(*first ? '{' : ',');
  *first = false;
  append_json_string(key, out);
  out->push_back(':');
}

void write_value(const FieldInfo& f, const Json& value, std::string* out);

void write_one(const FieldInfo& f, const Json& value, std::string* out);

void write_zero(const FieldInfo& f, std::string* out) { append_json(zero_value(f), out); }

// Writes the members of one struct; `always` are the fields still owed because they are written even when zero.
class StructWriter {
 public:
  StructWriter(const TypeInfo& type, std::string* out) : type_(type), out_(out) {}

  // False when the keys are not in table order: nothing is written then.
  bool write_ordered(const JsonObject& object) {
    const size_t start = out_->size();
    int last = -1;
    for (const Member& m : object) {
      const int i = type_.find_flat(sv(m.key()));
      if (i <= last) {
        out_->resize(start);
        return false;
      }
      last = i;
      add(i, m.value());
    }
    close();
    return true;
  }

  void write_sorted(const JsonObject& object) {
    std::vector<std::pair<int, const Member*>> members;
    std::vector<const Member*> unknown;  // of a newer version than ours: kept, behind the others
    members.reserve(object.size());
    for (const Member& m : object) {
      const int i = type_.find_flat(sv(m.key()));
      if (i >= 0) {
        members.emplace_back(i, &m);
      } else {
        unknown.push_back(&m);
      }
    }
    std::sort(members.begin(), members.end());
    for (const auto& [i, m] : members) add(i, m->value());
    add_owed(static_cast<int>(type_.flat.size()));
    for (const Member* m : unknown) {
      append_key(sv(m->key()), &first_, out_);
      append_json(m->value(), out_);
    }
    close();
  }

 private:
  void add(int i, const Json& value) {
    const FieldInfo& f = *type_.flat[static_cast<size_t>(i)].field;
    if (!f.always_written && is_empty_value(f, value)) return;
    add_owed(i);
    if (next_ < type_.always_written.size() && type_.always_written[next_] == i) ++next_;
    append_key(f.json_name, &first_, out_);
    write_value(f, value, out_);
  }

  void add_owed(int limit) {
    for (; next_ < type_.always_written.size() && type_.always_written[next_] < limit; ++next_) {
      const FieldInfo& f = *type_.flat[type_.always_written[next_]].field;
      append_key(f.json_name, &first_, out_);
      write_zero(f, out_);
    }
  }

  void close() {
    add_owed(static_cast<int>(type_.flat.size()));
    out_->append(first_ ? "{}" : "}");
  }

  const TypeInfo& type_;
  std::string* out_;
  size_t next_ = 0;
  bool first_ = true;
};

void write_struct(const TypeInfo& type, const JsonObject& object, std::string* out) {
  if (StructWriter(type, out).write_ordered(object)) return;
  StructWriter(type, out).write_sorted(object);
}

void write_list(const FieldInfo& f, const JsonArray& list, std::string* out) {
  char separator = '[';
  for (const Json& item : list) {
    out->push_back(separator);
    write_one(f, item, out);
    separator = ',';
  }
  out->append(separator == '[' ? "[]" : "]");
}

// Calls `write` for each member in the order of keys.
template <class F>
void in_key_order(const JsonObject& object, const F& write) {
  const auto before = [](const Member& a, const Member& b) { return a.key() < b.key(); };
  if (std::is_sorted(object.begin(), object.end(), before)) {
    for (const Member& m : object) write(m);
    return;
  }
  std::vector<const Member*> members;
  members.reserve(object.size());
  for (const Member& m : object) members.push_back(&m);
  std::sort(members.begin(), members.end(), [&](const Member* a, const Member* b) { return before(*a, *b); });
  for (const Member* m : members) write(*m);
}

void write_map(const FieldInfo& f, const JsonObject& map, std::string* out) {
  bool first = true;
  in_key_order(map, [&](const Member& m) {
    append_key(sv(m.key()), &first, out);
    write_one(f, m.value(), out);
  });
  out->append(first ? "{}" : "}");
}

void write_value(const FieldInfo& f, const Json& value, std::string* out) {
  if (f.repeated && value.is_array()) {
    // Go's memory has no empty lists after storage: what was [] reads as null.
    if (value.get_array().empty() && !f.pointer) return write_zero(f, out);
    return write_list(f, value.get_array(), out);
  }
  if (f.map && value.is_object()) {
    if (value.get_object().empty() && !f.pointer) return write_zero(f, out);
    return write_map(f, value.get_object(), out);
  }
  if (f.repeated || f.map || !value.is_null() || f.pointer) return write_one(f, value, out);
  write_zero(f, out);
}

void write_one(const FieldInfo& f, const Json& value, std::string* out) {
  const bool schema = f.kind >= FieldKind::kSchemaOrBool;
  if ((f.kind == FieldKind::kMessage || schema) && value.is_object()) {
    return write_struct(*f.message, value.get_object(), out);
  }
  if (f.kind == FieldKind::kSchemaOrArray && value.is_array()) return write_list(f, value.get_array(), out);
  append_json(value, out);
}

// Custom resources are maps to a real server: keys sorted at every depth.
void write_sorted(const Json& value, std::string* out) {
  if (value.is_array()) {
    char separator = '[';
    for (const Json& item : value.get_array()) {
      out->push_back(separator);
      write_sorted(item, out);
      separator = ',';
    }
    out->append(separator == '[' ? "[]" : "]");
  } else if (value.is_object()) {
    bool first = true;
    in_key_order(value.get_object(), [&](const Member& m) {
      append_key(sv(m.key()), &first, out);
      write_sorted(m.value(), out);
    });
    out->append(first ? "{}" : "}");
  } else {
    append_json(value, out);
  }
}

}  // namespace

void append_encoded_json(const Json& object, const TypeInfo* type, std::string* out) {
  if (type == nullptr) return write_sorted(object, out);
  if (!object.is_object()) return append_json(object, out);
  write_struct(*type, object.get_object(), out);
}

std::string encode_json(const Json& object, const TypeInfo* type) {
  std::string out;
  out.reserve(1024);
  append_encoded_json(object, type, &out);
  return out;
}

}  // namespace ghostfleet::kube
