#include "agent/kubelet_api/sandbox/process.h"

#include <fmt/format.h>

#include "agent/kubelet_api/sandbox/shell.h"

namespace ghostfleet::kubelet_api {
namespace {

constexpr size_t kMaxLine = 4096;  // of a terminal
constexpr size_t kLowWater = 64 * 1024;
constexpr char kInterrupt = 3, kEndOfInput = 4, kBackspace = 8, kKillLine = 21, kEscape = 27, kDelete = 127;

}  // namespace

Process::Process(Machine machine, std::shared_ptr<FileSystem> files, ProcessOptions options, Outside* outside,
                 const Clock& clock, std::shared_ptr<kube::stream::Timers> timers)
    : machine_(std::move(machine)),
      files_(std::move(files)),
      options_(std::move(options)),
      outside_(outside),
      clock_(clock),
      timers_(std::move(timers)),
      shell_(std::make_unique<Shell>(*this)),
      ended_(!options_.in),
      closed_(!options_.in) {}

Process::~Process() {
  *alive_ = false;
  if (timer_ != 0) timers_->cancel(timer_);
}

void Process::start() {
  const std::string missing = shell_->why_not(options_.argv);
  if (!missing.empty()) {
    done_ = true;
    return outside_->failed(missing);
  }
  main_ = shell_->main(options_.argv);
  main_.start();
  after_step();
}

void Process::suspend(std::coroutine_handle<> handle, WaitFor what, Duration time) {
  waiting_ = handle;
  what_ = what;
  const uint64_t number = ++wait_number_;
  if (what == WaitFor::kTime) {
    timer_ = timers_->run_after(time, [this, alive = alive_] {
      if (!*alive) return;
      timer_ = 0;
      resume();
    });
  }
  if (what == WaitFor::kReader) {
    outside_->when_drained(kLowWater, [this, alive = alive_, number] {
      if (*alive && wait_number_ == number && what_ == WaitFor::kReader) resume();
    });
  }
}

void Process::resume() {
  if (!waiting_) return;
  if (timer_ != 0) timers_->cancel(std::exchange(timer_, 0));
  what_ = WaitFor::kNothing;
  std::exchange(waiting_, nullptr).resume();
  after_step();
}

void Process::after_step() {
  if (done_ || !main_.done()) return;
  done_ = true;
  outside_->exited(main_.value());
}

bool Process::write(int fd, std::string_view text) {
  if (text.empty() || broken_) return !broken_;
  std::string bytes;
  if (options_.tty) {
    fd = 1;
    for (const char c : text) {
      if (c == '\n') bytes += '\r';
      bytes += c;
    }
  } else {
    bytes = text;
  }
  if (!outside_->write(fd, std::move(bytes))) broken_ = fd == 1;
  return !broken_;
}

void Process::input_taken() {
  if (paused_ && pending_.size() < kPauseInput) {
    paused_ = false;
    outside_->resume_stdin();
  }
}

void Process::on_stdin(std::string_view bytes) {
  if (done_ || closed_) return;
  if (options_.tty) {
    for (const char c : bytes) edit(c);
  } else {
    // What exceeds every limit is dropped: the command that collects it has already failed.
    pending_ += bytes.substr(0, kMaxInput - std::min(kMaxInput, pending_.size()));
  }
  if (!collecting_ && !paused_ && pending_.size() > kPauseInput) {
    paused_ = true;
    outside_->pause_stdin();
  }
  if (what_ == WaitFor::kInput && !pending_.empty()) resume();
}

bool Process::take_end() {
  if (!ended_) return false;
  ended_ = closed_ || !options_.tty;
  return true;
}

void Process::on_stdin_end() {
  if (done_ || closed_) return;
  closed_ = ended_ = true;
  if (what_ == WaitFor::kInput) resume();
}

void Process::on_resize(uint16_t width, uint16_t height) {
  width_ = width;
  height_ = height;
}

void Process::end_of_line(std::string_view with) {
  pending_ += line_;
  pending_ += with;
  line_.clear();
}

// The line discipline of a terminal: echo, erase, ^C and ^D.
void Process::edit(char c) {
  if (escape_ != 0) {  // keys such as the arrows mean nothing here
    const bool more = (escape_ == 1 && c == '[') || (escape_ == 2 && (c < '@' || c > '~'));
    escape_ = more ? 2 : 0;
    return;
  }
  if (c == kInterrupt) {
    write(1, "^C\n");
    line_.clear();
    pending_.clear();
    interrupted_ = true;
    if (what_ == WaitFor::kTime || what_ == WaitFor::kInput) resume();
    return;
  }
  if (c == kEndOfInput) {
    ended_ = line_.empty() && pending_.empty();
    end_of_line("");
    if (what_ == WaitFor::kInput) resume();
    return;
  }
  if (c == '\r' || c == '\n') {
    write(1, "\n");
    end_of_line("\n");
    return;
  }
  if (c == kBackspace || c == kDelete) {
    if (line_.empty()) return;
    while (line_.size() > 1 && (static_cast<unsigned char>(line_.back()) & 0xc0) == 0x80) line_.pop_back();
    line_.pop_back();
    write(1, "\b \b");
    return;
  }
  if (c == kKillLine) {
    while (!line_.empty()) edit(kBackspace);
    return;
  }
  if (c == kEscape) {
    escape_ = 1;
    return;
  }
  if (line_.size() >= kMaxLine || (c >= 0 && c < ' ' && c != '\t')) return;
  line_ += c;
  write(1, std::string_view(&c, 1));
}

}  // namespace ghostfleet::kubelet_api
