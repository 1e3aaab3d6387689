#include "cmd/plane.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/digest.h"
#include "base/files.h"
#include "base/log.h"
#include "cmd/process.h"
#include "controlplane/auth/tokens.h"

namespace ghostfleet::cmd {
namespace {

using controlplane::ControllerManager;
using controlplane::Pki;

// The first line of every kubeconfig we write: only such a file is ever overwritten.
constexpr std::string_view kMark = "# written by ghostfleet; it is overwritten at the next start\n";

Status may_write(const std::string& path) {
  if (!file_exists(path)) return Status();
  auto old = read_file(path);
  if (!old.ok()) return old.error();
  if (old->empty() || old->rfind(kMark, 0) == 0) return Status();
  return Status(
      Code::kAlreadyExists,
      fmt::format("--kubeconfig {}: this file was not written by ghostfleet and is left alone; name another one",
                  path));
}

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> out;
  size_t start = 0;
  while (start <= text.size()) {
    const size_t end = std::min(text.find(',', start), text.size());
    if (end > start) out.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return out;
}

std::string host_name() {
  char buffer[256] = {};
  return gethostname(buffer, sizeof buffer - 1) == 0 ? buffer : "";
}

controlplane::PkiOptions pki_options(const PlaneOptions& o) {
  controlplane::PkiOptions p;
  if (o.address != "127.0.0.1" && o.address != "0.0.0.0" && o.address != "::") p.extra_names.push_back(o.address);
  const std::string host = host_name();
  if (!host.empty()) p.extra_names.push_back(host);
  return p;
}

Result<std::unique_ptr<controlplane::ApiServer>> start_server(const PlaneOptions& o, const Pki& pki) {
  controlplane::ApiServer::Options server;
  server.address = o.address;
  server.port = static_cast<uint16_t>(o.port);
  server.pki = &pki;
  server.managed_fields = o.managed_fields;
  server.allow_privileged = o.allow_privileged;
  if (!o.kubelet_certificate_authority.empty()) {
    Result<std::string> pem =
        read_named_file(o.kubelet_certificate_authority, 1 << 20, "--kubelet-certificate-authority");
    if (!pem.ok()) return pem.error();
    server.kubelet_ca_pem = std::move(*pem);
  }
  server.store.history_bytes = 96u << 20;  // of nodes of 5 KB a minute in the steady state of 100,000
  server.max_in_flight = o.max_in_flight;
  server.max_mutating_in_flight = o.max_mutating_in_flight;
  server.io_threads = o.io_threads > 0 ? o.io_threads : std::max(2u, std::thread::hardware_concurrency() / 2);
  auto started = controlplane::ApiServer::start(server);
  if (started.ok() || started.error().code() != Code::kAlreadyExists) return started;
  if (o.port_given) return started.error().with_context(fmt::format("--port {} (0: any free one)", o.port));
  server.port = 0;
  return controlplane::ApiServer::start(server);
}

// What the token controller writes into secrets of type kubernetes.io/service-account-token; they do not expire in
// practice.
std::function<std::string(const std::string&, const std::string&, const std::string&, const std::string&,
                          const std::string&)>
token_maker(std::shared_ptr<controlplane::TokenIssuer> issuer) {
  return [issuer](const std::string& ns, const std::string& name, const std::string& uid, const std::string& secret,
                  const std::string& secret_uid) -> std::string {
    controlplane::ServiceAccountClaims claims;
    claims.ns = ns;
    claims.name = name;
    claims.uid = uid;
    claims.secret = {secret, secret_uid};
    claims.issued = claims.not_before = SystemClock::instance().wall_now();
    claims.expires = claims.issued + std::chrono::hours(24 * 3650);
    auto token = issuer->issue(claims);
    return token.ok() ? *token : std::string();
  };
}

Result<std::string> sign(const Pki& pki, const kube::Json& csr) {
  std::string pem;
  if (!base64_decode(kube::get_string(csr, "spec.request"), &pem))
    return invalid_argument("spec.request is not base64");
  std::vector<std::string> usages;
  if (const kube::JsonArray* list = kube::get_array(csr, "spec.usages")) {
    for (const kube::Json& u : *list)
      usages.emplace_back(u.is_string() ? std::string_view(u.get_string()) : std::string_view());
  }
  const int64_t seconds = kube::get_int(csr, "spec.expirationSeconds", 365 * 24 * 3600);
  return pki.sign_request(pem, kube::get_string(csr, "spec.signerName"), usages, std::chrono::seconds(seconds),
                          SystemClock::instance().wall_now());
}

}  // namespace

Result<std::unique_ptr<Plane>> Plane::start(const PlaneOptions& options) {
  GF_RETURN_IF_ERROR(may_write(options.kubeconfig));
  GF_RETURN_IF_ERROR(make_directories(options.directory));
  auto pki = Pki::load_or_create(options.directory + "/pki", pki_options(options), SystemClock::instance().wall_now());
  if (!pki.ok()) return pki.error();
  std::unique_ptr<Plane> plane(new Plane());
  plane->pki_ = std::move(*pki);
  plane->kubeconfig_ = options.kubeconfig;
  GF_RETURN_IF_ERROR(plane->start_parts(options));
  GF_RETURN_IF_ERROR(plane->write_kubeconfig(options));
  return plane;
}

Status Plane::start_parts(const PlaneOptions& options) {
  auto server = start_server(options, pki_);
  if (!server.ok()) return server.error();
  server_ = std::move(*server);
  auto issuer = controlplane::TokenIssuer::create(pki_.service_account_key());
  if (!issuer.ok()) return issuer.error();
  ControllerManager::Options controllers;
  controllers.enabled = split_names(options.controllers);
  controllers.node_monitor_grace_period = options.node_monitor_grace_period;
  controllers.root_ca_pem = pki_.ca().cert_pem;
  controllers.service_account_token = token_maker(std::move(*issuer));
  controllers.authorizer = &server_->authorizer();
  controllers.sign_certificate = [this](const kube::Json& csr) { return sign(pki_, csr); };
  auto manager = ControllerManager::start(server_->api(), controllers);
  if (!manager.ok()) return manager.error().with_context("--controllers");
  controllers_ = std::move(*manager);
  if (!options.scheduler) return Status();
  auto scheduler = controlplane::Scheduler::start(server_->api(), {});
  if (!scheduler.ok()) return scheduler.error();
  scheduler_ = std::move(*scheduler);
  return Status();
}

Status Plane::write_kubeconfig(const PlaneOptions& options) const {
  const std::string text = fmt::format(
      "{}apiVersion: v1\nkind: Config\nclusters:\n- name: {}\n  cluster:\n    server: {}\n    "
      "certificate-authority-data: {}\ncontexts:\n- name: {}\n  context: {{cluster: {}, user: {}-admin}}\n"
      "current-context: {}\nusers:\n- name: {}-admin\n  user:\n    client-certificate-data: {}\n    client-key-data: "
      "{}\n    token: {}\n",
      kMark, options.name, server_->url(), base64_encode(pki_.ca().cert_pem), options.name, options.name, options.name,
      options.name, options.name, base64_encode(pki_.admin().cert_pem), base64_encode(pki_.admin().key_pem),
      pki_.admin_token());
  GF_RETURN_IF_ERROR(make_directories(parent_directory(options.kubeconfig)));
  return write_file(options.kubeconfig, text, 0600);
}

void Plane::stop() {
  if (scheduler_) scheduler_->stop();
  if (controllers_) controllers_->stop();
  if (server_) server_->stop();
}

Plane::~Plane() {
  stop();
  scheduler_.reset();
  controllers_.reset();
}

std::vector<const MetricsRegistry*> Plane::metrics() const {
  std::vector<const MetricsRegistry*> all = server_->metrics();
  if (controllers_) all.push_back(&controllers_->metrics());
  if (scheduler_) all.push_back(&scheduler_->metrics());
  return all;
}

}  // namespace ghostfleet::cmd
