// The records of the operators of a forward and a backward pass.
#include "profile/op_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "support/distant_device/distant_device.h"

namespace dp_bench::profile {
namespace {

using testing::Contains;
using testing::Field;
using testing::Ne;

std::vector<OpEvent> RecordStep(torch::Device device = torch::kCPU) {
  const torch::Tensor w = torch::ones({5, 5}, device).requires_grad_();
  OpRecorder recorder(device);
  {
    RECORD_USER_SCOPE("forward");
    const torch::Tensor loss = torch::relu(torch::mm(torch::ones({3, 5}, device), w)).sum();
    loss.backward();
  }
  return recorder.TakeEvents();
}

void ExpectNested(const std::vector<OpEvent>& events) {
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events[0].name, "forward");
  EXPECT_EQ(events[0].parent, -1);
  EXPECT_THAT(events, Contains(Field(&OpEvent::name, "MmBackward0")));
  for (std::size_t i = 1; i < events.size(); ++i) {
    ASSERT_GE(events[i].parent, 0) << events[i].name;
    const OpEvent& parent = events[static_cast<std::size_t>(events[i].parent)];
    EXPECT_LT(events[i].parent, static_cast<int>(i));
    EXPECT_LE(parent.begin_us, events[i].begin_us);
    EXPECT_LE(events[i].begin_us, events[i].end_us);
    EXPECT_LE(events[i].end_us, parent.end_us);
  }
}

TEST(OpRecorder, NestsOperatorsInScopesAndNodes) { ExpectNested(RecordStep()); }

// There autograd works on another thread while the thread of the program waits.
TEST(OpRecorder, NestsTheBackwardPassOfAnotherDeviceInWhatWaitsForIt) {
  const std::vector<OpEvent> events = RecordStep(DistantDevice());
  ExpectNested(events);
  EXPECT_THAT(events, Contains(Field(&OpEvent::thread, Ne(events[0].thread))));
}

TEST(OpRecorder, RecordsNothingOutsideItsLife) {
  OpRecorder recorder;
  torch::ones({2}).sum();
  EXPECT_FALSE(recorder.TakeEvents().empty());
  EXPECT_TRUE(recorder.TakeEvents().empty());
}

TEST(OpSummary, SelfTimesAddUpToTheScope) {
  const std::vector<OpEvent> events = RecordStep();
  const std::vector<OpTotal> totals = SummarizeOps(events, "forward");
  EXPECT_NEAR(SumOf(totals).self_us, events[0].duration_us(), 1e-6 * events[0].duration_us());
  EXPECT_THAT(totals, Contains(testing::AllOf(Field(&OpTotal::name, "aten::mm"),
                                              Field(&OpTotal::n_calls, 2))));
  EXPECT_TRUE(SummarizeOps(events, "backward").empty());
}

TEST(OpSummary, SeparatesTheTimeOfAChildFromItsParents) {
  const std::vector<OpEvent> events = {
      {.name = "step", .kind = OpKind::kScope, .begin_us = 0, .end_us = 10},
      {.name = "a", .begin_us = 1, .end_us = 8, .parent = 0},
      {.name = "b", .begin_us = 2, .end_us = 5, .parent = 1, .flops = 9},
      {.name = "other", .kind = OpKind::kScope, .begin_us = 20, .end_us = 90}};
  const std::vector<OpTotal> totals = SummarizeOps(events, "step");
  ASSERT_EQ(totals.size(), 3U);
  EXPECT_EQ(totals[0].name, "a");
  EXPECT_EQ(totals[0].self_us, 4);
  EXPECT_EQ(totals[0].total_us, 7);
  EXPECT_EQ(totals[1].self_us, 3);
  EXPECT_EQ(totals[2].self_us, 3);
  EXPECT_EQ(SumOf(totals).product_us, 3);
}

}  // namespace
}  // namespace dp_bench::profile
