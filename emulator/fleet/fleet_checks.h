// Checks before a fleet starts: can the server be reached with these credentials, what is there already, may enough
// files be open. Not for others.
//
// Thread rule: blocking, on the caller's thread.
#pragma once

#include "emulator/fleet/fleet.h"

namespace ghostfleet::emulator {

// Asks for one node of the fleet; says whether there is one. The error names what is wrong and on what.
Result<bool> probe_server(const kube::ClientConfig& client, const std::string& fleet);

// Whether the server says that it is Ghostfleet's own; false also when it says nothing.
bool is_ghostfleet(const kube::ClientConfig& client);

// The same as probe_server() for a single node by its name: all that a node's own credentials may read. The fleet that
// its Node belongs to goes to `owner`.
Result<bool> probe_node(const kube::ClientConfig& client, const std::string& name, std::string* owner);

// A node in the foreground that a fleet has: AlreadyExists while the fleet renews its lease, else what a person should
// know.
Result<std::string> take_from_fleet(const kube::ClientConfig& client, const std::string& name,
                                    const std::string& fleet);

// Whether the server answers and takes the credentials; what they may do is not asked.
Status probe_reachable(const kube::ClientConfig& client);

// Raises the limit of open files to what `connections` need; an error tells the number.
Status ensure_open_files(uint64_t connections);

}  // namespace ghostfleet::emulator
