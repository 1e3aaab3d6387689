// The words of a behaviour, histograms and declarations for exec: nothing crashes, and what is drawn keeps its limits.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "agent/behavior/behavior.h"
#include "agent/behavior/behavior_declared.h"

using namespace ghostfleet;
using namespace ghostfleet::agent;

std::vector<std::string> fuzz_seeds() {
  return {"exit=1,1,0 after=5s stop=0 stop-after=2s ready=10s live=30s started=3s",
          "exit=odds(0:0.9, 1:0.1) after=exponential(30s, max=5m) crash=0.5 crash-after=uniform(1s,2s) crash-exit=9",
          "cpu=curve(0s:10%,1m:80%,10m:20%) memory=uniform(1Gi,2Gi) log=\"a \\\"b\\\" {n}\" log=c log-every=2s",
          "read=0s:/a read=\"1m:/b c\" read=5s:/d read-exit=74",
          "0 10s 5\n10s 20s 7 # most\n60s 60s 1\n",
          "0.1 0.2 1e3\n",
          R"({"/etc/app.conf":"x=1\n","y":2})",
          R"({"nginx -v":{"stdout":"","stderr":"v\n","exit":0}})"};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Histograms known;
  auto histogram = ValueHistogram::parse(text, "h");
  if (histogram.ok()) {
    for (const double u : {0.0, 0.3, 0.999999}) {
      if (!std::isfinite(histogram->at(u))) std::abort();
    }
    known["h"] = std::make_shared<const ValueHistogram>(std::move(*histogram));
  }
  known["h2"] = std::make_shared<const ValueHistogram>(ValueHistogram::parse("1s 2s 1\n", "h2").value());
  std::vector<std::string> problems;
  const Script script = parse_script(text, {}, &problems, &known);
  if (problems.size() > 9) std::abort();
  for (uint32_t attempt = 0; attempt < 3; ++attempt) {
    const Script drawn = drawn_script(script, size, attempt, attempt);
    const Duration after = drawn.after_of(attempt);
    if (after < Duration(0) || after > kLongestBehavior || drawn.draws != nullptr) std::abort();
    if (!std::isfinite(drawn.cpu.sum(std::chrono::hours(1))) || drawn.memory.at(std::chrono::hours(1)) < 0)
      std::abort();
  }
  if (read_declared_files(text, &problems).size() > kMaxDeclared) std::abort();
  if (read_declared_answers(text, &problems).size() > kMaxDeclared) std::abort();
  return 0;
}
