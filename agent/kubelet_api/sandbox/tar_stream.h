// Tar archives (ustar, with the GNU and pax long names that clients send), into and out of a FileSystem, as
// `kubectl cp` moves files.
//
// Thread rule: pure functions. Errors: a text for the command's stderr; what came before it stays done.
// Limits: those of the FileSystem. Source: POSIX.1-2017, pax interchange format.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/kubelet_api/sandbox/file_system.h"

namespace ghostfleet::kubelet_api {

// Unpacks into `directory`. Links and devices are passed over. An empty archive is fine.
std::string tar_extract(std::string_view archive, const std::string& directory, WallTime now, FileSystem* files);

// Packs `paths` (as given, resolved against `directory`); names keep what was given, without a leading slash.
std::string tar_create(const std::vector<std::string>& paths, const std::string& directory, const FileSystem& files,
                       std::string* archive);

// The names in an archive, in its order.
std::vector<std::string> tar_list(std::string_view archive);

}  // namespace ghostfleet::kubelet_api
