#include "cmd/node_bootstrap.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/digest.h"
#include "base/files.h"
#include "base/random.h"
#include "cmd/process.h"
#include "kube/client/client.h"
#include "kube/client/signing_request.h"

namespace ghostfleet::cmd {
namespace {

using emulator::CertificateFolder;

bool holds_valid_certificate(const kube::ClientConfig& client) {
  const auto facts = kube::read_certificate(client.tls.client_cert_pem);
  return facts.ok() && facts->not_after > SystemClock::instance().wall_now();
}

// What a kubelet writes before it has its certificate.
Status write_kubeconfig(const std::string& path, const kube::ClientConfig& cluster, const std::string& certificate) {
  std::string tls;
  if (!cluster.tls.ca_pem.empty())
    tls += fmt::format("    certificate-authority-data: {}\n", base64_encode(cluster.tls.ca_pem));
  if (cluster.tls.insecure) tls += "    insecure-skip-tls-verify: true\n";
  if (!cluster.tls.server_name.empty()) tls += fmt::format("    tls-server-name: {}\n", cluster.tls.server_name);
  const std::string text = fmt::format(
      "apiVersion: v1\nkind: Config\nclusters:\n- name: default-cluster\n  cluster:\n    server: {}\n{}"
      "contexts:\n- name: default-context\n  context: {{cluster: default-cluster, user: default-auth, namespace: "
      "default}}\ncurrent-context: default-context\nusers:\n- name: default-auth\n  user:\n    client-certificate: "
      "{}\n    client-key: {}\n",
      cluster.server_url, tls, certificate, certificate);
  GF_RETURN_IF_ERROR(make_directories(parent_directory(path)));
  return write_file(path, text, 0600).with_context("--kubeconfig");
}

// A kubelet that does not rotate waits for a server that calls itself healthy, at most a minute, and goes on then.
Status wait_for_health(const kube::ClientConfig& config) {
  auto client = kube::SyncClient::create(config);
  if (!client.ok()) return client.error();
  Rng rng(static_cast<uint64_t>(SystemClock::instance().now().ns));
  const TimePoint end = SystemClock::instance().now() + std::chrono::minutes(1);
  while (true) {
    kube::ApiCall call;
    call.target = "/healthz";
    call.timeout = std::chrono::seconds(1);
    call.max_tries = 1;
    if ((*client)->call_sync(std::move(call)).ok() || SystemClock::instance().now() > end) return Status();
    if (wait_for_signal(rng.between(std::chrono::seconds(2), std::chrono::milliseconds(2400))) != 0)
      return Status(Code::kCancelled, "ended by a signal while waiting for the API server");
  }
}

Result<kube::LoadedConfig> bootstrapped(const kube::KubeconfigFlags& kubeconfig, const BootstrapFlags& flags,
                                        const kube::Environment& environment, emulator::IdentityOptions* identity) {
  if (kubeconfig.kubeconfig.empty())
    return invalid_argument("--bootstrap-kubeconfig: --kubeconfig FILE must say where the node's own is to be written");
  auto bootstrap = kube::load_client_config({flags.bootstrap_kubeconfig, ""}, environment);
  const std::string own = expand_home(kubeconfig.kubeconfig);
  if (file_exists(own)) {
    auto config = kube::load_client_config(kubeconfig, environment);
    if (config.ok() && holds_valid_certificate(config->client)) {
      identity->bootstrap = bootstrap.ok() ? bootstrap->client : config->client;
      return config;
    }
  }
  if (!bootstrap.ok()) return bootstrap.error().with_context("--bootstrap-kubeconfig");
  const std::string certificate = identity->folder.current({}, CertificateFolder::Kind::kClient);
  GF_RETURN_IF_ERROR(write_kubeconfig(own, bootstrap->client, certificate));
  if (!flags.rotate) GF_RETURN_IF_ERROR(wait_for_health(bootstrap->client));
  identity->bootstrap = bootstrap->client;
  return bootstrap;
}

}  // namespace

void add_bootstrap_flags(CLI::App& command, BootstrapFlags* flags) {
  command.add_option("--bootstrap-kubeconfig", flags->bootstrap_kubeconfig,
                     "credentials to request the node's certificate with, while --kubeconfig holds no valid one");
  command.add_option("--cert-dir", flags->cert_dir, "where certificates are kept (default ~/.ghostfleet/pki)");
  command.add_flag("--rotate-certificates", flags->rotate, "renew the client certificate before it expires");
  command.add_flag("--rotate-server-certificates", flags->rotate_server,
                   "request a serving certificate (kubernetes.io/kubelet-serving) from the cluster, and renew it");
  command.add_flag("--approve-serving", flags->approve_serving,
                   "approve the serving certificate with the bootstrap credentials: no controller does");
}

Result<kube::LoadedConfig> node_config(const kube::KubeconfigFlags& kubeconfig, const BootstrapFlags& flags,
                                       const kube::Environment& environment, emulator::IdentityOptions* identity) {
  identity->per_node = flags.rotate || flags.rotate_server || !flags.bootstrap_kubeconfig.empty();
  if (!identity->per_node) return kube::load_client_config(kubeconfig, environment);
  identity->rotate = flags.rotate;
  identity->serving = flags.rotate_server || flags.approve_serving;
  identity->approve_serving = flags.approve_serving;
  const std::string folder = flags.cert_dir.empty() ? home_directory() + "/pki" : expand_home(flags.cert_dir);
  identity->folder = {folder, CertificateFolder::Layout::kKubelet};
  GF_RETURN_IF_ERROR(identity->folder.prepare().with_context("--cert-dir"));
  if (!flags.bootstrap_kubeconfig.empty()) return bootstrapped(kubeconfig, flags, environment, identity);
  auto config = kube::load_client_config(kubeconfig, environment);
  if (config.ok()) identity->bootstrap = config->client;
  return config;
}

}  // namespace ghostfleet::cmd
