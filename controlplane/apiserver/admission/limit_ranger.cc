// LimitRanger: defaults of a namespace's limit ranges, and their bounds.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "controlplane/apiserver/admission/lookup.h"
#include "controlplane/apiserver/admission/plugins.h"
#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/resources.h"
#include "controlplane/apiserver/strategies/workload_common.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;
using kube::Quantity;

namespace {

using Amounts = std::map<std::string, Quantity, std::less<>>;

// Adds what is missing; answers the names added, sorted.
std::vector<std::string> fill(JsonObject& resources, std::string_view part, const JsonObject* defaults) {
  std::vector<std::string> added;
  if (defaults == nullptr || defaults->empty()) return added;
  JsonObject& target = object_in(resources, part);
  for (const auto& entry : *defaults) {
    if (target.if_contains(entry.key()) != nullptr) continue;
    target.emplace(entry.key(), entry.value());
    added.emplace_back(entry.key());
  }
  std::sort(added.begin(), added.end());
  return added;
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) {
    if (!out.empty()) out += ", ";
    out += name;
  }
  return out;
}

void default_containers(Json& spec, std::string_view key, std::string_view word, const Json& limit,
                        std::vector<std::string>& notes) {
  Json* list = member(spec, key);
  if (list == nullptr || !list->is_array()) return;
  for (Json& container : list->get_array()) {
    if (!container.is_object()) continue;
    JsonObject& resources = object_in(container.get_object(), "resources");
    std::vector<std::string> limits = fill(resources, "limits", object_of(limit, "default"));
    std::vector<std::string> requests = fill(resources, "requests", object_of(limit, "defaultRequest"));
    std::string_view name = text_of(container, "name");
    if (!requests.empty()) notes.push_back(fmt::format("{} request for {} {}", joined(requests), word, name));
    if (!limits.empty()) notes.push_back(fmt::format("{} limit for {} {}", joined(limits), word, name));
  }
}

// ---- bounds -------------------------------------------------------------------------------------------------------

struct Bound {
  std::string_view type, resource;
  Quantity value;
};

const Quantity* amount(const Amounts& amounts, std::string_view resource) {
  auto it = amounts.find(resource);
  return it == amounts.end() ? nullptr : &it->second;
}

void check_min(const Bound& b, const Amounts& requests, const Amounts& limits, std::vector<std::string>& errors) {
  const Quantity* request = amount(requests, b.resource);
  const Quantity* limit = amount(limits, b.resource);
  std::string head = fmt::format("minimum {} usage per {} is {}", b.resource, b.type, b.value.to_string());
  if (request == nullptr) {
    errors.push_back(head + ".  No request is specified");
  } else if (*request < b.value) {
    errors.push_back(fmt::format("{}, but request is {}", head, request->to_string()));
  } else if (limit != nullptr && *limit < b.value) {
    errors.push_back(fmt::format("{}, but limit is {}", head, limit->to_string()));
  }
}

void check_max(const Bound& b, const Amounts& requests, const Amounts* limits, std::vector<std::string>& errors) {
  const Quantity* request = amount(requests, b.resource);
  std::string head = fmt::format("maximum {} usage per {} is {}", b.resource, b.type, b.value.to_string());
  if (limits == nullptr) {
    if (request == nullptr) {
      errors.push_back(head + ".  No request is specified");
    } else if (*request > b.value) {
      errors.push_back(fmt::format("{}, but request is {}", head, request->to_string()));
    }
    return;
  }
  const Quantity* limit = amount(*limits, b.resource);
  if (limit == nullptr) {
    errors.push_back(head + ".  No limit is specified");
  } else if (*limit > b.value) {
    errors.push_back(fmt::format("{}, but limit is {}", head, limit->to_string()));
  } else if (request != nullptr && *request > b.value) {
    errors.push_back(fmt::format("{}, but request is {}", head, request->to_string()));
  }
}

void check_ratio(const Bound& b, const Amounts& requests, const Amounts& limits, std::vector<std::string>& errors) {
  const Quantity* request = amount(requests, b.resource);
  const Quantity* limit = amount(limits, b.resource);
  std::string head = fmt::format("{} max limit to request ratio per {} is {}", b.resource, b.type, b.value.to_string());
  if (request == nullptr || request->is_zero()) {
    errors.push_back(head + ", but no request is specified or request is 0");
  } else if (limit == nullptr || limit->is_zero()) {
    errors.push_back(head + ", but no limit is specified or limit is 0");
  } else {
    double ratio = static_cast<double>(limit->milli_value()) / static_cast<double>(request->milli_value());
    if (ratio * 1000 > static_cast<double>(b.value.milli_value())) {
      errors.push_back(fmt::format("{}, but provided ratio is {:.6f}", head, ratio));
    }
  }
}

Amounts amounts_of(const Json* list) {
  Amounts out;
  if (list == nullptr || !list->is_object()) return out;
  for (const auto& entry : list->get_object()) out.emplace(entry.key(), quantity_of(as_text(entry.value())));
  return out;
}

// Sum over containers, or the largest init container where that is more.
Amounts pod_amounts(const Json& spec, std::string_view part) {
  Amounts sum;
  const JsonArray* containers = array_of(spec, "containers");
  for (size_t i = 0; containers != nullptr && i < containers->size(); ++i) {
    const Json* resources = member((*containers)[i], "resources");
    for (const auto& [name, value] : amounts_of(resources == nullptr ? nullptr : member(*resources, part))) {
      auto [it, fresh] = sum.emplace(name, value);
      if (!fresh) it->second += value;
    }
  }
  const JsonArray* init = array_of(spec, "initContainers");
  for (size_t i = 0; init != nullptr && i < init->size(); ++i) {
    const Json* resources = member((*init)[i], "resources");
    for (const auto& [name, value] : amounts_of(resources == nullptr ? nullptr : member(*resources, part))) {
      auto [it, fresh] = sum.emplace(name, value);
      if (!fresh && it->second < value) it->second = value;
    }
  }
  return sum;
}

template <class Visit>
void for_bounds(const Json& limit, std::string_view key, Visit visit) {
  const JsonObject* list = object_of(limit, key);
  if (list == nullptr) return;
  for (const auto& entry : *list) {
    visit(Bound{text_of(limit, "type"), entry.key(), quantity_of(as_text(entry.value()))});
  }
}

void check_amounts(const Json& limit, const Amounts& requests, const Amounts& limits,
                   std::vector<std::string>& errors) {
  for_bounds(limit, "min", [&](const Bound& b) { check_min(b, requests, limits, errors); });
  for_bounds(limit, "max", [&](const Bound& b) { check_max(b, requests, &limits, errors); });
  for_bounds(limit, "maxLimitRequestRatio", [&](const Bound& b) { check_ratio(b, requests, limits, errors); });
}

void check_pod_limit(const Json& limit, const Json& spec, std::vector<std::string>& errors) {
  std::string_view type = text_of(limit, "type");
  if (type == "Container") {
    for (std::string_view key : {"containers", "initContainers"}) {
      const JsonArray* list = array_of(spec, key);
      for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
        const Json* resources = member((*list)[i], "resources");
        check_amounts(limit, amounts_of(resources == nullptr ? nullptr : member(*resources, "requests")),
                      amounts_of(resources == nullptr ? nullptr : member(*resources, "limits")), errors);
      }
    }
  } else if (type == "Pod") {
    check_amounts(limit, pod_amounts(spec, "requests"), pod_amounts(spec, "limits"), errors);
  }
}

void check_claim_limit(const Json& limit, const Json& spec, std::vector<std::string>& errors) {
  if (text_of(limit, "type") != "PersistentVolumeClaim") return;
  const Json* resources = member(spec, "resources");
  Amounts requests = amounts_of(resources == nullptr ? nullptr : member(*resources, "requests"));
  for_bounds(limit, "min", [&](const Bound& b) { check_min(b, requests, {}, errors); });
  for_bounds(limit, "max", [&](const Bound& b) { check_max(b, requests, nullptr, errors); });
}

}  // namespace

void apply_limit_ranges(Json& pod, StrategyContext& ctx) {
  if (none_stored(ctx.api, KnownKind::kLimitRanges, ctx.ns)) return;
  std::vector<std::string> notes;
  make_spec(pod);
  Json& spec = pod.get_object()["spec"];
  for (const Json& range : stored_list(ctx.api, KnownKind::kLimitRanges, ctx.ns)) {
    const JsonArray* limits = array_of(spec_of(range), "limits");
    for (size_t i = 0; limits != nullptr && i < limits->size(); ++i) {
      if (text_of((*limits)[i], "type") != "Container") continue;
      default_containers(spec, "containers", "container", (*limits)[i], notes);
      default_containers(spec, "initContainers", "init container", (*limits)[i], notes);
    }
  }
  if (notes.empty()) return;
  std::string text = "LimitRanger plugin set: ";
  for (size_t i = 0; i < notes.size(); ++i) text += (i == 0 ? "" : "; ") + notes[i];
  object_in(metadata_of(pod).get_object(), "annotations")["kubernetes.io/limit-ranger"] = text;
}

Admitted check_limit_ranges(const Json& object, StrategyContext& ctx) {
  bool pod = is_kind(ctx, "", "pods");
  if (!pod && !is_kind(ctx, "", "persistentvolumeclaims")) return true;
  if (none_stored(ctx.api, KnownKind::kLimitRanges, ctx.ns)) return true;
  for (const Json& range : stored_list(ctx.api, KnownKind::kLimitRanges, ctx.ns)) {
    std::vector<std::string> errors;
    const JsonArray* limits = array_of(spec_of(range), "limits");
    for (size_t i = 0; limits != nullptr && i < limits->size(); ++i) {
      if (pod) {
        check_pod_limit((*limits)[i], spec_of(object), errors);
      } else {
        check_claim_limit((*limits)[i], spec_of(object), errors);
      }
    }
    if (errors.empty()) continue;
    std::string text = errors.size() == 1 ? errors[0] : "[" + joined(errors) + "]";
    return refuse(ctx, object, text);
  }
  return true;
}

}  // namespace ghostfleet::controlplane
