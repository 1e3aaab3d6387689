#include "controlplane/scheduler/claim_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "controlplane/informer/device_claims.h"
#include "kube/api/quantity.h"

namespace ghostfleet::controlplane::scheduling {

using kube::get_array;
using kube::get_string;
using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

constexpr size_t kMostExtended = 64;  // requests of one pod that devices may satisfy

bool is_extended(std::string_view resource) {
  const size_t slash = resource.find('/');
  if (slash == std::string_view::npos) return false;
  const std::string_view domain = resource.substr(0, slash);
  if (domain == "deviceclass.resource.kubernetes.io") return true;
  return domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io");
}

void add_container(const Json& container, size_t index, const std::function<int(std::string_view)>& id_of,
                   std::vector<ExtendedRequest>* out) {
  const kube::JsonObject* requests = kube::get_object(container, "resources.requests");
  if (requests == nullptr) return;
  size_t number = 0;
  for (const auto& [resource, amount] : *requests) {
    const std::string_view name = resource;
    const auto quantity = kube::Quantity::parse(amount.is_string() ? std::string_view(amount.get_string()) : "");
    if (!is_extended(name) || !quantity.ok() || quantity->value() <= 0 || out->size() >= kMostExtended) continue;
    out->push_back({std::string(get_string(container, "name")), std::string(name), id_of(name), quantity->value(),
                    fmt::format("container-{}-request-{}", index, number++)});
  }
}

}  // namespace

std::vector<ExtendedRequest> extended_requests(const Json& spec, const std::function<int(std::string_view)>& id_of) {
  std::vector<ExtendedRequest> out;
  size_t index = 0;
  for (const char* list : {"initContainers", "containers"}) {
    const JsonArray* containers = get_array(spec, list);
    for (size_t i = 0; containers != nullptr && i < containers->size(); ++i)
      add_container((*containers)[i], index++, id_of, &out);
  }
  return out;
}

struct ClaimPlan::Variant {
  Json extended;                    // a claim; null: none is needed
  std::vector<const Json*> claims;  // those to be allocated, the extended one last
  std::unique_ptr<DeviceSearch> search;
  JsonArray mappings;
};

ClaimPlan::ClaimPlan(const DeviceBook& book, std::vector<Json> claims, const std::vector<ExtendedRequest>& extended)
    : book_(book), claims_(std::move(claims)) {
  for (const Json& claim : claims_) {
    if (!is_allocated(claim)) open_.push_back(&claim);
  }
  for (const ExtendedRequest& request : extended) {
    if (!book_.class_for(request.resource).empty()) extended_.push_back(request);
  }
}

ClaimPlan::~ClaimPlan() = default;

std::string ClaimPlan::signature() const {
  std::string out;
  for (const Json& claim : claims_) {
    const Json* spec = kube::find_key(claim, "spec");
    const Json* nodes = kube::find_path(claim, "status.allocation.nodeSelector");
    if (spec != nullptr) out += kube::to_json(*spec);
    if (nodes != nullptr) out += kube::to_json(*nodes);
    if (is_allocated(claim)) out += get_string(claim, "metadata.uid");
    out += ";";
  }
  return out;
}

ClaimPlan::Variant& ClaimPlan::variant(uint64_t mask) {
  std::unique_ptr<Variant>& v = variants_[mask];
  if (v != nullptr) return *v;
  v = std::make_unique<Variant>();
  v->claims = open_;
  JsonArray requests;
  for (size_t i = 0; i < extended_.size(); ++i) {
    if ((mask >> i & 1) == 0) continue;
    const ExtendedRequest& r = extended_[i];
    requests.push_back(JsonObject{{"name", r.name},
                                  {"exactly", JsonObject{{"deviceClassName", book_.class_for(r.resource)},
                                                         {"allocationMode", "ExactCount"},
                                                         {"count", r.count}}}});
    v->mappings.push_back(
        JsonObject{{"containerName", r.container}, {"resourceName", r.resource}, {"requestName", r.name}});
  }
  if (!requests.empty()) {
    v->extended = JsonObject{{"spec", JsonObject{{"devices", JsonObject{{"requests", std::move(requests)}}}}}};
    v->claims.push_back(&v->extended);
  }
  v->search = std::make_unique<DeviceSearch>(book_, v->claims);
  return *v;
}

std::string ClaimPlan::try_node(const std::string& node, const HasPlugin& has_plugin) {
  for (const Json& claim : claims_) {
    if (is_allocated(claim) && !DeviceBook::usable_on(claim, node)) return "resourceclaim not available on the node";
  }
  uint64_t mask = 0;
  for (size_t i = 0; i < extended_.size(); ++i) {
    if (!has_plugin(extended_[i].resource_id)) mask |= uint64_t{1} << i;
  }
  Found found;
  if (!open_.empty() || mask != 0) {
    Variant& v = variant(mask);
    DeviceBook::Outcome outcome = v.search->on(node);
    if (error_.empty()) error_ = outcome.error;
    if (!outcome.fits) return outcome.error.empty() ? "cannot allocate all claims" : outcome.error;
    found.allocations = std::move(outcome.allocations);
    if (mask != 0) {
      found.extended_allocation = std::move(found.allocations.back());
      found.allocations.pop_back();
      found.extended_spec = *kube::find_key(v.extended, "spec");
      found.mappings = v.mappings;
    }
  }
  found_[node] = std::move(found);
  return {};
}

const ClaimPlan::Found* ClaimPlan::found(const std::string& node) const {
  const auto it = found_.find(node);
  return it == found_.end() ? nullptr : &it->second;
}

}  // namespace ghostfleet::controlplane::scheduling
