// ghostfleet status, profiles, version, completion: what tells and changes nothing.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "cmd/commands.h"
#include "cmd/process.h"
#include "emulator/profile/profile.h"

namespace ghostfleet::cmd {
namespace {

using kube::get_int;
using kube::get_string;
using kube::Json;

void add_output_flag(CLI::App* command, const std::shared_ptr<std::string>& output) {
  command->add_option("-o,--output", *output, "json, or a table (default)")->check(CLI::IsMember({"json", "table"}));
}

int print_status(const std::string& output) {
  const std::vector<Json> programs = running_programs();
  if (output == "json") {
    kube::JsonArray items(programs.begin(), programs.end());
    std::printf("%s\n", kube::to_json(kube::JsonObject{{"items", std::move(items)}}).c_str());
    return kExitOk;
  }
  if (programs.empty()) {
    std::printf("nothing runs\n");
    return kExitOk;
  }
  std::printf("%s\n", fmt::format("{:<13} {:<20} {:>8} {:>15} {:>10} {:>9}  {}", "KIND", "NAME", "PID", "READY", "PODS",
                                  "P99 LATE", "SERVER")
                          .c_str());
  for (const Json& p : programs) {
    const bool nodes = get_string(p, "kind") != "controlplane";
    const Json* late = kube::find_path(p, "lateness.p99");
    const std::string lateness =
        late != nullptr && late->is_number() ? fmt::format("{:.0f}ms", late->to_number<double>() * 1000) : "-";
    std::printf(
        "%s\n",
        fmt::format("{:<13} {:<20} {:>8} {:>15} {:>10} {:>9}  {}", get_string(p, "kind"), get_string(p, "name"),
                    get_int(p, "pid"), nodes ? fmt::format("{}/{}", get_int(p, "ready"), get_int(p, "nodes")) : "-",
                    nodes ? std::to_string(get_int(p, "pods_running")) : "-", lateness, get_string(p, "server"))
            .c_str());
  }
  return kExitOk;
}

int print_profiles(const std::string& output) {
  auto catalogue = emulator::ProfileCatalogue::load(home_directory() + "/profiles");
  if (!catalogue.ok()) return fail(catalogue.error());
  kube::JsonArray items;
  if (output != "json")
    std::printf("%s\n", fmt::format("{:<20} {:<6} {:>5} {:>10} {:>6}  {}", "NAME", "ARCH", "CPU", "MEMORY", "PODS",
                                    "EXTENDED RESOURCES")
                            .c_str());
  for (const std::string& name : catalogue->names()) {
    auto p = catalogue->find(name);
    if (!p.ok()) return fail(p.error());
    kube::JsonObject extended;
    std::string text;
    for (const auto& [resource, amount] : p->extended_resources) {
      extended[resource] = amount;
      text += fmt::format("{}{}={}", text.empty() ? "" : " ", resource, amount);
    }
    items.emplace_back(kube::JsonObject{{"name", name},
                                        {"architecture", p->architecture},
                                        {"cpu", p->cpu},
                                        {"memoryMiB", p->memory_mib},
                                        {"maxPods", p->max_pods},
                                        {"extendedResources", std::move(extended)}});
    if (output != "json") {
      std::printf("%s\n", fmt::format("{:<20} {:<6} {:>5} {:>7}GiB {:>6}  {}", name, p->architecture, p->cpu,
                                      p->memory_mib / 1024, p->max_pods, text)
                              .c_str());
    }
  }
  if (output == "json") std::printf("%s\n", kube::to_json(kube::JsonObject{{"items", std::move(items)}}).c_str());
  for (const Status& broken : catalogue->broken()) std::fprintf(stderr, "error: %s\n", broken.message().c_str());
  return catalogue->broken().empty() ? kExitOk : kExitUsage;
}

int print_version(const std::string& output) {
  if (output == "json") {
    std::printf("{\"version\":\"%s\",\"kubernetes\":\"v1.36.3\"}\n", GF_VERSION);
  } else {
    std::printf("ghostfleet %s (speaks Kubernetes v1.36)\n", GF_VERSION);
  }
  return kExitOk;
}

// Words of a command line for the shells: subcommands, and the flags of each.
std::string words_of(const CLI::App& app) {
  std::string out;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) out += " --" + name;
  }
  return out;
}

int print_completion(const CLI::App& app, const std::string& shell) {
  std::string commands;
  std::string cases;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    commands += " " + sub->get_name();
    if (shell == "fish") {
      cases += fmt::format("complete -c ghostfleet -n __fish_use_subcommand -f -a {} -d '{}'\n", sub->get_name(),
                           sub->get_description());
      for (const CLI::Option* option : sub->get_options()) {
        for (const std::string& name : option->get_lnames())
          cases +=
              fmt::format("complete -c ghostfleet -n '__fish_seen_subcommand_from {}' -l {}\n", sub->get_name(), name);
      }
    } else {
      cases += fmt::format("    {}) words=\"{}\" ;;\n", sub->get_name(), words_of(*sub));
    }
  }
  if (shell == "fish") {
    std::printf("%s", cases.c_str());
    return kExitOk;
  }
  if (shell == "zsh") std::printf("autoload -U +X bashcompinit && bashcompinit\n");
  std::printf(
      "_ghostfleet() {\n  local words cur=\"${COMP_WORDS[COMP_CWORD]}\"\n  case \"${COMP_WORDS[1]}\" in\n%s    *) "
      "words=\"%s\" ;;\n  esac\n"
      "  [ \"$COMP_CWORD\" = 1 ] && words=\"%s\"\n  case \"$cur\" in -*|\"\") ;; *) [ \"$COMP_CWORD\" = 1 ] || { "
      "COMPREPLY=($(compgen -f -- \"$cur\")); return; } ;; esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\ncomplete -F _ghostfleet ghostfleet\n",
      cases.c_str(), commands.c_str(), commands.c_str());
  return kExitOk;
}

}  // namespace

void add_status(CLI::App& app, Runner* run) {
  CLI::App* command = app.add_subcommand("status", "show what runs on this machine");
  auto output = std::make_shared<std::string>("table");
  add_output_flag(command, output);
  command->callback([=] { *run = [=] { return print_status(*output); }; });
}

void add_profiles(CLI::App& app, Runner* run) {
  CLI::App* command = app.add_subcommand("profiles", "list the instance types nodes can have");
  auto output = std::make_shared<std::string>("table");
  add_output_flag(command, output);
  command->footer(
      "Further ones: YAML files in ~/.ghostfleet/profiles (format: docs/profiles.md), or --profile ./mine.yaml");
  command->callback([=] { *run = [=] { return print_profiles(*output); }; });
}

void add_version(CLI::App& app, Runner* run) {
  CLI::App* command = app.add_subcommand("version", "print the version");
  auto output = std::make_shared<std::string>("table");
  add_output_flag(command, output);
  command->callback([=] { *run = [=] { return print_version(*output); }; });
}

void add_completion(CLI::App& app, Runner* run) {
  CLI::App* command = app.add_subcommand("completion", "print shell completion: source <(ghostfleet completion bash)");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  const CLI::App* root = &app;
  command->callback([=] { *run = [=] { return print_completion(*root, *shell); }; });
}

}  // namespace ghostfleet::cmd
