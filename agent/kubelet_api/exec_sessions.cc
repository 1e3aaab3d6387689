// exec, attach and run: a client's streams on one side, the sandbox or the log on the other.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "agent/kubelet_api/kubelet_api_impl.h"
#include "agent/kubelet_api/sandbox/file_system.h"
#include "agent/kubelet_api/sandbox/machine.h"
#include "agent/kubelet_api/sandbox/process.h"
#include "base/hash.h"
#include "kube/stream/remote_command.h"

namespace ghostfleet::kubelet_api {

using agent::ContainerState;
using agent::ContainerView;
using agent::PodView;
using kube::Json;
using kube::stream::RemoteExit;

namespace {

constexpr size_t kMaxArguments = 1000;
constexpr size_t kMaxRunOutput = 1024 * 1024;

std::vector<std::string> values_of(std::string_view query, std::string_view key) {
  std::vector<std::string> out;
  for (const auto& [k, v] : kube::http::parse_query(query)) {
    if (k == key && out.size() < kMaxArguments) out.push_back(v);
  }
  return out;
}

// Each restart has files of its own.
std::string files_key(const PodView& pod, const ContainerView& c) {
  return fmt::format("{}/{}/{}", pod.uid, c.name, c.current.attempt);
}

// What containerd says of a command it cannot start.
std::string start_failure(const std::string& key, const std::string& why) {
  const uint64_t id = hash_text(key);
  return fmt::format(
      "error executing command in container: failed to exec in container: failed to start exec "
      "\"{:016x}{:016x}{:016x}{:016x}\": OCI runtime exec failed: exec failed: unable to start container process: {}",
      id, id * 3, id * 5, id * 7, why);
}

// Words separated by spaces, as /run takes its command.
std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (end > 0) out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

// ---- exec

class KubeletApi::ExecSession final : public Session, public kube::stream::RemoteCommandHandler, public Outside {
 public:
  ExecSession(KubeletApi& api, std::string key, Machine machine, std::shared_ptr<FileSystem> files,
              ProcessOptions options)
      : api_(api),
        key_(std::move(key)),
        command_(fmt::format("[{}]", fmt::join(options.argv, " "))),
        files_(std::move(files)) {
    process_ = std::make_unique<Process>(std::move(machine), files_, std::move(options), this, api.clock_, api.timers_);
  }
  // False: the client was refused, and has been told.
  bool begin(const std::shared_ptr<kube::http::Exchange>& exchange, const kube::stream::RemoteCommandOptions& options) {
    session_ = accept_remote_command(exchange, options, this);
    return session_ != nullptr;
  }

  void on_ready(kube::stream::RemoteSession&) override { process_->start(); }
  void on_stdin(std::string_view bytes) override { process_->on_stdin(bytes); }
  void on_stdin_end() override { process_->on_stdin_end(); }
  void on_resize(uint16_t width, uint16_t height) override { process_->on_resize(width, height); }
  void on_close(const Status&) override { end(); }

  bool write(int fd, std::string bytes) override {
    return fd == 2 ? session_->write_stderr(share(std::move(bytes))) : session_->write_stdout(share(std::move(bytes)));
  }
  size_t backlog() const override { return session_->backlog(); }
  void when_drained(size_t low_water, std::function<void()> callback) override {
    session_->when_drained(low_water, std::move(callback));
  }
  void pause_stdin() override { session_->pause_stdin(); }
  void resume_stdin() override { session_->resume_stdin(); }
  void exited(int code) override {
    session_->finish(code == 0 ? RemoteExit::success()
                               : RemoteExit::exit_code(
                                     code, fmt::format("error executing command {}, exit code {}", command_, code)));
    end();
  }
  void failed(const std::string& why) override {
    session_->finish(RemoteExit::internal_error(start_failure(key_, why)));
    end();
  }

 private:
  void end() {
    api_.keep_files(key_, files_);
    api_.drop_session(this);
  }

  KubeletApi& api_;
  std::string key_, command_;
  std::shared_ptr<FileSystem> files_;
  std::unique_ptr<Process> process_;
  std::shared_ptr<kube::stream::RemoteSession> session_;
};

void KubeletApi::exec(const CallPtr& call) {
  with_pod(
      call, [this, call](const PodView& pod) { begin_exec(call, pod); }, "pod does not exist");
}

void KubeletApi::begin_exec(const CallPtr& call, const PodView& pod) {
  const ContainerView* container = pod.find(call->route.container);
  if (container == nullptr || container->state != ContainerState::kRunning)
    return call->text(500, fmt::format("container not found (\"{}\")\n", call->route.container));
  kube::stream::RemoteCommandOptions options;
  const Status streams = parse_kubelet_streams(call->request().query(), &options);
  if (!streams.ok()) return call->text(400, streams.message() + "\n");
  if (!room_for_session(call)) return;
  options.timers = timers_;
  ProcessOptions process{values_of(call->request().query(), "command"), options.in, options.tty};
  with_spec(call, pod, [this, call, pod, options, process](const Json& spec) {
    with_maps(call, config_maps_of(spec, call->route.container), [=, this](const ConfigMaps& maps) {
      const ContainerView& c = *pod.find(call->route.container);
      const std::string key = files_key(pod, c);
      Machine machine = make_machine(backend_.node(call->node), pod, c, spec, maps);
      std::shared_ptr<FileSystem> files = files_of(key);
      if (!files) {
        files = std::make_shared<FileSystem>();
        provide_files(machine, spec, maps, files.get());
      }
      auto session = std::make_shared<ExecSession>(*this, key, std::move(machine), std::move(files), process);
      if (session->begin(call->exchange, options)) add_session(std::move(session));
    });
  });
}

// ---- attach

class KubeletApi::AttachSession final : public Session,
                                        public kube::stream::RemoteCommandHandler,
                                        public std::enable_shared_from_this<AttachSession> {
 public:
  AttachSession(KubeletApi& api, LogSource source, LogModel model)
      : api_(api), source_(std::move(source)), model_(std::move(model)) {}
  bool begin(const std::shared_ptr<kube::http::Exchange>& exchange, const kube::stream::RemoteCommandOptions& options) {
    tty_ = options.tty;
    session_ = accept_remote_command(exchange, options, this);
    return session_ != nullptr;
  }

  void on_ready(kube::stream::RemoteSession&) override {
    LogOptions options;
    options.follow = true;
    options.since = api_.clock_.wall_now();
    api_.logs_.open(source_, model_, options, std::make_unique<Sink>(session_, tty_, weak_from_this()));
  }
  void on_stdin(std::string_view) override {}  // nobody in the container reads
  void on_close(const Status&) override { api_.drop_session(this); }

 private:
  class Sink final : public LogSink {
   public:
    Sink(std::shared_ptr<kube::stream::RemoteSession> session, bool tty, std::weak_ptr<AttachSession> owner)
        : session_(std::move(session)), tty_(tty), owner_(std::move(owner)) {}
    bool write(SharedBytes bytes) override {
      if (tty_) {
        std::string text;
        for (const char c : *bytes) text += c == '\n' ? "\r\n" : std::string(1, c);
        bytes = share(std::move(text));
      }
      // A client that did not ask for the output just waits for the end.
      return session_->write_stdout(std::move(bytes)) || !session_->closed();
    }
    size_t backlog() const override { return session_->backlog(); }
    void when_drained(size_t low_water, std::function<void()> callback) override {
      session_->when_drained(low_water, std::move(callback));
    }
    void finish() override {
      session_->finish(RemoteExit::success());
      if (const auto owner = owner_.lock()) owner->api_.drop_session(owner.get());
    }
    bool closed() const override { return session_->closed(); }

   private:
    std::shared_ptr<kube::stream::RemoteSession> session_;
    bool tty_;
    std::weak_ptr<AttachSession> owner_;
  };

  KubeletApi& api_;
  LogSource source_;
  LogModel model_;
  bool tty_ = false;
  std::shared_ptr<kube::stream::RemoteSession> session_;
};

void KubeletApi::attach(const CallPtr& call) {
  with_pod(
      call,
      [this, call](const PodView& pod) {
        const ContainerView* c = pod.find(call->route.container);
        if (c == nullptr || c->state != ContainerState::kRunning)
          return call->text(
              500, fmt::format("container {} not found in pod {}_{}\n", call->route.container, pod.name, pod.ns));
        kube::stream::RemoteCommandOptions options;
        const Status streams = parse_kubelet_streams(call->request().query(), &options);
        if (!streams.ok()) return call->text(400, streams.message() + "\n");
        if (!room_for_session(call)) return;
        options.timers = timers_;
        const LogModel model(pod, *c, c->current, backend_.node(call->node).identity.name);
        auto session = std::make_shared<AttachSession>(
            *this, LogSource{call->node, pod.ns, pod.name, pod.uid, c->name, c->current.attempt}, model);
        if (session->begin(call->exchange, options)) add_session(std::move(session));
      },
      "pod does not exist");
}

// ---- run

// A command without streams: its output is the answer.
class KubeletApi::RunSession final : public Session, public Outside {
 public:
  RunSession(KubeletApi& api, CallPtr call, Machine machine, std::shared_ptr<FileSystem> files, ProcessOptions options)
      : api_(api), call_(std::move(call)) {
    process_ = std::make_unique<Process>(std::move(machine), std::move(files), std::move(options), this, api.clock_,
                                         api.timers_);
  }
  void begin() {
    call_->exchange->on_close([this, alive = alive_] {
      if (*alive) api_.drop_session(this);
    });
    process_->start();
  }
  ~RunSession() override { *alive_ = false; }

  bool write(int, std::string bytes) override {
    output_.append(bytes, 0, kMaxRunOutput - std::min(kMaxRunOutput, output_.size()));
    return output_.size() < kMaxRunOutput;
  }
  size_t backlog() const override { return 0; }
  void when_drained(size_t, std::function<void()> callback) override {
    api_.timers_->run_after(Duration(0), std::move(callback));
  }
  void exited(int code) override {
    if (code == 0) {
      call_->text(200, output_);
    } else {
      call_->text(500, fmt::format("command exited with {}: {}", code, output_));
    }
    api_.drop_session(this);
  }
  void failed(const std::string& why) override {
    call_->text(500, start_failure(call_->route.pod, why));
    api_.drop_session(this);
  }

 private:
  KubeletApi& api_;
  CallPtr call_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::string output_;
  std::unique_ptr<Process> process_;
};

void KubeletApi::run(const CallPtr& call) {
  const auto start = [this, call](const PodView& pod) {
    const ContainerView* container = pod.find(call->route.container);
    if (container == nullptr || container->state != ContainerState::kRunning)
      return call->text(500, fmt::format("container not found (\"{}\")", call->route.container));
    if (!room_for_session(call)) return;
    const std::vector<std::string> cmd = values_of(call->request().query(), "cmd");
    ProcessOptions options{split_words(cmd.empty() ? "" : cmd.front()), false, false};
    with_spec(call, pod, [this, call, pod, options](const Json& spec) {
      const ContainerView& c = *pod.find(call->route.container);
      Machine machine = make_machine(backend_.node(call->node), pod, c, spec, {});
      std::shared_ptr<FileSystem> files = files_of(files_key(pod, c));
      if (!files) {
        files = std::make_shared<FileSystem>();
        provide_files(machine, spec, {}, files.get());
      }
      auto session = std::make_shared<RunSession>(*this, call, std::move(machine), std::move(files), options);
      RunSession& running = *session;
      add_session(std::move(session));
      running.begin();
    });
  };
  with_pod(call, start, "pod does not exist");
}

}  // namespace ghostfleet::kubelet_api
