#include "controlplane/apiserver/strategies/resources.h"

#include <fmt/format.h>

#include "kube/api/names.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;
using kube::Quantity;

namespace {

constexpr std::string_view kHugePages = "hugepages-";

bool is_standard_resource(std::string_view name) {
  return one_of(name, {"cpu",
                       "memory",
                       "ephemeral-storage",
                       "storage",
                       "pods",
                       "services",
                       "replicationcontrollers",
                       "resourcequotas",
                       "secrets",
                       "configmaps",
                       "persistentvolumeclaims",
                       "services.nodeports",
                       "services.loadbalancers",
                       "requests.cpu",
                       "requests.memory",
                       "requests.storage",
                       "requests.ephemeral-storage",
                       "limits.cpu",
                       "limits.memory",
                       "limits.ephemeral-storage"}) ||
         is_huge_page(name) || name.starts_with("requests.hugepages-");
}

void check_huge_page_value(std::string_view name, std::string_view text, const Path& path, Findings& out) {
  Quantity page = quantity_of(name.substr(kHugePages.size()));
  int64_t size = page.value();
  if (size <= 0 || quantity_of(text).value() % size != 0) {
    out.invalid_text(path, text, fmt::format("{} is not positive integer multiple of {}", text, name));
  }
}

struct Seen {
  bool cpu_or_memory = false;
  bool huge_pages = false;
};

void check_entry(std::string_view name, const Json& value, const Path& path, Seen& seen, Findings& out) {
  check_container_resource_name(name, path, out);
  check_resource_value(name, value, path, out);
  if (is_huge_page(name)) {
    seen.huge_pages = true;
    check_huge_page_value(name, as_text(value), path, out);
  }
  seen.cpu_or_memory = seen.cpu_or_memory || name == "cpu" || name == "memory";
}

void check_request_against_limit(std::string_view name, std::string_view request, std::string_view limit,
                                 const Path& resources, Findings& out) {
  if (limit.empty()) {
    if (!overcommit_allowed(name)) {
      out.required(resources.child("limits"), "Limit must be set for non overcommitable resources");
    }
    return;
  }
  if (request == limit) return;
  Quantity a = quantity_of(request);
  Quantity b = quantity_of(limit);
  if (a != b && !overcommit_allowed(name)) {
    out.invalid_text(resources.child("requests"), request, fmt::format("must be equal to {} limit of {}", name, limit));
  } else if (a > b) {
    out.invalid_text(resources.child("requests"), request,
                     fmt::format("must be less than or equal to {} limit of {}", name, limit));
  }
}

}  // namespace

std::string_view quantity_text(const Json* list, std::string_view resource) {
  return list == nullptr ? std::string_view() : text_of(*list, resource);
}

Quantity quantity_of(std::string_view text) {
  auto parsed = Quantity::parse(text);
  return parsed.ok() ? *parsed : Quantity();
}

bool quantity_is_positive(std::string_view text) {
  if (text.empty() || text == "0") return false;
  return quantity_of(text).sign() > 0;
}

bool same_quantity(std::string_view a, std::string_view b) { return a == b || quantity_of(a) == quantity_of(b); }

void round_up_list(Json& list) {
  if (!list.is_object()) return;
  for (auto& entry : list.get_object()) {
    std::string_view text = as_text(entry.value());
    if (text.empty() || (text.back() != 'u' && text.back() != 'n')) continue;
    Quantity value = quantity_of(text);
    entry.value() = Quantity::from_milli(value.milli_value(), value.format()).to_string();
  }
}

void round_up_resources(Json& resources) {
  if (Json* limits = member(resources, "limits")) round_up_list(*limits);
  if (Json* requests = member(resources, "requests")) round_up_list(*requests);
}

bool is_huge_page(std::string_view name) { return name.starts_with(kHugePages); }

bool is_native_resource(std::string_view name) {
  return name.find('/') == std::string_view::npos || name.find("kubernetes.io/") != std::string_view::npos;
}

bool is_extended_resource(std::string_view name) {
  if (is_native_resource(name) || name.starts_with("requests.")) return false;
  return kube::check_qualified_name(fmt::format("requests.{}", name)).empty();
}

bool overcommit_allowed(std::string_view name) { return is_native_resource(name) && !is_huge_page(name); }

bool is_integer_resource(std::string_view name) {
  return one_of(name, {"pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
                       "persistentvolumeclaims", "services.nodeports", "services.loadbalancers"}) ||
         is_extended_resource(name);
}

bool is_standard_container_resource(std::string_view name) {
  return one_of(name, {"cpu", "memory", "ephemeral-storage"}) || is_huge_page(name);
}

void check_resource_name(std::string_view name, const Path& path, Findings& out) {
  size_t before = out.size();
  out.messages(path, name, kube::check_qualified_name(name));
  if (out.size() > before) return;
  if (name.find('/') == std::string_view::npos && !is_standard_resource(name)) {
    out.invalid_text(path, name, "must be a standard resource type or fully qualified");
  }
}

void check_container_resource_name(std::string_view name, const Path& path, Findings& out) {
  if (name == "cpu" || name == "memory") return;
  check_resource_name(name, path, out);
  if (name.find('/') == std::string_view::npos) {
    if (!is_standard_container_resource(name)) {
      out.invalid_text(path, name, "must be a standard resource for containers");
    }
  } else if (!is_native_resource(name) && !is_extended_resource(name)) {
    out.invalid_text(path, name, "doesn't follow extended resource name standard");
  }
}

void check_resource_value(std::string_view name, const Json& value, const Path& path, Findings& out) {
  std::string_view text = as_text(value);
  bool simple = !text.empty() && text[0] != '-' && text.back() != 'm' && text.back() != 'u' && text.back() != 'n';
  if (simple) return;
  Quantity quantity = quantity_of(text);
  if (quantity.sign() < 0) out.invalid_text(path, text, "must be greater than or equal to 0");
  if (is_integer_resource(name) && quantity.milli_value() % 1000 != 0) {
    out.invalid_text(path, text, "must be an integer");
  }
}

void check_resource_list(const Json* list, const Path& path, Findings& out) {
  if (list == nullptr || !list->is_object()) return;
  for (const auto& entry : list->get_object()) {
    Path at = path.key(entry.key());
    check_resource_name(entry.key(), at, out);
    check_resource_value(entry.key(), entry.value(), at, out);
  }
}

void check_requirements(const Json* resources, const Path& path, Findings& out) {
  if (resources == nullptr || !resources->is_object()) return;
  const JsonObject* limits = object_of(*resources, "limits");
  const JsonObject* requests = object_of(*resources, "requests");
  Path limit_path = path.child("limits");
  Path request_path = path.child("requests");
  Seen seen;
  if (limits != nullptr) {
    for (const auto& entry : *limits) check_entry(entry.key(), entry.value(), limit_path.key(entry.key()), seen, out);
  }
  if (requests != nullptr) {
    for (const auto& entry : *requests) {
      check_entry(entry.key(), entry.value(), request_path.key(entry.key()), seen, out);
      check_request_against_limit(entry.key(), as_text(entry.value()),
                                  quantity_text(member(*resources, "limits"), entry.key()), path, out);
    }
  }
  if (seen.huge_pages && !seen.cpu_or_memory) out.forbidden(path, "HugePages require cpu or memory");
}

}  // namespace ghostfleet::controlplane
