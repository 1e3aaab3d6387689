#include "agent/kubelet_api/gate.h"

#include <gtest/gtest.h>

#include "agent/kubelet_api/route.h"
#include "agent/kubelet_api/test_backend.h"
#include "kube/api/json.h"

namespace ghostfleet::kubelet_api {
namespace {

using std::chrono::seconds;

class GateTest : public ::testing::Test {
 protected:
  GateTest() {
    backend.api = [this](const std::string& target, const std::string& body) -> ApiAnswer {
      if (down) return {};
      const auto review = kube::parse_json(body);
      if (target.find("tokenreviews") != std::string::npos) {
        if (kube::get_string(*review, "spec.token") != "good") return {201, R"({"status":{"authenticated":false}})"};
        return {201, R"({"status":{"authenticated":true,"user":{"username":"u","groups":["g"]}}})"};
      }
      const bool yes = allowed == kube::get_string(*review, "spec.resourceAttributes.subresource");
      return {201, yes ? R"({"status":{"allowed":true}})" : R"({"status":{"allowed":false}})"};
    };
  }
  Verdict ask(const std::string& target, const std::string& token, const char* method = "GET") {
    kube::http::Request request;
    request.method = method;
    request.target = target;
    if (!token.empty()) request.headers.add("authorization", "Bearer " + token);
    Verdict verdict{-1, {}};
    gate.check(3, request, [&verdict](Verdict v) { verdict = std::move(v); });
    timers->run(Duration(0));
    return verdict;
  }
  ManualClock clock;
  std::shared_ptr<ManualTimers> timers = std::make_shared<ManualTimers>(clock);
  TestBackend backend{*timers};
  Gate gate{backend, clock, true};
  std::string allowed = "proxy";
  bool down = false;
};

TEST_F(GateTest, WhoIsNotKnownGets401) {
  EXPECT_EQ(ask("/pods", "").status, 401);
  const Verdict wrong = ask("/pods", "bad");
  EXPECT_EQ(wrong.status, 401);
  EXPECT_EQ(wrong.text, "Unauthorized");
  down = true;
  EXPECT_EQ(ask("/pods", "another").status, 401);
}

TEST_F(GateTest, EachPathHasItsSubresourcesAndOneIsEnough) {
  EXPECT_TRUE(ask("/pods", "good").ok());
  EXPECT_TRUE(ask("/exec/a/b/c", "good", "POST").ok());
  const Verdict stats = ask("/stats/summary", "good");
  EXPECT_EQ(stats.status, 403);
  EXPECT_EQ(stats.text, "Forbidden (user=u, verb=get, resource=nodes, subresource(s)=[stats])\n");
  allowed = "none";
  clock.advance(std::chrono::minutes(6));
  EXPECT_EQ(ask("/pods", "good").text, "Forbidden (user=u, verb=get, resource=nodes, subresource(s)=[pods proxy])\n");
  EXPECT_NE(backend.calls.back().find(R"("name":"n3")"), std::string::npos);
}

TEST_F(GateTest, AnswersAreRememberedForTheirTime) {
  EXPECT_TRUE(ask("/metrics/x", "good").status == 403);
  const size_t asked = backend.calls.size();
  EXPECT_TRUE(ask("/metrics/y", "good").status == 403);
  EXPECT_EQ(backend.calls.size(), asked);
  clock.advance(seconds(31));
  allowed = "metrics";
  EXPECT_TRUE(ask("/metrics", "good").ok());
  EXPECT_EQ(backend.calls.size(), asked + 1);
  clock.advance(seconds(100));
  allowed = "none";
  EXPECT_TRUE(ask("/metrics", "good").ok());
  clock.advance(seconds(210));
  EXPECT_EQ(ask("/metrics", "good").status, 403);
}

TEST_F(GateTest, ReviewsThatFailAreNotRemembered) {
  EXPECT_TRUE(ask("/pods", "good").ok());
  down = true;
  EXPECT_EQ(ask("/stats", "good").status, 500);
  down = false;
  allowed = "stats";
  EXPECT_TRUE(ask("/stats", "good").ok());
}

TEST_F(GateTest, ManyAtOnceShareOneReview) {
  kube::http::Request request;
  request.method = "GET";
  request.target = "/pods";
  request.headers.add("authorization", "Bearer good");
  int let_in = 0;
  for (int i = 0; i < 50; ++i) gate.check(3, request, [&let_in](const Verdict& v) { let_in += v.ok() ? 1 : 0; });
  timers->run(Duration(0));
  EXPECT_EQ(let_in, 50);
  EXPECT_EQ(backend.calls.size(), 3u);  // the token, pods, proxy
}

TEST_F(GateTest, ACertificateSaysWhoItIs) {
  kube::http::Request request;
  request.method = "GET";
  request.target = "/configz";
  request.peer_certificate =
      std::make_shared<kube::http::PeerCertificate>(kube::http::PeerCertificate{"kube-apiserver", {"masters"}, {}});
  allowed = "configz";
  bool ok = false;
  gate.check(0, request, [&ok](const Verdict& v) { ok = v.ok(); });
  timers->run(Duration(0));
  EXPECT_TRUE(ok);
  EXPECT_NE(backend.calls[0].find(R"("groups":["masters","system:authenticated"])"), std::string::npos);
}

TEST(Route, PathsOfAKubelet) {
  EXPECT_EQ(parse_route("/healthz").endpoint, Endpoint::kHealthz);
  EXPECT_EQ(parse_route("/healthz/syncloop").rest, "syncloop");
  EXPECT_EQ(parse_route("/healthzz").endpoint, Endpoint::kUnknown);
  EXPECT_EQ(parse_route("/containerLogs/ns/p/c").endpoint, Endpoint::kContainerLogs);
  EXPECT_EQ(parse_route("/containerLogs/ns/p").endpoint, Endpoint::kUnknown);
  const Route exec = parse_route("/exec/ns/p/u/c%20d");
  EXPECT_EQ(exec.uid, "u");
  EXPECT_EQ(exec.container, "c d");
  EXPECT_EQ(parse_route("/portForward/ns/p").pod, "p");
  EXPECT_EQ(parse_route("/debug/pprof/").endpoint, Endpoint::kDisabled);
  EXPECT_EQ(parse_route("").endpoint, Endpoint::kUnknown);
  EXPECT_FALSE(method_allowed(Endpoint::kRun, "GET"));
  EXPECT_TRUE(method_allowed(Endpoint::kExec, "GET"));
  EXPECT_EQ(subresources_of("/run/a/b/c"), std::vector<std::string>{"proxy"});
}

}  // namespace
}  // namespace ghostfleet::kubelet_api
