// Nodes that are somebody of their own: each holds a certificate as system:node:NAME before it speaks, and keeps it
// valid.
#include <fmt/format.h>

#include <algorithm>

#include "emulator/fleet/shard_hosts.h"

namespace ghostfleet::emulator {
namespace {

bool is_address(const std::string& type) { return type == "InternalIP" || type == "ExternalIP"; }

}  // namespace

kube::KubeClient& Shard::bootstrap_client() {
  if (!bootstrap_) {
    kube::KubeClientOptions options;
    options.seed = config_.seed;
    bootstrap_ =
        kube::KubeClient::create(loop_, config_.bootstrap_http, config_.path_prefix, config_.bootstrap_auth, options);
  }
  return *bootstrap_;
}

void Shard::begin_node(uint32_t row) {
  if (!config_.identity.per_node) return start_machine(row);
  NodeLink& link = link_of(row);
  link.certificate = std::make_unique<NodeCertificate>(*this, row, CertificateFolder::Kind::kClient);
  link.certificate->start();
}

void Shard::start_machine(uint32_t row) { machines_[row].start(host(row)); }

void Shard::begin_serving_certificate(uint32_t row) {
  if (client_ || !config_.identity.serving || !config_.identity.per_node) return;
  NodeLink& link = link_of(row);
  if (link.serving) return;
  link.serving = std::make_unique<NodeCertificate>(*this, row, CertificateFolder::Kind::kServer);
  link.serving->start();
}

Shard::NodeCertificate::NodeCertificate(Shard& shard, uint32_t row, Kind kind)
    : shard_(shard),
      row_(row),
      kind_(kind),
      manager_(kind == Kind::kClient ? &shard.client_certificates_ : &shard.serving_certificates_, *this) {
  ShardStats& stats = shard.stats_;
  (kind == Kind::kClient ? stats.clients_wanted : stats.servings_wanted).fetch_add(1, std::memory_order_relaxed);
}

// A serving certificate is asked for by the node itself; the first client certificate by whoever may bootstrap.
kube::KubeClient& Shard::NodeCertificate::signing_client(bool have_certificate) {
  const bool as_node = kind_ == Kind::kServer || have_certificate;
  return as_node ? shard_.client_of(row_) : shard_.bootstrap_client();
}

kube::SigningSubject Shard::NodeCertificate::subject() {
  const agent::NodeIdentity& identity = shard_.host(row_).identity();
  kube::SigningSubject subject = kube::node_subject(identity.name);
  if (kind_ == Kind::kClient) return subject;
  for (const agent::NodeAddress& a : shard_.class_of(row_).node_template().addresses) {
    std::string text = agent::fill_places(a.address, identity);
    if (text.empty()) continue;
    (is_address(a.type) ? subject.ip_addresses : subject.dns_names).push_back(std::move(text));
  }
  for (auto* names : {&subject.dns_names, &subject.ip_addresses}) {
    std::sort(names->begin(), names->end());
    names->erase(std::unique(names->begin(), names->end()), names->end());
  }
  return subject;
}

Result<std::string> Shard::NodeCertificate::load() {
  return shard_.config_.identity.folder.load(shard_.host(row_).name(), kind_);
}

Status Shard::NodeCertificate::save(const std::string& pem) {
  return shard_.config_.identity.folder.save(shard_.host(row_).name(), kind_, pem);
}

void Shard::NodeCertificate::certificate_ready(const std::shared_ptr<const kube::http::TlsIdentity>& identity,
                                               bool renewed) {
  const bool first = identity_ == nullptr;
  identity_ = identity;
  if (kind_ == Kind::kServer) {
    if (first) shard_.stats_.servings_held.fetch_add(1, std::memory_order_relaxed);
    return shard_.config_.serving_ready(shard_.node_of(row_), identity);
  }
  shard_.count(row_, kCertified, true, shard_.stats_.certificates, &shard_.certificates_);
  if (renewed) shard_.stats_.rotations.add();
  NodeLink& link = shard_.link_of(row_);
  if (link.client) return link.client->http().set_identity(identity);
  shard_.start_machine(row_);
}

// As a kubelet: what has expired is not shown any more.
void Shard::NodeCertificate::certificate_expired() {
  identity_.reset();
  if (kind_ == Kind::kServer) return;
  shard_.count(row_, kCertified, false, shard_.stats_.certificates, &shard_.certificates_);
  NodeLink& link = shard_.link_of(row_);
  if (link.client) link.client->http().set_identity(nullptr);
  shard_.say(row_, "its client certificate has expired and could not be renewed");
}

void Shard::NodeCertificate::certificate_failed(const Status& why) {
  shard_.stats_.error("certificate");
  if (kind_ == Kind::kClient && !identity_) shard_.settle(row_);  // others get their turn meanwhile
  shard_.say(row_, fmt::format("{} certificate: {}", kind_ == Kind::kClient ? "client" : "serving", why.message()));
}

}  // namespace ghostfleet::emulator
