// ShellRun: runs a shell script, or one command, in its head: time passes by adding up sleeps, files are names with
// text.
//
// Thread rule: one thread. Ownership: `line` and the tape outlive it. Errors: Flow::kUnknown, from which on nothing
// more is true. Limits: see command_model.h; with a tape those of command_log.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/behavior/command_log.h"
#include "agent/behavior/command_model.h"
#include "agent/behavior/shell_script.h"
#include "agent/behavior/shell_words.h"

namespace ghostfleet::agent {

// How a command left: on to the next, or out of what is around it. kForever: it never ends by itself.
enum class Flow : unsigned char { kNext, kBreak, kContinue, kReturn, kExit, kForever, kUnknown };

class ShellRun {
 public:
  using Files = std::map<std::string, std::string>;

  // With a tape the output of the process is written to it, and the run ends at the tape's end of time (kForever).
  ShellRun(const CommandLine& line, Files files, CommandTape* tape = nullptr)
      : line_(line), files_(std::move(files)), tape_(tape) {}

  // One command line, e.g. {"sh", "-c", "sleep 5"}. Afterwards status() and elapsed() hold.
  Flow run(const std::vector<std::string>& argv);
  // What a SIGTERM makes of the process that run() left running: false when it ignores it. status() and elapsed() go
  // on.
  bool terminate(Flow* flow);

  void wait_until(Duration age) { elapsed_ = std::max(elapsed_, age); }
  bool has_trap() const { return trap_.has_value(); }
  int status() const { return status_; }
  Duration elapsed() const { return elapsed_; }
  const Files& files() const { return files_; }
  const std::string& output() const { return output_; }
  const std::vector<FileChange>& changes() const { return changes_; }
  const std::vector<CommandServer>& servers() const { return servers_; }
  bool changes_lost() const { return changes_lost_; }

 private:
  enum class Err : unsigned char { kLog, kOut, kNowhere };  // kOut: where standard output goes
  struct Io {
    const std::string* in = nullptr;  // null: nothing to read
    std::string* out = nullptr;       // null: the log
    bool out_is_err = false;          // standard error of the log
    Err err = Err::kLog;
  };
  // A loop at the beginning of a round.
  struct Round {
    bool known = false;
    Duration at{0};
    uint64_t lines = 0, changes = 0;
    int status = 0;
  };

  Flow node(const shell::Node& n, const Io& io);
  Flow sequence(const shell::Node& n, const Io& io);
  Flow pipe(const shell::Node& n, const Io& io);
  Flow background(const shell::Node& n);
  Flow if_else(const shell::Node& n, const Io& io);
  Flow loop(const shell::Node& n, const Io& io);
  void skip_rounds(Round* last);
  Flow for_each(const shell::Node& n, const Io& io);
  Flow subshell(const shell::Node& n, const Io& io);
  Flow choose(const shell::Node& n, const Io& io);
  Flow call(const shell::Tree& body, std::vector<std::string> parameters, const Io& io);
  Flow condition(const shell::Node& n, const Io& io);
  Flow simple(const shell::Node& n, const Io& io);
  // The command `words`, or (null) the parts of the block.
  Flow redirected(const shell::Node& n, const std::vector<std::string>* words, const Io& io);
  bool read_document(const shell::Redirect& r, std::string* out);
  Flow command(const std::vector<std::string>& words, const Io& io);
  Flow builtin(const std::vector<std::string>& words, const Io& io, bool* known);
  Flow utility(const std::vector<std::string>& words, const Io& io);
  Flow leave(const std::vector<std::string>& words, Flow how);
  Flow run_shell(const std::vector<std::string>& words, const Io& io);
  Flow set(const std::vector<std::string>& words);
  Flow shift(const std::vector<std::string>& words);
  Flow local(const std::vector<std::string>& words);
  Flow unset(const std::vector<std::string>& words);
  Flow export_all(const std::vector<std::string>& words);
  Flow trap(const std::vector<std::string>& words);
  Flow sleep(const std::vector<std::string>& words);
  Flow echo(const std::vector<std::string>& words, const Io& io);
  Flow print(const std::vector<std::string>& words, const Io& io);
  Flow date(const std::vector<std::string>& words, const Io& io);
  Flow seq(const std::vector<std::string>& words, const Io& io);
  Flow tail(const std::vector<std::string>& words, const Io& io);
  Flow cat(const std::vector<std::string>& words, const Io& io);
  Flow count_lines(const std::vector<std::string>& words, const Io& io);
  Flow awk(const std::vector<std::string>& words, const Io& io);
  Flow expr(const std::vector<std::string>& words, const Io& io);
  Flow touch(const std::vector<std::string>& words);
  Flow remove(const std::vector<std::string>& words, const Io& io);
  Flow test(std::vector<std::string> words);
  Flow agnhost(const std::vector<std::string>& words);
  Flow done(int status);

  std::optional<bool> holds(const std::vector<std::string>& words);
  std::optional<bool> file_is_there(const std::string& path) const;
  bool write(const std::string& path, std::string_view text, bool append, const Io& io);
  void change(const std::string& path, bool there);
  bool write_out(std::string_view text, const Io& io);
  bool complain(std::string_view text, const Io& io);
  void log(std::string_view text, bool err);
  bool is_busybox() const;
  void trace(const std::vector<std::string>& words, const Io& io);
  bool redirect(const shell::Redirect& r, Io* mine);
  void set_variable(const std::string& name, std::string value);
  void unset_variable(const std::string& name);

  // Expansion; false: not known. A word becomes fields, the value of an assignment or a target stays one.
  bool expand(const std::string& word, std::vector<std::string>* out);
  bool expand_one(std::string_view word, std::string* out);
  bool expand_text(std::string_view text, bool quoted, bool split, std::string* out, bool* had_quotes);
  bool expand_backquotes(std::string_view text, std::string* out, size_t* used);
  bool expand_dollar(std::string_view text, std::string* out, size_t* used);
  bool expand_pattern(std::string_view word, std::string* out);
  bool braces(std::string_view inside, std::string* out);
  bool braces_value(std::string_view inside, std::string* out);
  bool braces_without_value(const shell::Parameter& p, std::string* out);
  // kAbsent: nobody told it, so that it is unset unless the image sets it.
  enum class Known : unsigned char { kYes, kUnset, kAbsent, kNo };
  Known look_up(std::string_view name, std::string* out) const;
  bool parameter(std::string_view name, std::string* out, Known* known) const;
  bool variable(std::string_view name, std::string* out) const;
  bool arithmetic(std::string_view text, std::string* out);
  bool substitute(std::string_view script, std::string* out);

  const CommandLine& line_;
  Files files_;
  std::map<std::string, std::string> variables_;
  std::set<std::string, std::less<>> unset_;  // by the script
  std::vector<std::string> parameters_;       // $1, $2, ...
  // Of each function that runs: what its local variables were outside.
  struct Outer {
    std::optional<std::string> value;
    bool unset = false;
  };
  std::vector<std::map<std::string, Outer>> locals_;
  std::map<std::string, shell::Tree> functions_;
  std::vector<FileChange> changes_;
  std::vector<CommandServer> servers_;
  std::optional<std::string> trap_;
  bool handles_term_ = false;  // a program that ends on SIGTERM by itself
  int term_status_ = 0;
  std::string output_;
  Duration elapsed_{0};
  int status_ = 0;
  int steps_ = 0;
  int depth_ = 0;
  uint64_t state_changes_ = 0;  // of variables and files
  bool exit_on_error_ = false;
  bool traced_ = false;
  bool changes_lost_ = false;
  CommandTape* tape_ = nullptr;
};

// What is run: the command, else what the image is known to run; empty: not known.
std::vector<std::string> process_of(const CommandLine& line);

}  // namespace ghostfleet::agent
