// cat, ls, mkdir, rm, touch, cp, mv, chmod and basename.
#include <fmt/format.h>

#include <charconv>
#include <ctime>

#include "agent/kubelet_api/sandbox/command_call.h"

namespace ghostfleet::kubelet_api::commands {

void cat(Call& c) {
  if (c.operands.empty()) c.operands.emplace_back("-");
  for (const std::string& name : c.operands) {
    if (name == "-") {
      c.result.out += c.input;
      continue;
    }
    SharedBytes content;
    const FileError error = c.context.files.read(c.path(name), &content);
    if (error == FileError::kOk) {
      c.result.out += view(content);
    } else {
      c.complain(name, error);
    }
  }
}

namespace {

std::string mode_text(const FileEntry& file) {
  std::string text(1, file.directory() ? 'd' : '-');
  for (int bit = 8; bit >= 0; --bit) text += (file.mode >> bit & 1) != 0 ? "xwr"[bit % 3] : '-';
  return text;
}

void list_one(Call& c, const std::string& name, const FileEntry& file) {
  if (!c.has('l')) {
    c.result.out += name + "\n";
    return;
  }
  const std::time_t seconds = file.modified.seconds();
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char when[32] = {};
  (void)std::strftime(when, sizeof when, "%b %e %H:%M", &parts);
  c.result.out += fmt::format("{} {:>4} {:<8} {:<8} {:>9} {} {}\n", mode_text(file), file.directory() ? 2 : 1, "root",
                              "root", file.size(), when, name);
}

void list_directory(Call& c, const std::string& path) {
  const std::vector<std::string> names = c.context.files.list(path);
  if (c.has('l')) c.result.out += fmt::format("total {}\n", 4 * names.size());
  for (const std::string& name : names) {
    if (name[0] == '.' && !c.has('a') && !c.has('A')) continue;
    if (const FileEntry* file = c.context.files.find(FileSystem::resolve(path, name))) list_one(c, name, *file);
  }
}

}  // namespace

void list(Call& c) {
  if (c.operands.empty()) c.operands.emplace_back(".");
  for (const std::string& name : c.operands) {
    const FileEntry* file = c.context.files.find(c.path(name));
    if (file == nullptr) {
      c.complain(name, FileError::kNoEntry);
      continue;
    }
    if (!file->directory() || c.has('d')) {
      list_one(c, name, *file);
      continue;
    }
    if (c.operands.size() > 1) c.result.out += name + ":\n";
    list_directory(c, c.path(name));
  }
}

void make_directories(Call& c) {
  for (const std::string& name : c.operands) {
    const FileError error = c.context.files.make_directory(c.path(name), c.has('p'), c.context.now);
    if (error != FileError::kOk) c.complain(fmt::format("can't create directory '{}'", name), error);
  }
}

void remove(Call& c) {
  for (const std::string& name : c.operands) {
    const FileError error = c.context.files.remove(c.path(name), c.has('r') || c.has('R'));
    if (error == FileError::kOk || (error == FileError::kNoEntry && c.has('f'))) continue;
    c.complain(fmt::format("can't remove '{}'", name), error);
  }
}

void touch(Call& c) {
  for (const std::string& name : c.operands) {
    const FileEntry* there = c.context.files.find(c.path(name));
    if (there != nullptr && there->directory()) continue;
    const FileError error = c.context.files.write(c.path(name), "", true, c.context.now);
    if (error != FileError::kOk) c.complain(name, error);
  }
}

namespace {

void copy_file(Call& c, const std::string& from, std::string to) {
  SharedBytes content;
  FileError error = c.context.files.read(c.path(from), &content);
  const FileEntry* target = c.context.files.find(c.path(to));
  if (target != nullptr && target->directory()) to += "/" + from.substr(from.rfind('/') + 1);
  if (error == FileError::kOk) error = c.context.files.write(c.path(to), view(content), false, c.context.now);
  if (error == FileError::kOk && command_name(c.argv[0]) == "mv") error = c.context.files.remove(c.path(from), false);
  if (error != FileError::kOk) c.complain(from, error);
}

}  // namespace

void copy(Call& c) {
  if (c.operands.size() < 2) {
    c.result.err = c.argv[0] + ": missing file operand\n";
    c.result.code = 1;
    return;
  }
  for (size_t i = 0; i + 1 < c.operands.size(); ++i) copy_file(c, c.operands[i], c.operands.back());
}

void change_mode(Call& c) {
  uint32_t mode = 0;
  if (c.operands.size() < 2) return;
  const std::string& text = c.operands[0];
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  if (error != std::errc() || end != text.data() + text.size())
    mode = text.find('x') != std::string::npos ? 0755 : 0644;
  for (size_t i = 1; i < c.operands.size(); ++i) {
    const FileError result = c.context.files.set_mode(c.path(c.operands[i]), mode & 07777);
    if (result != FileError::kOk) c.complain(c.operands[i], result);
  }
}

void base_name(Call& c) {
  c.result.out = c.operands.empty() ? "" : c.operands[0].substr(c.operands[0].rfind('/') + 1) + "\n";
}

}  // namespace ghostfleet::kubelet_api::commands
