// The field table: every built-in API type with its fields, from fields.tsv (names and numbers of the Kubernetes API,
// v1.37.0-beta.0; CSINode.status, new there, is optional here so that 1.36's answers stay as they are). One table
// drives JSON, protobuf, strict decoding, order of keys, defaults, strategic merge, server-side apply, OpenAPI and
// `kubectl explain`. A new kind is rows in that file, not code.
//
// Thread rule: built once on first use, immutable afterwards; pointers live for ever.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ghostfleet::kube {

struct TypeInfo;

// How a value is written; after aliases are resolved.
enum class FieldKind : unsigned char {
  kString,
  kBool,
  kInt32,
  kInt64,
  kDouble,
  kBytes,                // base64 in JSON
  kMessage,              // `message` says which
  kTime,                 // metav1.Time
  kMicroTime,            // metav1.MicroTime
  kDuration,             // metav1.Duration
  kQuantity,             // resource.Quantity: a string in JSON (numbers accepted)
  kIntOrString,          // intstr.IntOrString
  kFieldsV1,             // raw JSON object
  kRawExtension,         // any JSON object
  kJsonAny,              // apiextensions JSON: any JSON value
  kSchemaOrBool,         // JSONSchemaPropsOrBool
  kSchemaOrArray,        // JSONSchemaPropsOrArray
  kSchemaOrStringArray,  // JSONSchemaPropsOrStringArray
};

enum class ListType : unsigned char { kAtomic, kSet, kMap };  // for server-side apply

struct FieldInfo {
  std::string json_name;  // empty for an embedded struct (flattened in JSON, one nested message in protobuf)
  std::string proto_name;
  uint32_t proto_number = 0;
  FieldKind kind = FieldKind::kString;
  bool repeated = false;      // []T
  bool map = false;           // map[string]T
  bool map_of_lists = false;  // map[string][]string-like (ExtraValue): each value is a message {1: repeated items}
  bool wrapped_list = false;  // a list that is a message {1: repeated items} in protobuf (Verbs)
  bool pointer = false;       // presence counts, zero is kept
  bool omitempty = false;
  const TypeInfo* message = nullptr;
  // Strategic merge
  bool merge = false;        // patchStrategy merge
  bool retain_keys = false;  // patchStrategy retainKeys
  std::string merge_key;     // empty with merge: list of scalars
  // Server-side apply
  ListType list_type = ListType::kAtomic;
  std::vector<std::string> list_map_keys;
  bool atomic_map = false;    // map:atomic or struct:atomic: one leaf
  std::string default_value;  // as in the table (JSON text), empty: none
  // For error texts: the Go type behind the pointer ("[]v1.Container"), and that of one element or map value.
  std::string go_type;
  std::string go_element;
  // Present in JSON even when zero: `always` fields, and structs that are no pointers (omitempty does not touch them).
  bool always_written = false;
  bool empty_as_list = false;  // the items of a list: [] when there are none, not null
  bool fills_kind = false;     // whole objects inside another: each names its kind (volumeClaimTemplates)
};

// A field as it appears in JSON, embedded structs dissolved.
struct FlatField {
  const FieldInfo* field = nullptr;
  std::vector<const FieldInfo*> embedded;  // passed on the way, outermost first; mostly empty
  std::string go_path;                     // "ProbeHandler.httpGet"
};

struct TypeInfo {
  std::string name;   // "core/v1.PodSpec"
  std::string group;  // "core" (the API's "" group), "apps", "rbac.authorization.k8s.io", "meta"
  std::string version;
  std::string short_name;  // "PodSpec"
  bool atomic = false;     // structAtomic
  // Has kind and apiVersion of its own (they are in `flat`, not in `fields`).
  bool type_meta = false;
  std::vector<FieldInfo> fields;  // in the order of the Go struct, which is the order of JSON keys
  // The same with embedded structs dissolved and kind, apiVersion in front: all JSON keys in their order.
  std::vector<FlatField> flat;
  std::vector<uint16_t> always_written;  // indexes into `flat`, ascending
  std::vector<int16_t> by_number;        // index into `fields` by protobuf number, -1: none

  // Lookup by JSON name, embedded structs included; null pointer when there is none.
  const FieldInfo* find(std::string_view json_name) const;
  // Index into `flat`, -1 when there is none.
  int find_flat(std::string_view json_name) const;
  const FieldInfo* find_number(uint32_t number) const {
    return number < by_number.size() && by_number[number] >= 0 ? &fields[static_cast<size_t>(by_number[number])]
                                                               : nullptr;
  }

  // A collision-free hash of the JSON names, found when the table is built.
  uint32_t hash_seed = 0;
  uint32_t hash_mask = 0;
  std::vector<int16_t> hash_slots;
};

// By table name ("core/v1.Pod"); null pointer when unknown.
const TypeInfo* find_type(std::string_view name);
// By group ("" is core), version and short name.
const TypeInfo* find_type(std::string_view group, std::string_view version, std::string_view short_name);
const std::vector<const TypeInfo*>& all_types();

}  // namespace ghostfleet::kube
