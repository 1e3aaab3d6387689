// tar, as kubectl cp uses it.
#include "agent/kubelet_api/sandbox/command_call.h"
#include "agent/kubelet_api/sandbox/tar_stream.h"

namespace ghostfleet::kubelet_api::commands {

namespace {

struct TarOptions {
  char mode = 0;
  std::string directory, file = "-";
  Argv paths;
};

bool tar_word(const Argv& argv, size_t* i, TarOptions* o) {
  std::string word = argv[*i];
  if (word.starts_with("--")) return true;  // such as --no-same-owner
  const bool bundle = word.starts_with('-') || *i == 1;
  if (!bundle || word == "-") {
    o->paths.push_back(word);
    return true;
  }
  for (const char letter : word) {
    if (letter == 'c' || letter == 'x' || letter == 't') o->mode = letter;
    if (letter == 'z' || letter == 'j' || letter == 'J') return false;
    if (letter != 'C' && letter != 'f') continue;
    if (++*i >= argv.size()) return false;
    (letter == 'C' ? o->directory : o->file) = argv[*i];
  }
  return true;
}

}  // namespace

bool tar_reads_input(const Argv& argv) {
  TarOptions o;
  for (size_t i = 1; i < argv.size() && tar_word(argv, &i, &o);) ++i;
  return (o.mode == 'x' || o.mode == 't') && o.file == "-";
}

void tar(Call& c) {
  TarOptions o;
  for (size_t i = 1; i < c.argv.size(); ++i) {
    if (tar_word(c.argv, &i, &o)) continue;
    c.result = {"", "tar: only c, x, t, f and C are known here\n", 1};
    return;
  }
  const std::string directory = c.path(o.directory.empty() ? "." : o.directory);
  SharedBytes content;
  if (o.mode == 'x' || o.mode == 't') {
    const FileError error = o.file == "-" ? FileError::kOk : c.context.files.read(c.path(o.file), &content);
    if (error != FileError::kOk) return c.complain(o.file, error);
    const std::string_view archive = o.file == "-" ? c.input : view(content);
    if (o.mode == 't') {
      for (const std::string& name : tar_list(archive)) c.result.out += name + "\n";
      return;
    }
    c.result.err = tar_extract(archive, directory, c.context.now, &c.context.files);
  } else if (o.mode == 'c') {
    std::string archive;
    c.result.err = tar_create(o.paths, directory, c.context.files, &archive);
    if (o.file == "-") {
      c.result.out = std::move(archive);
    } else if (const FileError error = c.context.files.write(c.path(o.file), archive, false, c.context.now);
               error != FileError::kOk) {
      c.complain(o.file, error);
    }
  } else {
    c.result.err = "tar: one of c, x and t is expected\n";
  }
  if (!c.result.err.empty()) c.result.code = c.result.code != 0 ? c.result.code : 2;
}

}  // namespace ghostfleet::kubelet_api::commands
