// Removing a fleet: deletes exactly what a fleet of that name made, also after a crash, from nothing but the label
// ghostfleet.dev/fleet on its nodes.
//
// For each node: pods bound to it that nobody will stop any more are deleted with grace period 0 (their owners make
// new ones elsewhere), then the Node, its Lease and its CSINode (both by name, and only when their ownerReference is
// that Node or the name is one of the fleet's). Certificate signing requests for those nodes go too, where the
// credentials may read them (else the controller manager collects them within an hour or a day). Nodes that were
// adopted are left; only their label is removed.
//
// Before anything is removed the server is asked whether all of it may be (SelfSubjectAccessReview): PermissionDenied
// names every right that is missing. Thread rule: blocks the calling thread; makes and ends its own loop.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "kube/client/client_config.h"

namespace ghostfleet::emulator {

struct DownReport {
  uint64_t nodes = 0, leases = 0, csi_nodes = 0, pods = 0, kept_adopted = 0;
  uint64_t resource_slices = 0;
  uint64_t signing_requests = 0;      // certificate signing requests of these nodes
  std::vector<std::string> failures;  // at most 20, in words
  uint64_t failed = 0;
  std::vector<std::string> other_fleets;  // when there was nothing of this one: those that are there, at most 20
};

struct DownOptions {
  bool delete_pods = true;
  bool dry_run = false;  // counts only
};

using DownProgress = std::function<void(uint64_t done, uint64_t total)>;

Result<DownReport> remove_fleet(const kube::ClientConfig& client, const std::string& fleet_name,
                                const DownOptions& options = {}, DownProgress progress = {});

}  // namespace ghostfleet::emulator
