// Fleet files, image rules, behaviour rules and profiles: no text crashes a reader, and what is wrong is told.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "emulator/profile/fleet_file.h"

using namespace ghostfleet;
using namespace ghostfleet::emulator;

std::vector<std::string> fuzz_seeds() {
  const std::string head = "apiVersion: ghostfleet.dev/v1alpha1\nkind: Fleet\nmetadata: {name: demo}\nspec:\n";
  return {head +
              "  zones: [a, b]\n  registerRate: 500\n  imageRules:\n  - {match: '*slow*', pull: 5s}\n  groups:\n"
              "  - name: train\n    count: 10k\n    profile: trn2.48xlarge\n    nameTemplate: train-{index:5}\n"
              "    labels: {team: a}\n    taints: [{key: a, value: b, effect: NoSchedule}]\n    capacity: {cpu: '4'}\n",
          head +
              "  histograms: {h: x}\n  behaviorRules:\n  - match: {namespace: 'a*', labels: 'a in (b)', owner: Job}\n"
              "    behavior: {after: 'histogram(h)', exit: {0: 0.5, 1: 0.5}, log: [a, b], cpu: 'curve(0s:1,1m:2)'}\n"
              "  groups:\n  - {count: 5, profile: m5.large}\n  seed: 1\n  seed: 2\n---\na: b\n",
          "- {match: '*', pull: 5s}\n- {match: x, error: NotFound}\n",
          "behaviorRules:\n- {behavior: {exit: [1, 0], after: 5s, crash: 0.1, crashAfter: exponential(1h)}}\n",
          "name: a\ncpu: 4\nmemoryMiB: 1024\n"};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const TextLoader load = [](const std::string& path) -> Result<std::string> {
    return path == "x" ? Result<std::string>(std::string("0 10s 1\n10s 1m 2\n")) : not_found(path);
  };
  const auto fleet = parse_fleet_file(text, "f", load);
  if (!fleet.ok() && fleet.error().message().empty()) std::abort();
  if (fleet.ok() && fleet->groups.empty()) std::abort();
  (void)parse_image_rules(text, "f").ok();
  (void)parse_behavior_rules(text, "f", load).ok();
  (void)parse_profile(text, "f").ok();
  return 0;
}
