#include "kube/client/signing_request.h"

#include <gtest/gtest.h>

#include "kube/client/certificate_manager.h"
#include "tests/support/test_pki.h"

namespace ghostfleet::kube {
namespace {

TEST(SigningRequest, SaysWhatWasAskedFor) {
  auto key = make_private_key();
  ASSERT_TRUE(key.ok());
  EXPECT_TRUE(key->starts_with("-----BEGIN EC PRIVATE KEY-----"));
  SigningSubject subject = node_subject("n-1");
  subject.dns_names = {"n-1", "n-1.example"};
  subject.ip_addresses = {"10.0.1.1", "fd00::1"};
  auto request = make_signing_request(subject, *key);
  ASSERT_TRUE(request.ok());
  auto read = read_signing_request(*request);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->common_name, "system:node:n-1");
  EXPECT_EQ(read->organizations, std::vector<std::string>{"system:nodes"});
  EXPECT_EQ(read->dns_names, subject.dns_names);
  EXPECT_EQ(read->ip_addresses, subject.ip_addresses);
}

TEST(SigningRequest, TakesNamesBeyondTheLimitOfACommonName) {
  auto key = make_private_key();
  auto request = make_signing_request(node_subject(std::string(200, 'n')), *key);
  ASSERT_TRUE(request.ok()) << request.error().message();
  EXPECT_EQ(read_signing_request(*request)->common_name.size(), 212u);
}

TEST(SigningRequest, WrongInputIsSaid) {
  EXPECT_FALSE(make_signing_request(node_subject("n"), "no key").ok());
  EXPECT_FALSE(read_signing_request("-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n").ok());
  EXPECT_FALSE(read_certificate("").ok());
  auto key = make_private_key();
  SigningSubject subject = node_subject("n");
  subject.ip_addresses = {"10.0.0.300"};
  auto request = make_signing_request(subject, *key);
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(request.error().message(), "\"10.0.0.300\" is no IP address");
}

TEST(SigningRequest, TheDigestedNameDependsOnKeySubjectAndUsages) {
  auto key = make_private_key();
  auto other = make_private_key();
  const std::vector<std::string> usages = {"digital signature", "client auth"};
  const std::string name = *digested_request_name(node_subject("n"), usages, *key);
  EXPECT_TRUE(name.starts_with("node-csr-"));
  EXPECT_EQ(name.size(), 9u + 43u);
  EXPECT_EQ(name, *digested_request_name(node_subject("n"), usages, *key));
  EXPECT_NE(name, *digested_request_name(node_subject("m"), usages, *key));
  EXPECT_NE(name, *digested_request_name(node_subject("n"), usages, *other));
  EXPECT_NE(name, *digested_request_name(node_subject("n"), {"client auth"}, *key));
}

TEST(SigningRequest, ACertificateAndItsKeyAreTakenApart) {
  const testing::TestPki pki;
  auto key = make_private_key();
  const std::string certificate = pki.sign_request(*make_signing_request(node_subject("n"), *key), true, 60);
  ASSERT_FALSE(certificate.empty());
  auto facts = read_certificate(certificate);
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ((facts->not_after - facts->not_before).count(), 60 * 1000000000LL);
  EXPECT_EQ(facts->subject.common_name, "system:node:n");
  auto identity = split_identity(certificate + *key);
  ASSERT_TRUE(identity.ok());
  EXPECT_EQ(identity->cert_pem, certificate);
  EXPECT_EQ(identity->key_pem, *key);
  EXPECT_EQ(split_identity(certificate).error().message(), "no PEM block PRIVATE KEY in it");
  EXPECT_EQ(split_identity(certificate + *make_private_key()).error().message(),
            "client key does not match the certificate");
  EXPECT_FALSE(split_identity("-----BEGIN CERTIFICATE-----\nAA").ok());
}

}  // namespace
}  // namespace ghostfleet::kube
