// Process: one exec: a command line run by the scripted responder, in a terminal or not. It reads standard input,
// writes standard output and error, waits, and ends with an exit code. Nothing of the real machine is executed or read.
//
// Thread rule: one loop; nothing is called from inside start(), on_stdin() and the like but the Outside given.
// Ownership: the Outside outlives the process; the process must not be destroyed inside a call of its Outside.
// Limits: kMaxInput bytes of unread input, then the writer waits; a script makes at most kStepsPerNap steps and then
// rests for kNap, so that an endless loop costs little.
#pragma once

#include <coroutine>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/kubelet_api/sandbox/file_system.h"
#include "agent/kubelet_api/sandbox/machine.h"
#include "agent/kubelet_api/sandbox/task.h"
#include "kube/stream/timers.h"

namespace ghostfleet::kubelet_api {

class Outside {
 public:
  virtual ~Outside() = default;
  // fd 1 or 2; false when nobody reads any more.
  virtual bool write(int fd, std::string bytes) = 0;
  virtual size_t backlog() const = 0;
  virtual void when_drained(size_t low_water, std::function<void()> callback) = 0;
  virtual void pause_stdin() {}
  virtual void resume_stdin() {}
  virtual void exited(int code) = 0;
  // The command could not be started: what a runtime says of it.
  virtual void failed(const std::string& why) = 0;
};

struct ProcessOptions {
  std::vector<std::string> argv;
  bool in = false, tty = false;
};

class Shell;

class Process {
 public:
  static constexpr size_t kMaxInput = FileSystem::kMaxBytes + 1024 * 1024;
  static constexpr size_t kPauseInput = 1024 * 1024;  // unless a command collects all of it
  static constexpr size_t kHighWater = 256 * 1024;
  static constexpr int kStepsPerNap = 64;
  static constexpr Duration kNap = std::chrono::milliseconds(10);

  Process(Machine machine, std::shared_ptr<FileSystem> files, ProcessOptions options, Outside* outside,
          const Clock& clock, std::shared_ptr<kube::stream::Timers> timers);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void start();
  void on_stdin(std::string_view bytes);
  void on_stdin_end();
  void on_resize(uint16_t width, uint16_t height);

  // ---- for the commands
  enum class WaitFor : unsigned char { kNothing, kTime, kInput, kReader };
  struct Wait {
    Process& process;
    WaitFor what;
    Duration time{0};
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) { process.suspend(handle, what, time); }
    void await_resume() const {}
  };
  Wait sleep(Duration d) { return {*this, WaitFor::kTime, d}; }
  Wait input() { return {*this, WaitFor::kInput}; }
  Wait reader() { return {*this, WaitFor::kReader}; }

  Machine& machine() { return machine_; }
  FileSystem& files() { return *files_; }
  WallTime now() const { return clock_.wall_now(); }
  bool tty() const { return options_.tty; }
  uint16_t width() const { return width_; }
  uint16_t height() const { return height_; }
  bool out_full() const { return outside_->backlog() > kHighWater; }
  // In a terminal a newline becomes a carriage return and a newline, and there is one stream.
  bool write(int fd, std::string_view text);
  // Input that nobody has read yet.
  std::string& pending() { return pending_; }
  // Whether no more input comes. In a terminal ^D ends it for one reader only.
  bool take_end();
  void collect_all() { collecting_ = true; }
  void input_taken();
  // Whether somebody pressed ^C since the last call.
  bool take_interrupt() { return std::exchange(interrupted_, false); }
  bool interrupted() const { return interrupted_; }
  bool broken() const { return broken_; }

 private:
  void suspend(std::coroutine_handle<> handle, WaitFor what, Duration time);
  void resume();
  void after_step();
  void edit(char c);
  void end_of_line(std::string_view with);

  Machine machine_;
  std::shared_ptr<FileSystem> files_;
  ProcessOptions options_;
  Outside* outside_;
  const Clock& clock_;
  std::shared_ptr<kube::stream::Timers> timers_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::unique_ptr<Shell> shell_;
  Task<int> main_;
  std::coroutine_handle<> waiting_;
  WaitFor what_ = WaitFor::kNothing;
  kube::stream::Timers::Id timer_ = 0;
  uint64_t wait_number_ = 0;
  std::string pending_, line_;
  bool ended_ = false, paused_ = false, collecting_ = false, interrupted_ = false, broken_ = false, done_ = false,
       closed_ = false;
  int escape_ = 0;  // inside an escape sequence of a terminal
  uint16_t width_ = 80, height_ = 24;
};

}  // namespace ghostfleet::kubelet_api
