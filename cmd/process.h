// What a foreground program needs of its process: signals, time, memory, descriptors, and one file that says it runs.
//
// Thread rule: main thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "kube/api/json.h"

namespace ghostfleet::cmd {

// Blocks SIGINT, SIGTERM and SIGHUP in this thread and all made later, so that wait_for_signal() gets them.
void block_signals();
// Waits at most `d`; the signal, or 0.
int wait_for_signal(Duration d);

// User and system seconds of this process so far.
double cpu_seconds();
uint64_t rss_bytes();
// Raises the limit of open files to at least `wanted`. ResourceExhausted names the number needed and the limit.
Status need_open_files(uint64_t wanted);

// Prints "error: ..." to standard error, each line of the message; answers `code` (or what fits the status when 0).
int fail(const Status& status, int code = 0);

// A file that the command line names with `flag`. Every error is the command line's (exit code 2), also that the file
// is not there.
Result<std::string> read_named_file(const std::string& path, size_t limit, std::string_view flag);
// A named file of certificate authorities in PEM: its path. The same errors, also for a file without a certificate.
Result<std::string> authorities_file(const std::string& path, std::string_view flag);
// The same rule for the status of reading a kubeconfig.
int fail_config(const Status& status);

bool stdout_is_terminal();
bool stderr_is_terminal();

// ~/.ghostfleet, or $GHOSTFLEET_HOME.
std::string home_directory();
// `up` keeps its files in a folder named as its fleet: not one that something else is kept in.
Status check_folder_name(const std::string& fleet);

// A running program as `ghostfleet status` shows it: ~/.ghostfleet/run/KIND-NAME.json, held by a lock as long as the
// process lives, so that two of one name cannot run.
class RunFile {
 public:
  // AlreadyExists names the process that runs under this name.
  static Result<RunFile> create(std::string kind, std::string name);
  RunFile(RunFile&& other) noexcept;
  RunFile& operator=(RunFile&& other) noexcept;
  ~RunFile();  // removes the file

  // Writes what `status` shows. A failure (disk full) is only logged.
  void update(kube::JsonObject state);

 private:
  RunFile() = default;
  std::string path_, lock_path_, kind_, name_;
  int lock_ = -1;
};

// Everything that runs (files whose process is gone are removed).
std::vector<kube::Json> running_programs();
// The process that runs a fleet of that name (as `up` or `fleet`); 0: none on this machine.
int64_t running_fleet(const std::string& name);

}  // namespace ghostfleet::cmd
