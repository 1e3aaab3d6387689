// Any script, any input, in a terminal or not: nothing crashes, and what is written stays within its limits.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "agent/kubelet_api/sandbox/process.h"
#include "agent/kubelet_api/test_backend.h"

using namespace ghostfleet;
using namespace ghostfleet::kubelet_api;

namespace {

class Nowhere final : public Outside {
 public:
  bool write(int, std::string bytes) override {
    size += bytes.size();
    return size < 4 * 1024 * 1024;
  }
  size_t backlog() const override { return 0; }
  void when_drained(size_t, std::function<void()>) override {}
  void exited(int) override { ended = true; }
  void failed(const std::string&) override { ended = true; }
  size_t size = 0;
  bool ended = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const bool tty = (data[0] & 1) != 0;
  const size_t split = 1 + data[1] % size;
  const std::string script(reinterpret_cast<const char*>(data), split);
  const std::string input(reinterpret_cast<const char*>(data) + split, size - split);
  static ManualClock clock;
  static auto timers = std::make_shared<ManualTimers>(clock);
  static TestBackend backend(*timers);
  const agent::PodView view = test_pod(clock.wall_now());
  Machine machine = make_machine(backend.node(0), view, view.containers[0], kube::Json(kube::JsonObject()), {});
  auto files = std::make_shared<FileSystem>();
  provide_files(machine, kube::Json(kube::JsonObject()), {}, files.get());
  Nowhere outside;
  Process process(std::move(machine), files,
                  {tty ? std::vector<std::string>{"sh"} : std::vector<std::string>{"sh", "-c", script}, true, tty},
                  &outside, clock, timers);
  process.start();
  if (tty) process.on_stdin(script);
  process.on_stdin(input);
  process.on_stdin_end();
  timers->run(std::chrono::seconds(1));
  if (files->used_bytes() > FileSystem::kMaxBytes) std::abort();
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      "a\x30"
      "for i in 1 2 3; do echo $i ${X:-y} $(hostname) `pwd`; done | tail -n 1 > /tmp/f; cat < /tmp/f && exit 3",
      "b\x20while read x; do printf '%s-%05d\\n' \"$x\" 7; done\nline one\nline two\n",
      "c\x10tar cf - /etc | tar tf -; ls -la /etc; test -d /tmp || echo 'no' 2>&1",
      "a\x40"
      "cd /tmp; mkdir -p a/b; echo x >> a/b/c; cp a/b/c d; rm -rf a; wc d; grep x d; sort d; head -c 2 "
      "d\x03\x7f\x1b[A\r",
      "d\x15sh -c 'f() { echo $1; }; f x; if [ -e /etc ]; then sleep 0.1; else false; fi' nvidia-smi -L; neuron-ls -j; "
      "env",
      "f\x70"
      "f() { local a=${1:-x}; case $a in [a-c]*|\"$B\") cat <<E ;; *) shift; esac; echo ${a%%.*} $# \"$@\"; }\nq "
      "$A\nE\nset -- a b; "
      "f $1 c; { read z; echo ${z:=1}; } <<'E' 2>&1\nl\nE\n",
      "e\x60"
      "i=3; echo $((i * (2 + 0x1f) % 7)) | sed -n 's/\\([0-9]\\)/<\\1>/gp;$='; find / -type f -name '*s' | cut -d/ "
      "-f2-; grep -E "
      "'a|b' /etc/hosts\nx\n"};
}
