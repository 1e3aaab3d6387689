// Checks before a fleet starts: can the server be reached with these credentials, what is there already, may enough
// files be open. Not for others.
//
// Thread rule: blocking, on the caller's thread.
#pragma once

#include "emulator/fleet/fleet.h"

namespace ghostfleet::emulator {

// Asks for one node of the fleet; says whether there is one. The error names what is wrong and on what.
Result<bool> probe_server(const kube::ClientConfig& client, const std::string& fleet);

// The same for a single node by its name: all that a node's own credentials may read.
Result<bool> probe_node(const kube::ClientConfig& client, const std::string& name);

// Raises the limit of open files to what `connections` need; an error tells the number.
Status ensure_open_files(uint64_t connections);

}  // namespace ghostfleet::emulator
