#include "kube/client/certificate_manager.h"

#include <algorithm>

namespace ghostfleet::kube {
namespace {

constexpr int kQuickTries = 5;
constexpr Duration kFirstWait = std::chrono::seconds(2), kSlowWait = std::chrono::seconds(32);

WallTime wall_now() { return SystemClock::instance().wall_now(); }

bool includes(const std::vector<std::string>& all, const std::vector<std::string>& some) {
  return std::all_of(some.begin(), some.end(),
                     [&](const std::string& s) { return std::find(all.begin(), all.end(), s) != all.end(); });
}

}  // namespace

CertificateManagerOptions kubelet_client_certificate() {
  CertificateManagerOptions o;
  o.signer = kKubeletClientSigner;
  o.usages = {"digital signature", "client auth"};
  return o;
}

CertificateManagerOptions kubelet_serving_certificate() {
  CertificateManagerOptions o;
  o.signer = kKubeletServingSigner;
  o.usages = {"digital signature", "server auth"};
  return o;
}

Result<http::TlsIdentity> split_identity(const std::string& pem) {
  http::TlsIdentity out;
  constexpr std::string_view kBegin = "-----BEGIN ", kEnd = "-----END ", kDashes = "-----";
  for (size_t at = pem.find(kBegin); at != std::string::npos; at = pem.find(kBegin, at)) {
    const size_t end = pem.find(kEnd, at);
    const size_t close = end == std::string::npos ? end : pem.find(kDashes, end + kEnd.size());
    if (close == std::string::npos) return invalid_argument("a PEM block has no end");
    const std::string_view block = std::string_view(pem).substr(at, close + kDashes.size() - at);
    const bool key = block.substr(0, block.find('\n')).find("PRIVATE KEY") != std::string_view::npos;
    (key ? out.key_pem : out.cert_pem).append(block).append("\n");
    at = close;
  }
  if (out.cert_pem.empty() || out.key_pem.empty()) {
    return invalid_argument(out.cert_pem.empty() ? "no PEM block CERTIFICATE in it" : "no PEM block PRIVATE KEY in it");
  }
  GF_RETURN_IF_ERROR(http::check_identity(out));
  return out;
}

CertificateManager::CertificateManager(const CertificateManagerOptions* options, CertificateHost& host)
    : options_(options), host_(host) {}

CertificateManager::~CertificateManager() {
  *alive_ = false;
  host_.loop().cancel(timer_);
  host_.loop().cancel(expiry_timer_);
}

void CertificateManager::start() { arm(Duration(0), &CertificateManager::begin); }

void CertificateManager::arm(Duration delay, void (CertificateManager::*next)()) {
  host_.loop().cancel(timer_);
  timer_ = host_.loop().run_after(delay, [this, alive = alive_, next] {
    if (*alive) (this->*next)();
  });
}

void CertificateManager::begin() {
  const auto stored = host_.load();
  if (stored.ok() && take(*stored, false)) return;
  request();
}

bool CertificateManager::covers(const SigningSubject& have, const SigningSubject& wanted) const {
  return have.common_name == wanted.common_name && includes(have.organizations, wanted.organizations) &&
         includes(have.dns_names, wanted.dns_names) && includes(have.ip_addresses, wanted.ip_addresses);
}

// False when it is of no use: broken, expired or for somebody else.
bool CertificateManager::take(const std::string& pem, bool renewed) {
  auto identity = split_identity(pem);
  if (!identity.ok()) return false;
  const auto facts = read_certificate(identity->cert_pem);
  if (!facts.ok() || facts->not_after <= wall_now() || !covers(facts->subject, host_.subject())) return false;
  not_before_ = facts->not_before;
  not_after_ = facts->not_after;
  valid_ = true;
  failures_ = 0;
  plan();
  host_.certificate_ready(std::make_shared<const http::TlsIdentity>(std::move(*identity)), renewed);
  return true;
}

void CertificateManager::plan() {
  const WallTime now = wall_now();
  EventLoop& loop = host_.loop();
  loop.cancel(expiry_timer_);
  expiry_timer_ = loop.run_after(std::max(not_after_ - now, Duration(0)), [this, alive = alive_] {
    if (*alive) expired();
  });
  if (!options_->rotate) return;
  const Duration lifetime = std::max(not_after_ - not_before_, options_->least_lifetime);
  const WallTime due =
      not_before_ +
      Duration(static_cast<int64_t>(static_cast<double>(lifetime.count()) * (0.7 + 0.2 * host_.rng().uniform())));
  arm(std::max(due - now, Duration(0)), &CertificateManager::request);
}

void CertificateManager::expired() {
  if (!valid_ || wall_now() < not_after_) return;
  valid_ = false;
  host_.certificate_expired();
}

void CertificateManager::request() {
  if (request_) return;
  auto key = options_->digested_name && !key_pem_.empty() ? Result<std::string>(key_pem_) : make_private_key();
  auto pem = key.ok() ? make_signing_request(host_.subject(), *key) : key;
  if (!pem.ok()) return failed(pem.error());
  key_pem_ = std::move(*key);
  CertificateRequestOptions o;
  o.signer = options_->signer;
  o.usages = options_->usages;
  o.request_pem = std::move(*pem);
  o.patience = options_->patience;
  if (options_->digested_name) {
    auto name = digested_request_name(host_.subject(), options_->usages, key_pem_);
    if (!name.ok()) return failed(name.error());
    o.name = std::move(*name);
  }
  o.seed = host_.rng().next();
  if (options_->approve) o.approver = &host_.approving_client();
  request_ = CertificateRequest::start(host_.signing_client(valid_), std::move(o),
                                       [this](Result<std::string> r) { signed_or_not(std::move(r)); });
}

void CertificateManager::signed_or_not(Result<std::string> certificate) {
  request_.reset();
  if (!certificate.ok()) return failed(certificate.error());
  const std::string pem = *certificate + std::exchange(key_pem_, {});
  const bool renewed = valid_;
  if (!take(pem, renewed)) {
    return failed(Status(Code::kDataLoss, "the signed certificate is not what was asked for, or has expired already"));
  }
  const Status saved = host_.save(pem);
  if (!saved.ok()) host_.certificate_failed(saved.with_context("keeping a certificate"));
}

void CertificateManager::failed(const Status& why) {
  host_.certificate_failed(why);
  ++failures_;
  Duration wait = kSlowWait;
  if (failures_ < kQuickTries) {
    wait = kFirstWait * (int64_t{1} << (failures_ - 1));
    wait += Duration(static_cast<int64_t>(static_cast<double>(wait.count()) * 0.1 * host_.rng().uniform()));
  }
  arm(wait, &CertificateManager::request);
}

}  // namespace ghostfleet::kube
