#include "emulator/profile/profile.h"

#include <dirent.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/files.h"
#include "kube/api/names.h"
#include "kube/api/quantity.h"

namespace ghostfleet::emulator {

const std::vector<std::pair<std::string_view, std::string_view>>& embedded_profiles();

namespace {

constexpr int64_t kMiB = 1024 * 1024;
constexpr int64_t kGiB = 1024 * kMiB;

std::vector<agent::NodeImage> read_images(ObjectReader* spec) {
  std::vector<agent::NodeImage> images;
  for (ObjectReader& item : spec->list("images")) {
    agent::NodeImage image;
    const std::string name = item.required_text("name");
    image.names = {name};
    image.size_bytes = item.integer("sizeBytes", 0, int64_t{1} << 50, 0);
    item.finish();
    images.push_back(std::move(image));
  }
  std::stable_sort(images.begin(), images.end(),
                   [](const auto& a, const auto& b) { return a.size_bytes > b.size_bytes; });
  return images;
}

void read_network(ObjectReader network, Profile* p) {
  p->network_cards = network.integer("cards", 1, 64, 1);
  p->interfaces_per_card = network.integer("interfacesPerCard", 1, 64, 4);
  p->ipv4_per_interface = network.integer("ipv4PerInterface", 1, 64, 15);
  p->efa_interfaces = network.integer("efaInterfaces", 0, 64, 0);
  p->branch_interfaces = network.integer("branchInterfaces", 0, 1000, 0);
  p->bandwidth_mbps = network.integer("bandwidthMbps", 0, 100000000, 0);
  network.finish();
}

void read_accelerator(ObjectReader a, Profile* p) {
  p->accelerator.manufacturer = a.text("manufacturer");
  p->accelerator.name = a.text("name");
  p->accelerator.count = a.integer("count", 0, 1024, 0);
  p->accelerator.memory_mib = a.integer("memoryMiB", 0, 16 << 20, 0);
  p->accelerator.cores_per_device = a.integer("coresPerDevice", 0, 64, 0);
  a.finish();
}

// Replaces or adds.
void set_pair(StringPairs* pairs, const std::string& key, std::string value) {
  for (auto& [k, v] : *pairs) {
    if (k != key) continue;
    v = std::move(value);
    return;
  }
  pairs->emplace_back(key, std::move(value));
}

int64_t memory_capacity_mib(const Profile& p) {
  const int64_t nominal = p.architecture == "arm64" ? p.memory_mib - 64 : p.memory_mib;
  return nominal - static_cast<int64_t>(std::ceil(p.memory_overhead * static_cast<double>(nominal) - 1e-9));
}

int64_t storage_capacity(const Profile& p) {
  return p.raid0 ? p.local_nvme_gb * 1000000000 / 1024 * 1024 : p.root_volume_gib * kGiB;
}

std::string binary(int64_t bytes) { return fmt::format("{}Ki", bytes / 1024); }

}  // namespace

std::vector<agent::NodeTaint> read_taints(ObjectReader* reader, std::string_view key) {
  std::vector<agent::NodeTaint> taints;
  for (ObjectReader& item : reader->list(key)) {
    agent::NodeTaint taint;
    taint.key = item.required_text("key");
    taint.value = item.text("value");
    taint.effect = item.one_of("effect", {"NoSchedule", "PreferNoSchedule", "NoExecute"}, "NoSchedule");
    item.finish();
    if (!taint.key.empty() && !kube::check_qualified_name(taint.key).empty())
      item.complain("key", "\"" + taint.key + "\"", "a label key like example.com/name is expected");
    taints.push_back(std::move(taint));
  }
  return taints;
}

Result<Profile> parse_profile(std::string_view text, std::string file) {
  auto document = Document::parse(text, std::move(file));
  if (!document.ok()) return document.error();
  ObjectReader root(&*document, &document->root(), "");
  root.one_of("apiVersion", {"ghostfleet.dev/v1alpha1"}, "ghostfleet.dev/v1alpha1");
  root.one_of("kind", {"NodeProfile"}, "NodeProfile");
  GF_RETURN_IF_ERROR(document->status());  // another kind of file: its fields would all be complained of
  Profile p;
  ObjectReader metadata = root.object("metadata");
  p.name = metadata.required_text("name");
  metadata.finish();
  ObjectReader spec = root.object("spec");
  root.finish();
  p.architecture = spec.one_of("architecture", {"amd64", "arm64"}, "amd64");
  p.cpu = spec.integer("cpu", 1, 4096, 0);
  p.memory_mib = spec.integer("memoryMiB", 512, int64_t{1} << 30, 0);
  if (p.cpu == 0 && !spec.has("cpu")) spec.complain_missing("cpu");
  if (p.memory_mib == 0 && !spec.has("memoryMiB")) spec.complain_missing("memoryMiB");
  p.memory_overhead = spec.number("vmMemoryOverhead", 0, 0.5, 0.075);
  p.root_volume_gib = spec.integer("rootVolumeGiB", 1, 65536, 20);
  p.local_nvme_gb = spec.integer("localNvmeGB", 0, 1000000, 0);
  p.raid0 = spec.one_of("instanceStorePolicy", {"RAID0", "none"}, "none") == "RAID0";
  if (p.raid0 && p.local_nvme_gb == 0) spec.complain("instanceStorePolicy", "RAID0", "needs localNvmeGB");
  read_network(spec.object("network"), &p);
  p.ebs_bandwidth_mbps = spec.integer("ebsBandwidthMbps", 0, 10000000, 0);
  p.max_pods = spec.integer("maxPods", 1, 100000, 110);
  read_accelerator(spec.object("accelerator"), &p);
  p.extended_resources = spec.quantity_map("extendedResources");
  p.labels = spec.text_map("labels");
  p.taints = read_taints(&spec, "taints");
  p.images = read_images(&spec);
  spec.finish();
  GF_RETURN_IF_ERROR(document->status());
  return p;
}

namespace {

Result<Profile> read_profile_file(const std::string& file, const std::string& shown_as) {
  auto text = read_file(file, 1 << 20);
  if (!text.ok()) return text.error().with_context("profile");
  return parse_profile(*text, shown_as);
}

}  // namespace

Result<ProfileCatalogue> ProfileCatalogue::load(const std::string& user_dir) {
  ProfileCatalogue catalogue;
  for (const auto& [file, text] : embedded_profiles()) {
    auto profile = parse_profile(text, std::string(file));
    if (!profile.ok()) return profile.error();
    catalogue.profiles_[profile->name] = std::move(*profile);
  }
  DIR* dir = user_dir.empty() ? nullptr : opendir(user_dir.c_str());
  if (dir == nullptr) return catalogue;
  std::vector<std::string> files;
  while (const dirent* entry = readdir(dir)) {
    const std::string name = entry->d_name;
    if (name.size() > 5 && name.substr(name.size() - 5) == ".yaml") files.push_back(user_dir + "/" + name);
  }
  closedir(dir);
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) {
    auto profile = read_profile_file(file, file);
    if (profile.ok()) {
      catalogue.profiles_[profile->name] = std::move(*profile);
    } else {
      catalogue.broken_.push_back(profile.error());
    }
  }
  return catalogue;
}

Result<Profile> ProfileCatalogue::find(const std::string& name) const {
  const auto it = profiles_.find(name);
  if (it != profiles_.end()) return it->second;
  const bool path = name.find('/') != std::string::npos || (name.size() > 5 && name.substr(name.size() - 5) == ".yaml");
  if (path) return read_profile_file(expand_home(name), name);
  const std::string near = nearest(name, names());
  if (!near.empty()) return not_found(fmt::format("no profile named {}; did you mean {}?", name, near));
  std::string text =
      fmt::format("no profile named {}; there are: {} (or give a file: ./mine.yaml)", name, fmt::join(names(), ", "));
  for (const Status& broken : broken_) text += "\nnot read: " + broken.message();
  return not_found(text);
}

std::vector<std::string> ProfileCatalogue::names() const {
  std::vector<std::string> out;
  for (const auto& [name, profile] : profiles_) out.push_back(name);
  return out;
}

// 6 % of the first core, 1 % of the second, 0.5 % of the third and fourth, 0.25 % of the rest.
int64_t kube_reserved_milli_cpu(int64_t cpu) {
  double milli = 0;
  for (int64_t core = 1; core <= cpu; ++core) milli += core == 1 ? 60 : core == 2 ? 10 : core <= 4 ? 5 : 2.5;
  return static_cast<int64_t>(milli);
}

int64_t kube_reserved_memory_mib(int64_t max_pods) { return 11 * max_pods + 255; }

agent::NodeTemplate make_node_template(const Profile& p, const ProfileOverrides& o) {
  agent::NodeTemplate t;
  const int64_t memory = memory_capacity_mib(p) * kMiB;
  const int64_t storage = storage_capacity(p);
  const int64_t pods = o.max_pods > 0 ? o.max_pods : p.max_pods;
  t.architecture = p.architecture;
  t.capacity = {{"cpu", std::to_string(p.cpu)}, {"ephemeral-storage", binary(storage)},
                {"hugepages-1Gi", "0"},         {"hugepages-2Mi", "0"},
                {"memory", binary(memory)},     {"pods", std::to_string(pods)}};
  t.allocatable = t.capacity;
  set_pair(&t.allocatable, "cpu",
           kube::Quantity::from_milli(p.cpu * 1000 - kube_reserved_milli_cpu(p.cpu)).to_string());
  set_pair(&t.allocatable, "memory", binary(memory - (kube_reserved_memory_mib(p.max_pods) + 100) * kMiB));
  set_pair(&t.allocatable, "ephemeral-storage", std::to_string(storage - kGiB - storage / 10));
  for (const auto& [name, amount] : p.extended_resources) {
    set_pair(&t.capacity, name, amount);
    set_pair(&t.allocatable, name, amount);
  }
  for (const auto& [name, amount] : o.capacity) {
    set_pair(&t.capacity, name, amount);
    set_pair(&t.allocatable, name, amount);
  }
  for (const auto& [name, amount] : o.allocatable) set_pair(&t.allocatable, name, amount);
  t.labels = {{"node.kubernetes.io/instance-type", p.name},
              {"beta.kubernetes.io/instance-type", p.name},
              {"topology.kubernetes.io/region", "{region}"},
              {"topology.kubernetes.io/zone", "{zone}"}};
  for (const auto& [k, v] : p.labels) set_pair(&t.labels, k, v);
  for (const auto& [k, v] : o.labels) set_pair(&t.labels, k, v);
  t.annotations = o.annotations;
  t.taints = p.taints;
  t.taints.insert(t.taints.end(), o.taints.begin(), o.taints.end());
  t.provider_id = "aws:///{zone}/{instance_id}";
  t.images = p.images;
  if (!o.kubelet_version.empty()) t.kubelet_version = o.kubelet_version;
  return t;
}

Result<agent::NodeTemplate> node_template_from_capacity(std::string_view text) {
  agent::NodeTemplate t;
  StringPairs given;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const size_t eq = part.find('=');
    if (eq == std::string_view::npos || eq == 0)
      return invalid_argument(
          fmt::format("--capacity: \"{}\": NAME=QUANTITY is expected, e.g. cpu=16,memory=64Gi,pods=110", part));
    auto quantity = kube::Quantity::parse(part.substr(eq + 1));
    if (!quantity.ok() || quantity->sign() < 0) {
      return invalid_argument(fmt::format("--capacity: {}: \"{}\" is no quantity; 16, 500m or 64Gi would be",
                                          part.substr(0, eq), part.substr(eq + 1)));
    }
    set_pair(&given, std::string(part.substr(0, eq)), quantity->to_string());
  }
  t.capacity = {{"cpu", "4"}, {"ephemeral-storage", "100Gi"}, {"memory", "16Gi"}, {"pods", "110"}};
  for (const auto& [name, amount] : given) set_pair(&t.capacity, name, amount);
  return t;
}

PullMachine pull_machine(const agent::NodeTemplate& node, int64_t bandwidth_mbps) {
  const auto amount = [&node](std::string_view resource, int64_t fallback) {
    for (const auto& [name, text] : node.capacity) {
      const auto quantity = kube::Quantity::parse(text);
      if (name == resource && quantity.ok() && quantity->value() > 0) return quantity->value();
    }
    return fallback;
  };
  PullMachine machine;
  machine.cpus = amount("cpu", machine.cpus);
  machine.disk_capacity = amount("ephemeral-storage", machine.disk_capacity);
  if (bandwidth_mbps > 0) machine.network_rate = static_cast<double>(bandwidth_mbps) * 1e6 / 8;
  return machine;
}

}  // namespace ghostfleet::emulator
