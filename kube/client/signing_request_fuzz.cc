// PEM texts of certificates, keys and signing requests: whatever is in a file or an answer, it is read or refused.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kube/client/certificate_manager.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ghostfleet::kube;
  const std::string text(reinterpret_cast<const char*>(data), size);
  (void)read_certificate(text);
  (void)read_signing_request(text);
  (void)split_identity(text);
  const std::string block = "-----BEGIN CERTIFICATE-----\n" + text + "\n-----END CERTIFICATE-----\n";
  (void)read_certificate(block);
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  using namespace ghostfleet::kube;
  const std::string key = *make_private_key();
  SigningSubject subject = node_subject("n");
  subject.dns_names = {"n.example"};
  subject.ip_addresses = {"10.0.0.1"};
  const std::string request = *make_signing_request(subject, key);
  return {key, request, request + key, "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n" + key};
}
