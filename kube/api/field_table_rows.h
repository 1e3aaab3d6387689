// The rows of fields.tsv, as text: what the field table is built from.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace ghostfleet::kube {

struct Row {
  std::string_view type;  // "core/v1.Volume"
  std::string_view json;  // "<inline>": an embedded struct; "-": not in JSON
  bool is_alias = false;  // go_type is what the type stands for
  uint32_t number = 0;
  std::string_view proto_name;  // empty: as json
  std::string_view go_type;
  std::string_view emptiness;  // always, omitempty
  std::string_view patch_strategy;
  std::string_view merge_key;
  std::string_view list_type;
  std::string_view list_map_keys;
  std::string_view default_value;
  std::string_view struct_atomic;
};

// Views into the text inside the program.
std::vector<Row> parse_rows();

// The text of fields.tsv (generated source).
std::string_view field_table_text();

}  // namespace ghostfleet::kube
