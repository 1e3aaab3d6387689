// ControllersTest: the controllers against the real Api and Store, in process; for tests alone.
//
// Thread rule: the test's thread; the controllers run on their own.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "controlplane/apiserver/api_impl.h"
#include "controlplane/auth/authorizer.h"
#include "controlplane/controllers/controllers.h"
#include "controlplane/controllers/meta.h"
#include "tests/support/waits.h"

namespace ghostfleet::controlplane::controllers {

class ControllersTest : public ::testing::Test {
 protected:
  ControllersTest() : api_(ApiOptions{}, SystemClock::instance()), ctx_(internal_context("test")) {
    make("", "v1", "namespaces", "", R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"t"}})");
  }
  void start(std::vector<std::string> enabled = {"all"}) {
    ControllerManager::Options options;
    options.enabled = std::move(enabled);
    options.root_ca_pem = "PEM";
    options.node_monitor_period = std::chrono::milliseconds(50);
    options.node_monitor_grace_period = std::chrono::milliseconds(400);
    options.authorizer = authorizer_.get();
    auto started = ControllerManager::start(api_, options);
    ASSERT_TRUE(started.ok()) << started.error().to_string();
    manager_ = std::move(*started);
  }
  const Resource& resource(std::string_view group, std::string_view version, std::string_view plural) {
    const Resource* r = api_.find(group, version, plural);
    EXPECT_NE(r, nullptr) << plural;
    return *r;
  }
  void make(std::string_view group, std::string_view version, std::string_view plural, std::string_view ns,
            std::string_view text) {
    auto object = kube::parse_json(text);
    ASSERT_TRUE(object.ok()) << object.error().to_string();
    auto made = api_.create(resource(group, version, plural), ns, std::move(*object), ctx_);
    ASSERT_TRUE(made.ok()) << made.error().message;
  }
  kube::Json read(std::string_view group, std::string_view version, std::string_view plural, std::string_view key) {
    return parse_object(api_.store().get(resource(group, version, plural).store_kind, key));
  }
  std::vector<kube::Json> all(std::string_view group, std::string_view version, std::string_view plural) {
    std::vector<kube::Json> out;
    ListOptions options;
    options.prefix = "t/";
    const auto list = api_.store().list(resource(group, version, plural).store_kind, options);
    if (list.ok()) {
      for (const ObjectRef& o : list->items) out.push_back(parse_object(o));
    }
    return out;
  }
  std::vector<kube::Json> pods() { return all("", "v1", "pods"); }
  static bool eventually(const std::function<bool()>& done, int seconds = 10) {
    return tests::eventually(done, std::chrono::seconds(seconds));
  }
  // What a kubelet says of a pod.
  void report(const std::string& name, const char* phase, bool ready) {
    auto done = api_.modify(
        resource("", "v1", "pods"), "t", name, "status",
        [&](kube::Json& live) -> kube::ApiResult<bool> {
          kube::set_path(live, "status.phase", phase);
          set_condition(live, "Ready", ready ? "True" : "False", "", "", SystemClock::instance().wall_now());
          return true;
        },
        ctx_);
    // A pod may have been deleted since it was listed.
    ASSERT_TRUE(done.ok() || done.error().code == 404) << done.error().message;
  }
  void report_all(const char* phase, bool ready) {
    for (const kube::Json& pod : pods()) report(std::string(kube::get_string(pod, "metadata.name")), phase, ready);
  }

  ApiImpl api_;
  RequestContext ctx_;
  std::unique_ptr<Authorizer> authorizer_;
  std::unique_ptr<ControllerManager> manager_;
};

}  // namespace ghostfleet::controlplane::controllers
