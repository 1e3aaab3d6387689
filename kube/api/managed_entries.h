// The entries of metadata.managedFields, decoded. Internal to kube/api.
#pragma once

#include <string>
#include <vector>

#include "kube/api/field_set.h"
#include "kube/api/json.h"

namespace ghostfleet::kube {

struct ManagedEntry {
  std::string manager;
  bool apply = false;
  std::string api_version;
  std::string subresource;
  std::string time;  // as text; empty: none
  FieldSet set;

  bool same_identity(const ManagedEntry& other) const {
    return manager == other.manager && apply == other.apply && subresource == other.subresource &&
           (apply || api_version == other.api_version);
  }
  // `"kubectl" using v1`, as conflicts name it.
  std::string title() const;
};

// False when an entry is malformed (then none counts).
bool decode_entries(const Json& object, std::vector<ManagedEntry>* entries);
// Writes them to metadata.managedFields in order; removes the member when there are none.
void encode_entries(std::vector<ManagedEntry> entries, Json* object);
ManagedEntry* find_entry(std::vector<ManagedEntry>* entries, const ManagedEntry& like);
void drop_empty_entries(std::vector<ManagedEntry>* entries);
void cap_update_entries(std::vector<ManagedEntry>* entries, size_t limit);

}  // namespace ghostfleet::kube
