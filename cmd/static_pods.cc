#include "cmd/static_pods.h"

#include <fmt/format.h>

#include <filesystem>

#include "agent/pod/static_pod.h"
#include "base/files.h"
#include "kube/api/codec.h"

namespace ghostfleet::cmd {

Result<ManifestFolder> ManifestFolder::open(std::string path, std::string node_name,
                                            std::function<void(const std::string&)> complain) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    return invalid_argument(fmt::format("--pod-manifest-path {}: a folder that is there is expected", path));
  }
  ManifestFolder folder;
  folder.path_ = std::move(path);
  folder.node_name_ = std::move(node_name);
  folder.complain_ = std::move(complain);
  return folder;
}

void ManifestFolder::read(const std::string& name, File* file) const {
  const std::string path = join_path(path_, name);
  auto text = read_file(path, kMaxFile);
  if (!text.ok()) return complain_(std::string(text.error().message()));
  auto pod = kube::parse_yaml(*text);
  if (!pod.ok()) return complain_(fmt::format("{}: {}", path, pod.error().message()));
  const auto good = agent::make_static_pod(*pod, path, node_name_, SystemClock::instance().wall_now());
  if (!good.ok()) return complain_(std::string(good.error().message()));
  file->pod = std::move(pod).value();
}

std::optional<std::vector<agent::StaticManifest>> ManifestFolder::changes() {
  std::map<std::string, File> seen;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path_, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code gone;
    if (name.starts_with('.') || !entry.is_regular_file(gone) || seen.size() == kMaxFiles) continue;
    File file;
    file.size = static_cast<int64_t>(entry.file_size(gone));
    file.modified = entry.last_write_time(gone).time_since_epoch().count();
    if (!gone) seen.emplace(name, std::move(file));
  }
  // A folder that cannot be read for a moment does not end its pods.
  if (error && !first_) return std::nullopt;
  bool changed = std::exchange(first_, false) || seen.size() != files_.size();
  for (auto& [name, file] : seen) {
    const auto known = files_.find(name);
    if (known != files_.end() && known->second == file) {
      file.pod = std::move(known->second.pod);
      continue;
    }
    read(name, &file);
    changed = true;
  }
  files_ = std::move(seen);
  if (!changed) return std::nullopt;
  std::vector<agent::StaticManifest> out;
  for (const auto& [name, file] : files_) {
    if (file.pod) out.push_back({join_path(path_, name), *file.pod});
  }
  return out;
}

}  // namespace ghostfleet::cmd
