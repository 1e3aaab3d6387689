// Claims that are made of templates, and what becomes of them.
#include "controlplane/controllers/resource_claims.h"

#include <gtest/gtest.h>

#include "controlplane/controllers/test_plane.h"

namespace ghostfleet::controlplane::controllers {
namespace {

using kube::get_array;
using kube::get_string;
using kube::Json;

class ResourceClaimsTest : public ControllersTest {
 protected:
  ResourceClaimsTest() {
    make("", "v1", "serviceaccounts", "t",
         R"({"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}})");
  }
  void claim_template(const std::string& name) {
    make("resource.k8s.io", "v1", "resourceclaimtemplates", "t",
         R"({"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaimTemplate","metadata":{"name":")" + name +
             R"("},"spec":{"metadata":{"labels":{"a":"b"}},"spec":{"devices":{"requests":[{"name":"r","exactly":)"
             R"({"deviceClassName":"gpu","count":2}}]}}}})");
  }
  void pod(const std::string& name, const std::string& more = "") {
    make("", "v1", "pods", "t",
         R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name +
             R"("},"spec":{"resourceClaims":[{"name":"gpus","resourceClaimTemplateName":"tmpl"}],"containers":[)"
             R"({"name":"c","image":"i"}])" +
             more + "}}");
  }
  std::vector<Json> claims() { return all("resource.k8s.io", "v1", "resourceclaims"); }
  std::string told(const std::string& name) {
    const Json object = read("", "v1", "pods", "t/" + name);
    const kube::JsonArray* list = get_array(object, "status.resourceClaimStatuses");
    return list == nullptr ? std::string() : std::string(get_string(list->at(0), "resourceClaimName"));
  }
  std::string uid_of(const std::string& name) {
    return std::string(get_string(read("", "v1", "pods", "t/" + name), "metadata.uid"));
  }
  // As the scheduler leaves it.
  void allocate(const std::string& claim, const std::vector<std::string>& users) {
    const Resource& r = resource("resource.k8s.io", "v1", "resourceclaims");
    ASSERT_TRUE(
        api_.modify(
                r, "t", claim, "",
                [](Json& live) -> kube::ApiResult<bool> {
                  kube::ensure_array(live, "metadata.finalizers").push_back("resource.kubernetes.io/delete-protection");
                  return true;
                },
                ctx_)
            .ok());
    ASSERT_TRUE(api_.modify(
                        r, "t", claim, "status",
                        [&](Json& live) -> kube::ApiResult<bool> {
                          kube::set_path(live, "status.allocation",
                                         *kube::parse_json(R"({"devices":{"results":[{"request":"r","driver":"d.io",)"
                                                           R"("pool":"p","device":"g0"}]}})"));
                          for (const std::string& user : users) {
                            kube::ensure_array(live, "status.reservedFor")
                                .push_back(
                                    kube::JsonObject{{"resource", "pods"}, {"name", user}, {"uid", uid_of(user)}});
                          }
                          return true;
                        },
                        ctx_)
                    .ok());
  }
  size_t users_of(const std::string& claim) {
    const Json object = read("resource.k8s.io", "v1", "resourceclaims", "t/" + claim);
    const kube::JsonArray* users = get_array(object, "status.reservedFor");
    return users == nullptr ? 0 : users->size();
  }
};

TEST_F(ResourceClaimsTest, ATemplateBecomesAClaimOfThePod) {
  start({"resourceclaim"});
  claim_template("tmpl");
  pod("p");
  ASSERT_TRUE(eventually([&] { return !told("p").empty(); }));
  ASSERT_EQ(claims().size(), 1u);
  const Json claim = claims()[0];
  EXPECT_EQ(get_string(claim, "metadata.name"), told("p"));
  EXPECT_TRUE(told("p").starts_with("p-gpus-")) << told("p");
  EXPECT_EQ(label(claim, "a"), "b");
  EXPECT_EQ(annotation(claim, "resource.kubernetes.io/pod-claim-name"), "gpus");
  const auto owner = controller_of(claim);
  ASSERT_TRUE(owner.has_value());
  EXPECT_EQ(owner->uid, uid_of("p"));
  EXPECT_EQ(kube::get_int(get_array(claim, "spec.devices.requests")->at(0), "exactly.count"), 2);
}

TEST_F(ResourceClaimsTest, ATemplateThatComesLateIsWaitedFor) {
  start({"resourceclaim"});
  pod("p");
  const auto events = [&] {
    std::string out;
    for (const Json& e : all("", "v1", "events")) out += std::string(get_string(e, "message"));
    return out;
  };
  ASSERT_TRUE(eventually([&] { return !events().empty(); }));
  EXPECT_NE(events().find("PodResourceClaim gpus: resource claim template \"tmpl\": "
                          "resourceclaimtemplate.resource.k8s.io \"tmpl\" not found"),
            std::string::npos)
      << events();
  claim_template("tmpl");
  EXPECT_TRUE(eventually([&] { return !told("p").empty(); }, 30));
}

TEST_F(ResourceClaimsTest, WhatAPodHadIsFreeWhenItIsDone) {
  start({"resourceclaim"});
  claim_template("tmpl");
  pod("p", R"(,"nodeName":"n")");
  ASSERT_TRUE(eventually([&] { return !told("p").empty(); }));
  const std::string name = told("p");
  allocate(name, {"p"});
  report("p", "Succeeded", false);
  EXPECT_TRUE(eventually([&] { return claims().empty(); })) << "it was made for the pod, and goes with its end";
}

TEST_F(ResourceClaimsTest, AClaimOfItsOwnStaysAndIsFree) {
  make("resource.k8s.io", "v1", "resourceclaims", "t",
       R"({"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"own"},"spec":{"devices":)"
       R"({"requests":[{"name":"r","exactly":{"deviceClassName":"gpu"}}]}}})");
  const auto user = [this](const std::string& name) {
    make("", "v1", "pods", "t",
         R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name +
             R"("},"spec":{"nodeName":"n","resourceClaims":[{"name":"gpus","resourceClaimName":"own"}],"containers":[)"
             R"({"name":"c","image":"i"}]}})");
  };
  user("a");
  user("b");
  allocate("own", {"a"});
  start({"resourceclaim"});
  ASSERT_TRUE(eventually([&] { return users_of("own") == 2; })) << "who has a node already is reserved for";
  report("a", "Failed", false);
  ASSERT_TRUE(eventually([&] { return users_of("own") == 1; }));
  (void)api_.remove(resource("", "v1", "pods"), "t", "b", {.grace_period_seconds = 0}, ctx_);
  ASSERT_TRUE(eventually([&] {
    const Json claim = read("resource.k8s.io", "v1", "resourceclaims", "t/own");
    return kube::find_path(claim, "status.allocation") == nullptr &&
           !has_finalizer(claim, "resource.kubernetes.io/delete-protection");
  }));
  EXPECT_EQ(claims().size(), 1u);
}

TEST_F(ResourceClaimsTest, APodThatIsNotKnownYetKeepsItsClaim) {
  start({"resourceclaim"});
  const auto own = [this](const std::string& name) {
    make("resource.k8s.io", "v1", "resourceclaims", "t",
         R"({"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":")" + name +
             R"("},"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"gpu"}}]}}})");
  };
  for (int i = 0; i < 60; ++i) {
    const std::string name = std::to_string(i);
    own("c" + name);
    make("", "v1", "pods", "t",
         R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p)" + name +
             R"("},"spec":{"resourceClaims":[{"name":"gpus","resourceClaimName":"c)" + name +
             R"("}],"containers":[{"name":"c","image":"i"}]}})");
    allocate("c" + name, {"p" + name});
  }
  own("stale");
  allocate("stale", {"nobody"});
  ASSERT_TRUE(eventually([&] { return users_of("stale") == 0; })) << "the claims before it have been looked at by then";
  for (int i = 0; i < 60; ++i) EXPECT_EQ(users_of("c" + std::to_string(i)), 1u) << i;
}

TEST_F(ResourceClaimsTest, ARestartMakesNoClaimTwice) {
  start({"resourceclaim"});
  claim_template("tmpl");
  for (int i = 0; i < 5; ++i) pod("p" + std::to_string(i));
  ASSERT_TRUE(eventually([&] { return claims().size() == 5 && !told("p4").empty(); }));
  manager_.reset();
  // The name was not told any more.
  (void)api_.modify(
      resource("", "v1", "pods"), "t", "p0", "status",
      [](Json& live) -> kube::ApiResult<bool> {
        kube::erase_path(live, "status.resourceClaimStatuses");
        return true;
      },
      ctx_);
  start({"resourceclaim"});
  ASSERT_TRUE(eventually([&] { return !told("p0").empty(); }));
  EXPECT_EQ(claims().size(), 5u);
}

}  // namespace
}  // namespace ghostfleet::controlplane::controllers
