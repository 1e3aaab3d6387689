// What the addresses of a fleet cost: nodes start at once on one VPC and warm up their prefixes, in virtual time.
// Prints the CPU of this thread, the virtual time until all are warm, the calls of EC2 (and how many were refused), and
// memory a node.
//
// usage: ipam [NODES] [PREFIXES] [QUOTA_MULTIPLIER] [AT_LAUNCH]
#include <fmt/format.h>
#include <malloc.h>

#include <cstdlib>
#include <ctime>

#include "emulator/vpc/simulation.h"

namespace {

using namespace ghostfleet;

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

size_t heap() { return mallinfo2().uordblks + mallinfo2().hblkhd; }

// As many /16 as hold the nodes' prefixes and own addresses twice.
emulator::VpcSpec make_spec(uint64_t nodes, uint64_t prefixes, double quota) {
  emulator::VpcSpec spec;
  spec.name = "bench";
  spec.quota_multiplier = quota;
  spec.max_interfaces = static_cast<int64_t>(nodes) * 4;
  const uint64_t subnets = nodes * (prefixes + 1) * 2 / 4096 + 1;
  for (uint64_t i = 0; i < subnets; ++i) {
    emulator::VpcSubnet s;
    s.name = fmt::format("subnet-{}", i);
    s.zone = "us-west-2a";
    s.cidr = {agent::Ip::v4(static_cast<uint32_t>(i) << 16), 16};
    s.placement = emulator::Placement::kLowest;
    spec.subnets.push_back(std::move(s));
  }
  return spec;
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, double fallback) { return argc > i ? std::atof(argv[i]) : fallback; };
  const auto nodes = static_cast<uint32_t>(argument(1, 100000));
  const auto prefixes = static_cast<int>(argument(2, 3));
  const double quota = argument(3, 1000);
  const auto at_launch = static_cast<int>(argument(4, 0));
  const size_t before = heap();
  const double begin = cpu_seconds();
  auto vpc = emulator::Vpc::create(make_spec(nodes, static_cast<uint64_t>(prefixes), quota));
  if (!vpc.ok()) {
    fmt::print(stderr, "{}\n", vpc.error().message());
    return 1;
  }
  auto config = std::make_shared<agent::IpamConfig>();
  config->limits = {"trn2.48xlarge", 16, 2, 50, 16, 192, true};
  config->prefix_delegation = true;
  config->warm_prefix_target = prefixes;
  emulator::Simulation simulation(**vpc);
  emulator::LaunchRequest request;
  request.zone = "us-west-2a";
  request.limits = config->limits;
  request.prefixes = true;
  request.at_launch = at_launch;
  for (uint32_t i = 0; i < nodes; ++i) {
    const emulator::Launch launch = (*vpc)->launch(request);
    if (launch.error != agent::Ec2Error::kNone) {
      fmt::print(stderr, "launch {}: {}\n", i, ec2_error_code(launch.error));
      return 1;
    }
    simulation.start(simulation.add(config, launch.id));
  }
  uint32_t warm = 0;  // the nodes below it are
  const TimePoint start = simulation.now();
  const bool all = simulation.run_until(
      [&] {
        while (warm < nodes && simulation.node(warm).ready() &&
               simulation.node(warm).stats(simulation.now()).prefixes >= prefixes)
          ++warm;
        return warm == nodes;
      },
      std::chrono::hours(48));
  const double seconds = cpu_seconds() - begin;
  const emulator::VpcFigures figures = (*vpc)->figures();
  const double virtual_seconds = static_cast<double>((simulation.now() - start).count()) * 1e-9;
  fmt::print(
      "nodes {} warm {} prefixes {} cpu-seconds {:.2f} virtual-seconds {:.0f} ec2-calls {} throttled {} events {} "
      "heap-bytes/node {:.0f} machine-bytes {}\n",
      nodes, warm, prefixes, seconds, virtual_seconds, figures.all_calls(), figures.all_throttled(),
      simulation.events(), static_cast<double>(heap() - before) / nodes, sizeof(agent::IpamNode));
  return all ? 0 : 1;
}
