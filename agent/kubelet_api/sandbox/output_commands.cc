// echo, printf, env and printenv.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "agent/kubelet_api/sandbox/command_call.h"

namespace ghostfleet::kubelet_api::commands {

std::string unescape(std::string_view text, bool* stop) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    if (c == 'c') {
      *stop = true;
      return out;
    }
    static constexpr std::pair<char, char> kEscapes[] = {{'n', '\n'}, {'t', '\t'}, {'r', '\r'}, {'\\', '\\'},
                                                         {'a', '\a'}, {'b', '\b'}, {'f', '\f'}, {'v', '\v'}};
    const auto* found =
        std::find_if(std::begin(kEscapes), std::end(kEscapes), [c](const auto& e) { return e.first == c; });
    if (found != std::end(kEscapes)) {
      out += found->second;
    } else if (c >= '0' && c <= '7') {
      int value = 0;
      for (int k = 0; k < 4 && i < text.size() && text[i] >= '0' && text[i] <= '7'; ++k)
        value = value * 8 + (text[i++] - '0');
      --i;
      out += static_cast<char>(value);
    } else {
      out += {'\\', c};
    }
  }
  return out;
}

void echo(Call& c) {
  bool newline = true;
  bool escapes = false;
  size_t i = 1;
  for (; i < c.argv.size() && c.argv[i].size() > 1 && c.argv[i][0] == '-' &&
         c.argv[i].find_first_not_of("neE", 1) == std::string::npos;
       ++i) {
    newline &= c.argv[i].find('n') == std::string::npos;
    escapes |= c.argv[i].find('e') != std::string::npos;
  }
  bool stop = false;
  for (size_t k = i; k < c.argv.size() && !stop; ++k) {
    if (k > i) c.result.out += ' ';
    c.result.out += escapes ? unescape(c.argv[k], &stop) : c.argv[k];
  }
  if (newline && !stop) c.result.out += '\n';
}

// %s %d %i %x %o %c %b %% with flags and width; the format repeats while arguments are left.
void print(Call& c) {
  if (c.argv.size() < 2) {
    c.result.err = "printf: usage: printf FORMAT [ARGUMENT]...\n";
    c.result.code = 1;
    return;
  }
  bool stop = false;
  const std::string format = unescape(c.argv[1], &stop);
  size_t next = 2;
  do {
    const size_t before = next;
    for (size_t i = 0; i < format.size(); ++i) {
      if (format[i] != '%' || i + 1 == format.size()) {
        c.result.out += format[i];
        continue;
      }
      if (format[i + 1] == '%') {
        c.result.out += '%';
        ++i;
        continue;
      }
      const size_t end = format.find_first_not_of("-+ 0#123456789.", i + 1);
      if (end == std::string::npos) break;
      const std::string flags = format.substr(i + 1, end - i - 1);
      const bool left = flags.starts_with('-');
      const bool zeros = flags.starts_with('0');
      size_t width = 0;
      const size_t digits = std::min(flags.find_first_of("123456789"), flags.size());
      std::from_chars(flags.data() + digits, flags.data() + flags.size(), width);
      std::string value = next < c.argv.size() ? c.argv[next++] : std::string();
      int64_t number = 0;
      std::from_chars(value.data(), value.data() + value.size(), number);
      switch (format[end]) {
        case 'd':
        case 'i': value = std::to_string(number); break;
        case 'x': value = fmt::format("{:x}", number); break;
        case 'o': value = fmt::format("{:o}", number); break;
        case 'c': value = value.substr(0, 1); break;
        case 'b': value = unescape(value, &stop); break;
        default: break;
      }
      width = std::min<size_t>(width, 1000);
      if (value.size() < width)
        value = left ? value + std::string(width - value.size(), ' ')
                     : std::string(width - value.size(), zeros ? '0' : ' ') + value;
      c.result.out += value;
      i = end;
    }
    if (next == before) break;
  } while (next < c.argv.size() && c.result.out.size() < 1024 * 1024);
}

void print_variables(Call& c) {
  if (!c.operands.empty() && c.argv[0] != "env") {
    for (const std::string& name : c.operands) {
      const auto it = c.context.variables.find(name);
      if (it == c.context.variables.end()) {
        c.result.code = 1;
      } else {
        c.result.out += it->second + "\n";
      }
    }
    return;
  }
  for (const auto& [name, value] : c.context.variables) c.result.out += name + "=" + value + "\n";
}

}  // namespace ghostfleet::kubelet_api::commands
