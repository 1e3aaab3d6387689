#include "kube/client/exec_plugin.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <mutex>

#include "kube/api/json.h"

extern char** environ;

namespace ghostfleet::kube {
namespace {

constexpr size_t kMaxOutput = 1 << 20;
constexpr Duration kMaxRun = std::chrono::seconds(60);

struct Pipe {
  int read_end = -1;
  int write_end = -1;
  ~Pipe() {
    close_end(&read_end);
    close_end(&write_end);
  }
  static void close_end(int* fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }
};

std::string exec_info(const ExecSpec& spec) {
  JsonObject inner{{"interactive", false}};
  if (!spec.cluster_info.empty()) {
    if (auto cluster = parse_json(spec.cluster_info); cluster.ok()) inner["cluster"] = *cluster;
  }
  return to_json(JsonObject{{"kind", "ExecCredential"}, {"apiVersion", spec.api_version}, {"spec", std::move(inner)}});
}

// Our environment with the spec's additions; later entries win, so ours come first.
std::vector<std::string> child_environment(const ExecSpec& spec) {
  auto replaced = [&](std::string_view entry) {
    const std::string_view name = entry.substr(0, entry.find('='));
    if (name == "KUBERNETES_EXEC_INFO") return true;
    for (const auto& [key, value] : spec.env) {
      if (key == name) return true;
    }
    return false;
  };
  std::vector<std::string> out;
  for (char** e = environ; *e != nullptr; ++e) {
    if (!replaced(*e)) out.emplace_back(*e);
  }
  for (const auto& [key, value] : spec.env) out.push_back(key + "=" + value);
  out.push_back("KUBERNETES_EXEC_INFO=" + exec_info(spec));
  return out;
}

std::vector<char*> pointers(std::vector<std::string>* strings) {
  std::vector<char*> out;
  for (std::string& s : *strings) out.push_back(s.data());
  out.push_back(nullptr);
  return out;
}

// Reads until the end of the pipe, the limit or the deadline.
Status read_all(int fd, const std::string& command, std::string* out) {
  const TimePoint end = SystemClock::instance().now() + kMaxRun;
  char buffer[4096];
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - SystemClock::instance().now()).count();
    pollfd p{fd, POLLIN, 0};
    const int ready = left > 0 ? poll(&p, 1, static_cast<int>(left)) : 0;
    if (ready == 0)
      return Status(Code::kDeadlineExceeded,
                    fmt::format("credential command {} did not end within {}", command, format_duration(kMaxRun)));
    if (ready < 0 && errno == EINTR) continue;
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Status();
    out->append(buffer, static_cast<size_t>(n));
    if (out->size() > kMaxOutput)
      return Status(Code::kResourceExhausted, fmt::format("credential command {} printed more than 1 MiB", command));
  }
}

Result<std::string> run_command(const ExecSpec& spec) {
  Pipe out;
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return internal_error(fmt::format("pipe: {}", std::strerror(errno)));
  out.read_end = fds[0];
  out.write_end = fds[1];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out.write_end, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  std::vector<std::string> args{spec.command};
  args.insert(args.end(), spec.args.begin(), spec.args.end());
  std::vector<std::string> env = child_environment(spec);
  pid_t pid = 0;
  const int error =
      posix_spawnp(&pid, spec.command.c_str(), &actions, nullptr, pointers(&args).data(), pointers(&env).data());
  posix_spawn_file_actions_destroy(&actions);
  Pipe::close_end(&out.write_end);
  if (error != 0) {
    std::string text = fmt::format("credential command {}: {}", spec.command, std::strerror(error));
    if (!spec.install_hint.empty()) text += "; " + spec.install_hint;
    return Status(error == ENOENT ? Code::kNotFound : Code::kInternal, std::move(text));
  }
  std::string text;
  const Status read_status = read_all(out.read_end, spec.command, &text);
  if (!read_status.ok()) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!read_status.ok()) return read_status;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return Status(Code::kUnauthenticated,
                  fmt::format("credential command {} ended with exit code {}", spec.command, code));
  }
  return text;
}

Result<ExecCredential> parse_credential(const ExecSpec& spec, const std::string& text) {
  auto bad = [&](std::string_view why) {
    return Status(Code::kUnauthenticated, fmt::format("credential command {}: {}", spec.command, why));
  };
  auto parsed = parse_json(text);
  if (!parsed.ok()) return bad("its output is no JSON");
  const std::string_view version = get_string(*parsed, "apiVersion");
  if (get_string(*parsed, "kind") != "ExecCredential" || version != spec.api_version) {
    return bad(fmt::format("it answered kind {} of {}, an ExecCredential of {} is expected",
                           get_string(*parsed, "kind"), version, spec.api_version));
  }
  ExecCredential c;
  c.token = get_string(*parsed, "status.token");
  c.client_certificate_pem = get_string(*parsed, "status.clientCertificateData");
  c.client_key_pem = get_string(*parsed, "status.clientKeyData");
  if (c.token.empty() && c.client_certificate_pem.empty())
    return bad("its answer holds neither a token nor a client certificate");
  if (c.client_certificate_pem.empty() != c.client_key_pem.empty())
    return bad("a client certificate and its key must come together");
  const std::string_view expires = get_string(*parsed, "status.expirationTimestamp");
  if (!expires.empty() && !parse_time(expires, &c.expires)) return bad("expirationTimestamp is no RFC 3339 time");
  return c;
}

}  // namespace

struct ExecPlugin::Impl {
  ExecSpec spec;
  const Clock& clock;
  mutable std::mutex mutex;
  bool cached = false;
  ExecCredential credential;
  uint64_t runs = 0;
};

ExecPlugin::ExecPlugin(ExecSpec spec, const Clock& clock) : impl_(new Impl{std::move(spec), clock, {}, false, {}, 0}) {}
ExecPlugin::~ExecPlugin() = default;

Result<ExecCredential> ExecPlugin::get() {
  const std::lock_guard lock(impl_->mutex);
  const bool expired = impl_->credential.expires.ns != 0 && impl_->clock.wall_now() >= impl_->credential.expires;
  if (impl_->cached && !expired) return impl_->credential;
  ++impl_->runs;
  impl_->cached = false;
  auto text = run_command(impl_->spec);
  if (!text.ok()) return text.error();
  auto credential = parse_credential(impl_->spec, *text);
  if (!credential.ok()) return credential.error();
  impl_->credential = *credential;
  impl_->cached = true;
  return impl_->credential;
}

void ExecPlugin::invalidate() {
  const std::lock_guard lock(impl_->mutex);
  impl_->cached = false;
}

uint64_t ExecPlugin::runs() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->runs;
}

}  // namespace ghostfleet::kube
