// The TLS engine without sockets: two engines whose bytes are carried by hand.
#include <gtest/gtest.h>

#include "kube/http/tls.h"
#include "tests/support/test_pki.h"

namespace ghostfleet::kube::http {
namespace {

using ghostfleet::testing::CertificateSpec;
using ghostfleet::testing::TestPki;

struct Ends {
  std::unique_ptr<TlsEngine> client, server;
  Status client_status, server_status;
  std::string to_client, to_server;  // decrypted

  void carry() {
    for (int i = 0; i < 10; ++i) {
      std::string bytes;
      client->take_output(&bytes);
      if (!bytes.empty() && server_status.ok()) server_status = server->feed(bytes, &to_server);
      bytes.clear();
      server->take_output(&bytes);
      if (!bytes.empty() && client_status.ok()) client_status = client->feed(bytes, &to_client);
    }
  }
};

Ends connect(const TlsClientConfig& client, const TlsServerConfig& server, std::string_view host = "127.0.0.1") {
  Ends ends;
  ends.client = std::make_unique<TlsEngine>(TlsContext::client(client).value(), false, host);
  ends.server = std::make_unique<TlsEngine>(TlsContext::server(server).value(), true, "");
  ends.carry();
  return ends;
}

class TlsTest : public ::testing::Test {
 protected:
  TlsClientConfig client_config() {
    TlsClientConfig c;
    c.ca_pem = pki.ca_pem();
    return c;
  }
  TlsServerConfig server_config(const CertificateSpec* spec = nullptr) {
    const auto pair = spec ? pki.issue(*spec) : pki.server();
    TlsServerConfig c;
    c.cert_pem = pair.certificate_pem;
    c.key_pem = pair.key_pem;
    return c;
  }
  TestPki pki;
};

TEST_F(TlsTest, AgreesAndCarriesBytes) {
  Ends ends = connect(client_config(), server_config());
  ASSERT_TRUE(ends.client->handshake_done()) << ends.client_status.message();
  ASSERT_TRUE(ends.server->handshake_done()) << ends.server_status.message();
  EXPECT_EQ(ends.client->alpn(), "h2");
  EXPECT_EQ(ends.server->alpn(), "h2");
  EXPECT_EQ(ends.server->peer_certificate(), nullptr);
  const std::string large(300000, 'x');
  ASSERT_TRUE(ends.client->write(large).ok());
  std::string direct;
  ASSERT_TRUE(ends.server->encrypt("answer", &direct).ok());
  ASSERT_TRUE(ends.client->feed(direct, &ends.to_client).ok());
  ends.carry();
  EXPECT_EQ(ends.to_server, large);
  EXPECT_EQ(ends.to_client, "answer");
  ends.client->close_notify();
  ends.carry();
  EXPECT_TRUE(ends.server->peer_closed());
}

TEST_F(TlsTest, BytesMayComeOneByOne) {
  TlsEngine client(TlsContext::client(client_config()).value(), false, "localhost");
  TlsEngine server(TlsContext::server(server_config()).value(), true, "");
  for (int i = 0; i < 10; ++i) {
    std::string bytes, plain;
    client.take_output(&bytes);
    for (const char c : bytes) ASSERT_TRUE(server.feed(std::string_view(&c, 1), &plain).ok());
    bytes.clear();
    server.take_output(&bytes);
    for (const char c : bytes) ASSERT_TRUE(client.feed(std::string_view(&c, 1), &plain).ok());
  }
  EXPECT_TRUE(client.handshake_done() && server.handshake_done());
}

TEST_F(TlsTest, TheSubjectOfAClientCertificate) {
  TlsServerConfig server = server_config();
  server.client_ca_pem = pki.ca_pem();
  TlsClientConfig client = client_config();
  const auto pair = pki.issue(
      {.common_name = "system:node:n1", .organizations = {"system:nodes", "second"}, .uid = "u-1", .client = true});
  client.client_cert_pem = pair.certificate_pem;
  client.client_key_pem = pair.key_pem;
  Ends ends = connect(client, server);
  ASSERT_TRUE(ends.server->peer_certificate()) << ends.server_status.message();
  EXPECT_EQ(ends.server->peer_certificate()->common_name, "system:node:n1");
  EXPECT_EQ(ends.server->peer_certificate()->organizations, (std::vector<std::string>{"system:nodes", "second"}));
  EXPECT_EQ(ends.server->peer_certificate()->uid, "u-1");
  Ends without = connect(client_config(), server);
  EXPECT_TRUE(without.server->handshake_done());
  EXPECT_EQ(without.server->peer_certificate(), nullptr);
}

TEST_F(TlsTest, AClientCertificateOfAnotherAuthorityIsRefused) {
  TestPki other("other-ca");
  TlsServerConfig server = server_config();
  server.client_ca_pem = pki.ca_pem();
  TlsClientConfig client = client_config();
  const auto pair = other.client("intruder");
  client.client_cert_pem = pair.certificate_pem;
  client.client_key_pem = pair.key_pem;
  Ends ends = connect(client, server);
  EXPECT_EQ(ends.server_status.code(), Code::kUnauthenticated);
  EXPECT_NE(ends.server_status.message().find("client's certificate was refused"), std::string::npos)
      << ends.server_status.message();
  EXPECT_EQ(ends.client_status.code(), Code::kUnauthenticated);
  EXPECT_NE(ends.client_status.message().find("the peer refused"), std::string::npos) << ends.client_status.message();
}

TEST_F(TlsTest, ABadClientCertificateCountsAsNoneWhereThatIsWanted) {
  const TestPki other("another-ca");
  const auto bad = other.client("node-1", {"system:nodes"});
  const auto good = pki.client("node-1", {"system:nodes"});
  for (const auto& pair : {bad, good}) {
    TlsClientConfig client = client_config();
    client.client_cert_pem = pair.certificate_pem;
    client.client_key_pem = pair.key_pem;
    TlsServerConfig server = server_config();
    server.client_ca_pem = pki.ca_pem();
    server.bad_client_is_none = true;
    Ends ends = connect(client, server);
    ASSERT_TRUE(ends.server->handshake_done()) << ends.server_status.message();
    EXPECT_EQ(ends.server->peer_certificate() != nullptr, pair.certificate_pem == good.certificate_pem);
  }
}

TEST_F(TlsTest, FailuresAreSaidInWords) {
  struct {
    const char* expected;
    std::function<Ends()> attempt;
  } cases[] = {
      {"certificate has expired",
       [&] {
         CertificateSpec old{
             .common_name = "s", .ip_names = {"127.0.0.1"}, .not_before_seconds = -7200, .not_after_seconds = -3600};
         return connect(client_config(), server_config(&old));
       }},
      {"certificate is not yet valid",
       [&] {
         CertificateSpec early{.common_name = "s", .ip_names = {"127.0.0.1"}, .not_before_seconds = 3600};
         return connect(client_config(), server_config(&early));
       }},
      {"unable to get local issuer certificate",
       [&] {
         TestPki other("other-ca");
         TlsClientConfig c;
         c.ca_pem = other.ca_pem();
         return connect(c, server_config());
       }},
      {"host name mismatch: the server's certificate is for DNS:a.example, not for 127.0.0.1",
       [&] {
         CertificateSpec elsewhere{.common_name = "s", .dns_names = {"a.example"}};
         return connect(client_config(), server_config(&elsewhere));
       }},
      {"host name mismatch: the server's certificate is for DNS:localhost, IP Address:127.0.0.1, not for b.example",
       [&] { return connect(client_config(), server_config(), "b.example"); }},
  };
  for (const auto& c : cases) {
    const Ends ends = c.attempt();
    EXPECT_FALSE(ends.client->handshake_done());
    EXPECT_EQ(ends.client_status.code(), Code::kUnauthenticated) << c.expected;
    EXPECT_NE(ends.client_status.message().find(c.expected), std::string::npos) << ends.client_status.message();
  }
}

TEST_F(TlsTest, AServerNameOverridesTheHost) {
  CertificateSpec elsewhere{.common_name = "s", .dns_names = {"kubernetes"}};
  TlsClientConfig client = client_config();
  client.server_name = "kubernetes";
  EXPECT_TRUE(connect(client, server_config(&elsewhere)).client->handshake_done());
}

TEST_F(TlsTest, InsecureAcceptsAnything) {
  TestPki other("other-ca");
  TlsClientConfig client;
  client.ca_pem = other.ca_pem();
  client.insecure = true;
  EXPECT_TRUE(connect(client, server_config(), "b.example").client->handshake_done());
}

TEST_F(TlsTest, Http1WhenThatIsAllTheClientHas) {
  TlsClientConfig client = client_config();
  client.alpn = {"http/1.1"};
  EXPECT_EQ(connect(client, server_config()).server->alpn(), "http/1.1");
  client.alpn = {};
  Ends none = connect(client, server_config());
  EXPECT_TRUE(none.server->handshake_done());
  EXPECT_EQ(none.server->alpn(), "");
}

TEST_F(TlsTest, APeerWithoutTls) {
  TlsEngine client(TlsContext::client(client_config()).value(), false, "localhost");
  std::string plain;
  const Status status = client.feed("HTTP/1.1 400 Bad Request\r\n\r\n", &plain);
  EXPECT_NE(status.message().find("does not speak TLS"), std::string::npos) << status.message();
}

TEST_F(TlsTest, BadInputToContexts) {
  const auto pair = pki.server();
  const auto other = pki.server();
  const auto message = [](const auto& result) { return result.ok() ? std::string("ok") : result.error().message(); };
  EXPECT_EQ(message(TlsContext::server({pair.certificate_pem, other.key_pem})),
            "server key does not match the certificate");
  EXPECT_EQ(message(TlsContext::server({"nonsense", pair.key_pem})),
            "server certificate: no PEM block CERTIFICATE in it");
  std::string broken = pair.certificate_pem;
  broken[broken.size() / 2] = '!';
  EXPECT_EQ(message(TlsContext::server({broken, pair.key_pem})).substr(0, 27), "server certificate: bad PEM");
  EXPECT_EQ(message(TlsContext::server({pair.certificate_pem, "nonsense"})).substr(0, 19), "server key: bad PEM");
  TlsClientConfig client;
  client.ca_pem = "x";
  EXPECT_EQ(message(TlsContext::client(client)), "certificate authority: no PEM block CERTIFICATE in it");
  client = client_config();
  client.client_cert_pem = pair.certificate_pem;
  EXPECT_EQ(message(TlsContext::client(client)), "a client certificate without a client key");
}

}  // namespace
}  // namespace ghostfleet::kube::http
