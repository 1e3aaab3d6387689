// SedScript: a script of sed: s///, p, d, q, = with addresses, run over lines of text.
//
// Thread rule: immutable after parse(); run() may be called again. Errors: a text as sed prints it.
// Limits: kMaxCommands commands, kMaxSpace bytes of a line while it is worked on. Source: POSIX.1-2017, sed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/kubelet_api/sandbox/pattern.h"

namespace ghostfleet::kubelet_api {

class SedScript {
 public:
  static constexpr size_t kMaxCommands = 256;
  static constexpr size_t kMaxSpace = 1024 * 1024;

  static std::optional<SedScript> parse(std::string_view text, Pattern::Syntax syntax, std::string* error);

  // What is printed; `quiet`: only by p and =.
  std::string run(std::string_view input, bool quiet) const;

 private:
  friend class SedParser;
  struct Address {
    enum class Kind : unsigned char { kLine, kLast, kPattern } kind = Kind::kLine;
    size_t line = 0;
    std::optional<Pattern> pattern;
  };
  struct Command {
    std::optional<Address> from, to;
    bool negated = false;
    char name = 'p';
    // s///
    std::optional<Pattern> pattern;
    std::vector<std::pair<std::string, int>> replacement;  // a text, then a group of the match; -1: none
    bool all = false, print = false;
    size_t number = 1;  // which match is the first to be replaced
  };
  struct Line {
    std::string text;
    size_t number = 0;
    bool last = false;
  };

  static bool hits(const Address& address, const Line& line);
  static bool chosen(const Command& command, const Line& line, size_t* inside);
  static bool substitute(const Command& command, std::string* text);

  std::vector<Command> commands_;
};

}  // namespace ghostfleet::kubelet_api
