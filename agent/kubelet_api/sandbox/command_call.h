// Call: one run of a command of the sandbox, and the commands by kind. Only commands.cc and the files of the commands
// themselves include this; everybody else asks run_command().
//
// Thread rule: plain values of one call.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/kubelet_api/sandbox/commands.h"

namespace ghostfleet::kubelet_api::commands {

using Argv = std::vector<std::string>;

struct Arguments {
  Argv operands;                                     // what is no option
  std::string letters;                               // of options
  std::vector<std::pair<char, std::string>> values;  // of options that have one, in their order

  bool has(char letter) const { return letters.find(letter) != std::string::npos; }
  std::string value(char letter) const;  // the last one; empty: there is none
};

struct Call : Arguments {
  const Argv& argv;
  std::string_view input;
  const CommandContext& context;
  CommandResult result;

  std::string path(std::string_view name) const { return FileSystem::resolve(context.directory, name); }
  void complain(std::string_view about, FileError error);
  void fail(std::string_view text, int code = 1);  // instead of any output
  // The text of the files that the operands name from `first` on, or the input when there are none.
  std::string text(size_t first);
};

std::vector<std::string_view> lines_of(std::string_view text);
// \n, \t, \0NN and so on, as echo -e and printf know them; `stop` is set by \c.
std::string unescape(std::string_view text, bool* stop);

// What is written: output_commands.cc
void echo(Call& c);
void print(Call& c);
void print_variables(Call& c);
// Files: file_commands.cc, find_command.cc, archive_command.cc
void cat(Call& c);
void list(Call& c);
void make_directories(Call& c);
void remove(Call& c);
void touch(Call& c);
void copy(Call& c);  // cp and mv
void change_mode(Call& c);
void base_name(Call& c);
void find(Call& c);
void tar(Call& c);
// Whether these arguments of tar mean an archive from the input.
bool tar_reads_input(const Argv& argv);
// Lines: text_commands.cc, sed_command.cc
void cut_ends(Call& c);  // head and tail
void count(Call& c);
void search(Call& c);
void sort_lines(Call& c);
void cut(Call& c);
void tee(Call& c);
void edit_stream(Call& c);
// Facts: fact_commands.cc
void identity(Call& c);
void host_name(Call& c);
void date(Call& c);
void system_name(Call& c);
void processors(Call& c);
void processes(Call& c);
void memory(Call& c);
void disk(Call& c);
void terminal(Call& c);
void terminal_name(Call& c);
void which(Call& c);
// Conditions: test_command.cc
void test(Call& c);

}  // namespace ghostfleet::kubelet_api::commands
