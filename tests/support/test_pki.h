// TestPki: certificates for tests, made in memory: a CA, and certificates it signs.
//
// Thread rule: any one thread. Keys are ECDSA P-256.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace ghostfleet::testing {

struct CertificateAndKey {
  std::string certificate_pem;
  std::string key_pem;
};

struct CertificateSpec {
  std::string common_name;
  std::vector<std::string> organizations;
  std::string uid;                     // attribute 1.3.6.1.4.1.57683.2
  std::vector<std::string> dns_names;  // subject alternative names
  std::vector<std::string> ip_names;
  bool client = false;              // extended key usage: client, else server
  long not_before_seconds = -3600;  // relative to now
  long not_after_seconds = 24 * 3600;
};

class TestPki {
 public:
  explicit TestPki(const std::string& name = "test-ca");
  ~TestPki();

  const std::string& ca_pem() const { return ca_pem_; }
  CertificateAndKey issue(const CertificateSpec& spec) const;
  // Signs a PEM signing request: its subject and names, for `seconds` from now. Empty when it is none.
  std::string sign_request(const std::string& request_pem, bool client, long seconds) const;
  // For 127.0.0.1 and localhost.
  CertificateAndKey server() const;
  CertificateAndKey client(const std::string& common_name, std::vector<std::string> organizations = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::string ca_pem_;
};

}  // namespace ghostfleet::testing
