// Feeds the command model with scripts of any bytes; probes of it too.
#include <cstdint>
#include <string>
#include <vector>

#include "agent/behavior/command_log.h"
#include "agent/behavior/command_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ghostfleet;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  agent::CommandLine line;
  line.image = "busybox";
  line.command = {"sh", (data[0] & 1) != 0 ? "-ec" : "-c", text};
  line.env["A"] = "1";
  line.env["B"] = std::nullopt;
  line.volumes = {"/v"};
  line.mounts = {"/m"};
  line.message_from_log = (data[0] & 2) != 0;
  const agent::CommandModel model(line);
  if (model.plan() && model.plan()->attempts.size() > agent::CommandModel::kMaxAttempts) __builtin_trap();
  (void)model.exec_probe({"sh", "-c", text}, std::chrono::seconds(1));
  if (model.plan()) {
    const auto tape = model.plan()->log->play(data[0] % 3, std::chrono::minutes(data[0]));
    for (const agent::CommandTape::Line& l : tape->lines()) {
      const std::string filled = agent::fill_marks(l.text, {1767607200000000000}, "host");
      if (filled.find(agent::kMarkBegin) != std::string::npos || l.at < Duration(0)) __builtin_trap();
    }
    (void)model.plan()->log->play(0, std::chrono::minutes(1), std::chrono::seconds(50));
  }
  line.command[2] = "touch /tmp/a /v/b; sleep 3; rm -f /tmp/a; sleep 600";
  (void)agent::CommandModel(line).exec_probe({"sh", "-c", text}, std::chrono::seconds(1));
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      "\x01if [ $(expr ${A} % 2) -ne 0 ]; then exit 1; else exit 0; fi",
      "\x02"
      "f=/v/x; c=$(echo h >> $f; wc -l $f | awk {'print $1'}); [ $c -eq 1 ] && exit 1; while true; do sleep 1; done",
      "\x03_t(){ sleep 5; exit 143; }; trap _t TERM; for i in 1 2 $A; do echo \"$i $B\" > /tmp/f; done; cat </tmp/f; "
      "tail -f /dev/null",
      "\x04"
      "i=0; until [ $i -ge 9 ]; do i=$((i+1)); ( ! true ) || { echo 'x' | cat 2>&1; } & sleep 1; done; exec sh -c "
      "'exit 3'",
      "\x05trap 'echo bye' TERM; while true; do printf '%s %03d\\n' \"$(date -u +%T)\" $(seq 3); hostname >&2; sleep "
      "7; done",
      "\x06"
      "f() { local a=${1:-x}; case $a in [a-c]*|\"$B\") cat <<E ;; *) shift; esac; echo ${a%%.*} $# \"$@\"; }\nn "
      "$A\nE\nset -- "
      "a b; f $1 c; exit $(( (1 + ${#A}) % 3 ))",
      "\x07while :; do x=$x${y:=ab}; { echo $x; } > /tmp/a 2>&1; done <<-'E'\n\tq\n\tE",
  };
}
