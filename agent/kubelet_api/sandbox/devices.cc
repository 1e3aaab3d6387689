// nvidia-smi and neuron-ls of a container: tables of the devices its limits ask for.
#include <fmt/format.h>

#include <algorithm>

#include "agent/kubelet_api/sandbox/machine.h"
#include "agent/pod/pod_resources.h"
#include "base/hash.h"

namespace ghostfleet::kubelet_api {
namespace {

constexpr std::string_view kDriver = "580.95.05", kCuda = "13.0";

std::string label_of(const Machine& m, std::string_view key) {
  for (const auto& [name, value] : m.node.node->labels) {
    if (name == key) return value;
  }
  return {};
}

int64_t number_of(const std::string& text, int64_t fallback) {
  int64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9' || value > 1000000000) return fallback;
    value = value * 10 + (c - '0');
  }
  return text.empty() ? fallback : value;
}

std::string gpu_name(const Machine& m) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"a10g", "NVIDIA A10G"},           {"l40s", "NVIDIA L40S"},  {"a100", "NVIDIA A100-SXM4-40GB"},
      {"h100", "NVIDIA H100 80GB HBM3"}, {"h200", "NVIDIA H200"},  {"b200", "NVIDIA B200"},
      {"b300", "NVIDIA B300"},           {"gb200", "NVIDIA GB200"}};
  const std::string name = label_of(m, "karpenter.k8s.aws/instance-gpu-name");
  for (const auto& [key, text] : kNames) {
    if (name == key) return std::string(text);
  }
  const std::string product = label_of(m, "nvidia.com/gpu.product");
  return product.empty() ? "NVIDIA GPU" : product;
}

int64_t gpu_memory_mib(const Machine& m) {
  return number_of(label_of(m, "karpenter.k8s.aws/instance-gpu-memory"), 81920);
}

std::string gpu_uuid(const Machine& m, int64_t index) {
  const uint64_t a = hash_text(m.node.identity.name, static_cast<uint64_t>(index) + 1);
  const uint64_t b = hash_mix(a, static_cast<uint64_t>(index));
  return fmt::format("GPU-{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", a >> 32, a >> 16 & 0xffff, a & 0xffff, b >> 48,
                     b & 0xffffffffffff);
}

std::string bus_id(int64_t index) { return fmt::format("00000000:{:02X}:00.0", 0x53 + 0x10 * index); }

std::string smi_table(const Machine& m, WallTime now) {
  std::string out = format_time(now) + "\n";
  out += fmt::format("+{:-<91}+\n", "");
  out += fmt::format("| NVIDIA-SMI {0:<22} Driver Version: {0:<14} CUDA Version: {1:<10}|\n", kDriver, kCuda);
  out += "|-----------------------------------------+------------------------+----------------------+\n";
  out += "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n";
  out += "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n";
  out += "|                                         |                        |               MIG M. |\n";
  out += "|=========================================+========================+======================|\n";
  for (int64_t i = 0; i < m.gpus; ++i) {
    const uint64_t h = hash_text(m.pod, static_cast<uint64_t>(i));
    out += fmt::format("| {:>3}  {:<24.24}    {:>6} | {:>16} Off | {:>20} |\n", i, gpu_name(m), "On", bus_id(i), 0);
    out += fmt::format("| N/A  {:>3}C    P0            {:>4}W / {:>4}W | {:>7}MiB / {:>7}MiB | {:>6}%      Default |\n",
                       30 + h % 8, 68 + h % 10, 700, 1, gpu_memory_mib(m), 0);
    out += "|                                         |                        |             Disabled |\n";
    out += "+-----------------------------------------+------------------------+----------------------+\n";
  }
  out += "\n+-----------------------------------------------------------------------------------------+\n";
  out += "| Processes:                                                                              |\n";
  out += "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n";
  out += "|        ID   ID                                                               Usage      |\n";
  out += "|=========================================================================================|\n";
  out += "|  No running processes found                                                             |\n";
  out += "+-----------------------------------------------------------------------------------------+\n";
  return out;
}

std::string smi_field(const Machine& m, std::string_view field, int64_t index, bool units) {
  const auto amount = [units](int64_t n, std::string_view unit) {
    return units ? fmt::format("{} {}", n, unit) : std::to_string(n);
  };
  if (field == "index") return std::to_string(index);
  if (field == "name" || field == "gpu_name") return gpu_name(m);
  if (field == "uuid" || field == "gpu_uuid") return gpu_uuid(m, index);
  if (field == "pci.bus_id" || field == "gpu_bus_id") return bus_id(index);
  if (field == "driver_version") return std::string(kDriver);
  if (field == "memory.total") return amount(gpu_memory_mib(m), "MiB");
  if (field == "memory.used") return amount(1, "MiB");
  if (field == "memory.free") return amount(gpu_memory_mib(m) - 1, "MiB");
  if (field == "utilization.gpu" || field == "utilization.memory") return amount(0, "%");
  if (field == "temperature.gpu") return std::to_string(30 + index % 8);
  if (field == "count") return std::to_string(m.gpus);
  return {};
}

std::vector<std::string> split_fields(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view field = text.substr(0, comma);
    while (field.starts_with(' ')) field.remove_prefix(1);
    out.emplace_back(field);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return out;
}

std::string smi_query(const Machine& m, const std::vector<std::string>& fields, std::string_view format, int* code) {
  std::string out;
  const bool header = format.find("noheader") == std::string_view::npos;
  const bool units = format.find("nounits") == std::string_view::npos;
  for (const std::string& f : fields) {
    if (smi_field(m, f, 0, units).empty()) {
      *code = 2;
      return fmt::format("Field \"{}\" is not a valid field to query.\n\n", f);
    }
    if (header) out += (out.empty() ? "" : ", ") + f;
  }
  if (header) out += "\n";
  for (int64_t i = 0; i < m.gpus; ++i) {
    for (size_t f = 0; f < fields.size(); ++f) out += (f == 0 ? "" : ", ") + smi_field(m, fields[f], i, units);
    out += "\n";
  }
  return out;
}

// ---- neuron

struct NeuronKind {
  std::string_view family;
  int cores, logical;
  int64_t memory_gb;
};

NeuronKind neuron_kind(const Machine& m) {
  static constexpr NeuronKind kKinds[] = {
      {"trn2", 8, 2, 96}, {"trn1", 2, 1, 32}, {"inf2", 2, 1, 32}, {"inf1", 4, 1, 8}};
  const std::string family = label_of(m, "karpenter.k8s.aws/instance-family");
  for (const NeuronKind& kind : kKinds) {
    if (family.starts_with(kind.family)) return kind;
  }
  return {"", 2, 1, 32};
}

int64_t devices_of_node(const Machine& m) {
  for (const auto& [name, quantity] : m.node.node->capacity) {
    if (name == "aws.amazon.com/neuron") return agent::amount_of(name, quantity);
  }
  return m.neuron_devices;
}

// Neighbours on a torus of four by four, or on a ring.
std::vector<int64_t> neighbours(const Machine& m, int64_t device) {
  const int64_t count = devices_of_node(m);
  std::vector<int64_t> out;
  if (count == 16) {
    const int64_t x = device % 4;
    const int64_t y = device / 4;
    out = {(y + 3) % 4 * 4 + x, y * 4 + (x + 3) % 4, (y + 1) % 4 * 4 + x, y * 4 + (x + 1) % 4};
  } else if (count > 1) {
    out = {(device + count - 1) % count, (device + 1) % count};
  }
  std::erase_if(out, [&m](int64_t d) { return d >= m.neuron_devices; });
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::string neuron_bdf(int64_t device) { return fmt::format("{:02x}:00.0", 0x10 + 0x0c * (device % 16)); }

std::string join(const std::vector<int64_t>& list) {
  std::string out;
  for (const int64_t n : list) out += (out.empty() ? "" : ", ") + std::to_string(n);
  return out;
}

std::string neuron_table(const Machine& m) {
  const NeuronKind kind = neuron_kind(m);
  const std::string rule = "+--------+--------+----------+--------+---------------+---------+\n";
  std::string out =
      fmt::format("instance-type: {}\ninstance-id: {}\nlogical-neuroncore-config: {}\n{}",
                  label_of(m, "node.kubernetes.io/instance-type"), m.node.identity.instance_id, kind.logical, rule);
  out += "| NEURON | NEURON |  NEURON  | NEURON |   CONNECTED   |   PCI   |\n";
  out += "| DEVICE | CORES  | CORE IDS | MEMORY |    DEVICES    |   BDF   |\n" + rule;
  const int logical = kind.cores / kind.logical;
  for (int64_t d = 0; d < m.neuron_devices; ++d) {
    out += fmt::format("| {:<6} | {:<6} | {:<8} | {:<6} | {:<13} | {:<7} |\n", d, logical,
                       fmt::format("{}-{}", d * logical, (d + 1) * logical - 1), fmt::format("{} GB", kind.memory_gb),
                       join(neighbours(m, d)), neuron_bdf(d));
  }
  return out + rule;
}

std::string neuron_json(const Machine& m) {
  const NeuronKind kind = neuron_kind(m);
  std::string out = "[";
  for (int64_t d = 0; d < m.neuron_devices; ++d) {
    out += fmt::format(
        "{}\n    {{\n        \"neuron_device\": {},\n        \"bdf\": \"{}\",\n        \"connected_to\": [{}],\n"
        "        \"nc_count\": {},\n        \"logical_neuroncore_config\": {},\n        \"memory_size\": {},\n"
        "        \"neuron_processes\": []\n    }}",
        d == 0 ? "" : ",", d, neuron_bdf(d), join(neighbours(m, d)), kind.cores / kind.logical, kind.logical,
        kind.memory_gb << 30);
  }
  return out + "\n]\n";
}

}  // namespace

bool nvidia_smi(const Machine& m, const std::vector<std::string>& argv, WallTime now, std::string* out,
                int* exit_code) {
  if (m.gpus == 0) return false;
  std::string fields;
  std::string format = "csv";
  for (size_t i = 1; i < argv.size(); ++i) {
    if (argv[i] == "-L" || argv[i] == "--list-gpus") {
      for (int64_t g = 0; g < m.gpus; ++g)
        *out += fmt::format("GPU {}: {} (UUID: {})\n", g, gpu_name(m), gpu_uuid(m, g));
      return true;
    }
    if (argv[i].starts_with("--query-gpu=")) fields = argv[i].substr(12);
    if (argv[i].starts_with("--format=")) format = argv[i].substr(9);
  }
  *out += fields.empty() ? smi_table(m, now) : smi_query(m, split_fields(fields), format, exit_code);
  return true;
}

bool neuron_ls(const Machine& m, const std::vector<std::string>& argv, std::string* out, int* exit_code) {
  if (m.neuron_devices == 0) return false;
  *exit_code = 0;
  const bool json =
      std::any_of(argv.begin() + 1, argv.end(), [](const std::string& a) { return a == "-j" || a == "--json-output"; });
  *out += json ? neuron_json(m) : neuron_table(m);
  return true;
}

}  // namespace ghostfleet::kubelet_api
