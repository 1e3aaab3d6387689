// How fast the scheduler's engine places pods: scheduler_bench [nodes=100000] [pods=50000] [classes=1]
//
// Measures decisions only (Engine::place and assign), without store and API; prints pods per second and CPU per pod,
// and the time the first pod of a class costs (its heap of nodes is built then).
#include <fmt/format.h>
#include <time.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "controlplane/scheduler/engine.h"

using namespace ghostfleet;
using controlplane::scheduling::Engine;

namespace {

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace

int main(int argc, char** argv) {
  const int node_count = argc > 1 ? std::atoi(argv[1]) : 100000;
  const int pod_count = argc > 2 ? std::atoi(argv[2]) : 50000;
  const int class_count = argc > 3 ? std::atoi(argv[3]) : 1;
  if (node_count <= 0 || pod_count <= 0 || class_count <= 0) {
    fmt::print(stderr, "usage: scheduler_bench [nodes] [pods] [classes], each greater than 0\n");
    return 2;
  }
  Engine engine(1);
  double start = cpu_seconds();
  for (int i = 0; i < node_count; ++i) {
    const std::string name = fmt::format("node-{}", i);
    engine.set_node({.name = name,
                     .labels = {{"kubernetes.io/hostname", name},
                                {"topology.kubernetes.io/zone", fmt::format("zone-{}", i % 3)},
                                {"node.kubernetes.io/instance-type", "trn2.48xlarge"}},
                     .allocatable = {{0, 192000}, {1, int64_t{2} << 40}, {2, int64_t{1} << 40}, {3, 110}}});
  }
  fmt::print("{} nodes taken in: {:.2f} us CPU each\n", node_count, (cpu_seconds() - start) * 1e6 / node_count);
  std::vector<Engine::ClassId> classes;
  for (int i = 0; i < class_count; ++i) {
    controlplane::scheduling::PodNeeds needs;
    needs.ns = "default";
    needs.owner_uid = fmt::format("owner-{}", i);
    needs.requests = {{0, 100 + i}, {1, 200 << 20}, {3, 1}};
    needs.scored_cpu = 100 + i;
    needs.scored_memory = 200 << 20;
    classes.push_back(engine.class_of(needs));
    engine.hold(classes.back());
  }
  start = cpu_seconds();
  for (const Engine::ClassId id : classes) (void)engine.place(id, "");
  fmt::print("first pod of a class: {:.2f} ms CPU\n", (cpu_seconds() - start) * 1e3 / class_count);
  start = cpu_seconds();
  int placed = 0;
  for (int i = 0; i < pod_count; ++i) {
    const Engine::ClassId id = classes[static_cast<size_t>(i % class_count)];
    const Engine::Placement place = engine.place(id, "");
    if (place.node == Engine::kNoNode) continue;
    engine.assign(id, place.node);
    ++placed;
  }
  const double spent = cpu_seconds() - start;
  fmt::print("{} of {} pods placed, {} classes: {:.2f} us CPU each, {:.0f} pods/s\n", placed, pod_count, class_count,
             spent * 1e6 / pod_count, pod_count / spent);
  return placed == pod_count ? 0 : 1;
}
