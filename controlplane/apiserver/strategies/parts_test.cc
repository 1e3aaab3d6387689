// Small parts of the strategies, without an Api.
#include <gtest/gtest.h>

#include "controlplane/apiserver/strategies/cron_schedule.h"
#include "controlplane/apiserver/strategies/event_conversion.h"
#include "controlplane/apiserver/strategies/go_diff.h"
#include "controlplane/apiserver/strategies/pod_defaults.h"
#include "controlplane/apiserver/strategies/validation.h"
#include "kube/api/json.h"

namespace ghostfleet::controlplane {
namespace {

kube::Json json(std::string_view text) {
  auto parsed = kube::parse_json(text);
  EXPECT_TRUE(parsed.ok()) << text;
  return parsed.ok() ? *parsed : kube::Json();
}

TEST(PathTest, Text) {
  Path spec("spec");
  Path container = spec.child("containers", 2);
  Path requests = container.child("resources.requests");
  EXPECT_EQ(requests.key("cpu").to_string(), "spec.containers[2].resources.requests[cpu]");
  EXPECT_EQ(container.child("ports", 0).to_string(), "spec.containers[2].ports[0]");
}

TEST(CronTest, Schedules) {
  for (std::string_view good : {"*/5 * * * *", "0 0 1,15 * mon-fri", "@daily", "@every 1h30m", "0-30/10 4 * jan 0"}) {
    EXPECT_EQ(check_cron_schedule(good), "") << good;
  }
  EXPECT_EQ(check_cron_schedule("every day"), "expected exactly 5 fields, found 2: [every day]");
  EXPECT_EQ(check_cron_schedule("60 * * * *"), "end of range (60) above maximum (59): 60");
  EXPECT_EQ(check_cron_schedule("* * 0 * *"), "beginning of range (0) below minimum (1): 0");
  EXPECT_EQ(check_cron_schedule("5-1 * * * *"), "beginning of range (5) beyond end of range (1): 5-1");
  EXPECT_EQ(check_cron_schedule("*/0 * * * *"), "step of range should be a positive number: */0");
  EXPECT_EQ(check_cron_schedule("@never"), "unrecognized descriptor: @never");
}

TEST(CronTest, TimeZones) {
  EXPECT_TRUE(is_known_time_zone("UTC"));
  EXPECT_FALSE(is_known_time_zone("../etc/passwd"));
  EXPECT_FALSE(is_known_time_zone(""));
}

TEST(ImageTest, LatestMeansNoTag) {
  EXPECT_TRUE(image_tag_is_latest("nginx"));
  EXPECT_TRUE(image_tag_is_latest("nginx:latest"));
  EXPECT_TRUE(image_tag_is_latest("localhost:5000/nginx"));
  EXPECT_FALSE(image_tag_is_latest("localhost:5000/nginx:1"));
  EXPECT_FALSE(image_tag_is_latest("nginx@sha256:abc"));
}

TEST(QosTest, Classes) {
  EXPECT_EQ(qos_class(json(R"({"containers":[{"name":"c"}]})")), "BestEffort");
  EXPECT_EQ(qos_class(json(R"({"containers":[{"resources":{"requests":{"cpu":"1"}}}]})")), "Burstable");
  EXPECT_EQ(qos_class(json(R"({"containers":[{"resources":{"requests":{"cpu":"1","memory":"1Gi"},)"
                           R"("limits":{"cpu":"1000m","memory":"1024Mi"}}}]})")),
            "Guaranteed");
}

TEST(EventTest, BothFormsCarryTheSame) {
  kube::Json core = json(R"({"apiVersion":"v1","kind":"Event","metadata":{"name":"e"},"message":"m","count":2,)"
                         R"("involvedObject":{"kind":"Pod"},"reportingComponent":"c","source":{"host":"n"}})");
  kube::Json fresh = to_events_v1(core);
  EXPECT_EQ(kube::get_string(fresh, "note"), "m");
  EXPECT_EQ(kube::get_string(fresh, "regarding.kind"), "Pod");
  EXPECT_EQ(kube::get_string(fresh, "deprecatedSource.host"), "n");
  EXPECT_EQ(kube::get_string(fresh, "reportingController"), "c");
  EXPECT_EQ(kube::find_key(fresh, "message"), nullptr);
  EXPECT_TRUE(kube::json_equal(to_core_v1(fresh), core));
}

TEST(DiffTest, Unified) {
  EXPECT_EQ(unified_diff("a\nb\nc\nd\ne\nf\ng", "a\nb\nc\nX\ne\nf\ng"),
            "@@ -1,7 +1,7 @@\n a\n b\n c\n-d\n+X\n e\n f\n g\n");
  EXPECT_EQ(unified_diff("a", "a"), "");
}

TEST(DiffTest, ClaimSpecInInternalForm) {
  kube::Json before = json(R"({"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}})");
  kube::Json after = json(R"({"accessModes":["ReadOnlyMany"],"resources":{"requests":{"storage":"1Gi"}}})");
  EXPECT_EQ(go_diff("core/v1.PersistentVolumeClaimSpec", before, after),
            "@@ -1,6 +1,6 @@\n {\n  \"AccessModes\": [\n-  \"ReadWriteOnce\"\n+  \"ReadOnlyMany\"\n  ],\n  "
            "\"Selector\": null,\n  \"Resources\": {\n");
}

}  // namespace
}  // namespace ghostfleet::controlplane
