#include "controlplane/auth/pki.h"

#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "controlplane/auth/crypto.h"

namespace ghostfleet::controlplane {
namespace {

// OpenSSL checks validity against the real clock.
WallTime real_now() { return SystemClock::instance().wall_now(); }

bool verifies(const std::string& ca_pem, const std::string& cert_pem, const char* host, const char* ip) {
  Result<crypto::CertPtr> ca = crypto::read_certificate(ca_pem), cert = crypto::read_certificate(cert_pem);
  if (!ca.ok() || !cert.ok()) return false;
  X509_STORE* store = X509_STORE_new();
  X509_STORE_add_cert(store, ca->get());
  X509_STORE_CTX* context = X509_STORE_CTX_new();
  X509_STORE_CTX_init(context, store, cert->get(), nullptr);
  bool ok = X509_verify_cert(context) == 1;
  if (host != nullptr) ok = ok && X509_check_host(cert->get(), host, 0, 0, nullptr) == 1;
  if (ip != nullptr) ok = ok && X509_check_ip_asc(cert->get(), ip, 0) == 1;
  X509_STORE_CTX_free(context);
  X509_STORE_free(store);
  return ok;
}

std::string make_request(const char* organization, const char* name, const char* sans = nullptr) {
  crypto::KeyPtr key = crypto::generate_ec_key();
  crypto::RequestPtr request(X509_REQ_new());
  X509_REQ_set_version(request.get(), 0);
  X509_NAME* subject = X509_REQ_get_subject_name(request.get());
  X509_NAME_add_entry_by_txt(subject, "O", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(organization), -1, -1,
                             0);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
  X509_REQ_set_pubkey(request.get(), key.get());
  if (sans != nullptr) {
    STACK_OF(X509_EXTENSION)* extensions = sk_X509_EXTENSION_new_null();
    sk_X509_EXTENSION_push(extensions, X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, sans));
    X509_REQ_add_extensions(request.get(), extensions);
    sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
  }
  X509_REQ_sign(request.get(), key.get(), EVP_sha256());
  crypto::BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509_REQ(bio.get(), request.get());
  return kube::http::bio_text(bio.get());
}

TEST(PkiTest, CertificatesChainAndNameTheServer) {
  PkiOptions options;
  options.extra_names = {"plane.example", "10.1.2.3"};
  Result<Pki> pki = Pki::create(options, real_now());
  ASSERT_TRUE(pki.ok()) << pki.error().to_string();
  const std::string& ca = pki->ca().cert_pem;
  for (const char* host :
       {"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "plane.example"}) {
    EXPECT_TRUE(verifies(ca, pki->server().cert_pem, host, nullptr)) << host;
  }
  for (const char* ip : {"127.0.0.1", "::1", "10.96.0.1", "10.1.2.3"}) {
    EXPECT_TRUE(verifies(ca, pki->server().cert_pem, nullptr, ip)) << ip;
  }
  EXPECT_FALSE(verifies(ca, pki->server().cert_pem, "other.example", nullptr));
  EXPECT_TRUE(verifies(ca, pki->admin().cert_pem, nullptr, nullptr));
  Result<Pki> other = Pki::create({}, real_now());
  EXPECT_FALSE(verifies(other->ca().cert_pem, pki->server().cert_pem, nullptr, nullptr));
  EXPECT_EQ(pki->admin_token().size(), 43u);
  // What the server is a client with.
  EXPECT_TRUE(verifies(ca, pki->kubelet_client().cert_pem, nullptr, nullptr));
  EXPECT_TRUE(verifies(pki->front_proxy_ca().cert_pem, pki->front_proxy_client().cert_pem, nullptr, nullptr));
  EXPECT_FALSE(verifies(ca, pki->front_proxy_client().cert_pem, nullptr, nullptr));
}

class PkiDirectory : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = testing::TempDir() + "/pki-" + std::to_string(getpid()) + "/deep";
    std::filesystem::remove_all(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string directory_;
};

TEST_F(PkiDirectory, KeepsItsAuthorityAndRenewsTheServer) {
  EXPECT_EQ(Pki::load(directory_).error().code(), Code::kNotFound);
  Result<Pki> first = Pki::load_or_create(directory_, {}, real_now());
  ASSERT_TRUE(first.ok()) << first.error().to_string();
  struct stat info {};
  ASSERT_EQ(stat((directory_ + "/ca.key").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  Result<Pki> again = Pki::load_or_create(directory_, {}, real_now());
  EXPECT_EQ(again->server().cert_pem, first->server().cert_pem);
  EXPECT_EQ(again->front_proxy_client().cert_pem, first->front_proxy_client().cert_pem);
  // A directory from before there were client certificates gets them.
  for (const char* name :
       {"front-proxy-ca.key", "front-proxy-ca.crt", "apiserver-kubelet-client.crt", "apiserver-kubelet-client.key"}) {
    std::filesystem::remove(directory_ + "/" + name);
  }
  Result<Pki> completed = Pki::load_or_create(directory_, {}, real_now());
  ASSERT_TRUE(completed.ok()) << completed.error().to_string();
  EXPECT_EQ(completed->server().cert_pem, first->server().cert_pem);
  EXPECT_TRUE(verifies(first->ca().cert_pem, completed->kubelet_client().cert_pem, nullptr, nullptr));
  EXPECT_TRUE(
      verifies(completed->front_proxy_ca().cert_pem, completed->front_proxy_client().cert_pem, nullptr, nullptr));
  EXPECT_EQ(Pki::load(directory_)->front_proxy_ca().cert_pem, completed->front_proxy_ca().cert_pem);
  PkiOptions wider;
  wider.extra_names = {"new.example"};
  Result<Pki> renamed = Pki::load_or_create(directory_, wider, real_now());
  EXPECT_EQ(renamed->ca().cert_pem, first->ca().cert_pem);
  EXPECT_TRUE(verifies(first->ca().cert_pem, renamed->server().cert_pem, "new.example", nullptr));
  std::ofstream(directory_ + "/admin.key") << "rubbish";
  EXPECT_EQ(Pki::load_or_create(directory_, {}, real_now()).error().code(), Code::kDataLoss);
}

TEST(PkiTest, SignsWhatItsSignersAllow) {
  Result<Pki> pki = Pki::create({}, real_now());
  ASSERT_TRUE(pki.ok());
  const auto sign = [&](const std::string& request, const char* signer, std::vector<std::string> usages) {
    Result<std::string> cert = pki->sign_request(request, signer, usages, std::chrono::hours(1), real_now());
    if (!cert.ok()) return cert.error().message();
    return std::string(verifies(pki->ca().cert_pem, *cert, nullptr, nullptr) ? "signed" : "does not verify");
  };
  const std::string kubelet = make_request("system:nodes", "system:node:n");
  const char* client_kubelet = "kubernetes.io/kube-apiserver-client-kubelet";
  EXPECT_EQ(sign(kubelet, client_kubelet, {"digital signature", "client auth"}), "signed");
  EXPECT_NE(sign(kubelet, client_kubelet, {"server auth"}), "signed");
  EXPECT_EQ(sign(make_request("people", "jane"), client_kubelet, {"client auth"}),
            "subject organization is not system:nodes");
  EXPECT_EQ(sign(kubelet, "kubernetes.io/kubelet-serving", {"server auth"}), "DNS or IP subjectAltName is required");
  EXPECT_EQ(sign(make_request("system:nodes", "system:node:n", "DNS:n,IP:10.0.0.9"), "kubernetes.io/kubelet-serving",
                 {"digital signature", "server auth"}),
            "signed");
  EXPECT_EQ(sign(make_request("system:masters", "x"), "kubernetes.io/kube-apiserver-client", {"client auth"}),
            "subject may not include organization system:masters");
  EXPECT_EQ(sign("rubbish", client_kubelet, {}), "PEM block type must be CERTIFICATE REQUEST");
  EXPECT_EQ(sign(kubelet, "example.com/own", {"client auth"}), "no such signer here: example.com/own");
}

TEST(PkiTest, ReadsRequests) {
  Result<CertificateRequest> request =
      parse_certificate_request(make_request("system:nodes", "system:node:n", "DNS:a.b,IP:10.0.0.9"));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->subject.common_name, "system:node:n");
  EXPECT_EQ(request->subject.organizations, std::vector<std::string>{"system:nodes"});
  EXPECT_EQ(request->dns_names, std::vector<std::string>{"a.b"});
  EXPECT_EQ(request->ips, std::vector<std::string>{"10.0.0.9"});
  EXPECT_FALSE(has_certificate_block("hello"));
}

}  // namespace
}  // namespace ghostfleet::controlplane
