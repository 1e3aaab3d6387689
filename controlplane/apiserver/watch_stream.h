// WatchStream: one watch over HTTP, from its first frame to its end.
//
// Thread rule: on the loop of the call's exchange; only the store's nudge comes from other threads and posts. The
// stream keeps itself alive until it ends. A watcher that does not take its bytes is paused, and cut when the store has
// queued too much for it.
#pragma once

#include "controlplane/apiserver/call.h"
#include "controlplane/apiserver/list_options.h"

namespace ghostfleet::controlplane {

void start_watch_stream(const CallRef& call, ListQuery query, Revision from);

}  // namespace ghostfleet::controlplane
