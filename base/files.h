// Small files: read whole, written whole or not at all.
//
// Thread rule: any thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ghostfleet {

// The whole content; NotFound when there is no such file, ResourceExhausted beyond `limit` bytes. Messages name the
// path.
Result<std::string> read_file(const std::string& path, size_t limit = 16u << 20);
// Written to a temporary file beside it, flushed, and renamed: a full disk leaves the old content. `mode` as in chmod.
// Without `durable` it is not forced to the disk: for state that means nothing after the machine went down.
Status write_file(const std::string& path, const std::string& content, unsigned mode = 0644, bool durable = true);
// Like mkdir -p with mode 0700 for what is made.
Status make_directories(const std::string& path);
bool file_exists(const std::string& path);
// "" stays "", "~/x" becomes HOME/x.
std::string expand_home(const std::string& path);
std::string parent_directory(const std::string& path);
// `path` itself when absolute, else below `directory`.
std::string join_path(const std::string& directory, const std::string& path);

}  // namespace ghostfleet
