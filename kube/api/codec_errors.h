// What kind of object a body holds, and how a real API server refuses one that it cannot use. Internal to the codec.
#pragma once

#include <string>
#include <string_view>

#include "kube/api/api_error.h"
#include "kube/api/field_table.h"
#include "kube/api/json.h"
#include "kube/api/kinds.h"

namespace ghostfleet::kube {

struct Gvk {
  std::string kind;
  std::string api_version;  // "v1", "apps/v1"

  std::string_view group() const;
  std::string_view version() const;
};

// `unexpected GroupVersion string: a/b/c`; empty when apiVersion is well formed.
std::string bad_api_version(const Gvk& gvk);
// What was left out is what was expected.
Gvk fill_gvk(Gvk given, const KindInfo& expected);
bool matches(const Gvk& gvk, const KindInfo& expected);

// `the object provided is unrecognized (must be of type Pod): WHY (7b22...)`
ApiError unrecognized(const KindInfo& expected, std::string_view why, std::string_view body);
// `Pod in version "v1" cannot be handled as a Pod: WHY`
ApiError cannot_handle(const Gvk& gvk, const KindInfo& expected, std::string_view why);
// A body whose kind or version is not the expected one.
ApiError wrong_kind(const Gvk& gvk, const KindInfo& expected);

// Takes the k8s envelope off a protobuf body. False with the reason in *error.
bool open_envelope(std::string_view body, Gvk* gvk, std::string_view* message, std::string* error);
// Decodes a message to the decoded form of `type`, zero values filled in.
bool read_message(std::string_view message, const TypeInfo& type, Json* out, std::string* error);

}  // namespace ghostfleet::kube
