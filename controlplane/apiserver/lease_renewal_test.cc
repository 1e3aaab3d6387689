// The short way of a renewal says what the general one says, and leaves everything else to it.
#include "controlplane/apiserver/lease_renewal.h"

#include <gtest/gtest.h>

#include "controlplane/apiserver/api_impl.h"
#include "kube/api/codec.h"

namespace ghostfleet::controlplane {
namespace {

using kube::Json;

constexpr std::string_view kOwner =
    R"([{"apiVersion":"v1","kind":"Node","name":"n","uid":"00000000-0000-4000-8000-000000000001"}])";

class Leases {
 public:
  explicit Leases(bool managed_fields) : api_({{}, managed_fields}, clock_) {
    resource_ = api_.find("coordination.k8s.io", "v1", "leases");
    context_.field_manager = "fleet";
    EXPECT_TRUE(
        api_.create(*api_.find("", "v1", "namespaces"), "", parse(R"({"metadata":{"name":"ns"}})"), context_).ok());
    auto made = api_.create(*resource_, "ns", parse(body("", "2026-01-05T10:00:00.000000Z")), context_);
    EXPECT_TRUE(made.ok());
    clock_.advance(std::chrono::seconds(10));
  }

  static Json parse(std::string_view text) { return std::move(*kube::parse_json(text)); }
  static std::string body(std::string_view more_metadata, std::string_view time, std::string_view more_spec = "") {
    std::string text =
        R"({"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"n","namespace":"ns")";
    text.append(more_metadata).append(R"(,"ownerReferences":)").append(kOwner);
    text.append(R"(},"spec":{"holderIdentity":"n","leaseDurationSeconds":40,"renewTime":")").append(time).append("\"");
    return text.append(more_spec).append("}}");
  }

  ObjectRef live() { return *api_.get(*resource_, "ns", "n"); }
  std::string version() { return R"(,"resourceVersion":")" + format_revision(live()->revision) + "\""; }
  std::string renewal() { return body(version(), "2026-01-05T10:00:10.123456Z"); }
  // The whole object as a client that read it writes it back.
  std::string written_back() {
    std::string text = live()->json;
    const size_t at = text.find(R"("renewTime":")");
    return text.replace(at + 13, 27, "2026-01-05T10:00:10.123456Z");
  }
  ObjectRef renew(std::string_view text) { return api_.renew_lease(*resource_, "ns", "n", text, context_); }
  kube::ApiResult<WriteOutcome> update(std::string_view text) {
    kube::ApiResult<Json> object = kube::decode_object(text, kube::MediaType::kJson, resource_->info, {});
    return api_.update(*resource_, "ns", "n", *object, "", context_);
  }
  ApiImpl& api() { return api_; }
  RequestContext& context() { return context_; }

 private:
  ManualClock clock_;
  ApiImpl api_;
  RequestContext context_;
  const Resource* resource_ = nullptr;
};

// Without what differs by chance: the revision and the uid.
std::string comparable(const Object& object) {
  std::string json = object.json;
  json.replace(object.revision_offset, 16, "................");
  const size_t uid = json.find(R"("uid":")");
  return json.replace(uid + 7, 36, "-");
}

TEST(LeaseRenewal, SaysWhatTheGeneralWaySays) {
  for (const bool managed : {true, false}) {
    for (const bool whole : {true, false}) {
      Leases quick(managed), general(managed);
      const ObjectRef renewed = quick.renew(whole ? quick.written_back() + "\n" : quick.renewal());
      ASSERT_TRUE(renewed) << managed << whole;
      auto updated = general.update(whole ? general.written_back() : general.renewal());
      ASSERT_TRUE(updated.ok()) << updated.error().message;
      EXPECT_EQ(comparable(*renewed), comparable(*updated->object));
      EXPECT_EQ(quick.live()->revision, renewed->revision);
      EXPECT_EQ(renewed->json.find(format_revision(renewed->revision)), renewed->revision_offset);
      EXPECT_NE(renewed->json.find("10:00:10.123456Z"), std::string::npos);
      EXPECT_EQ(renewed->json.find("2026-01-05T10:00:10Z") != std::string::npos, managed);
    }
  }
}

TEST(LeaseRenewal, LeavesTheRestToTheGeneralWay) {
  Leases leases(true);
  const std::string version = leases.version(), time = "2026-01-05T10:00:10.123456Z";
  const auto edited = [&](std::string_view from, std::string_view to) {
    std::string text = leases.renewal();
    return text.replace(text.find(from), from.size(), to);
  };
  const std::pair<const char*, std::string> cases[] = {
      {"no version", Leases::body("", time)},
      {"stale version", Leases::body(R"(,"resourceVersion":"0000000000000001")", time)},
      {"nothing new", Leases::body(version, "2026-01-05T10:00:00.000000Z")},
      {"other precision", Leases::body(version, "2026-01-05T10:00:10Z")},
      {"no such day", Leases::body(version, "2026-13-05T10:00:10.123456Z")},
      {"unknown field", Leases::body(version, time, R"(,"colour":"red")")},
      {"one more field", Leases::body(version, time, R"(,"leaseTransitions":1)")},
      {"twice", Leases::body(version, time, R"(,"holderIdentity":"n")")},
      {"another uid", Leases::body(version + R"(,"uid":"00000000-0000-4000-8000-000000000009")", time)},
      {"labels", Leases::body(version + R"(,"labels":{"a":"b"})", time)},
      {"another holder", edited(R"("holderIdentity":"n")", R"("holderIdentity":"m")")},
      {"another duration", edited("40", "41")},
      {"no holder", edited(R"("holderIdentity":"n",)", "")},
      {"another owner", edited(R"("name":"n","uid")", R"("name":"m","uid")")},
      {"another kind", edited(R"("Lease")", R"("Leash")")},
      {"another version", edited("k8s.io/v1", "k8s.io/v2")},
      {"another name", edited(R"("name":"n","namespace")", R"("name":"m","namespace")")},
      {"white space", edited(R"("spec":)", R"("spec": )")},
      {"more behind", leases.renewal() + "x"},
      {"status", edited(R"("spec")", R"("status":{},"spec")")},
      {"empty", ""},
      {"no object", "[]"},
  };
  const ObjectRef before = leases.live();
  for (const auto& [what, text] : cases) EXPECT_FALSE(leases.renew(text)) << what;
  const std::string whole = leases.renewal();
  for (size_t cut = 0; cut < whole.size(); cut++) EXPECT_FALSE(leases.renew(whole.substr(0, cut))) << cut;
  EXPECT_EQ(leases.live(), before);
  EXPECT_TRUE(leases.renew(whole));
}

TEST(LeaseRenewal, NotForAnotherManagerADryRunOrWithWebhooks) {
  Leases leases(true);
  leases.context().field_manager = "somebody";
  EXPECT_FALSE(leases.renew(leases.renewal()));
  leases.context().field_manager = "fleet";
  leases.context().dry_run = true;
  EXPECT_FALSE(leases.renew(leases.renewal()));
  leases.context().dry_run = false;
  const Resource& hooks = *leases.api().find("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations");
  ASSERT_TRUE(leases.api().create(hooks, "", Leases::parse(R"({"metadata":{"name":"h"}})"), leases.context()).ok());
  EXPECT_FALSE(leases.renew(leases.renewal()));
}

}  // namespace
}  // namespace ghostfleet::controlplane
