// ghostfleet device-plugin: a device plugin as a process of its own, for any kubelet and for `ghostfleet agent`.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <future>
#include <memory>
#include <thread>

#include "agent/device/device_control.h"
#include "agent/device/neuron_model.h"
#include "agent/device/nvidia_model.h"
#include "agent/device/socket/plugin_service.h"
#include "base/event_loop.h"
#include "base/files.h"
#include "base/folder_watch.h"
#include "cmd/commands.h"
#include "cmd/fleet_run.h"
#include "cmd/process.h"
#include "emulator/profile/profile.h"
#include "kube/api/quantity.h"

namespace ghostfleet::cmd {
namespace {

using Models = std::vector<std::shared_ptr<const agent::PluginModel>>;
using Faults = std::vector<agent::DeviceManager::Fault>;

constexpr uint32_t kMaxCount = 1024;  // chips of a plugin: more than any machine has

struct PluginFlags {
  uint32_t count = 0;
  std::string directory = "/var/lib/kubelet/device-plugins", node_name, unhealthy_file, for_time;
  uint32_t numa_nodes = 2;
  // nvidia
  std::string gpu, gpu_memory, mig_strategy = "none";
  std::vector<std::string> mig_layout;
  uint32_t replicas = 1;
  bool rename_shared = false, fail_more_than_one = false;
  // neuron
  uint32_t cores_per_chip = 2;
};

// Flags that would be taken and do nothing.
Status check_nvidia(const PluginFlags& flags) {
  if (flags.mig_strategy == "none" && !flags.mig_layout.empty())
    return invalid_argument("--mig-layout: --mig-strategy single or mixed is needed with it");
  if (flags.replicas == 1 && (flags.rename_shared || flags.fail_more_than_one)) {
    return invalid_argument(
        fmt::format("{}: --replicas of at least 2 is needed with it",
                    flags.rename_shared ? "--rename-by-default" : "--fail-requests-greater-than-one"));
  }
  return Status();
}

Result<Models> nvidia_models(const PluginFlags& flags) {
  GF_RETURN_IF_ERROR(check_nvidia(flags));
  agent::NvidiaConfig config;
  config.gpus = flags.count;
  config.gpu = flags.gpu;
  config.numa_nodes = flags.numa_nodes;
  config.replicas = flags.replicas;
  config.rename_shared = flags.rename_shared;
  config.refuse_more_than_one = flags.fail_more_than_one;
  if (!flags.gpu_memory.empty()) {
    const auto bytes = kube::Quantity::parse(flags.gpu_memory);
    if (!bytes.ok())
      return invalid_argument(fmt::format("--gpu-memory {}: a quantity like 80Gi is expected", flags.gpu_memory));
    config.memory_mib = bytes->value() >> 20;
  }
  if (flags.mig_strategy != "none")
    config.mig = flags.mig_strategy == "single" ? agent::MigStrategy::kSingle : agent::MigStrategy::kMixed;
  for (const std::string& part : flags.mig_layout) {
    const size_t equals = part.find('=');
    const int count = equals == std::string::npos ? 0 : std::atoi(part.c_str() + equals + 1);
    if (count < 1 || count > 7)
      return invalid_argument(fmt::format("--mig-layout {}: PROFILE=COUNT like 1g.10gb=7 is expected", part));
    config.mig_layout.emplace_back(part.substr(0, equals), static_cast<uint32_t>(count));
  }
  return agent::nvidia_plugins(config);
}

Result<Models> neuron_models(const PluginFlags& flags) {
  agent::NeuronConfig config;
  config.chips = flags.count;
  config.cores_per_chip = flags.cores_per_chip;
  config.numa_nodes = flags.numa_nodes;
  return Models{agent::neuron_plugin(agent::kNeuronResource, config),
                agent::neuron_plugin(agent::kNeuronCoreResource, config)};
}

Result<Models> efa_models(const PluginFlags& flags) { return Models{agent::efa_plugin(flags.count, flags.numa_nodes)}; }

// "nvidia.com/mig-1g.5gb": "nvidia-mig-1g.5gb.sock".
std::string socket_name(std::string_view kind, const std::string& resource) {
  return fmt::format("{}-{}.sock", kind, resource.substr(resource.find('/') + 1));
}

// The plugins of this process on their loop, and the file that says which devices are broken.
class PluginProcess {
 public:
  PluginProcess(EventLoop& loop, PluginFlags flags) : loop_(loop), flags_(std::move(flags)) {}

  Status start(std::string_view kind, const Models& models) {
    setup_.models = models;
    for (const auto& model : models) {
      agent::PluginServiceOptions options;
      options.directory = flags_.directory;
      options.socket_name = socket_name(kind, model->resource());
      options.node = flags_.node_name;
      options.say = [](const std::string& line) {
        std::printf("%s\n", line.c_str());
        std::fflush(stdout);
      };
      auto service = agent::PluginService::start(loop_, std::move(options), model);
      if (!service.ok()) return service.error();
      services_.push_back(std::move(*service));
    }
    return flags_.unhealthy_file.empty() ? Status() : watch_file();
  }

 private:
  Status watch_file() {
    const std::string& file = flags_.unhealthy_file;
    const std::string name = file.substr(file.rfind('/') + 1);
    auto watch = FolderWatch::open(loop_, parent_directory(file), [this, name](const std::string& changed, auto) {
      if (changed != name && !changed.empty()) return;
      if (const Status bad = apply_file(); !bad.ok()) std::fprintf(stderr, "error: %s\n", bad.message().c_str());
    });
    if (!watch.ok()) return watch.error().with_context("--unhealthy-file");
    watch_ = std::move(*watch);
    return apply_file().with_context("--unhealthy-file");
  }

  // No file: nothing is broken. One that makes no sense changes nothing.
  Status apply_file() {
    const auto text = read_file(flags_.unhealthy_file, agent::kMaxControl);
    if (!text.ok() && text.error().code() != Code::kNotFound) return invalid_argument(text.error().message());
    auto faults = agent::parse_faults(text.ok() ? std::string_view(*text) : std::string_view());
    if (!faults.ok()) return faults.error().with_context(flags_.unhealthy_file);
    // One file may serve several plugins: what none of ours gives is another's affair.
    std::erase_if(*faults, [this](const auto& fault) { return !gives(fault.resource); });
    const Status bad = agent::check_faults(setup_, *faults);
    if (!bad.ok()) return bad.with_context(flags_.unhealthy_file);
    for (const auto& service : services_) service->set_faults(*faults);
    return Status();
  }

  bool gives(const std::string& resource) const {
    return std::any_of(setup_.models.begin(), setup_.models.end(),
                       [&](const auto& model) { return model->fault_numbers(resource) > 0; });
  }

  EventLoop& loop_;
  const PluginFlags flags_;
  agent::DeviceSetup setup_;
  std::vector<std::unique_ptr<agent::PluginService>> services_;
  std::unique_ptr<FolderWatch> watch_;
};

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

// The plugins live on their thread; this one takes the signals.
int serve(const PluginFlags& flags, std::string_view kind, const Models& models, Duration for_time) {
  EventLoop loop;
  std::unique_ptr<PluginProcess> plugins;
  std::promise<Status> started;
  loop.post([&] {
    plugins = std::make_unique<PluginProcess>(loop, flags);
    started.set_value(plugins->start(kind, models));
  });
  std::thread thread([&] { loop.run(); });
  const Status status = started.get_future().get();
  if (status.ok()) wait_for_signal(for_time.count() > 0 ? for_time : std::chrono::hours(24 * 365));
  loop.post([&] {
    plugins.reset();
    loop.stop();
  });
  thread.join();
  if (status.ok()) return kExitOk;
  return fail(status, status.code() == Code::kInvalidArgument ? kExitUsage : kExitFailed);
}

int run_plugin(PluginFlags flags, std::string_view kind,
               const std::function<Result<Models>(const PluginFlags&)>& make) {
  if (flags.node_name.empty()) flags.node_name = host_name();
  flags.directory = expand_home(flags.directory);
  flags.unhealthy_file = expand_home(flags.unhealthy_file);
  if (flags.directory.empty() || flags.directory[0] != '/')
    return fail(invalid_argument(fmt::format("--dir {}: an absolute path is expected", flags.directory)), kExitUsage);
  const auto for_time = parse_for(flags.for_time);
  if (!for_time.ok()) return fail(for_time.error(), kExitUsage);
  const auto models = make(flags);
  if (!models.ok()) return fail(models.error(), kExitUsage);
  if (!std::filesystem::is_directory(flags.directory))
    return fail(invalid_argument(fmt::format("--dir {}: there is no such folder; the kubelet or `ghostfleet agent "
                                             "--device-plugin-dir` makes it at its start",
                                             flags.directory)),
                kExitUsage);
  if (const std::string folder = parent_directory(flags.unhealthy_file);
      !flags.unhealthy_file.empty() && !std::filesystem::is_directory(folder))
    return fail(
        invalid_argument(fmt::format("--unhealthy-file {}: there is no folder {}", flags.unhealthy_file, folder)),
        kExitUsage);
  return serve(flags, kind, *models, *for_time);
}

void add_common_flags(CLI::App& command, PluginFlags* flags, const std::string& what) {
  command.add_option("--count", flags->count, "how many " + what)->required()->check(CLI::Range(1u, kMaxCount));
  command.add_option("--dir", flags->directory,
                     "the kubelet's device plugin directory (default " + flags->directory + ")");
  command.add_option("--node-name", flags->node_name, "what ids of devices come from (default: the name of this host)");
  command.add_option("--numa-nodes", flags->numa_nodes, "the devices are spread over so many NUMA nodes (default 2)")
      ->check(CLI::Range(1u, agent::PluginModel::kMaxNumaNodes));
  command.add_option(
      "--unhealthy-file", flags->unhealthy_file,
      "file that says which devices are Unhealthy, like \"nvidia.com/gpu=0,3\" (with an XID: 0:79); looked "
      "at when it changes");
  command.add_option("--for", flags->for_time, "end cleanly after this time (2m, 90s)");
}

}  // namespace

void add_device_plugin(CLI::App& app, Runner* run) {
  CLI::App* command = app.add_subcommand(
      "device-plugin", "a device plugin that pretends hardware, as a process: for a real kubelet or ghostfleet agent");
  command->require_subcommand(0, 1);

  auto nvidia = std::make_shared<PluginFlags>();
  CLI::App* gpu = command->add_subcommand("nvidia", "nvidia.com/gpu, or its MIG and shared forms");
  add_common_flags(*gpu, nvidia.get(), "GPUs");
  gpu->add_option("--gpu", nvidia->gpu, "a100, h100, h200, b200, b300 or gb200; only MIG needs it")
      ->check(CLI::IsMember(agent::mig_gpus()));
  gpu->add_option("--gpu-memory", nvidia->gpu_memory, "of one GPU, like 80Gi; only MIG needs it");
  gpu->add_option("--mig-strategy", nvidia->mig_strategy, "none (default), single or mixed")
      ->check(CLI::IsMember({"none", "single", "mixed"}));
  gpu->add_option("--mig-layout", nvidia->mig_layout, "how each GPU is cut: PROFILE=COUNT,...")->delimiter(',');
  gpu->add_option("--replicas", nvidia->replicas, "time-slicing: so many devices of each GPU (default 1)")
      ->check(CLI::Range(1u, agent::kMaxReplicas));
  gpu->add_flag("--rename-by-default", nvidia->rename_shared, "with --replicas: the resource is nvidia.com/gpu.shared");
  gpu->add_flag("--fail-requests-greater-than-one", nvidia->fail_more_than_one,
                "with --replicas: a container gets one device at most");
  gpu->callback([=] { *run = [=] { return run_plugin(*nvidia, "nvidia", nvidia_models); }; });

  auto neuron = std::make_shared<PluginFlags>();
  CLI::App* chips = command->add_subcommand("neuron", "aws.amazon.com/neuron and aws.amazon.com/neuroncore");
  add_common_flags(*chips, neuron.get(), "Neuron devices");
  chips->add_option("--cores-per-chip", neuron->cores_per_chip, "NeuronCores of a device (default 2)")
      ->check(CLI::Range(1u, 16u));
  chips->callback([=] { *run = [=] { return run_plugin(*neuron, "aws", neuron_models); }; });

  auto efa = std::make_shared<PluginFlags>();
  CLI::App* interfaces = command->add_subcommand("efa", "vpc.amazonaws.com/efa");
  add_common_flags(*interfaces, efa.get(), "EFA interfaces");
  interfaces->callback([=] { *run = [=] { return run_plugin(*efa, "aws", efa_models); }; });
}

}  // namespace ghostfleet::cmd
