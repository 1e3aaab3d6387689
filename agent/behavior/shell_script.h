// The shell scripts that a container's command line gives to `sh -c`, read into a tree: lists with ; && || & and
// newlines, pipes, redirections, here-documents, if, case, while, until, for, functions, ( ) and { }. Words keep their
// quotes; who runs the tree expands them (shell_words.h).
//
// Thread rule: plain values. Errors: a script that is none, or uses what is not known here, gives no tree. Limits:
// kMaxScript bytes, kMaxDepth levels. Source: POSIX.1-2017, Shell Command Language, 2.3 to 2.10.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ghostfleet::agent::shell {

inline constexpr size_t kMaxScript = 8 * 1024;
inline constexpr int kMaxDepth = 32;

struct Redirect {
  std::string op;        // "<", ">", ">>", ">&", "<<"
  std::string number;    // the descriptor before it; empty: the usual one
  std::string target;    // a word; of a here-document its text
  bool literal = false;  // a here-document in which nothing is expanded; else its text is as between double quotes
};

enum class NodeKind : unsigned char {
  kCommand,
  kPipe,
  kAnd,
  kOr,
  kSequence,
  kBackground,
  kNot,
  kIf,
  kCase,
  kWhile,
  kUntil,
  kFor,
  kFunction,
  kSubshell
};

struct Node {
  NodeKind kind = NodeKind::kCommand;
  // kCommand: its words; kFor: the variable, then the values; kFunction: its name; kCase: what is looked at.
  std::vector<std::string> words;
  std::vector<Redirect> redirects;  // of a command or a whole block
  // kPipe, kSequence: all of them; kAnd, kOr: two; kIf: condition, then, and (optional) else; kWhile, kUntil:
  // condition, body; kCase: what each list of patterns leads to.
  std::vector<std::shared_ptr<const Node>> parts;
  std::vector<std::vector<std::string>> patterns;  // kCase: words
};
using Tree = std::shared_ptr<const Node>;

// Null when the text is not understood; `incomplete`: more text could make a script of it. An empty script is an empty
// sequence.
Tree parse(std::string_view script, bool* incomplete = nullptr);

// The end of a quoted or substituted piece that begins at `at` (which is ' " ` or $): one past it; npos when it does
// not end.
size_t end_of_piece(std::string_view text, size_t at, int depth = 0);

// Whether the text may name a variable.
bool is_name(std::string_view text);
// The place of the = in NAME=value, which stands before a command; npos when the word is none.
size_t assignment(std::string_view word);

}  // namespace ghostfleet::agent::shell
