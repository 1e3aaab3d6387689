#include "agent/kubelet_api/sandbox/commands.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/kubelet_api/sandbox/command_call.h"

namespace ghostfleet::kubelet_api {

namespace commands {

std::string Arguments::value(char letter) const {
  std::string out;
  for (const auto& [name, value] : values) {
    if (name == letter) out = value;
  }
  return out;
}

void Call::complain(std::string_view about, FileError error) {
  result.err += fmt::format("{}: {}: {}\n", argv[0], about, file_error_text(error));
  result.code = 1;
}

void Call::fail(std::string_view text, int code) { result = {"", fmt::format("{}: {}\n", argv[0], text), code}; }

std::string Call::text(size_t first) {
  std::string text;
  if (operands.size() <= first) return std::string(input);
  for (size_t i = first; i < operands.size(); ++i) {
    SharedBytes content;
    const FileError error = operands[i] == "-" ? FileError::kOk : context.files.read(path(operands[i]), &content);
    text += operands[i] == "-" ? input : view(content);
    if (error != FileError::kOk) complain(operands[i], error);
  }
  return text;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace commands

namespace {

using commands::Arguments;
using commands::Argv;
using commands::Call;

void nothing(Call&) {}
void fails(Call& c) { c.result.code = 1; }
void clear(Call& c) { c.result.out = "\033[H\033[2J"; }
void directory(Call& c) { c.result.out = c.context.directory + "\n"; }
void user_name(Call& c) { c.result.out = c.context.machine.user + "\n"; }

struct Known {
  std::string_view name;
  void (*run)(Call&);
  bool input = false;             // reads its input when no file is named
  size_t words = 0;               // operands before the files; none with -e
  std::string_view with_value{};  // options that have one
};

constexpr Known kCommands[] = {
    {"[", commands::test},
    {"basename", commands::base_name},
    {"cat", commands::cat, true},
    {"chmod", commands::change_mode},
    {"chown", nothing},
    {"clear", clear},
    {"cp", commands::copy},
    {"cut", commands::cut, true, 0, "dfcb"},
    {"date", commands::date},
    {"df", commands::disk},
    {"echo", commands::echo},
    {"env", commands::print_variables},
    {"false", fails},
    {"find", commands::find},
    {"free", commands::memory},
    {"grep", commands::search, true, 1, "e"},
    {"head", commands::cut_ends, true, 0, "nc"},
    {"hostname", commands::host_name},
    {"id", commands::identity},
    {"ls", commands::list},
    {"mkdir", commands::make_directories},
    {"mv", commands::copy},
    {"nproc", commands::processors},
    {"printenv", commands::print_variables},
    {"printf", commands::print},
    {"ps", commands::processes},
    {"pwd", directory},
    {"rm", commands::remove},
    {"sed", commands::edit_stream, true, 1, "e"},
    {"sort", commands::sort_lines, true, 0, "kt"},
    {"stty", commands::terminal},
    {"sync", nothing},
    {"tail", commands::cut_ends, true, 0, "nc"},
    {"tar", commands::tar, true},
    {"tee", commands::tee, true},
    {"test", commands::test},
    {"touch", commands::touch},
    {"true", nothing},
    {"tty", commands::terminal_name},
    {"uname", commands::system_name},
    {"wc", commands::count, true},
    {"which", commands::which},
    {"whoami", user_name},
};

const Known* find_command(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kCommands), std::end(kCommands), [name](const Known& k) { return k.name == name; });
  return found == std::end(kCommands) ? nullptr : found;
}

Arguments split(const Argv& argv, std::string_view with_value) {
  Arguments out;
  bool options = true;
  for (size_t i = 1; i < argv.size(); ++i) {
    const std::string_view word = argv[i];
    if (!options || word.size() < 2 || word[0] != '-') {
      out.operands.emplace_back(word);
      continue;
    }
    if (word == "--") {
      options = false;
      continue;
    }
    if (word[1] == '-') continue;  // no long option changes anything here
    const size_t value = word.find_first_of(with_value, 1);
    out.letters += word.substr(1, value);
    if (value == std::string_view::npos) continue;
    const bool apart = value + 1 == word.size();
    if (apart) ++i;
    out.values.emplace_back(word[value], apart ? (i < argv.size() ? argv[i] : std::string()) : word.substr(value + 1));
  }
  return out;
}

// The place of the first operand that is a file.
size_t first_file(const Known& known, const Arguments& arguments) { return arguments.has('e') ? 0 : known.words; }

}  // namespace

std::string_view command_name(std::string_view word) {
  static constexpr std::string_view kPlaces[] = {"/bin/",  "/usr/bin/",  "/usr/local/bin/",
                                                 "/sbin/", "/usr/sbin/", "/opt/aws/neuron/bin/"};
  for (const std::string_view place : kPlaces) {
    if (word.starts_with(place) && word.find('/', place.size()) == std::string_view::npos)
      return word.substr(place.size());
  }
  return word;
}

bool command_known(const Machine& machine, std::string_view word) {
  const std::string_view name = command_name(word);
  if (name == "nvidia-smi") return !machine.gpus.empty() || !machine.migs.empty();
  if (name == "neuron-ls") return !machine.neurons.empty();
  return find_command(name) != nullptr || name == "sh" || name == "bash" || name == "ash" || name == "sleep";
}

bool command_reads_input(const Argv& argv) {
  const std::string_view name = command_name(argv[0]);
  const Known* known = find_command(name);
  if (known == nullptr || !known->input) return false;
  if (name == "tee") return true;
  if (name == "tar") return commands::tar_reads_input(argv);
  const Arguments arguments = split(argv, known->with_value);
  const Argv& operands = arguments.operands;
  return std::find(operands.begin(), operands.end(), "-") != operands.end() ||
         operands.size() <= first_file(*known, arguments);
}

CommandResult run_command(const Argv& argv, std::string_view input, const CommandContext& context) {
  const std::string_view name = command_name(argv[0]);
  const Known* known = find_command(name);
  if (known == nullptr) {
    CommandResult result;
    if (name == "nvidia-smi") nvidia_smi(context.machine, argv, context.now, &result.out, &result.code);
    if (name == "neuron-ls") neuron_ls(context.machine, argv, &result.out, &result.code);
    return result;
  }
  Call call{split(argv, known->with_value), argv, input, context, {}};
  known->run(call);
  return std::move(call.result);
}

}  // namespace ghostfleet::kubelet_api
