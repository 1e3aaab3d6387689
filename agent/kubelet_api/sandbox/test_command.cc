// test and [.
#include <charconv>

#include "agent/kubelet_api/sandbox/command_call.h"

namespace ghostfleet::kubelet_api::commands {

namespace {

bool test_unary(const Call& c, std::string_view op, const std::string& value) {
  if (op == "-n") return !value.empty();
  if (op == "-z") return value.empty();
  const FileEntry* file = c.context.files.find(c.path(value));
  if (file == nullptr) return false;
  if (op == "-d") return file->directory();
  if (op == "-f") return !file->directory();
  if (op == "-s") return !file->directory() && file->size() > 0;
  if (op == "-x") return file->directory() || (file->mode & 0111) != 0;
  if (op == "-w") return !file->read_only;
  if (op == "-r") return !file->hidden;
  return op == "-e";
}

bool test_binary(const std::string& a, std::string_view op, const std::string& b) {
  if (op == "=" || op == "==") return a == b;
  if (op == "!=") return a != b;
  int64_t x = 0;
  int64_t y = 0;
  std::from_chars(a.data(), a.data() + a.size(), x);
  std::from_chars(b.data(), b.data() + b.size(), y);
  if (op == "-eq") return x == y;
  if (op == "-ne") return x != y;
  if (op == "-lt") return x < y;
  if (op == "-le") return x <= y;
  if (op == "-gt") return x > y;
  return op == "-ge" && x >= y;
}

}  // namespace

void test(Call& c) {
  Argv words(c.argv.begin() + 1, c.argv.end());
  if (c.argv[0] == "[" && !words.empty() && words.back() == "]") words.pop_back();
  bool negated = false;
  while (!words.empty() && words[0] == "!") {
    negated = !negated;
    words.erase(words.begin());
  }
  bool holds = false;
  if (words.size() == 1) holds = !words[0].empty();
  if (words.size() == 2) holds = test_unary(c, words[0], words[1]);
  if (words.size() == 3) holds = test_binary(words[0], words[1], words[2]);
  if (words.size() > 3) {
    c.result = {"", c.argv[0] + ": too many arguments\n", 2};
    return;
  }
  c.result.code = holds != negated ? 0 : 1;
}

}  // namespace ghostfleet::kubelet_api::commands
