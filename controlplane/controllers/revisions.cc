#include "controlplane/controllers/revisions.h"

#include <fmt/format.h>

#include <algorithm>

#include "controlplane/controllers/rollout.h"

namespace ghostfleet::controlplane::controllers {

using kube::get_string;
using kube::Json;
using kube::JsonObject;

namespace {
constexpr const char* kRevisionHashLabel = "controller.kubernetes.io/hash";  // of a StatefulSet's
}  // namespace

Json revision_data(const Json& owner) {
  Json data = JsonObject{};
  const Json* pod_template = kube::find_path(owner, "spec.template");
  kube::set_path(data, "spec.template", pod_template == nullptr ? Json(JsonObject{}) : *pod_template);
  kube::set_path(data, "spec.template.$patch", "replace");
  return data;
}

Revisions::Revisions(Context& context, std::string component)
    : context_(context),
      component_(std::move(component)),
      resource_(context.find("apps", "v1", "controllerrevisions")) {
  if (resource_ != nullptr) (void)context_.watch(*resource_);
}

std::vector<Revisions::Entry> Revisions::entries_of(const Json& owner) {
  std::vector<Entry> entries;
  const bool named = get_string(owner, "kind") == "StatefulSet";
  const std::string prefix = std::string(get_string(owner, "metadata.namespace")) + "/";
  const auto list = context_.store().list(resource_->store_kind, {.prefix = prefix});
  if (!list.ok()) return entries;
  for (const ObjectRef& object : list->items) {
    const Json revision = parse_object(object);
    const auto controller = controller_of(revision);
    if (!controller || controller->uid != get_string(owner, "metadata.uid")) continue;
    const Json* data = kube::find_key(revision, "data");
    const std::string_view hash = named ? object->name() : label(revision, kRevisionLabel);
    entries.push_back({std::string(object->name()), std::string(hash), kube::get_int(revision, "revision"),
                       data == nullptr ? Json() : *data});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.number < b.number; });
  return entries;
}

std::vector<Revisions::Entry> Revisions::bring_up(const Json& owner) {
  if (resource_ == nullptr) return {};
  const std::string_view ns = get_string(owner, "metadata.namespace");
  std::vector<Entry> entries = entries_of(owner);
  const Json data = revision_data(owner);
  const int64_t last = entries.empty() ? 0 : entries.back().number;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!kube::json_equal(entries[i].data, data)) continue;
    if (i + 1 == entries.size()) return entries;
    const auto done =
        context_.modify(component_, *resource_, ns, entries[i].name, "", [&](Json& live) -> kube::ApiResult<bool> {
          kube::set_path(live, "revision", last + 1);
          return true;
        });
    if (!done.ok()) return {};
    entries[i].number = last + 1;
    std::rotate(entries.begin() + static_cast<std::ptrdiff_t>(i), entries.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                entries.end());
    return entries;
  }
  const bool named = get_string(owner, "kind") == "StatefulSet";
  const std::string hash =
      template_hash(*kube::find_path(owner, "spec.template"), kube::get_int(owner, "status.collisionCount"));
  Entry entry{fmt::format("{}-{}", get_string(owner, "metadata.name"), hash), hash, last + 1, data};
  if (named) entry.hash = entry.name;
  Json revision = JsonObject{{"apiVersion", "apps/v1"}, {"kind", "ControllerRevision"}};
  kube::set_path(revision, "metadata.name", Json(entry.name));
  if (const JsonObject* labels = kube::get_object(owner, "spec.template.metadata.labels")) {
    kube::set_path(revision, "metadata.labels", *labels);
  }
  set_label(revision, named ? kRevisionHashLabel : kRevisionLabel, hash);
  kube::set_path(revision, "metadata.ownerReferences", kube::JsonArray{controller_ref_to(owner)});
  revision.get_object()["data"] = data;
  revision.get_object()["revision"] = entry.number;
  const auto made = context_.create(component_, *resource_, ns, std::move(revision));
  if (!made.ok()) return {};
  entries.push_back(std::move(entry));
  return entries;
}

void Revisions::prune(const std::vector<Entry>& entries, std::string_view ns, int64_t limit,
                      const std::vector<std::string>& used) {
  std::vector<const Entry*> old;
  for (size_t i = 0; i + 1 < entries.size(); ++i) {
    if (std::find(used.begin(), used.end(), entries[i].hash) == used.end()) old.push_back(&entries[i]);
  }
  for (int64_t i = 0; i + limit < static_cast<int64_t>(old.size()); ++i) {
    (void)context_.remove(component_, *resource_, ns, old[static_cast<size_t>(i)]->name, {});
  }
}

}  // namespace ghostfleet::controlplane::controllers
