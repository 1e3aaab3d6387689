// sed: -n, -e, -E (-r) and -i.
#include <fmt/format.h>

#include "agent/kubelet_api/sandbox/command_call.h"
#include "agent/kubelet_api/sandbox/sed_script.h"

namespace ghostfleet::kubelet_api::commands {

void edit_stream(Call& c) {
  std::string text;
  for (const auto& [name, value] : c.values) text += value + "\n";
  const bool apart = !c.values.empty();
  if (!apart && c.operands.empty()) return c.fail("usage: sed [-n] [-E] [-i] SCRIPT [FILE]...");
  if (!apart) text = c.operands[0];
  const auto syntax = c.has('E') || c.has('r') ? Pattern::Syntax::kExtended : Pattern::Syntax::kBasic;
  std::string error;
  const auto script = SedScript::parse(text, syntax, &error);
  if (!script) return c.fail(error);
  const size_t first = apart ? 0 : 1;
  if (!c.has('i')) {
    c.result.out = script->run(c.text(first), c.has('n'));
    return;
  }
  if (c.operands.size() <= first) return c.fail("no input files");
  for (size_t i = first; i < c.operands.size(); ++i) {
    SharedBytes content;
    const std::string path = c.path(c.operands[i]);
    FileError failed = c.context.files.read(path, &content);
    if (failed == FileError::kOk)
      failed = c.context.files.write(path, script->run(view(content), c.has('n')), false, c.context.now);
    if (failed != FileError::kOk) c.complain(c.operands[i], failed);
  }
}

}  // namespace ghostfleet::kubelet_api::commands
