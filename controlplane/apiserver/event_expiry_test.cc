#include "controlplane/apiserver/event_expiry.h"

#include <gtest/gtest.h>

#include "controlplane/apiserver/strategies/test_api.h"

namespace ghostfleet::controlplane {
namespace {

class EventExpiryTest : public testing::Test {
 protected:
  EventExpiryTest() : api_({}, clock_), events_(*api_.find("", "v1", "events")) {
    context_.user.groups = {kMastersGroup};
    EXPECT_TRUE(create("namespaces", R"({"metadata":{"name":"ns"}})"));
  }
  bool create(std::string_view resource, std::string_view text) {
    return api_.create(*api_.find("", "v1", resource), "ns", std::move(*kube::parse_json(text)), context_).ok();
  }
  void event(int number) {
    EXPECT_TRUE(create("events", R"({"metadata":{"name":"e)" + std::to_string(number) +
                                     R"("},"involvedObject":{"namespace":"ns","name":"p"}})"));
  }
  size_t left() { return api_.store().count(events_.store_kind, ""); }

  ManualClock clock_;
  ApiImpl api_;
  RequestContext context_;
  const Resource& events_;
};

TEST_F(EventExpiryTest, OldEventsGoAndWrittenOnesStay) {
  for (int i = 0; i < 10; i++) event(i);
  EventExpiry expiry(api_);
  clock_.advance(std::chrono::minutes(59));
  EXPECT_TRUE(expiry.sweep(100));
  EXPECT_EQ(left(), 10u);
  event(10);
  auto touched = api_.modify(
      events_, "ns", "e3", "",
      [](kube::Json& live) -> kube::ApiResult<bool> {
        live.as_object()["count"] = 2;
        return true;
      },
      context_);
  ASSERT_TRUE(touched.ok());
  clock_.advance(std::chrono::minutes(2));
  // In pieces: 11 events, four at a time.
  EXPECT_FALSE(expiry.sweep(4));
  EXPECT_FALSE(expiry.sweep(4));
  EXPECT_TRUE(expiry.sweep(4));
  EXPECT_EQ(left(), 2u);
  EXPECT_TRUE(api_.get(events_, "ns", "e3").ok());
  EXPECT_TRUE(api_.get(events_, "ns", "e10").ok());
  clock_.advance(std::chrono::hours(1));
  EXPECT_TRUE(expiry.sweep(4));
  EXPECT_EQ(left(), 0u);
}

}  // namespace
}  // namespace ghostfleet::controlplane
