#include "cmd/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/files.h"
#include "base/log.h"
#include "cmd/commands.h"

namespace ghostfleet::cmd {
namespace {

sigset_t handled_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  return set;
}

int exit_code(Code code) {
  switch (code) {
    case Code::kOk: return kExitOk;
    case Code::kInvalidArgument: return kExitUsage;
    case Code::kUnavailable:
    case Code::kUnauthenticated:
    case Code::kPermissionDenied:
    case Code::kDeadlineExceeded: return kExitCluster;
    default: return kExitFailed;
  }
}

std::string run_directory() { return home_directory() + "/run"; }

// `up` runs a fleet too: both share the name.
std::string lock_path_of(std::string_view kind, std::string_view name) {
  return fmt::format("{}/{}-{}.lock", run_directory(), kind == "up" ? "fleet" : kind, name);
}

// True when the lock of this file is held by somebody: its process lives.
bool held(const std::string& lock_path) {
  const int fd = open(lock_path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  const bool taken = flock(fd, LOCK_EX | LOCK_NB) != 0;
  close(fd);
  return taken;
}

}  // namespace

void block_signals() {
  const sigset_t set = handled_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

int wait_for_signal(Duration d) {
  const sigset_t set = handled_signals();
  const int64_t ns = std::max<int64_t>(d.count(), 0);
  const timespec ts{static_cast<time_t>(ns / 1000000000), static_cast<long>(ns % 1000000000)};
  const int signal = sigtimedwait(&set, nullptr, &ts);
  return signal > 0 ? signal : 0;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

uint64_t rss_bytes() {
  auto text = read_file("/proc/self/statm");
  if (!text.ok()) return 0;
  unsigned long size = 0;
  unsigned long resident = 0;
  if (std::sscanf(text->c_str(), "%lu %lu", &size, &resident) != 2) return 0;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

Status need_open_files(uint64_t wanted) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= wanted) return Status();
  const rlim_t hard = limit.rlim_max;
  if (hard < wanted) {
    return Status(Code::kResourceExhausted,
                  fmt::format("{} open files are needed, the limit is {}: raise it with 'ulimit -Hn {}' as root, or "
                              "use fewer nodes or --connections shared",
                              wanted, hard, wanted));
  }
  limit.rlim_cur = wanted;
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return Status();
  return Status(Code::kResourceExhausted,
                fmt::format("raising the limit of open files to {}: {}", wanted, std::strerror(errno)));
}

int fail(const Status& status, int code) {
  std::string text = status.message();
  size_t start = 0;
  while (start <= text.size()) {
    const size_t end = std::min(text.find('\n', start), text.size());
    std::fprintf(stderr, "error: %s\n", text.substr(start, end - start).c_str());
    start = end + 1;
  }
  return code != 0 ? code : exit_code(status.code());
}

Result<std::string> read_named_file(const std::string& path, size_t limit, std::string_view flag) {
  auto text = read_file(expand_home(path), limit);
  if (text.ok()) return text;
  return invalid_argument(std::string(text.error().message())).with_context(std::string(flag));
}

Result<std::string> authorities_file(const std::string& path, std::string_view flag) {
  auto text = read_named_file(path, 1u << 20, flag);
  if (!text.ok()) return text.error();
  if (text->find("-----BEGIN CERTIFICATE-----") == std::string::npos)
    return invalid_argument(fmt::format("{} {}: it holds no certificate in PEM", flag, path));
  return expand_home(path);
}

int fail_config(const Status& status) { return fail(status, status.code() == Code::kNotFound ? kExitUsage : 0); }

bool stdout_is_terminal() { return isatty(STDOUT_FILENO) == 1; }
bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }

Status check_folder_name(const std::string& fleet) {
  constexpr std::string_view kOurs[] = {"controlplane", "certificates", "images", "pki", "profiles", "run", "vpc"};
  if (std::find(std::begin(kOurs), std::end(kOurs), fleet) == std::end(kOurs)) return Status();
  return invalid_argument(fmt::format("fleet name \"{}\": {}/{} holds other things than a fleet; choose another name",
                                      fleet, home_directory(), fleet));
}

std::string home_directory() {
  if (const char* own = std::getenv("GHOSTFLEET_HOME"); own != nullptr && *own != 0) return own;
  const char* home = std::getenv("HOME");
  return std::string(home == nullptr ? "/tmp" : home) + "/.ghostfleet";
}

Result<RunFile> RunFile::create(std::string kind, std::string name) {
  GF_RETURN_IF_ERROR(make_directories(run_directory()));
  RunFile file;
  file.kind_ = std::move(kind);
  file.name_ = std::move(name);
  file.path_ = fmt::format("{}/{}-{}.json", run_directory(), file.kind_, file.name_);
  file.lock_path_ = lock_path_of(file.kind_, file.name_);
  const std::string& lock_path = file.lock_path_;
  const int fd = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return internal_error(fmt::format("{}: {}", lock_path, std::strerror(errno)));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    close(fd);
    std::string who;
    for (const kube::Json& p : running_programs()) {
      const std::string_view kind = kube::get_string(p, "kind");
      if (lock_path_of(kind, kube::get_string(p, "name")) != lock_path) continue;
      who = fmt::format(" (process {}, ghostfleet {})", kube::get_int(p, "pid"), kind);
    }
    const bool fleet = file.kind_ == "up" || file.kind_ == "fleet";
    return Status(Code::kAlreadyExists,
                  fmt::format("a {} named {} runs already{}; stop that one first, or choose another {}",
                              fleet ? "fleet" : file.kind_, file.name_, who,
                              fleet                   ? "--name"
                              : file.kind_ == "agent" ? "--node-name"
                                                      : "--data-dir"));
  }
  file.lock_ = fd;
  return file;
}

RunFile::RunFile(RunFile&& other) noexcept
    : path_(std::move(other.path_)),
      lock_path_(std::move(other.lock_path_)),
      kind_(std::move(other.kind_)),
      name_(std::move(other.name_)),
      lock_(std::exchange(other.lock_, -1)) {}

RunFile& RunFile::operator=(RunFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_path_, other.lock_path_);
  std::swap(kind_, other.kind_);
  std::swap(name_, other.name_);
  std::swap(lock_, other.lock_);
  return *this;
}

RunFile::~RunFile() {
  if (lock_ < 0) return;
  unlink(path_.c_str());
  unlink(lock_path_.c_str());
  close(lock_);
}

void RunFile::update(kube::JsonObject state) {
  state["kind"] = kind_;
  state["name"] = name_;
  state["pid"] = static_cast<int64_t>(getpid());
  const Status status = write_file(path_, kube::to_json(state) + "\n", 0600, false);
  if (!status.ok()) log_warn("status", status.message());
}

std::vector<kube::Json> running_programs() {
  std::vector<std::string> files;
  DIR* dir = opendir(run_directory().c_str());
  if (dir == nullptr) return {};
  while (const dirent* entry = readdir(dir)) {
    const std::string name = entry->d_name;
    if (name.size() > 5 && name.substr(name.size() - 5) == ".json") files.push_back(run_directory() + "/" + name);
  }
  closedir(dir);
  std::sort(files.begin(), files.end());
  std::vector<kube::Json> out;
  for (const std::string& path : files) {
    auto text = read_file(path);
    auto state = text.ok() ? kube::parse_json(*text) : Result<kube::Json>(text.error());
    const bool alive =
        state.ok() && held(lock_path_of(kube::get_string(*state, "kind"), kube::get_string(*state, "name")));
    if (alive) {
      out.push_back(std::move(*state));
    } else {
      unlink(path.c_str());
    }
  }
  return out;
}

int64_t running_fleet(const std::string& name) {
  for (const kube::Json& p : running_programs()) {
    const std::string_view kind = kube::get_string(p, "kind");
    if ((kind == "up" || kind == "fleet") && kube::get_string(p, "name") == name) return kube::get_int(p, "pid");
  }
  return 0;
}

}  // namespace ghostfleet::cmd
