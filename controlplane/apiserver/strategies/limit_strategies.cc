// Limit ranges, resource quotas, endpoints.
#include <fmt/format.h>

#include <set>

#include "controlplane/apiserver/strategies/kind_strategy.h"
#include "controlplane/apiserver/strategies/resources.h"
#include "controlplane/apiserver/strategies/workload_common.h"
#include "kube/api/names.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;
using kube::Quantity;

namespace {

// ---- LimitRange ---------------------------------------------------------------------------------------------------

void fill_missing(JsonObject& item, std::string_view to, std::string_view from) {
  const Json* source = item.if_contains(from);
  if (source == nullptr || !source->is_object()) return;
  JsonObject copy = source->get_object();
  if (copy.empty()) return;
  JsonObject& target = object_in(item, to);
  for (auto& entry : copy) {
    if (target.if_contains(entry.key()) == nullptr) target.emplace(entry.key(), std::move(entry.value()));
  }
}

// The values of one resource in a limit, as far as they are given.
struct LimitValues {
  std::string_view min, max, limit, request, ratio;
};

bool greater(std::string_view a, std::string_view b) {
  return !a.empty() && !b.empty() && quantity_of(a) > quantity_of(b);
}

void check_values(std::string_view name, const LimitValues& v, const Path& item, Findings& out) {
  Path min = item.child("min");
  Path request = item.child("defaultRequest");
  Path limit = item.child("default");
  if (greater(v.min, v.max)) {
    out.invalid_text(min.key(name), v.min, fmt::format("min value {} is greater than max value {}", v.min, v.max));
  }
  if (greater(v.min, v.request)) {
    out.invalid_text(request.key(name), v.request,
                     fmt::format("min value {} is greater than default request value {}", v.min, v.request));
  }
  if (greater(v.request, v.max)) {
    out.invalid_text(request.key(name), v.request,
                     fmt::format("default request value {} is greater than max value {}", v.request, v.max));
  }
  if (greater(v.request, v.limit)) {
    out.invalid_text(
        request.key(name), v.request,
        fmt::format("default request value {} is greater than default limit value {}", v.request, v.limit));
  }
  if (greater(v.min, v.limit)) {
    out.invalid_text(limit.key(name), v.min,
                     fmt::format("min value {} is greater than default value {}", v.min, v.limit));
  }
  if (greater(v.limit, v.max)) {
    out.invalid_text(limit.key(name), v.max,
                     fmt::format("default value {} is greater than max value {}", v.limit, v.max));
  }
  if (!v.ratio.empty() && quantity_of(v.ratio) < Quantity::from_value(1)) {
    Path ratio = item.child("maxLimitRequestRatio");
    out.invalid_text(ratio.key(name), v.ratio, fmt::format("ratio {} is less than 1", v.ratio));
  }
}

void check_limit(const Json& item, const Path& path, Findings& out) {
  std::string_view type = text_of(item, "type");
  if (type.empty()) {
    out.required(path.child("type"));
  } else if (!one_of(type, {"Container", "Pod", "PersistentVolumeClaim"}) && type.find('/') == std::string_view::npos) {
    out.invalid_text(path.child("type"), type, "must be a standard limit type or fully qualified");
  }
  std::set<std::string_view> names;
  for (std::string_view key : {"max", "min", "default", "defaultRequest", "maxLimitRequestRatio"}) {
    const JsonObject* list = object_of(item, key);
    if (list == nullptr || list->empty()) continue;
    if (type == "Pod" && (key == "default" || key == "defaultRequest")) {
      out.forbidden(path.child(key), "may not be specified when `type` is 'Pod'");
      continue;
    }
    Path at = path.child(key);
    for (const auto& entry : *list) {
      if (type == "Container" || type == "Pod") {
        check_container_resource_name(entry.key(), at.key(entry.key()), out);
      } else {
        check_resource_name(entry.key(), at.key(entry.key()), out);
      }
      names.insert(entry.key());
    }
  }
  const Json* max = member(item, "max");
  const Json* min = member(item, "min");
  if (type == "PersistentVolumeClaim" && quantity_text(max, "storage").empty() &&
      quantity_text(min, "storage").empty()) {
    out.required(path.child("limits"), "either minimum or maximum storage value is required, but neither was provided");
  }
  bool pod = type == "Pod";
  for (std::string_view name : names) {
    LimitValues values{quantity_text(min, name), quantity_text(max, name),
                       pod ? "" : quantity_text(member(item, "default"), name),
                       pod ? "" : quantity_text(member(item, "defaultRequest"), name),
                       quantity_text(member(item, "maxLimitRequestRatio"), name)};
    check_values(name, values, path, out);
  }
}

class LimitRangeStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext&) const override {
    Json* limits = member(make_limits(object), "limits");
    if (limits == nullptr || !limits->is_array()) return;
    for (Json& item : limits->get_array()) {
      if (text_of(item, "type") != "Container") continue;
      JsonObject& i = item.get_object();
      fill_missing(i, "default", "max");
      fill_missing(i, "defaultRequest", "default");
      fill_missing(i, "defaultRequest", "min");
    }
  }

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    const JsonArray* limits = array_of(spec_of(object), "limits");
    std::set<std::string_view> types;
    Path path("spec");
    for (size_t i = 0; limits != nullptr && i < limits->size(); ++i) {
      Path at = path.child("limits", i);
      check_limit((*limits)[i], at, out);
      std::string_view type = text_of((*limits)[i], "type");
      if (!types.insert(type).second) out.duplicate(at.child("type"), type);
    }
  }

 private:
  static Json& make_limits(Json& object) {
    make_spec(object);
    return object.get_object()["spec"];
  }
};

// ---- ResourceQuota ------------------------------------------------------------------------------------------------

class ResourceQuotaStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    check_hard(spec_of(object), Path("spec"), out);
    Path path("spec");
    const JsonArray* scopes = array_of(spec_of(object), "scopes");
    for (size_t i = 0; scopes != nullptr && i < scopes->size(); ++i) {
      std::string_view scope = as_text((*scopes)[i]);
      if (!one_of(scope, {"Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass",
                          "CrossNamespacePodAffinity", "VolumeAttributesClass"})) {
        out.invalid(path.child("scopes"), json_text(*scopes), "unsupported scope");
        return;
      }
    }
  }

  void check_update(const Json& object, const Json& old, StrategyContext& ctx, Findings& out) const override {
    check(object, ctx, out);
    if (!equal_members(spec_of(object), spec_of(old), "scopes")) {
      const Json* scopes = member(spec_of(object), "scopes");
      out.invalid(Path("spec.scopes"), scopes == nullptr ? "null" : json_text(*scopes), kImmutable);
    }
  }

  void check_status(const Json& object, const Json&, StrategyContext&, Findings& out) const override {
    check_hard(status_of(object), Path("status"), out);
  }

 private:
  static void check_hard(const Json& owner, const Path& path, Findings& out) {
    for (std::string_view key : {"hard", "used"}) {
      const JsonObject* list = object_of(owner, key);
      if (list == nullptr) continue;
      Path at = path.child(key);
      for (const auto& entry : *list) {
        out.messages(at.key(entry.key()), entry.key(), kube::check_qualified_name(entry.key()));
        Quantity value = quantity_of(as_text(entry.value()));
        if (value.sign() < 0) {
          out.invalid_text(at.key(entry.key()), as_text(entry.value()), "must be greater than or equal to 0");
        }
      }
    }
  }
};

// ---- Endpoints ----------------------------------------------------------------------------------------------------

class EndpointsStrategy final : public KindStrategy {
 public:
  using KindStrategy::KindStrategy;

  void apply_defaults(Json& object, StrategyContext& ctx) const override {
    if (!ctx.request.internal) {
      ctx.request.warn("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice");
    }
    Json* subsets = member(object, "subsets");
    if (subsets == nullptr || !subsets->is_array()) return;
    for (Json& subset : subsets->get_array()) {
      Json* ports = member(subset, "ports");
      if (ports == nullptr || !ports->is_array()) continue;
      for (Json& port : ports->get_array()) default_text(port.get_object(), "protocol", "TCP");
    }
  }

 protected:
  void check(const Json& object, StrategyContext&, Findings& out) const override {
    const JsonArray* subsets = array_of(object, "subsets");
    for (size_t i = 0; subsets != nullptr && i < subsets->size(); ++i) {
      check_subset((*subsets)[i], i, out);
    }
  }

 private:
  static void check_subset(const Json& subset, size_t number, Findings& out) {
    Path subsets("subsets");
    Path path = subsets.index(number);
    const JsonArray* ready = array_of(subset, "addresses");
    const JsonArray* other = array_of(subset, "notReadyAddresses");
    if ((ready == nullptr || ready->empty()) && (other == nullptr || other->empty())) {
      out.required(path, "must specify `addresses` or `notReadyAddresses`");
    }
    for (std::string_view key : {"addresses", "notReadyAddresses"}) {
      const JsonArray* list = array_of(subset, key);
      for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
        std::string_view ip = text_of((*list)[i], "ip");
        Path at = path.child(key, i);
        if (!kube::is_valid_ip(ip)) {
          out.invalid_text(at.child("ip"), ip, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
        }
      }
    }
    const JsonArray* ports = array_of(subset, "ports");
    for (size_t i = 0; ports != nullptr && i < ports->size(); ++i) {
      static const Json kZero = 0;
      Path at = path.child("ports", i);
      if (ports->size() > 1 && text_of((*ports)[i], "name").empty()) out.required(at.child("name"));
      const Json* port = member((*ports)[i], "port");
      check_port(port == nullptr ? kZero : *port, at.child("port"), out);
    }
  }
};

}  // namespace

StrategyPointer make_limit_range_strategy(const KindTraits& traits) {
  return std::make_unique<LimitRangeStrategy>(traits);
}
StrategyPointer make_resource_quota_strategy(const KindTraits& traits) {
  return std::make_unique<ResourceQuotaStrategy>(traits);
}
StrategyPointer make_endpoints_strategy(const KindTraits& traits) {
  return std::make_unique<EndpointsStrategy>(traits);
}

}  // namespace ghostfleet::controlplane
