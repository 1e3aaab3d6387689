#include "kube/client/kubeconfig.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <map>

#include "base/digest.h"
#include "base/files.h"
#include "kube/client/exec_plugin.h"
#include "tests/support/temporary_folder.h"

namespace ghostfleet::kube {
namespace {

class Kubeconfig : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text, unsigned mode = 0644) {
    const std::string path = dir_ + "/" + name;
    EXPECT_TRUE(write_file(path, text, mode).ok());
    return path;
  }
  Result<LoadedConfig> load(const std::string& text, const std::string& context = "") {
    return load_client_config({write("k", text), context}, env());
  }
  Environment env() {
    Environment e;
    e.get = [this](const std::string& name) { return variables_[name]; };
    e.service_account_dir = dir_ + "/none";
    return e;
  }
  tests::TemporaryFolder temporary_;
  const std::string& dir_ = temporary_.path();
  std::map<std::string, std::string> variables_;
};

constexpr const char* kTwoContexts = R"(
apiVersion: v1
kind: Config
clusters:
- {name: wrong, cluster: {server: 'https://wrong.example.test'}}
- {name: right, cluster: {server: 'https://127.0.0.1:6443', tls-server-name: kubernetes.default.svc}}
contexts:
- {name: a, context: {cluster: wrong, user: u}}
- {name: b/x, context: {cluster: right, user: u, namespace: ops}}
current-context: b/x
users: [{name: u, user: {token: secret-value, future-field: 1}}]
)";

TEST_F(Kubeconfig, PicksTheCurrentContextAndHonoursTheFlag) {
  auto c = load(kTwoContexts);
  ASSERT_TRUE(c.ok()) << c.error().to_string();
  EXPECT_EQ(c->client.server_url, "https://127.0.0.1:6443");
  EXPECT_EQ(c->client.tls.server_name, "kubernetes.default.svc");
  EXPECT_EQ(c->ns, "ops");
  EXPECT_EQ(*c->client.auth.bearer_token(), "secret-value");
  EXPECT_EQ(load(kTwoContexts, "a")->client.server_url, "https://wrong.example.test");
}

TEST_F(Kubeconfig, NamesWhatIsMissing) {
  auto no_context = load(kTwoContexts, "c");
  ASSERT_FALSE(no_context.ok());
  EXPECT_NE(no_context.error().message().find("no context named c (there are: a, b/x)"), std::string::npos)
      << no_context.error().message();
  auto none = load("apiVersion: v1\nkind: Config\ncontexts: [{name: x, context: {}}]\n");
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message().find("no current-context"), std::string::npos);
  EXPECT_EQ(load_client_config({dir_ + "/nosuch", ""}, env()).error().code(), Code::kNotFound);
}

std::string with_ca(const std::string& ca) {
  return "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:6443', certificate-authority-data: \"" + ca +
         "\"}}]\ncontexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n";
}

TEST_F(Kubeconfig, AuthorityDataMayBeWrappedButMustBeBase64) {
  std::string wrapped = base64_encode("-----BEGIN CERTIFICATE-----");
  wrapped.insert(8, "\\n  ");
  auto good = load(with_ca(wrapped));
  ASSERT_TRUE(good.ok()) << good.error().to_string();
  EXPECT_EQ(good->client.tls.ca_pem, "-----BEGIN CERTIFICATE-----");
  auto bad = load(with_ca("%%%not-base64%%%"));
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().message().find("certificate-authority-data is not base64"), std::string::npos);
  EXPECT_EQ(bad.error().message().find("%%%"), std::string::npos) << "prints the value";
}

TEST_F(Kubeconfig, FirstFileOfTheVariableWins) {
  const std::string one = write("one", "clusters: [{name: right, cluster: {server: 'https://10.9.8.7:1'}}]\n");
  const std::string two = write("two", kTwoContexts);
  variables_["KUBECONFIG"] = dir_ + "/nosuch:" + one + ":" + two;
  auto c = load_client_config({}, env());
  ASSERT_TRUE(c.ok()) << c.error().to_string();
  EXPECT_EQ(c->client.server_url, "https://10.9.8.7:1");
}

TEST_F(Kubeconfig, TokenFileIsReadAgain) {
  const std::string token = write("token", "first\n");
  auto c = load(
      "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: x, context: {cluster: c, "
      "user: u}}]\n"
      "current-context: x\nusers: [{name: u, user: {tokenFile: token}}]\n");
  ASSERT_TRUE(c.ok()) << c.error().to_string();
  EXPECT_EQ(*c->client.auth.bearer_token(), "first");
  write("token", "second");
  EXPECT_EQ(*c->client.auth.bearer_token(), "second");
}

std::string exec_config(const std::string& version) {
  return "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: x, context: {cluster: c, "
         "user: u}}]\ncurrent-context: x\n"
         "users:\n- name: u\n  user:\n    exec: {apiVersion: " +
         version +
         ", command: ./helper.sh, args: [get-token], env: [{name: HELPER_MODE, value: short}], interactiveMode: "
         "Never}\n";
}

TEST_F(Kubeconfig, ExecPluginRunsOnceAndAgainAfterARefusal) {
  for (const std::string version : {"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"}) {
    write("helper.sh",
          "#!/bin/sh\necho x >> " + dir_ + "/runs\nn=$(wc -l < " + dir_ +
              "/runs)\n[ -n \"$KUBERNETES_EXEC_INFO\" ] || exit 1\n[ \"$HELPER_MODE\" = short ] || exit 2\n"
              "echo '{\"kind\":\"ExecCredential\",\"apiVersion\":\"" +
              version + "\",\"status\":{\"token\":\"t'$n'\"}}'\n",
          0755);
    auto c = load(exec_config(version));
    ASSERT_TRUE(c.ok()) << c.error().to_string();
    EXPECT_EQ(*c->client.auth.bearer_token(), "t1");
    EXPECT_EQ(*c->client.auth.bearer_token(), "t1");
    c->client.auth.invalidate();
    EXPECT_EQ(*c->client.auth.bearer_token(), "t2");
    unlink((dir_ + "/runs").c_str());
  }
}

TEST_F(Kubeconfig, ExecPluginFailuresNameTheCommand) {
  auto missing = load(exec_config("client.authentication.k8s.io/v1"));
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message().find("helper.sh: No such file"), std::string::npos) << missing.error().message();
  write("helper.sh", "#!/bin/sh\nexit 3\n", 0755);
  auto failing = load(exec_config("client.authentication.k8s.io/v1"));
  ASSERT_FALSE(failing.ok());
  EXPECT_NE(failing.error().message().find("exit code 3"), std::string::npos) << failing.error().message();
  EXPECT_FALSE(load(exec_config("client.authentication.k8s.io/v1alpha1")).ok());
}

TEST(ExecPluginTest, AsksAgainWhenTheAnswerHasExpired) {
  ManualClock clock;
  ExecSpec spec;
  spec.api_version = "client.authentication.k8s.io/v1";
  spec.command = "echo";
  spec.args = {
      "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/"
      "v1\",\"status\":{\"token\":\"t\",\"expirationTimestamp\":\"" +
      format_time(clock.wall_now() + std::chrono::seconds(30)) + "\"}}"};
  ExecPlugin plugin(spec, clock);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(plugin.get().ok());
  EXPECT_EQ(plugin.runs(), 1u);
  clock.advance(std::chrono::seconds(31));
  ASSERT_TRUE(plugin.get().ok());
  EXPECT_EQ(plugin.runs(), 2u);
}

TEST_F(Kubeconfig, ProxyFromFileAndEnvironment) {
  auto e = env();
  variables_["HTTPS_PROXY"] = "http://user:pw@proxy.example:3128";
  EXPECT_EQ(choose_proxy("", "https://api.example:6443", e)->host, "proxy.example");
  EXPECT_EQ(choose_proxy("", "https://api.example:6443", e)->basic_auth, "user:pw");
  EXPECT_EQ(choose_proxy("", "https://127.0.0.1:6443", e)->host, "");
  variables_["NO_PROXY"] = "10.0.0.0/8,.example";
  EXPECT_EQ(choose_proxy("", "https://api.example:6443", e)->host, "");
  EXPECT_EQ(choose_proxy("", "https://10.1.2.3:6443", e)->host, "");
  EXPECT_EQ(choose_proxy("https://other:444", "https://api.example:6443", e)->host, "other");
  EXPECT_FALSE(choose_proxy("socks5://x:1", "https://api.example:6443", e).ok());
}

}  // namespace
}  // namespace ghostfleet::kube
