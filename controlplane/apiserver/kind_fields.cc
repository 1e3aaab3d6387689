#include "controlplane/apiserver/kind_fields.h"

#include <algorithm>

#include "controlplane/apiserver/json_scan.h"

namespace ghostfleet::controlplane {
namespace {

using kube::ApiResult;
using kube::bad_request;

struct KindFields {
  std::string_view storage;
  std::vector<SelectableField> fields;
};

SelectableField plain(std::string path, std::string fallback = "") { return {path, path, std::move(fallback)}; }

const std::vector<KindFields>& table() {
  static const std::vector<KindFields> kinds = {
      {"pods",
       {plain("spec.nodeName"), plain("status.phase"), plain("spec.restartPolicy"), plain("spec.schedulerName"),
        plain("spec.serviceAccountName"), plain("spec.hostNetwork", "false"), plain("status.podIP"),
        plain("status.nominatedNodeName")}},
      {"nodes", {plain("spec.unschedulable", "false")}},
      {"namespaces", {plain("status.phase")}},
      {"secrets", {plain("type")}},
      {"services", {plain("spec.clusterIP"), plain("spec.type")}},
      {"events",
       {plain("involvedObject.kind"),
        plain("involvedObject.namespace"),
        plain("involvedObject.name"),
        plain("involvedObject.uid"),
        plain("involvedObject.apiVersion"),
        plain("involvedObject.resourceVersion"),
        plain("involvedObject.fieldPath"),
        plain("reason"),
        plain("reportingComponent"),
        {"source", "source.component", ""},
        plain("type")}},
      {"replicationcontrollers", {plain("status.replicas", "0")}},
      {"jobs.batch", {{"status.successful", "status.succeeded", "0"}}},
      {"certificatesigningrequests.certificates.k8s.io", {plain("spec.signerName")}},
      {"resourceslices.resource.k8s.io", {plain("spec.nodeName"), plain("spec.driver")}},
  };
  return kinds;
}

// Kinds whose version has conversion functions of its own say "field label not supported" for other fields.
bool has_field_conversion(std::string_view storage) {
  static constexpr std::string_view kKinds[] = {"pods",
                                                "nodes",
                                                "namespaces",
                                                "secrets",
                                                "services",
                                                "events",
                                                "replicationcontrollers",
                                                "jobs.batch",
                                                "certificatesigningrequests.certificates.k8s.io",
                                                "resourceslices.resource.k8s.io"};
  return std::find(std::begin(kKinds), std::end(kKinds), storage) != std::end(kKinds);
}

// The members of an object, found in one pass: what is asked of it comes from two or three of them.
class TopMembers {
 public:
  explicit TopMembers(std::string_view json) {
    for_each_json_member(json, [this](std::string_view key, std::string_view value) {
      members_.emplace_back(key, value);
      return true;
    });
  }
  std::string_view at(std::string_view path) const {
    const size_t dot = path.find('.');
    for (const auto& [key, value] : members_) {
      if (key != path.substr(0, dot)) continue;
      return dot == std::string_view::npos ? value : json_at_path(value, path.substr(dot + 1));
    }
    return {};
  }

 private:
  std::vector<std::pair<std::string_view, std::string_view>> members_;
};

void extract_labels(std::string_view labels, Object* object) {
  for_each_json_member(labels, [&](std::string_view key, std::string_view value) {
    object->labels.emplace_back(std::string(key), json_text(value));
    return true;
  });
}

std::string extract_field(const TopMembers& json, const SelectableField& field) {
  std::string text = json_text(json.at(field.path));
  // An event's source is its component, or who reports it when it was written in the newer form.
  if (text.empty() && field.name == "source") text = json_text(json.at("reportingComponent"));
  return text.empty() ? field.fallback : text;
}

kube::ApiError unsupported_field(const Resource& r, std::string_view asked) {
  if (r.info.custom() || !has_field_conversion(r.stored->storage_resource)) {
    return bad_request("\"" + std::string(asked) +
                       "\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"");
  }
  return bad_request("field label not supported: " + std::string(asked));
}

}  // namespace

std::vector<SelectableField> selectable_fields(std::string_view storage_resource) {
  for (const KindFields& kind : table()) {
    if (kind.storage == storage_resource) return kind.fields;
  }
  return {};
}

KindConfig kind_config(std::string storage_resource, const std::vector<SelectableField>& fields) {
  KindConfig config;
  config.name = std::move(storage_resource);
  for (const SelectableField& field : fields) config.indexed_fields.push_back(field.name);
  if (config.name == "pods") config.watch_index_field = 0;
  config.extract = [fields](std::string_view json, Object* object) {
    const TopMembers members(json);
    extract_labels(members.at("metadata.labels"), object);
    object->fields.reserve(fields.size());
    for (const SelectableField& field : fields) object->fields.push_back(extract_field(members, field));
  };
  return config;
}

std::string storage_field_name(const Resource& r, std::string_view asked) {
  if (r.info.group == "events.k8s.io") {
    if (asked.starts_with("regarding.")) return "involvedObject." + std::string(asked.substr(10));
    if (asked == "reportingController") return "reportingComponent";
    if (asked == "reason" || asked == "type") return std::string(asked);
    return {};
  }
  if (r.stored->storage_resource == "pods" && asked == "spec.host") return "spec.nodeName";
  return std::string(asked);
}

ApiResult<ObjectFilter> ObjectFilter::parse(const Resource& r, const KindConfig& config, std::string_view labels,
                                            std::string_view fields) {
  ObjectFilter filter;
  if (!labels.empty()) {
    ApiResult<kube::LabelSelector> selector = kube::LabelSelector::parse(labels);
    if (!selector.ok()) return selector.error();
    filter.labels_ = std::move(*selector);
  }
  if (fields.empty()) return filter;
  ApiResult<std::vector<kube::FieldRequirement>> requirements = kube::parse_field_selector(fields);
  if (!requirements.ok()) return requirements.error();
  for (const kube::FieldRequirement& requirement : *requirements) {
    FieldTest test{kName, requirement.equals, requirement.value};
    if (requirement.field == "metadata.namespace" && r.info.namespaced) {
      test.field = kNamespace;
    } else if (requirement.field == "metadata.namespace" && !r.info.namespaced && r.info.custom()) {
      return unsupported_field(r, requirement.field);
    } else if (requirement.field == "metadata.namespace") {
      test.field = kNamespace;
    } else if (requirement.field != "metadata.name") {
      const std::string name = storage_field_name(r, requirement.field);
      const auto at = std::find(config.indexed_fields.begin(), config.indexed_fields.end(), name);
      if (name.empty() || at == config.indexed_fields.end()) return unsupported_field(r, requirement.field);
      test.field = static_cast<int>(at - config.indexed_fields.begin());
    }
    filter.fields_.push_back(std::move(test));
  }
  filter.asked_ = std::move(*requirements);
  return filter;
}

bool ObjectFilter::matches(const Object& object) const {
  for (const FieldTest& test : fields_) {
    std::string_view value;
    if (test.field == kName) {
      value = object.name();
    } else if (test.field == kNamespace) {
      value = object.ns();
    } else {
      value = object.fields[static_cast<size_t>(test.field)];
    }
    if ((value == test.value) != test.equals) return false;
  }
  if (labels_.empty()) return !labels_.matches_nothing();
  return labels_.matches_lookup([&](std::string_view key) -> const std::string* {
    for (const auto& [name, value] : object.labels) {
      if (name == key) return &value;
    }
    return nullptr;
  });
}

std::string_view ObjectFilter::exact(int field) const {
  for (const FieldTest& test : fields_) {
    if (test.field == field && test.equals) return test.value;
  }
  return {};
}

}  // namespace ghostfleet::controlplane
