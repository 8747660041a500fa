// What a StageRecorder notes, and when nothing is noted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "policy/stage_recorder.h"

namespace dp_bench::policy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(StageRecorder, NotesNamesShapesAndTypesInOrder) {
  const StageRecorder recorder;
  TraceStage("action", torch::zeros({1, 16, 2}));
  TraceStage("timesteps", torch::zeros({1}, torch::kInt64));
  TraceStage("is_pad", torch::zeros({1, 16}, torch::kBool));
  TraceStage("loss", torch::zeros({}));

  ASSERT_EQ(recorder.stages().size(), 4U);
  EXPECT_EQ(recorder.stages()[0].name, "action");
  EXPECT_THAT(recorder.stages()[0].shape, ElementsAre(1, 16, 2));
  EXPECT_EQ(recorder.stages()[0].dtype, "float32");
  EXPECT_EQ(recorder.stages()[1].dtype, "int64");
  EXPECT_EQ(recorder.stages()[2].dtype, "bool");
  EXPECT_THAT(recorder.stages()[3].shape, IsEmpty());
}

TEST(StageRecorder, NotesTheShapeOfAViewNotOfItsMemory) {
  const StageRecorder recorder;
  TraceStage("transposed", torch::zeros({2, 3}).t());
  EXPECT_THAT(recorder.stages().at(0).shape, ElementsAre(3, 2));
}

TEST(StageRecorder, StopsWhenItIsGone) {
  TraceStage("before", torch::zeros({1}));
  EXPECT_FALSE(IsTracingStages());
  {
    const StageRecorder first;
    EXPECT_TRUE(IsTracingStages());
  }
  EXPECT_FALSE(IsTracingStages());
  const StageRecorder second;
  EXPECT_THAT(second.stages(), IsEmpty());
}

TEST(StageRecorder, NotesItsOwnThreadAlone) {
  const StageRecorder recorder;
  std::thread other([] { TraceStage("elsewhere", torch::zeros({1})); });
  other.join();
  EXPECT_THAT(recorder.stages(), IsEmpty());
}

TEST(StageRecorderDeathTest, DoesNotNest) {
  const StageRecorder outer;
  EXPECT_DEATH(StageRecorder(), "current_recorder == nullptr");
}

}  // namespace
}  // namespace dp_bench::policy
