// ManifestFolder: the folder of static pods' manifests of `ghostfleet agent`, looked at again and again.
//
// Every file that does not begin with a dot is one pod, YAML or JSON. A file that makes no sense is reported once and
// stays out. Limits: kMaxFiles files of kMaxFile bytes.
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/pod/pod_manager.h"
#include "base/status.h"

namespace ghostfleet::cmd {

class ManifestFolder {
 public:
  static constexpr size_t kMaxFiles = 500, kMaxFile = 1 << 20;

  // InvalidArgument when `path` is no folder. `complain` is told what is wrong with a file.
  static Result<ManifestFolder> open(std::string path, std::string node_name,
                                     std::function<void(const std::string&)> complain);

  // All manifests when something has changed since the last call, and with the first; else nothing.
  std::optional<std::vector<agent::StaticManifest>> changes();

 private:
  struct File {
    int64_t size = -1, modified = 0;
    std::optional<kube::Json> pod;  // empty: it makes no sense
    friend bool operator==(const File& a, const File& b) { return a.size == b.size && a.modified == b.modified; }
  };
  void read(const std::string& name, File* file) const;

  std::string path_, node_name_;
  std::function<void(const std::string&)> complain_;
  std::map<std::string, File> files_;
  bool first_ = true;
};

}  // namespace ghostfleet::cmd
