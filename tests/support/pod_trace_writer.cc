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
constexpr double kHeadStart = 5;  // of other pods and changes of the node, as record.py gives them

Duration seconds(double s) { return Duration(static_cast<int64_t>(s * 1e9)); }

const Json& part(const Json& action, std::string_view key) { return *ghostfleet::kube::find_key(action, key); }

void put(FakeCluster& cluster, const std::string& kind, const Json& object) {
  if (kind == "pods") {
    cluster.create(object);
  } else if (kind == "nodes") {
    cluster.patch_node(object);
  } else {
    cluster.put_object(kind, object);
  }
}

void act(FakeCluster& cluster, const std::string& name, const Json& action) {
  using ghostfleet::kube::find_key;
  using ghostfleet::kube::get_int;
  using ghostfleet::kube::get_string;
  const std::string verb(get_string(action, "verb"));
  const std::string kind(get_string(action, "kind"));
  if (verb == "delete") {
    cluster.remove(name, get_int(action, "grace", -1));
  } else if (verb == "evict") {
    cluster.evict(name);
  } else if (verb == "create") {
    put(cluster, kind, part(action, "object"));
  } else if (verb == "remove") {
    cluster.remove_object(kind, std::string(get_string(action, "name")));
  } else if (verb == "node") {
    cluster.patch_node(part(action, "patch"));
  } else if (find_key(part(action, "patch"), "status") != nullptr) {
    cluster.patch_status(name, part(part(action, "patch"), "status"));
  } else if (find_key(part(action, "patch"), "spec") != nullptr) {
    cluster.patch_spec(name, part(action, "patch"));
  } else {
    cluster.patch_metadata(name, part(part(action, "patch"), "metadata"));
  }
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
  options.pods.cluster_domain.clear();  // the recordings' kubelet has none
  // Pulled before, as record.py does.
  for (const char* image : {"app:1", "app:2", "side:1", "init:1"}) {
    options.pods.image_rules.push_back({std::string("registry.example/") + image, Duration(0), ""});
  }
  FakeCluster cluster(options);
  std::string name = file.stem().string();
  const bool is_static = ghostfleet::kube::get_bool(*parsed, "static");
  // Away from the whole second, as the recordings are.
  cluster.run_for(seconds(0.35));
  if (const auto* objects = ghostfleet::kube::get_array(*parsed, "objects")) {
    bool takes_time = false;
    for (const Json& o : *objects) {
      const std::string kind(ghostfleet::kube::get_string(o, "kind"));
      put(cluster, kind, part(o, "object"));
      takes_time |= kind == "pods" || kind == "nodes";
    }
    if (takes_time) cluster.run_for(seconds(kHeadStart));
  }
  const auto set_manifests = [&cluster](std::vector<ghostfleet::agent::StaticManifest> list) {
    cluster.manager().set_static_pods(std::move(list));
  };
  if (is_static) {
    set_manifests({{"/manifests/" + name + ".json", part(*parsed, "pod")}});
    name += "-" + options.node_name;
  } else {
    cluster.create(part(*parsed, "pod"));
  }
  for (const Json& action : *ghostfleet::kube::get_array(*parsed, "acts")) {
    const Json* at = ghostfleet::kube::find_key(action, "at");
    cluster.at(seconds(at->to_number<double>()), [&, name] {
      if (ghostfleet::kube::get_string(action, "verb") == "withdraw") return set_manifests({});
      act(cluster, name, action);
    });
  }
  cluster.run_for(seconds(kWindow + 1));
  std::ofstream(out / (file.stem().string() + ".txt")) << cluster.trace(name, kWindow);
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
