// Revisions: the ControllerRevisions of a DaemonSet or StatefulSet, each the pod template as it was once.
//
// Thread rule: the controllers' loop.
#pragma once

#include <string>
#include <vector>

#include "controlplane/controllers/context.h"

namespace ghostfleet::controlplane::controllers {

// Of a pod: the revision that it is of. Of a DaemonSet's ControllerRevision: its hash.
inline constexpr const char* kRevisionLabel = "controller-revision-hash";

class Revisions {
 public:
  Revisions(Context& context, std::string component);

  struct Entry {
    std::string name;
    std::string hash;  // label controller-revision-hash (StatefulSet: the name)
    int64_t number = 0;
    kube::Json data;
  };
  // All of an owner, by number; the one with the current template is made or renumbered to be the last.
  // Empty when it could not be made: try again.
  std::vector<Entry> bring_up(const kube::Json& owner);
  // Removes the oldest beyond `limit` that are not in `used` (hashes).
  void prune(const std::vector<Entry>& entries, std::string_view ns, int64_t limit,
             const std::vector<std::string>& used);

 private:
  std::vector<Entry> entries_of(const kube::Json& owner);
  Context& context_;
  std::string component_;
  const Resource* resource_;
};

// {"spec":{"template":{...,"$patch":"replace"}}}
kube::Json revision_data(const kube::Json& owner);

}  // namespace ghostfleet::controlplane::controllers
