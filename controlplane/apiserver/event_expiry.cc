#include "controlplane/apiserver/event_expiry.h"

namespace ghostfleet::controlplane {

EventExpiry::EventExpiry(ApiImpl& api, Duration ttl) : api_(api), ttl_(ttl), kind_(api.kind_of("events")) {}

bool EventExpiry::sweep(size_t max) {
  ListOptions options;
  options.start_after = after_;
  options.limit = max;
  Result<ListResult> page = api_.store().list(kind_, options);
  if (!page.ok()) return true;
  const TimePoint oldest = api_.clock().now() - ttl_;
  for (const ObjectRef& event : page->items) {
    // One that was written again meanwhile has changed, and stays.
    if (event->committed < oldest) (void)api_.store().remove(kind_, event->key, event);
  }
  after_ = page->more ? page->items.back()->key : std::string();
  return !page->more;
}

}  // namespace ghostfleet::controlplane
