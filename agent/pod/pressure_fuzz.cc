// Feeds the readers of eviction thresholds and their grace periods with any bytes.
#include <cstdint>
#include <string>
#include <vector>

#include "agent/pod/pressure.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ghostfleet;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto read = agent::parse_thresholds(text);
  std::vector<agent::EvictionThreshold> soft = agent::parse_thresholds("memory.available<1Gi").value();
  (void)agent::parse_soft_grace(text, &soft);
  (void)agent::parse_minimum_reclaim(text, &soft);
  if (!read.ok()) return 0;
  agent::EvictionRules rules;
  rules.thresholds = std::move(read).value();
  agent::PressureMonitor monitor;
  agent::Observations seen;
  for (auto& s : seen) s = agent::Observation{static_cast<int64_t>(size) << 20, 1LL << 34};
  (void)monitor.look(rules, seen, TimePoint{1});
  if ((monitor.pressure() & ~7U) != 0) __builtin_trap();
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,imagefs.inodesFree<5%",
      " pid.available < 5% ", "memory.available=1m30s,nodefs.available=2m", "memory.available<1e99",
      "memory.available=500Mi,nodefs.inodesFree=5%"};
}
