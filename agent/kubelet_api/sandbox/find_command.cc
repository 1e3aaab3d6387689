// find: -name, -path, -type, -maxdepth, -mindepth, -print and ! before a test.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>

#include "agent/kubelet_api/sandbox/command_call.h"
#include "agent/pod/images.h"
#include "base/glob.h"

namespace ghostfleet::kubelet_api::commands {

namespace {

struct Found {
  std::string shown;  // as find prints it
  std::string_view name;
  bool directory = false;
};
using Test = std::function<bool(const Found&)>;

struct Search {
  Argv roots;
  size_t min_depth = 0, max_depth = SIZE_MAX;
  std::vector<Test> tests;
};

bool read_depth(const std::string& text, size_t* out) {
  return std::from_chars(text.data(), text.data() + text.size(), *out).ptr == text.data() + text.size() &&
         !text.empty();
}

// Null: the test is not known, or its value makes no sense.
Test make_test(std::string_view name, const std::string& value) {
  if (name == "-name") return [value](const Found& f) { return glob_match(value, f.name); };
  if (name == "-path") return [value](const Found& f) { return glob_match(value, f.shown); };
  if (name != "-type" || (value != "f" && value != "d")) return nullptr;
  return [directory = value == "d"](const Found& f) { return f.directory == directory; };
}

// Empty, or what is wrong.
std::string read_arguments(const Argv& argv, Search* search) {
  size_t i = 1;
  for (; i < argv.size() && !argv[i].starts_with('-') && argv[i] != "!"; ++i) search->roots.push_back(argv[i]);
  if (search->roots.empty()) search->roots.emplace_back(".");
  bool negated = false;
  for (; i < argv.size(); ++i) {
    const std::string& word = argv[i];
    if (word == "-print" || word == "-a") continue;
    if (word == "!" || word == "-not") {
      negated = !negated;
      continue;
    }
    if (i + 1 == argv.size()) return fmt::format("{}: unrecognized, or its argument is missing", word);
    const std::string& value = argv[++i];
    if (word == "-maxdepth" || word == "-mindepth") {
      if (!read_depth(value, word == "-maxdepth" ? &search->max_depth : &search->min_depth))
        return fmt::format("{}: a number is expected, not '{}'", word, value);
      continue;
    }
    Test test = make_test(word, value);
    if (!test) return fmt::format("{} {}: not known here", word, value);
    if (negated) test = [inner = std::move(test)](const Found& f) { return !inner(f); };
    search->tests.push_back(std::move(test));
    negated = false;
  }
  return {};
}

}  // namespace

void find(Call& c) {
  Search search;
  if (const std::string wrong = read_arguments(c.argv, &search); !wrong.empty()) return c.fail(wrong);
  for (const std::string& root : search.roots) {
    const std::string top = c.path(root);
    if (c.context.files.find(top) == nullptr) {
      c.complain(root, FileError::kNoEntry);
      continue;
    }
    const size_t prefix = top == "/" ? 0 : top.size();
    for (const std::string& path : c.context.files.walk(top)) {
      const std::string_view below = path == "/" ? std::string_view() : std::string_view(path).substr(prefix);
      const auto depth = static_cast<size_t>(std::count(below.begin(), below.end(), '/'));
      if (depth < search.min_depth || depth > search.max_depth) continue;
      Found found;
      found.shown = below.empty() ? root : (root.ends_with('/') ? root.substr(0, root.size() - 1) : root);
      found.shown += below;
      found.name = std::string_view(found.shown).substr(found.shown.rfind('/') + 1);
      const FileEntry* entry = c.context.files.find(path);
      found.directory = entry != nullptr && entry->directory();
      const bool wanted =
          std::all_of(search.tests.begin(), search.tests.end(), [&found](const Test& t) { return t(found); });
      if (wanted) c.result.out += found.shown + "\n";
    }
  }
}

}  // namespace ghostfleet::kubelet_api::commands
