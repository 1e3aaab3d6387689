#include "emulator/images/flows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ghostfleet::emulator {
namespace {

constexpr TimePoint kStart{};

TimePoint at(double seconds) { return kStart + Duration(static_cast<int64_t>(seconds * 1e9)); }

double seconds_of(TimePoint t) { return static_cast<double>(t.ns) * 1e-9; }

Transfer transfer(double bytes, double cap, uint64_t tag = 0, uint32_t zone = 0) {
  Transfer t;
  t.zone = zone;
  t.tag = tag;
  t.bytes = bytes;
  t.cap = cap;
  return t;
}

std::vector<FinishedTransfer> run_out(FlowModel* model) {
  std::vector<FinishedTransfer> finished;
  while (model->next_event() != FlowModel::kNever) model->advance(model->next_event(), &finished);
  return finished;
}

TEST(Flows, OneTransferTakesItsCap) {
  FlowModel model(kStart, {1000});
  model.begin(kStart, transfer(500, 100, 7));
  const auto finished = run_out(&model);
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_EQ(finished[0].tag, 7u);
  EXPECT_NEAR(seconds_of(finished[0].at), 5, 0.051);
}

TEST(Flows, SmallCapsAreFrozenFirstAndLeaveTheirRest) {
  FlowModel model(kStart, {100});
  const auto small = model.begin(kStart, transfer(1e6, 10));
  const auto middle = model.begin(kStart, transfer(1e6, 40));
  const auto large = model.begin(kStart, transfer(1e6, 1000));
  std::vector<FinishedTransfer> finished;
  model.advance(at(1), &finished);
  EXPECT_DOUBLE_EQ(model.rate(small), 10);
  EXPECT_DOUBLE_EQ(model.rate(middle), 40);
  EXPECT_DOUBLE_EQ(model.rate(large), 50);
  model.begin(at(2), transfer(1e6, 1000));
  model.advance(at(3), &finished);
  EXPECT_DOUBLE_EQ(model.rate(small), 10);
  EXPECT_DOUBLE_EQ(model.rate(middle), 30);
  EXPECT_DOUBLE_EQ(model.rate(large), 30);
  EXPECT_DOUBLE_EQ(model.load(0).rate, 100);
}

TEST(Flows, WhatEndsGivesItsShareToTheOthers) {
  FlowModel model(kStart, {100});
  model.begin(kStart, transfer(100, 1000, 1));   // half of the zone: 2 s
  model.begin(kStart, transfer(1000, 1000, 2));  // 100 bytes till then, then alone: 2 + 9 s
  const auto finished = run_out(&model);
  ASSERT_EQ(finished.size(), 2u);
  EXPECT_NEAR(seconds_of(finished[0].at), 2, 0.051);
  EXPECT_NEAR(seconds_of(finished[1].at), 11, 0.11);
  EXPECT_NEAR(model.load(0).moved, 1100, 6);
}

TEST(Flows, ZonesDoNotShare) {
  FlowModel model(kStart, {100, 10});
  model.begin(kStart, transfer(1000, 1000, 1, 0));
  model.begin(kStart, transfer(1000, 1000, 2, 1));
  const auto finished = run_out(&model);
  ASSERT_EQ(finished.size(), 2u);
  EXPECT_NEAR(seconds_of(finished[0].at), 10, 0.051);
  EXPECT_NEAR(seconds_of(finished[1].at), 100, 0.051);
}

TEST(Flows, ACapThatChangesTakesEffectAtOnce) {
  FlowModel model(kStart, {std::numeric_limits<double>::infinity()});
  const auto id = model.begin(kStart, transfer(1000, 100, 1));
  std::vector<FinishedTransfer> finished;
  model.advance(at(5), &finished);
  model.set_cap(at(5), id, 50);  // 500 bytes are left
  model.advance(at(6), &finished);
  EXPECT_DOUBLE_EQ(model.rate(id), 50);
  EXPECT_TRUE(finished.empty());
  finished = run_out(&model);
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_NEAR(seconds_of(finished[0].at), 15, 0.11);
  model.set_cap(at(20), id, 1);  // over: nothing
  EXPECT_EQ(model.rate(id), 0);
}

TEST(Flows, WithoutBytesItIsATimer) {
  FlowModel model(kStart, {});
  Transfer timer;
  timer.lead = std::chrono::seconds(3);
  timer.tag = 5;
  model.begin(kStart, timer);
  std::vector<FinishedTransfer> finished;
  model.advance(at(2.9), &finished);
  EXPECT_TRUE(finished.empty());
  model.advance(at(3), &finished);
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_EQ(finished[0].at, at(3));
  EXPECT_EQ(model.next_event(), FlowModel::kNever);
  EXPECT_EQ(model.transfers(), 0u);
}

// What is the same costs the same, however many there are.
TEST(Flows, EqualTransfersAreOneGroup) {
  FlowModel model(kStart, {1e9, 1e9});
  for (uint32_t i = 0; i < 20000; ++i) model.begin(kStart, transfer(1e6, 1e6, i, i % 2));
  std::vector<FinishedTransfer> finished;
  model.advance(at(1), &finished);
  EXPECT_EQ(model.groups(), 2u);
  EXPECT_DOUBLE_EQ(model.load(0).rate, 1e9);
  finished = run_out(&model);
  EXPECT_EQ(finished.size(), 20000u);
  EXPECT_LE(model.computations(), 6u);
  // In the order they came.
  for (size_t i = 1; i < 10000; ++i) EXPECT_LT(finished[i - 1].tag, finished[i].tag);
}

TEST(Flows, OneThatDivergesLeavesItsGroup) {
  FlowModel model(kStart, {1e9});
  std::vector<FlowModel::Id> ids;
  for (uint32_t i = 0; i < 100; ++i) ids.push_back(model.begin(kStart, transfer(1e6, 1e5, i)));
  std::vector<FinishedTransfer> finished;
  model.advance(at(1), &finished);
  EXPECT_EQ(model.groups(), 1u);
  model.set_cap(at(1), ids[42], 2e5);
  model.advance(at(2), &finished);
  EXPECT_EQ(model.groups(), 2u);
  finished = run_out(&model);
  ASSERT_EQ(finished.size(), 100u);
  EXPECT_EQ(finished[0].tag, 42u);
  EXPECT_NEAR(seconds_of(finished[0].at), 5.5, 0.11);
  EXPECT_NEAR(seconds_of(finished[99].at), 10, 0.11);
}

// However many begin one after the other, a zone is computed at most once a grain.
TEST(Flows, TheGridBoundsTheWork) {
  FlowModel model(kStart, {1e8});
  for (int64_t i = 0; i < 10000; ++i) model.begin(kStart + Duration(i * 1000000), transfer(1e6, 1e6, 1));
  const auto finished = run_out(&model);
  EXPECT_EQ(finished.size(), 10000u);
  const double seconds = seconds_of(finished.back().at);
  EXPECT_NEAR(seconds, 100, 1.5);  // 1e10 bytes at 1e8
  EXPECT_LE(static_cast<double>(model.computations()), seconds * 20 + 20);
}

}  // namespace
}  // namespace ghostfleet::emulator
