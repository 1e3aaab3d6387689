// nvidia-smi and neuron-ls of a container: tables of the devices it holds.
#include <fmt/format.h>

#include <algorithm>

#include "agent/device/neuron_model.h"
#include "agent/device/plugin_model.h"
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

// GPUs that are there: of MIG devices one, which they are parts of.
int64_t gpu_count(const Machine& m) {
  return m.gpus.empty() && !m.migs.empty() ? 1 : static_cast<int64_t>(m.gpus.size());
}

std::string gpu_uuid(const Machine& m, int64_t index) {
  if (!m.gpus.empty()) return m.gpus[static_cast<size_t>(index)];
  return agent::device_uuid("GPU-", m.node.identity.name, "nvidia.com/gpu", static_cast<uint32_t>(index));
}

std::string gpu_list(const Machine& m) {
  std::string out;
  for (int64_t g = 0; g < gpu_count(m); ++g)
    out += fmt::format("GPU {}: {} (UUID: {})\n", g, gpu_name(m), gpu_uuid(m, g));
  for (size_t i = 0; i < m.migs.size(); ++i)
    out += fmt::format("  MIG {:<12} Device {:>2}: (UUID: {})\n", m.migs[i].first, i, m.migs[i].second);
  return out;
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
  for (int64_t i = 0; i < gpu_count(m); ++i) {
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
  if (field == "count") return std::to_string(gpu_count(m));
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
  for (int64_t i = 0; i < gpu_count(m); ++i) {
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
  return static_cast<int64_t>(m.neurons.size());
}

// Those of its neighbours that the container has too.
std::vector<int64_t> neighbours(const Machine& m, int64_t device) {
  std::vector<int64_t> out;
  for (const uint32_t other :
       agent::neuron_neighbours(static_cast<uint32_t>(device), static_cast<uint32_t>(devices_of_node(m))))
    out.push_back(other);
  std::erase_if(out, [&m](int64_t d) { return std::find(m.neurons.begin(), m.neurons.end(), d) == m.neurons.end(); });
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
  for (const int64_t d : m.neurons) {
    out += fmt::format("| {:<6} | {:<6} | {:<8} | {:<6} | {:<13} | {:<7} |\n", d, logical,
                       fmt::format("{}-{}", d * logical, (d + 1) * logical - 1), fmt::format("{} GB", kind.memory_gb),
                       join(neighbours(m, d)), neuron_bdf(d));
  }
  return out + rule;
}

std::string neuron_json(const Machine& m) {
  const NeuronKind kind = neuron_kind(m);
  std::string out = "[";
  for (const int64_t d : m.neurons) {
    out += fmt::format(
        "{}\n    {{\n        \"neuron_device\": {},\n        \"bdf\": \"{}\",\n        \"connected_to\": [{}],\n"
        "        \"nc_count\": {},\n        \"logical_neuroncore_config\": {},\n        \"memory_size\": {},\n"
        "        \"neuron_processes\": []\n    }}",
        out == "[" ? "" : ",", d, neuron_bdf(d), join(neighbours(m, d)), kind.cores / kind.logical, kind.logical,
        kind.memory_gb << 30);
  }
  return out + "\n]\n";
}

}  // namespace

bool nvidia_smi(const Machine& m, const std::vector<std::string>& argv, WallTime now, std::string* out,
                int* exit_code) {
  if (gpu_count(m) == 0) return false;
  std::string fields;
  std::string format = "csv";
  for (size_t i = 1; i < argv.size(); ++i) {
    if (argv[i] == "-L" || argv[i] == "--list-gpus") {
      *out += gpu_list(m);
      return true;
    }
    if (argv[i].starts_with("--query-gpu=")) fields = argv[i].substr(12);
    if (argv[i].starts_with("--format=")) format = argv[i].substr(9);
  }
  *out += fields.empty() ? smi_table(m, now) : smi_query(m, split_fields(fields), format, exit_code);
  return true;
}

bool neuron_ls(const Machine& m, const std::vector<std::string>& argv, std::string* out, int* exit_code) {
  if (m.neurons.empty()) return false;
  *exit_code = 0;
  const bool json =
      std::any_of(argv.begin() + 1, argv.end(), [](const std::string& a) { return a == "-j" || a == "--json-output"; });
  *out += json ? neuron_json(m) : neuron_table(m);
  return true;
}

}  // namespace ghostfleet::kubelet_api
