#include "kube/api/field_table.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "kube/api/field_table_rows.h"

namespace ghostfleet::kube {

namespace {

uint32_t name_hash(std::string_view name, uint32_t seed) {
  uint64_t h = seed ^ name.size();
  const char* p = name.data();
  size_t n = name.size();
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    h = (h ^ word) * 0x9E3779B97F4A7C15ULL;
    h ^= h >> 32;
  }
  uint64_t word = 0;
  std::memcpy(&word, p, n);
  h = (h ^ word) * 0x9E3779B97F4A7C15ULL;
  return static_cast<uint32_t>(h >> 40);
}

bool try_seed(TypeInfo* type, uint32_t seed) {
  std::fill(type->hash_slots.begin(), type->hash_slots.end(), int16_t{-1});
  for (size_t i = 0; i < type->flat.size(); ++i) {
    int16_t& slot = type->hash_slots[name_hash(type->flat[i].field->json_name, seed) & type->hash_mask];
    if (slot >= 0) return false;
    slot = static_cast<int16_t>(i);
  }
  type->hash_seed = seed;
  return true;
}

void build_hash(TypeInfo* type) {
  size_t size = 4;
  while (size < 4 * type->flat.size()) size *= 2;
  for (; size <= 1U << 15; size *= 2) {
    type->hash_slots.assign(size, -1);
    type->hash_mask = static_cast<uint32_t>(size - 1);
    for (uint32_t seed = 1; seed < 2000; seed += 2) {
      if (try_seed(type, seed * 0x01000193U)) return;
    }
  }
}

const FieldInfo& type_meta_field(bool kind) {
  static const auto make = [](const char* name) {
    FieldInfo f;
    f.json_name = f.proto_name = name;
    f.omitempty = true;
    f.go_type = f.go_element = "string";
    return f;
  };
  static const FieldInfo kKind = make("kind");
  static const FieldInfo kApiVersion = make("apiVersion");
  return kind ? kKind : kApiVersion;
}

class Builder {
 public:
  Builder() {
    rows_ = parse_rows();
    make_types();
    for (const Row& row : rows_) {
      if (row.go_type.empty() || row.is_alias || row.json == "-" || is_special(row.type)) continue;
      add_field(row);
    }
    for (auto& type : types_) finish(type.get());
    for (auto& type : types_) mark_objects(type.get());
    for (auto& type : types_) flatten(type.get());
    for (auto& type : types_) build_hash(type.get());
    for (auto& type : types_) all_.push_back(type.get());
  }

  const std::vector<const TypeInfo*>& all() const { return all_; }

  const TypeInfo* find(std::string_view name) const {
    const auto it = by_name_.find(name);
    return it == by_name_.end() ? nullptr : it->second;
  }

 private:
  void make_types() {
    for (const Row& row : rows_) {
      if (row.is_alias) {
        aliases_.emplace(row.type, row.go_type);
        continue;
      }
      if (!is_special(row.type)) make_type(row.type);
    }
  }

  // Types whose JSON form is not that of a struct: they are kinds of values.
  static bool is_special(std::string_view type) {
    return type.substr(0, 8) == "runtime." || type == "apiextensions.k8s.io/v1.JSON" ||
           type.find(".JSONSchemaPropsOr") != std::string_view::npos;
  }

  TypeInfo* make_type(std::string_view name) {
    const auto known = by_name_.find(name);
    if (known != by_name_.end()) return known->second;
    auto type = std::make_unique<TypeInfo>();
    type->name = name;
    const size_t slash = type->name.find('/');
    const size_t dot = type->name.rfind('.');
    type->group = type->name.substr(0, std::min(slash, dot));
    if (slash != std::string::npos) type->version = type->name.substr(slash + 1, dot - slash - 1);
    type->short_name = type->name.substr(dot + 1);
    by_name_.emplace(type->name, type.get());
    types_.push_back(std::move(type));
    return types_.back().get();
  }

  void add_field(const Row& row) {
    TypeInfo* type = by_name_.find(row.type)->second;
    if (row.struct_atomic == "atomic") type->atomic = true;
    FieldInfo f;
    f.json_name = row.json == "<inline>" ? "" : std::string(row.json);
    f.proto_number = row.number;
    f.proto_name = row.proto_name.empty() ? f.json_name : std::string(row.proto_name);
    f.omitempty = row.emptiness == "omitempty";
    f.merge = row.patch_strategy.find("merge") != std::string_view::npos;
    f.retain_keys = row.patch_strategy.find("retainKeys") != std::string_view::npos;
    f.merge_key = std::string(row.merge_key);
    set_list_type(row, &f);
    f.default_value = std::string(row.default_value);
    set_go_type(row.go_type, *type, &f);
    // The one field of the API with Go's omitzero.
    const bool omit_zero = type->name == "meta/v1.ObjectMeta" && f.json_name == "creationTimestamp";
    const bool container = f.repeated || f.map || f.pointer;
    const bool go_struct = f.kind >= FieldKind::kMessage && f.kind != FieldKind::kJsonAny;
    f.always_written = !omit_zero && (!f.omitempty || (!container && (go_struct || f.kind == FieldKind::kJsonAny)));
    type->fields.push_back(std::move(f));
  }

  static void set_list_type(const Row& row, FieldInfo* f) {
    if (row.list_type == "set") f->list_type = ListType::kSet;
    if (row.list_type == "map") f->list_type = ListType::kMap;
    if (row.list_type == "map:atomic" || row.list_type == "struct:atomic") f->atomic_map = true;
    std::string_view keys = row.list_map_keys;
    while (!keys.empty()) {
      const size_t comma = keys.find(',');
      f->list_map_keys.emplace_back(keys.substr(0, comma));
      keys = comma == std::string_view::npos ? std::string_view() : keys.substr(comma + 1);
    }
  }

  // Takes "*[]map[K]V" apart.
  void set_go_type(std::string_view go, const TypeInfo& owner, FieldInfo* f) {
    if (go.front() == '*') {
      f->pointer = true;
      go.remove_prefix(1);
    }
    f->go_type = qualify(go, owner);
    go = resolve_alias(go, owner, f);
    if (go.substr(0, 4) == "map[") {
      f->map = true;
      go = resolve_alias(go.substr(go.find(']') + 1), owner, f);
      if (go.substr(0, 2) == "[]" && go != "[]byte") {
        f->map_of_lists = true;
        go = go.substr(2);
      }
    } else if (go.substr(0, 2) == "[]" && go != "[]byte") {
      f->repeated = true;
      go = go.substr(2);
      if (go.front() == '*') go.remove_prefix(1);
    }
    f->go_element = f->map_of_lists ? "[]string" : f->map || f->repeated ? qualify(go, owner) : f->go_type;
    set_kind(resolve_alias(go, owner, nullptr), owner, f);
  }

  void set_kind(std::string_view go, const TypeInfo& owner, FieldInfo* f) {
    static const std::unordered_map<std::string_view, FieldKind> kKinds = {
        {"string", FieldKind::kString},
        {"bool", FieldKind::kBool},
        {"int32", FieldKind::kInt32},
        {"int64", FieldKind::kInt64},
        {"float64", FieldKind::kDouble},
        {"[]byte", FieldKind::kBytes},
        {"types.UID", FieldKind::kString},
        {"types.NodeName", FieldKind::kString},
        {"metav1.Time", FieldKind::kTime},
        {"Time", FieldKind::kTime},
        {"metav1.MicroTime", FieldKind::kMicroTime},
        {"metav1.Duration", FieldKind::kDuration},
        {"resource.Quantity", FieldKind::kQuantity},
        {"intstr.IntOrString", FieldKind::kIntOrString},
        {"FieldsV1", FieldKind::kFieldsV1},
        {"runtime.RawExtension", FieldKind::kRawExtension},
        {"JSON", FieldKind::kJsonAny},
        {"JSONSchemaPropsOrBool", FieldKind::kSchemaOrBool},
        {"JSONSchemaPropsOrArray", FieldKind::kSchemaOrArray},
        {"JSONSchemaPropsOrStringArray", FieldKind::kSchemaOrStringArray},
    };
    const auto it = kKinds.find(go);
    if (it != kKinds.end()) {
      f->kind = it->second;
    } else {
      f->kind = FieldKind::kMessage;
      f->message = resolve_type(go, owner);
      // A struct without fields has no rows: DisruptionMode's members, for example.
      if (f->message == nullptr) f->message = make_type(packages(go, owner).front() + std::string(without_package(go)));
    }
    const bool schema = f->kind >= FieldKind::kSchemaOrBool;
    if (schema) f->message = find("apiextensions.k8s.io/v1.JSONSchemaProps");
  }

  static std::string_view without_package(std::string_view go) {
    const size_t dot = go.rfind('.');
    return dot == std::string_view::npos ? go : go.substr(dot + 1);
  }

  // "group/version." of the package a Go type name stands for in a row of `owner`, most likely first.
  static std::vector<std::string> packages(std::string_view go, const TypeInfo& owner) {
    const std::string own = owner.version.empty() ? owner.group + "." : owner.group + "/" + owner.version + ".";
    const size_t dot = go.rfind('.');
    if (dot == std::string_view::npos) return {own};
    const std::string_view package = go.substr(0, dot);
    if (package == "metav1") return {"meta/v1."};
    if (package == "corev1" || package == "apiv1") return {"core/v1."};
    if (package == "v1") return {"core/v1.", "meta/v1."};
    if (package == "schedulingv1alpha3") return {"scheduling.k8s.io/v1alpha3."};
    return {own};
  }

  const TypeInfo* resolve_type(std::string_view go, const TypeInfo& owner) const {
    for (const std::string& package : packages(go, owner)) {
      if (const TypeInfo* t = find(package + std::string(without_package(go)))) return t;
    }
    return nullptr;
  }

  // Follows `<alias>` rows. An alias of a list of strings is a message of its own in protobuf.
  std::string_view resolve_alias(std::string_view go, const TypeInfo& owner, FieldInfo* f) const {
    for (int hops = 0; hops < 4; ++hops) {
      const std::string_view* base = nullptr;
      for (const std::string& package : packages(go, owner)) {
        const auto it = aliases_.find(package + std::string(without_package(go)));
        if (it != aliases_.end()) base = &it->second;
        if (base != nullptr) break;
      }
      if (base == nullptr) return go;
      if (f != nullptr && *base == "[]string") f->wrapped_list = true;
      go = *base;
    }
    return go;
  }

  // "[]Container" as Go prints it: "[]v1.Container".
  static std::string qualify(std::string_view go, const TypeInfo& owner) {
    if (go.empty()) return {};
    if (go.front() == '*') return "*" + qualify(go.substr(1), owner);
    if (go == "[]byte") return "[]uint8";
    if (go.substr(0, 2) == "[]") return "[]" + qualify(go.substr(2), owner);
    if (go.substr(0, 4) == "map[") {
      const size_t close = go.find(']');
      return "map[" + qualify(go.substr(4, close - 4), owner) + "]" + qualify(go.substr(close + 1), owner);
    }
    const size_t dot = go.rfind('.');
    if (dot == std::string_view::npos) {
      static constexpr std::string_view kPlain[] = {"string", "bool", "int32", "int64", "float64"};
      for (const std::string_view p : kPlain) {
        if (p == go) return std::string(go);
      }
      return (owner.version.empty() ? owner.group : owner.version) + "." + std::string(go);
    }
    const std::string_view package = go.substr(0, dot);
    const std::string name(go.substr(dot));
    if (package == "metav1" || package == "corev1" || package == "apiv1") return "v1" + name;
    if (package == "schedulingv1alpha3") return "v1alpha3" + name;
    return std::string(go);
  }

  static bool has_type_meta(const TypeInfo& type) {
    const std::string& n = type.short_name;
    const auto ends = [&](std::string_view tail) {
      return n.size() >= tail.size() && n.compare(n.size() - tail.size(), tail.size(), tail) == 0;
    };
    if (ends("TemplateSpec") || ends("ClaimTemplate")) return type.name == "resource.k8s.io/v1.ResourceClaimTemplate";
    if (type.name == "meta/v1.PartialObjectMetadata" || ends("Options")) return true;
    static constexpr std::string_view kOthers[] = {"APIGroup", "APIGroupList", "APIVersions", "APIResourceList"};
    for (const std::string_view other : kOthers) {
      if (n == other && type.group == "meta") return true;
    }
    for (const FieldInfo& f : type.fields) {
      if (f.json_name.empty() && f.message != nullptr && f.message->short_name == "TypeMeta") return false;
      if (f.json_name != "metadata" || f.message == nullptr) continue;
      return f.message->name == "meta/v1.ObjectMeta" || f.message->name == "meta/v1.ListMeta";
    }
    return false;
  }

  static void finish(TypeInfo* type) {
    type->type_meta = has_type_meta(*type);
    uint32_t highest = 0;
    for (const FieldInfo& f : type->fields) highest = std::max(highest, f.proto_number);
    type->by_number.assign(highest + 1, -1);
    for (size_t i = 0; i < type->fields.size(); ++i) {
      if (const uint32_t n = type->fields[i].proto_number; n != 0) type->by_number[n] = static_cast<int16_t>(i);
    }
  }

  static void mark_objects(TypeInfo* type) {
    for (FieldInfo& f : type->fields) {
      const bool items = f.json_name == "items" && type->type_meta;
      f.empty_as_list = items && f.repeated;
      f.fills_kind = f.repeated && !items && f.message != nullptr && f.message->type_meta;
    }
  }

  static void flatten(TypeInfo* type) {
    if (type->type_meta) {
      type->flat.push_back({&type_meta_field(true), {}, "kind"});
      type->flat.push_back({&type_meta_field(false), {}, "apiVersion"});
    }
    std::vector<const FieldInfo*> embedded;
    flatten_into(*type, "", &embedded, &type->flat);
    for (size_t i = 0; i < type->flat.size(); ++i) {
      if (type->flat[i].field->always_written) type->always_written.push_back(static_cast<uint16_t>(i));
    }
  }

  static void flatten_into(const TypeInfo& type, const std::string& prefix, std::vector<const FieldInfo*>* embedded,
                           std::vector<FlatField>* out) {
    for (const FieldInfo& f : type.fields) {
      if (!f.json_name.empty()) {
        out->push_back({&f, *embedded, prefix + f.json_name});
      } else if (f.message != nullptr) {
        embedded->push_back(&f);
        flatten_into(*f.message, prefix + f.message->short_name + ".", embedded, out);
        embedded->pop_back();
      }
    }
  }

  std::vector<Row> rows_;
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  std::unordered_map<std::string, std::string_view, Hash, std::equal_to<>> aliases_;
  std::unordered_map<std::string, TypeInfo*, Hash, std::equal_to<>> by_name_;
  std::vector<std::unique_ptr<TypeInfo>> types_;
  std::vector<const TypeInfo*> all_;
};

const Builder& table() {
  static const Builder* const kTable = new Builder();  // lives for ever: others keep pointers into it
  return *kTable;
}

}  // namespace

int TypeInfo::find_flat(std::string_view json_name) const {
  const int16_t i = hash_slots[name_hash(json_name, hash_seed) & hash_mask];
  return i >= 0 && flat[static_cast<size_t>(i)].field->json_name == json_name ? i : -1;
}

const FieldInfo* TypeInfo::find(std::string_view json_name) const {
  const int i = find_flat(json_name);
  return i < 0 ? nullptr : flat[static_cast<size_t>(i)].field;
}

const TypeInfo* find_type(std::string_view name) { return table().find(name); }

const TypeInfo* find_type(std::string_view group, std::string_view version, std::string_view short_name) {
  std::string name(group.empty() ? std::string_view("core") : group);
  name += '/';
  name += version;
  name += '.';
  name += short_name;
  return table().find(name);
}

const std::vector<const TypeInfo*>& all_types() { return table().all(); }

}  // namespace ghostfleet::kube
