// Reads that wait for company: how late an answer may be, and what must not wait.
#include <gtest/gtest.h>

#include "kube/http/http_harness.h"

namespace ghostfleet::kube::http {
namespace {

using std::chrono::milliseconds;

constexpr Duration kWait = milliseconds(100);

// "/late/N": answered after N milliseconds; "/big/N": N bytes at once; "/never": not at all.
class CoalescingTest : public ::testing::TestWithParam<HarnessOptions> {
 protected:
  CoalescingTest() : h([this](const std::shared_ptr<Exchange>& e) { serve(e); }, GetParam()) {
    h.get("/warm");
    h.client->set_read_coalescing(kWait);
  }

  void serve(const std::shared_ptr<Exchange>& exchange) {
    const std::string& target = exchange->request().target;
    const auto number = [&] { return std::stoul(target.substr(target.rfind('/') + 1)); };
    if (target.rfind("/late/", 0) == 0) {
      h.loop.run_after(milliseconds(number()), [exchange] { exchange->respond(200, {}, share(std::string("late"))); });
    } else if (target.rfind("/big/", 0) == 0) {
      exchange->respond(200, {}, share(std::string(number(), 'x')));
    } else if (target == "/never") {
      kept.push_back(exchange);
    } else {
      exchange->respond(200, {}, share(target));
    }
  }

  // How long the call took.
  Duration timed(const std::string& target, CallOptions options = {}) {
    const TimePoint begin = h.loop.now();
    Reply& reply = h.call("GET", target, {}, options);
    EXPECT_TRUE(h.run_until([&] { return reply.done(); }));
    last = &reply;
    return h.loop.now() - begin;
  }

  std::vector<std::shared_ptr<Exchange>> kept;
  Harness h;
  Reply* last = nullptr;
};

std::string name_of(const ::testing::TestParamInfo<HarnessOptions>& info) {
  return std::string(info.param.http2 ? "Http2" : "Http1") + (info.param.tls ? "Tls" : "Plain");
}

HarnessOptions variant(bool tls, bool http2) {
  HarnessOptions o;
  o.tls = tls;
  o.http2 = http2;
  return o;
}

INSTANTIATE_TEST_SUITE_P(All, CoalescingTest,
                         ::testing::Values(variant(true, true), variant(false, true), variant(true, false)), name_of);

TEST_P(CoalescingTest, AnAnswerIsLateByTheWaitAtMost) {
  for (int i = 0; i < 3; ++i) {
    const Duration took = timed("/quick");
    EXPECT_EQ(last->body, "/quick");
    EXPECT_GE(took, kWait / 2);  // it was collected, not read at once
    EXPECT_LT(took, kWait + milliseconds(500));
  }
}

TEST_P(CoalescingTest, AnswersThatComeOneByOneAreReadTogether) {
  std::vector<TimePoint> times;
  for (int i = 0; i < 8; ++i) {
    h.call("GET", "/late/" + std::to_string(5 * i)).on_done = [&] { times.push_back(h.loop.now()); };
  }
  ASSERT_TRUE(h.run_until([&] { return times.size() == 8; }));
  if (!GetParam().http2) return;  // a connection each
  EXPECT_LT(times.back() - times.front(), milliseconds(20));
}

TEST_P(CoalescingTest, AnAnswerThatComesAfterTheWaitIsReadAtOnce) {
  const Duration took = timed("/late/400");
  EXPECT_EQ(last->body, "late");
  EXPECT_GE(took, milliseconds(400));
  EXPECT_LT(took, milliseconds(400) + kWait + milliseconds(500));
}

TEST_P(CoalescingTest, LargeBodiesDoNotStall) {
  h.client->set_read_coalescing(std::chrono::seconds(2));
  h.loop.run_for(milliseconds(5));
  const Duration took = timed("/big/20000000");
  EXPECT_EQ(last->body.size(), 20000000u);
  EXPECT_LT(took, std::chrono::seconds(10));
}

TEST_P(CoalescingTest, WhatIsThereIsReadWhenItIsTurnedOff) {
  h.client->set_read_coalescing(std::chrono::seconds(30));
  Reply& reply = h.call("GET", "/quick");
  h.loop.run_for(milliseconds(50));
  EXPECT_FALSE(reply.done());
  const TimePoint begin = h.loop.now();
  h.client->set_read_coalescing(Duration(0));
  EXPECT_TRUE(h.run_until([&] { return reply.done(); }));
  EXPECT_LT(h.loop.now() - begin, std::chrono::seconds(5));
}

TEST_P(CoalescingTest, TheOwnerMayReadWhenItIsAwake) {
  h.client->set_read_coalescing(std::chrono::seconds(30));
  for (int i = 0; i < 3; ++i) {
    Reply& reply = h.call("GET", "/quick");
    h.loop.run_for(milliseconds(30));
    EXPECT_FALSE(reply.done());
    EXPECT_TRUE(h.run_until([&] {
      h.client->read_collected();
      return reply.done();
    }));
    EXPECT_EQ(reply.body, "/quick");
  }
}

TEST_P(CoalescingTest, DeadlinesFireInTime) {
  CallOptions options;
  options.timeout = milliseconds(200);
  const Duration took = timed("/never", options);
  EXPECT_TRUE(last->failed);
  EXPECT_EQ(last->error.code(), Code::kDeadlineExceeded);
  EXPECT_GE(took, milliseconds(200));
  EXPECT_LT(took, milliseconds(1500));
}

TEST_P(CoalescingTest, ALostConnectionIsSeenAtOnce) {
  h.client->set_read_coalescing(std::chrono::seconds(30));
  Reply& reply = h.call("GET", "/never");
  ASSERT_TRUE(h.run_until([&] { return !kept.empty(); }));
  kept.clear();
  h.server.reset();
  EXPECT_TRUE(h.run_until([&] { return reply.done(); }, std::chrono::seconds(5)));
  EXPECT_TRUE(reply.failed);
}

TEST_P(CoalescingTest, ANewConnectionIsMadeAsFastAsEver) {
  auto other = h.make_client();
  other->set_read_coalescing(std::chrono::seconds(30));
  Reply reply;
  other->start("GET", "/big/100", nullptr, {}, {}, &reply);
  EXPECT_TRUE(h.run_until([&] { return other->stats().connections_opened == 1; }, std::chrono::seconds(5)));
  other->set_read_coalescing(Duration(0));
  EXPECT_TRUE(h.run_until([&] { return reply.done(); }, std::chrono::seconds(5)));
}

}  // namespace
}  // namespace ghostfleet::kube::http
