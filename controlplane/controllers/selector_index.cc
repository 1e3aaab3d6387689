#include "controlplane/controllers/selector_index.h"

namespace ghostfleet::controlplane::controllers {

SelectorIndex::SelectorIndex(KindWatch& watch, Extract extract) : extract_(std::move(extract)) {
  watch.subscribe([this](const ObjectRef& old, const ObjectRef& now) {
    const ObjectRef& any = now ? now : old;
    StringMap<kube::LabelSelector>& in_namespace = by_namespace_[std::string(any->ns())];
    if (now) {
      in_namespace.insert_or_assign(now->key, extract_(parse_object(now)));
      return;
    }
    in_namespace.erase(old->key);
    if (in_namespace.empty()) by_namespace_.erase(std::string(old->ns()));
  });
}

std::vector<std::string> SelectorIndex::matching(const Object& pod) const {
  std::vector<std::string> keys;
  const auto it = by_namespace_.find(pod.ns());
  if (it == by_namespace_.end()) return keys;
  for (const auto& [key, selector] : it->second) {
    if (matches(selector, pod)) keys.push_back(key);
  }
  return keys;
}

}  // namespace ghostfleet::controlplane::controllers
