// Which fields of a kind a field selector may ask for, and how they are read from the stored bytes.
//
// Thread rule: immutable. Source: a real kube-apiserver 1.36.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "controlplane/apiserver/api.h"
#include "controlplane/store/store.h"
#include "kube/api/api_error.h"
#include "kube/api/selector.h"

namespace ghostfleet::controlplane {

// One selectable field beside metadata.name and metadata.namespace.
struct SelectableField {
  std::string name;      // as it is asked for on the storage kind: "spec.nodeName"
  std::string path;      // where it stands; for "source" of events see kind_fields.cc
  std::string fallback;  // when it is absent: "false", "0"
};

// The fields of a storage kind ("pods", "jobs.batch"); custom resources hand in theirs.
std::vector<SelectableField> selectable_fields(std::string_view storage_resource);
KindConfig kind_config(std::string storage_resource, const std::vector<SelectableField>& fields);

// The name a field has on the storage kind, given how this resource's version calls it ("regarding.name" is
// "involvedObject.name"). Empty when the version has no such field.
std::string storage_field_name(const Resource& r, std::string_view asked);

// A label and a field selector, ready to be asked of objects of one kind.
class ObjectFilter {
 public:
  // Errors: 400 for bad syntax and for fields the kind does not support.
  static kube::ApiResult<ObjectFilter> parse(const Resource& r, const KindConfig& config, std::string_view labels,
                                             std::string_view fields);

  bool empty() const { return labels_.empty() && fields_.empty(); }
  bool matches(const Object& object) const;
  // The name or value asked for by an equality, or empty.
  std::string_view exact_name() const { return exact(kName); }
  std::string_view exact_namespace() const { return exact(kNamespace); }
  std::string_view exact_field(int index) const { return exact(index); }
  const std::vector<kube::FieldRequirement>& requirements() const { return asked_; }

 private:
  static constexpr int kName = -1, kNamespace = -2;
  struct FieldTest {
    int field = kName;
    bool equals = true;
    std::string value;
  };
  std::string_view exact(int field) const;

  kube::LabelSelector labels_;
  std::vector<FieldTest> fields_;
  std::vector<kube::FieldRequirement> asked_;
};

}  // namespace ghostfleet::controlplane
