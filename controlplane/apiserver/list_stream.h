// Sends a list in chunks, straight from the stored bytes, never faster than the peer takes it.
//
// Thread rule: on the loop of the call's exchange. The stream keeps itself alive until it ends or the peer goes away.
#pragma once

#include <vector>

#include "controlplane/apiserver/call.h"

namespace ghostfleet::controlplane {

void stream_list(const CallRef& call, const ListMeta& meta, std::vector<ObjectRef> items);

}  // namespace ghostfleet::controlplane
