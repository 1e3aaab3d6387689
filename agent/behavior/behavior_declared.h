// What a pod's annotations declare for `kubectl exec`, followed by the container's name:
//
//   files.ghostfleet.dev/c: {"/etc/app.conf":"x=1\n"}                                      files that are there
//   exec.ghostfleet.dev/c: {"nginx -v":{"stdout":"","stderr":"nginx/1.27\n","exit":0}}     what a command line answers
//
// Thread rule: pure functions. Errors: what makes no sense is left out and told in `problems` (may be null), a line
// each. Limits: kMaxDeclared entries.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ghostfleet::agent {

inline constexpr std::string_view kFilesPrefix = "files.ghostfleet.dev/";
inline constexpr std::string_view kExecPrefix = "exec.ghostfleet.dev/";
inline constexpr size_t kMaxDeclared = 1000;

struct DeclaredAnswer {
  std::string command, out, err;
  int exit_code = 0;
};

// Paths and contents.
std::vector<std::pair<std::string, std::string>> read_declared_files(std::string_view text,
                                                                     std::vector<std::string>* problems);
std::vector<DeclaredAnswer> read_declared_answers(std::string_view text, std::vector<std::string>* problems);

}  // namespace ghostfleet::agent
