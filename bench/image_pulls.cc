// What the model of image pulls costs: all nodes of a fleet pull one large image at the same moment, or one after the
// other as a scheduler binds their pods.
//
// usage: image_pulls [NODES] [BOUND_A_SECOND]   (100000 0; 0: all at once)
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "emulator/images/pull_service.h"

using namespace ghostfleet;
using namespace ghostfleet::emulator;

namespace {

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

long resident_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

class Node final : public PullHost {
 public:
  Node(PullService& service, std::shared_ptr<const PullOptions> options, uint32_t number, uint32_t zone)
      : puller(service, *this, std::move(options), number, zone) {}
  void pull_ended(agent::PullTicket ticket) override { done = puller.end(ticket, {}, {}).error.empty(); }
  bool image_in_use(std::string_view) override { return true; }
  void node_warning(std::string_view, const std::string&) override {}

  NodePuller puller;
  bool done = false;
};

}  // namespace

int main(int argc, char** argv) {
  const auto nodes = static_cast<uint32_t>(argc > 1 ? std::atoi(argv[1]) : 100000);
  const double per_second = argc > 2 ? std::atof(argv[2]) : 0;
  TimePoint now{1000000000};
  const TimePoint start = now;
  ImageStores stores(now, {{"a", 100e9}, {"b", 100e9}, {"c", 100e9}}, {});
  ImageEntry image{"*", {}};
  for (int i = 0; i < 10; ++i) image.layers.push_back({"", 1078000000, 2156000000});
  PullService service(stores, std::make_shared<const ImageCatalogue>(ImageCatalogue{{image}}), {}, 1);
  auto options = std::make_shared<PullOptions>();
  options->puller = Puller::kParallel;
  options->disk_rate = 240e6;
  options->cpus = 192;
  options->network_rate = 12.5e9;
  options->disk_capacity = int64_t{1} << 40;

  const long before_kib = resident_kib();
  std::vector<std::unique_ptr<Node>> all;
  for (uint32_t i = 0; i < nodes; ++i) all.push_back(std::make_unique<Node>(service, options, i, i % 3));
  const double before = cpu_seconds();
  size_t most_groups = 0;
  uint32_t begun = 0;
  while (begun < nodes || !service.idle()) {
    const double past = static_cast<double>((now - start).count()) * 1e-9;
    const auto due = per_second > 0 ? static_cast<uint32_t>(past * per_second) + 1 : nodes;
    for (; begun < std::min(due, nodes); ++begun) all[begun]->puller.begin(1, "registry.example/train:1", now);
    most_groups = std::max<size_t>(most_groups, stores.stats().groups);
    // As a shard does: a look every 100 ms.
    now = now + std::chrono::milliseconds(100);
    service.poll(now);
  }
  const double cpu = cpu_seconds() - before;
  size_t done = 0;
  for (const auto& node : all) done += node->done ? 1 : 0;
  std::printf(
      "nodes %u  have the image %zu  after %.1f s  CPU %.3f s (%.2f us a node)  most groups %zu  memory %.0f B a "
      "node\n",
      nodes, done, static_cast<double>((now - start).count()) * 1e-9, cpu, cpu * 1e6 / nodes, most_groups,
      static_cast<double>(resident_kib() - before_kib) * 1024 / nodes);
  return done == nodes ? 0 : 1;
}
