// Shell: the interpreter of the sandbox: walks the tree of a script (agent/behavior/shell_script.h), expands words, and
// runs the commands that are known (commands.h). A command that is not known is "not found", with code 127, as in a
// real container that does not have it.
//
// Thread rule and ownership: part of one Process.
// Limits: kMaxOutput bytes of a pipe, a substitution or a word, kMaxDepth nested scripts.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/behavior/shell_script.h"
#include "agent/kubelet_api/sandbox/commands.h"
#include "agent/kubelet_api/sandbox/process.h"
#include "agent/kubelet_api/sandbox/task.h"

namespace ghostfleet::kubelet_api {

class Shell {
 public:
  static constexpr size_t kMaxOutput = 1024 * 1024;
  static constexpr int kMaxDepth = 24;
  static constexpr int kBadWord = 2;  // the exit code of a command with a word that makes no sense

  explicit Shell(Process& process);

  // Empty, or why a runtime could not start this command line: `exec: "x": executable file not found in $PATH`.
  std::string why_not(const std::vector<std::string>& argv) const;
  Task<int> main(std::vector<std::string> argv);

 private:
  // Where a command reads and writes. A text comes from a pipe or a file; without one the input is that of the process.
  struct Io {
    std::shared_ptr<std::string> in;
    std::string* out = nullptr;  // null: the client
    std::string* err = nullptr;
    bool err_with_out = false;  // 2>&1
    bool out_with_err = false;  // >&2
  };
  enum class Flow : unsigned char { kNext, kBreak, kContinue, kReturn, kExit };

  Task<int> node(const agent::shell::Node& n, Io io);
  Task<int> sequence(const agent::shell::Node& n, Io io);
  Task<int> pipe(const agent::shell::Node& n, Io io);
  Task<int> loop(const agent::shell::Node& n, Io io);
  Task<int> for_each(const agent::shell::Node& n, Io io);
  Task<int> subshell(const agent::shell::Node& n, Io io);
  Task<int> choose(const agent::shell::Node& n, Io io);
  Task<int> block(const agent::shell::Node& n, Io io);
  Task<int> call(agent::shell::Tree body, std::vector<std::string> parameters, Io io);
  // What a redirection collects for a file.
  struct Output {
    std::string path;
    bool append = false;
    std::shared_ptr<std::string> text;
  };
  Task<int> open_redirects(const std::vector<agent::shell::Redirect>& redirects, Io* io, std::vector<Output>* outputs);
  int close_redirects(const std::vector<Output>& outputs);
  Task<int> simple(const agent::shell::Node& n, Io io);
  Task<int> command(std::vector<std::string> argv, Io io);
  Task<int> run_shell(std::vector<std::string> argv, Io io);
  Task<int> run_script(std::string text, Io io);
  Task<int> interactive(Io io);
  Task<int> sleep(std::vector<std::string> argv, Io io);
  Task<int> cat_input(Io io);
  Task<int> read_line(std::string* line, Io io);
  Task<int> read(std::vector<std::string> argv, Io io);
  Task<int> collect(std::string* text, Io io);
  Task<int> pause();
  Task<int> expand(std::string word, std::vector<std::string>* out, Io io);
  // How variables turn into words: split at blanks, whole, or whole with the rules inside double quotes.
  enum class Mode : unsigned char { kSplit, kWhole, kQuoted };
  Task<int> expand_text(std::string text, Mode mode, std::vector<std::string>* fields, bool* open, Io io);
  Task<int> expand_pattern(std::string word, std::string* out, Io io);
  Task<int> expand_one(std::string word, Mode mode, std::string* out, Io io);
  // The inside of ${...}
  Task<int> braces(std::string inside, std::string* out, Io io);
  Task<int> braces_value(std::string inside, std::string* out, Io io);
  Task<int> braces_without_value(std::string name, char op, std::string word, std::string* out, Io io);
  Task<int> substitute(std::string script, std::string* out, Io io);
  Task<int> calculate(std::string expression, std::string* out, Io io);

  int builtin(const std::vector<std::string>& argv, const Io& io, bool* known);
  int leave(const std::vector<std::string>& argv, Flow how);
  void write(const Io& io, int fd, std::string_view text);
  int local(const std::vector<std::string>& argv, const Io& io);
  int shift(const std::vector<std::string>& argv, const Io& io);
  // Nothing when it is not set.
  std::optional<std::string> find_variable(std::string_view name) const;
  std::string variable(std::string_view name) const { return find_variable(name).value_or(std::string()); }
  void set_variable(const std::string& name, std::string value);
  void unset_variable(const std::string& name);
  bool stopped() const { return flow_ != Flow::kNext; }
  CommandContext context();

  Process& process_;
  std::map<std::string, std::string> variables_;
  std::map<std::string, std::string> exported_;
  std::map<std::string, agent::shell::Tree> functions_;
  std::vector<std::string> parameters_;  // $1, $2, ...
  // Of each function that runs: what its local variables were outside.
  std::vector<std::map<std::string, std::optional<std::string>>> locals_;
  std::string directory_;
  Flow flow_ = Flow::kNext;
  int status_ = 0;
  int depth_ = 0;
  int steps_ = 0;
  bool bad_word_ = false;  // a word of the command could not be expanded: it does not run
};

}  // namespace ghostfleet::kubelet_api
