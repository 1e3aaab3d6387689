#include "cmd/fleet_run.h"

#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "base/event_loop.h"
#include "base/files.h"
#include "base/log.h"
#include "cmd/commands.h"
#include "emulator/profile/image_file.h"
#include "emulator/profile/vpc_file.h"
#include "kube/http/server.h"

namespace ghostfleet::cmd {
namespace {

using emulator::FleetStats;
using emulator::parse_count;

std::string milliseconds(double seconds) {
  if (seconds >= 1) return fmt::format("{:.1f}s", seconds);
  return fmt::format("{:.0f}ms", seconds * 1000);
}

std::string errors_text(const FleetStats& s) {
  std::string out;
  for (const auto& [kind, count] : s.errors) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", kind, count);
  return out.empty() ? "none" : out;
}

// "Ready 1000/1000  renewals 100/s  lateness p50 2ms p99 8ms max 20ms  pods 0/0  errors none"
std::string health_line(const FleetStats& s, double renewals_per_second) {
  std::string line = fmt::format("Ready {}/{}  renewals {:.0f}/s  lateness p50 {} p99 {} max {}", s.ready, s.nodes,
                                 renewals_per_second, milliseconds(s.lateness_p50), milliseconds(s.lateness_p99),
                                 milliseconds(s.lateness_max));
  if (s.pods > 0) line += fmt::format("  pods {} running {}", s.pods, s.pods_running);
  if (s.pods_finished > 0) line += fmt::format(" finished {}", s.pods_finished);
  if (s.not_ours > 0) line += fmt::format("  not ours {}", s.not_ours);
  if (s.deleted > 0) line += fmt::format("  deleted {}", s.deleted);
  if (s.not_ready_transitions > 0) line += fmt::format("  NotReady seen {}", s.not_ready_transitions);
  return line + "  errors " + errors_text(s);
}

// One line rewritten every second on a terminal; a plain line every five seconds (and on change of readiness)
// elsewhere.
class HealthPrinter {
 public:
  void show(const FleetStats& s, TimePoint now) {
    const double seconds = static_cast<double>((now - last_).count()) * 1e-9;
    const double rate = seconds > 0 ? static_cast<double>(s.renewals - renewals_) / seconds : 0;
    const bool all_ready = s.nodes > 0 && s.ready == s.nodes;
    if (terminal_) {
      std::fprintf(stdout, "\r\033[K%s", health_line(s, rate).c_str());
    } else if (now - printed_ >= std::chrono::seconds(5) || (all_ready && !was_ready_)) {
      std::fprintf(stdout, "%s\n", health_line(s, rate).c_str());
      printed_ = now;
    }
    std::fflush(stdout);
    was_ready_ = all_ready;
    renewals_ = s.renewals;
    last_ = now;
  }
  void end() {
    if (terminal_) std::fprintf(stdout, "\n");
    std::fflush(stdout);
  }

 private:
  const bool terminal_ = stdout_is_terminal();
  bool was_ready_ = false;
  TimePoint last_ = SystemClock::instance().now();
  TimePoint printed_{0};
  uint64_t renewals_ = 0;
};

// When the run file is written: when something people wait for has changed, and now and then for the rest.
class RunFileClock {
 public:
  bool due(const FleetStats& s, TimePoint now) {
    const std::array<uint64_t, 6> state = {s.ready, s.registered, s.not_ours, s.deleted, s.pods, s.pods_running};
    if (state == told_ && now - at_ < std::chrono::seconds(3)) return false;
    told_ = state;
    at_ = now;
    return true;
  }

 private:
  std::array<uint64_t, 6> told_{};
  TimePoint at_;
};

class MetricsServerImpl final : public MetricsServer {
 public:
  ~MetricsServerImpl() override {
    loop_.stop();
    if (thread_.joinable()) thread_.join();
    server_.reset();
  }
  Status start(int port, Parts parts) {
    kube::http::ServerOptions options;
    options.port = static_cast<uint16_t>(port);
    auto server = kube::http::Server::listen(
        options, {&loop_},
        [parts = std::move(parts)](const std::shared_ptr<kube::http::Exchange>& e) { answer(*e, parts); });
    if (!server.ok()) return server.error().with_context("--metrics-port");
    server_ = std::move(*server);
    thread_ = std::thread([this] { loop_.run(); });
    return Status();
  }
  uint16_t port() const override { return server_->port(); }

 private:
  static void answer(kube::http::Exchange& e, const Parts& parts) {
    const std::string_view path = e.request().path();
    auto text = [&](int status, std::string body, const char* type = "text/plain; charset=utf-8") {
      e.respond(status, {{"content-type", type}}, share(std::move(body)));
    };
    if (e.request().method != "GET" && e.request().method != "HEAD") return text(405, "GET is expected\n");
    if (path == "/metrics") return text(200, parts.metrics(), kPrometheus);
    if (path == "/healthz" || path == "/livez") return text(200, "ok\n");
    if (path == "/readyz") return parts.ready() ? text(200, "ok\n") : text(503, "not all nodes are Ready\n");
    if (!path.starts_with(kNodes)) return text(404, "/metrics, /healthz and /readyz are here\n");
    const std::string_view name = path.substr(kNodes.size(), path.find('/', kNodes.size()) - kNodes.size());
    const std::string_view below = path.substr(kNodes.size() + name.size());
    const auto shown = parts.show ? parts.show(name, below) : std::nullopt;
    if (!shown) return text(404, "no node of that name has an address daemon (docs/network.md)\n");
    text(200, *shown, below == "/metrics" ? kPrometheus : "application/json");
  }

  static constexpr std::string_view kNodes = "/nodes/";
  static constexpr const char* kPrometheus = "text/plain; version=0.0.4; charset=utf-8";

  EventLoop loop_;
  std::unique_ptr<kube::http::Server> server_;
  std::thread thread_;
};

Status write_summary(const std::string& path, const FleetStats& s, const kube::JsonObject& extra) {
  if (path.empty()) return Status();
  kube::JsonObject summary = summary_of(s);
  for (const auto& [key, value] : extra) summary[key] = value;
  return write_file(expand_home(path), kube::to_json(summary) + "\n").with_context("--summary");
}

Status apply_flags(const FleetFlags& flags, emulator::FleetSpec* spec) {
  if (!flags.connections.empty())
    spec->connections =
        flags.connections == "shared" ? emulator::ConnectionMode::kShared : emulator::ConnectionMode::kPerNode;
  if (!flags.register_rate.empty() && flags.register_rate != "auto") {
    const auto rate = parse_count(flags.register_rate);
    if (!rate || *rate < 1 || *rate > 1000000)
      return invalid_argument(fmt::format(
          "--register-rate {}: nodes per second from 1 to 1000000, or auto, is expected", flags.register_rate));
    spec->register_rate = static_cast<double>(*rate);
  }
  if (!flags.image_rules.empty()) {
    auto text = read_named_file(flags.image_rules, 1 << 20, "--image-rules");
    if (!text.ok()) return text.error();
    auto rules = emulator::parse_image_rules(*text, flags.image_rules);
    if (!rules.ok()) return rules.error();
    spec->image_rules = *rules;
  }
  if (!flags.images.empty()) {
    if (spec->images)
      return invalid_argument(fmt::format(
          "--images {}: the fleet file says how images are pulled (spec.images); leave one of them out", flags.images));
    auto model = load_image_model(flags.images);
    if (!model.ok()) return model.error();
    spec->images = std::move(*model);
  }
  if (flags.dra) spec->dra = true;
  if (!flags.behavior.empty()) spec->commands = flags.behavior == "command";
  if (!flags.behavior_rules.empty()) {
    auto rules = load_behavior_rules(flags.behavior_rules);
    if (!rules.ok()) return rules.error();
    spec->behaviors = std::move(*rules);
  }
  if (!flags.vpc.empty()) {
    auto vpc = load_vpc(flags.vpc);
    if (!vpc.ok()) return vpc.error();
    spec->vpc = std::move(*vpc);
  }
  if (!flags.seed.empty()) {
    const auto seed = parse_count(flags.seed);
    if (!seed || *seed < 0) return invalid_argument(fmt::format("--seed {}: a whole number is expected", flags.seed));
    spec->seed = static_cast<uint64_t>(*seed);
  }
  if (!flags.event_rate.empty()) {
    const auto rate = parse_count(flags.event_rate);
    if (!rate || *rate < 0 || *rate > 1000000)
      return invalid_argument(
          fmt::format("--event-rate {}: events per second from 1 to 1000000, or 0 (no limit of the fleet), is expected",
                      flags.event_rate));
    spec->event_rate = static_cast<double>(*rate);
  }
  return Status();
}

// Identity and fidelity, and the connections they need.
Status apply_identity(const FleetFlags& flags, emulator::FleetOptions* o) {
  using emulator::ConnectionMode;
  const bool own = flags.identity == "per-node";
  if ((own || flags.fidelity == "full") && flags.connections.empty()) o->connections = ConnectionMode::kPerNode;
  if (own && o->connections == ConnectionMode::kShared)
    return invalid_argument(
        "--identity per-node: a certificate belongs to a connection; leave out --connections shared");
  if (flags.fidelity == "full" && o->connections == ConnectionMode::kShared)
    return invalid_argument("--fidelity full: a kubelet has its own connection; leave out --connections shared");
  if (flags.fidelity == "light" && o->connections == ConnectionMode::kPerNode)
    return invalid_argument(
        "--fidelity light: nodes with connections of their own watch for themselves, as --fidelity full says");
  if ((flags.serving_certificates || flags.approve_serving) && !own)
    return invalid_argument("--serving-certificates: only nodes with --identity per-node request certificates");
  o->full_fidelity = o->connections == ConnectionMode::kPerNode;
  o->pods.full_fidelity = o->full_fidelity;
  if (o->full_fidelity) o->events = agent::NodeEvents::kAll;
  o->identity.per_node = own;
  o->identity.approve_serving = flags.approve_serving;
  o->identity.serving = flags.serving_certificates || flags.approve_serving;
  return Status();
}

Result<emulator::FleetSpec> spec_of_file(const FleetFlags& flags) {
  if (flags.nodes_given || flags.profile_given)
    return invalid_argument("-f and --nodes/--profile: give one of them, the fleet file says both");
  auto text = read_named_file(flags.file, 16 << 20, "-f");
  if (!text.ok()) return text.error();
  auto spec = emulator::parse_fleet_file(*text, flags.file);
  if (spec.ok() && flags.name_given) spec->name = flags.name;
  return spec;
}

Result<emulator::FleetSpec> spec_of_flags(const FleetFlags& flags) {
  emulator::FleetSpec spec;
  spec.name = flags.name;
  emulator::GroupSpec group;
  const std::string text = flags.nodes.empty() ? "100" : flags.nodes;
  const auto count = parse_count(text);
  if (!count) return invalid_argument(fmt::format("--nodes {}: a number is expected, e.g. 1000 or 10k", text));
  if (*count < 1 || *count > emulator::kMaxFleetNodes)
    return invalid_argument(
        fmt::format("--nodes {}: from 1 to {} nodes are possible in one fleet", text, emulator::kMaxFleetNodes));
  group.count = *count;
  group.profile = flags.profile;
  group.name_template = flags.node_template;
  if (!flags.region.empty()) spec.region = flags.region;
  spec.zones = flags.zones;
  spec.groups.push_back(std::move(group));
  return spec;
}

}  // namespace

void add_fleet_flags(CLI::App& command, FleetFlags* flags, const std::string& default_name) {
  flags->name = default_name;
  command.add_option("--nodes", flags->nodes, "how many nodes: 1000, 10k (default 100)")
      ->each([flags](const std::string&) { flags->nodes_given = true; });
  command
      .add_option("--profile", flags->profile,
                  "instance type, or a profile file (`ghostfleet profiles` lists them; default m5.large)")
      ->each([flags](const std::string&) { flags->profile_given = true; });
  command.add_option("-f,--file", flags->file, "fleet file (kind: Fleet) instead of --nodes and --profile");
  command.add_option("--name", flags->name, fmt::format("name of the fleet (default {})", default_name))
      ->each([flags](const std::string&) { flags->name_given = true; });
  command.add_option("--node-name", flags->node_template,
                     "names of the nodes, e.g. node-{index} or n{index:5} (default NAME-{index})");
  command.add_option("--region", flags->region, "region label (default us-west-2)");
  command.add_option("--zones", flags->zones, "zones the nodes are spread over (default: three of the region)")
      ->delimiter(',');
  command
      .add_option("--connections", flags->connections,
                  "shared: heartbeats multiplexed over a few connections (default); per-node: a connection and watches "
                  "for each")
      ->check(CLI::IsMember({"shared", "per-node"}));
  command
      .add_option(
          "--identity", flags->identity,
          "shared: all nodes act with the kubeconfig's credentials (default); per-node: each is system:node:NAME "
          "by a certificate it requests with them")
      ->check(CLI::IsMember({"shared", "per-node"}));
  command
      .add_option("--fidelity", flags->fidelity,
                  "light: only requests that change something (default); full: every request and watch of a kubelet, "
                  "node by node")
      ->check(CLI::IsMember({"light", "full"}));
  command.add_flag("--serving-certificates", flags->serving_certificates,
                   "with --identity per-node: nodes also request serving certificates (kubernetes.io/kubelet-serving)");
  command.add_flag("--approve-serving", flags->approve_serving,
                   "approve the serving certificates with the kubeconfig's credentials: no controller does");
  command.add_option("--register-rate", flags->register_rate,
                     "nodes registered per second (default auto: as fast as the server takes them)");
  command
      .add_option(
          "--behavior", flags->behavior,
          "what a container does follows from its pod's annotation alone (annotation, default) or also from its "
          "command line, where that is understood (command)")
      ->check(CLI::IsMember({"annotation", "command"}));
  command.add_option("--behavior-rules", flags->behavior_rules,
                     "YAML file of behaviorRules and histograms: what the containers of many pods do "
                     "(docs/fleet-file.md)");
  command.add_option("--seed", flags->seed, "of everything that is left to chance (default 1)");
  command.add_option("--event-rate", flags->event_rate,
                     "events per second of the whole fleet; what goes beyond is dropped and counted (default: only the "
                     "limits of a kubelet, 50 a second for each node)");
  command.add_option("--image-rules", flags->image_rules,
                     "YAML list of {match: GLOB, pull: 5s} or {match: GLOB, error: NotFound}");
  command.add_option("--vpc", flags->vpc,
                     "VPC file: pods get their addresses from this cloud network, as the VPC CNI gives them "
                     "(docs/network.md; default: of a range without end)");
  command.add_option(
      "--images", flags->images,
      "pull images by the model of shared bandwidth, disks and registries: a file of images and settings "
      "(kind: Images, docs/images.md), or built-in (default: images are there at once)");
  command.add_flag("--dra", flags->dra,
                   "accelerators come from DRA drivers (ResourceSlices, docs/dra.md) instead of device plugins");
  command.add_option("--shards", flags->shards, "threads of the fleet (default: cores - 1, at most 8)")
      ->check(CLI::Range(1, 64));
  command.add_option("--for", flags->for_time, "end cleanly after this time (2m, 90s)");
  command.add_option("--summary", flags->summary, "write a JSON summary to this file at the end");
  command
      .add_option("--metrics-port", flags->metrics_port,
                  "serve Prometheus metrics, /healthz and /readyz on 127.0.0.1:PORT (0: any port)")
      ->check(CLI::Range(0, 65535));
  add_node_server_flags(command, &flags->node_server);
  command.add_flag("--adopt", flags->adopt, "take over nodes of the right name that this fleet did not create");
}

Result<emulator::FleetSpec> fleet_spec(const FleetFlags& flags) {
  auto spec = flags.file.empty() ? spec_of_flags(flags) : spec_of_file(flags);
  if (!spec.ok()) return spec;
  GF_RETURN_IF_ERROR(apply_flags(flags, &*spec));
  return spec;
}

Result<std::shared_ptr<const agent::BehaviorRules>> load_behavior_rules(const std::string& file) {
  if (file.empty()) return std::shared_ptr<const agent::BehaviorRules>();
  const std::string path = expand_home(file);
  auto text = read_named_file(path, 16 << 20, "--behavior-rules");
  if (!text.ok()) return text.error();
  return emulator::parse_behavior_rules(*text, path);
}

Result<std::shared_ptr<const emulator::VpcSpec>> load_vpc(const std::string& file) {
  if (file.empty()) return std::shared_ptr<const emulator::VpcSpec>();
  const std::string path = expand_home(file);
  auto text = read_named_file(path, emulator::kMaxVpcFile, "--vpc");
  if (!text.ok()) return text.error();
  auto spec = emulator::parse_vpc_file(*text, path);
  if (!spec.ok()) return spec.error();
  return std::make_shared<const emulator::VpcSpec>(std::move(*spec));
}

Result<emulator::ImageModel> load_image_model(const std::string& file) {
  if (file == "built-in") return emulator::ImageModel();
  auto text = read_named_file(file, 16 << 20, "--images (a file, or built-in)");
  if (!text.ok()) return text.error();
  return emulator::parse_image_file(*text, file);
}

Result<Duration> parse_for(const std::string& text) {
  Duration d{0};
  if (text.empty()) return d;
  if (!parse_duration(text, &d) || d.count() <= 0)
    return invalid_argument(fmt::format("--for {}: a duration like 2m or 90s is expected", text));
  return d;
}

Status check_summary_file(const std::string& file) {
  if (file.empty()) return Status();
  const std::string path = expand_home(file);
  const std::string folder = parent_directory(path);
  if (!std::filesystem::is_directory(folder))
    return invalid_argument(fmt::format("--summary {}: there is no folder {}", file, folder));
  if (std::filesystem::is_directory(path))
    return invalid_argument(fmt::format("--summary {}: this is a folder, a file is expected", file));
  return Status();
}

Result<std::unique_ptr<MetricsServer>> MetricsServer::start(int port, Parts parts) {
  auto server = std::make_unique<MetricsServerImpl>();
  GF_RETURN_IF_ERROR(server->start(port, std::move(parts)));
  return std::unique_ptr<MetricsServer>(std::move(server));
}

Result<FleetPlan> plan_fleet(const FleetFlags& flags) {
  auto spec = fleet_spec(flags);
  if (!spec.ok()) return spec.error();
  auto for_time = parse_for(flags.for_time);
  if (!for_time.ok()) return for_time.error();
  GF_RETURN_IF_ERROR(check_summary_file(flags.summary));
  auto profiles = emulator::ProfileCatalogue::load(home_directory() + "/profiles");
  if (!profiles.ok()) return invalid_argument(profiles.error().message());
  auto options = emulator::make_fleet_options(*spec, *profiles);
  if (!options.ok()) return invalid_argument(options.error().message());
  FleetPlan plan;
  plan.options = std::move(*options);
  plan.options.adopt = flags.adopt;
  plan.options.shards = flags.shards;
  GF_RETURN_IF_ERROR(apply_identity(flags, &plan.options));
  plan.for_time = *for_time;
  for (const auto& group : plan.options.groups) plan.nodes += group.count;
  auto node_server = node_server_options(flags.node_server, static_cast<uint32_t>(plan.nodes));
  if (!node_server.ok()) return node_server.error();
  plan.options.node_server = std::move(*node_server);
  if (plan.options.connections == emulator::ConnectionMode::kPerNode) {
    GF_RETURN_IF_ERROR(need_open_files(plan.nodes + 200));
  }
  return plan;
}

int run_fleet_to_end(const FleetPlan& plan, const FleetFlags& flags, RunOptions options, RunFile& run_file,
                     const std::function<std::vector<const MetricsRegistry*>()>& also) {
  emulator::FleetCallbacks callbacks;
  callbacks.notice = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); };
  auto fleet = emulator::Fleet::start(plan.options, callbacks);
  if (!fleet.ok()) return fail(fleet.error());
  if (const std::string servers = (*fleet)->node_server(); !servers.empty()) {
    std::printf("node servers:  %s (the first node's)\n", servers.c_str());
    options.extra["node_server"] = servers;
  }
  options.for_time = plan.for_time;
  options.summary_file = flags.summary;
  options.metrics_port = flags.metrics_port;
  const auto metrics = [&] {
    std::vector<const MetricsRegistry*> all = (*fleet)->metrics();
    for (const MetricsRegistry* r : also()) all.push_back(r);
    return all;
  };
  options.network_metrics = [&] { return (*fleet)->network_metrics(); };
  options.show_network = [&](std::string_view node, std::string_view path) {
    return (*fleet)->show_network(node, path);
  };
  const int code = watch_run(
      options, run_file, [&] { return (*fleet)->snapshot(); }, metrics);
  (*fleet)->stop();
  return code;
}

void use_cluster(const kube::ClientConfig& client, emulator::FleetOptions* options) {
  options->client = client;
  if (options->network) {
    options->network_claims = emulator::network_claims_file(home_directory(), options->network->vpc.name, client);
  }
  if (!options->identity.per_node) return;
  options->identity.folder = {emulator::fleet_certificate_folder(home_directory(), options->name, client),
                              emulator::CertificateFolder::Layout::kFleet};
}

kube::JsonObject summary_of(const FleetStats& s) {
  kube::JsonObject errors;
  for (const auto& [kind, count] : s.errors) errors[kind] = count;
  kube::JsonObject requests;
  for (const auto& [what, count] : s.requests) requests[what] = count;
  kube::JsonObject dropped;
  for (const auto& [why, count] : s.events_dropped) {
    if (count > 0) dropped[why] = count;
  }
  kube::JsonObject pulls;
  for (const auto& [what, count] : s.image_pulls) pulls[what] = count;
  kube::JsonObject summary = {
      {"nodes", s.nodes},
      {"ready", s.ready},
      {"ready_seconds", s.ready_seconds < 0 ? kube::Json() : kube::Json(s.ready_seconds)},
      {"renewals", s.renewals},
      {"lateness", kube::JsonObject{{"p50", s.lateness_p50}, {"p99", s.lateness_p99}, {"max", s.lateness_max}}},
      {"not_ready_transitions", s.not_ready_transitions},
      {"pods", s.pods},
      {"pods_running", s.pods_running},
      {"pods_finished", s.pods_finished},
      {"certificates", s.certificates},
      {"certificates_rotated", s.certificates_rotated},
      {"taken_over", s.taken_over},
      {"not_ours", s.not_ours},
      {"deleted", s.deleted},
      {"errors", std::move(errors)},
      {"cpu_seconds", cpu_seconds()},
      {"rss_bytes", rss_bytes()},
      {"events_dropped", std::move(dropped)},
      {"requests", std::move(requests)}};
  if (!pulls.empty()) summary["image_pulls"] = std::move(pulls);
  return summary;
}

int watch_run(const RunOptions& options, RunFile& run_file, const std::function<FleetStats()>& stats,
              const std::function<std::vector<const MetricsRegistry*>()>& metrics) {
  std::atomic<bool> ready{false};
  std::unique_ptr<MetricsServer> metrics_server;
  kube::JsonObject extra = options.extra;
  extra["server"] = options.server;
  if (options.metrics_port >= 0) {
    MetricsServer::Parts parts;
    parts.metrics = [&] {
      return MetricsRegistry::expose(metrics()) + (options.network_metrics ? options.network_metrics() : "");
    };
    parts.ready = [&] { return ready.load(); };
    parts.show = options.show_network;
    auto server = MetricsServer::start(options.metrics_port, std::move(parts));
    if (!server.ok()) return fail(server.error());
    metrics_server = std::move(*server);
    extra["metrics"] = fmt::format("http://127.0.0.1:{}/metrics", metrics_server->port());
    std::fprintf(stdout, "metrics: http://127.0.0.1:%d/metrics\n", metrics_server->port());
  }
  HealthPrinter printer;
  RunFileClock told;
  const TimePoint start = SystemClock::instance().now();
  extra["started"] = format_time(SystemClock::instance().wall_now());
  FleetStats last;
  int signal = 0;
  while (signal == 0) {
    last = stats();
    const TimePoint now = SystemClock::instance().now();
    ready = last.nodes > 0 && last.ready == last.nodes;
    printer.show(last, now);
    if (told.due(last, now)) {
      kube::JsonObject state = extra;
      for (auto& [key, value] : summary_of(last)) state[key] = value;
      run_file.update(std::move(state));
    }
    if (options.for_time.count() > 0 && now - start >= options.for_time) break;
    Duration wait = std::chrono::seconds(1);
    if (options.for_time.count() > 0)
      wait = std::min<Duration>(wait, options.for_time - (now - start) + std::chrono::milliseconds(1));
    signal = wait_for_signal(wait);
  }
  printer.end();
  const Status written = write_summary(options.summary_file, stats(), extra);
  return written.ok() ? kExitOk : fail(written, kExitFailed);
}

}  // namespace ghostfleet::cmd
