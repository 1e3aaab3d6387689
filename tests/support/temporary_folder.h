// TemporaryFolder: a folder of a test's own, removed with all that is in it at its end. Tests only.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace ghostfleet::tests {

class TemporaryFolder {
 public:
  TemporaryFolder() : path_(std::filesystem::temp_directory_path() / "gf-test-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) path_.clear();  // its user's first write fails, and names the path
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace ghostfleet::tests
