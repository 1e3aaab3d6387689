// Plays pods of tests/data/traces/pods on a PodManager in virtual time and writes, for each, a recording in the format
// of those of a real kubelet, for trace_diff.py to judge.
//
// usage: pod_trace_writer PODS_DIR OUT_DIR full|light SEED [NAME...]
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/pod_test_host.h"

namespace {

using ghostfleet::Duration;
using ghostfleet::kube::Json;
using ghostfleet::test::FakeCluster;

constexpr double kWindow = 100;

Duration seconds(double s) { return Duration(static_cast<int64_t>(s * 1e9)); }

void act(FakeCluster& cluster, const std::string& name, const Json& action) {
  const std::string_view verb = ghostfleet::kube::get_string(action, "verb");
  if (verb == "delete") cluster.remove(name);
  if (verb == "patch") cluster.patch_spec(name, *ghostfleet::kube::find_key(action, "patch"));
}

bool play(const std::filesystem::path& file, const std::filesystem::path& out, bool full, uint64_t seed) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  auto parsed = ghostfleet::kube::parse_json(text.str());
  if (!parsed.ok()) {
    std::fprintf(stderr, "%s: %s\n", file.c_str(), parsed.error().to_string().c_str());
    return false;
  }
  FakeCluster::Options options;
  options.seed = seed;
  options.pods.full_fidelity = full;
  FakeCluster cluster(options);
  const std::string name = file.stem().string();
  // Away from the whole second, as the recordings are.
  cluster.run_for(seconds(0.35));
  cluster.create(*ghostfleet::kube::find_key(*parsed, "pod"));
  for (const Json& action : *ghostfleet::kube::get_array(*parsed, "acts")) {
    const Json* at = ghostfleet::kube::find_key(action, "at");
    cluster.at(seconds(at->to_number<double>()), [&, name] { act(cluster, name, action); });
  }
  cluster.run_for(seconds(kWindow + 1));
  std::ofstream(out / (name + ".txt")) << cluster.trace(name, kWindow);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: pod_trace_writer PODS_DIR OUT_DIR full|light SEED [NAME...]\n");
    return 2;
  }
  const std::filesystem::path pods = argv[1], out = argv[2];
  std::filesystem::remove_all(out);
  std::filesystem::create_directories(out);
  const bool full = std::string_view(argv[3]) == "full";
  bool good = true;
  for (const auto& entry : std::filesystem::directory_iterator(pods)) {
    bool wanted = argc == 5;
    for (int i = 5; i < argc; ++i) wanted |= entry.path().stem() == argv[i];
    if (wanted) good &= play(entry.path(), out, full, std::stoull(argv[4]));
  }
  return good ? 0 : 1;
}
